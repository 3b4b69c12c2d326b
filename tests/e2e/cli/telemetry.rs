//! Telemetry: what a collector of OpenTelemetry gets, and a collector that does not work.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use rewake::core::entry::{Entry, Record};
use rewake::store::Store;
use rewake::telemetry::spans::{SpanFold, Trace, hex};
use serde_json::{Value, json};

use crate::cli::children::{ANSWER, DO_IT, SHORT, Scene};
use crate::cli::retries::fastrand;
use crate::cli::{LIMIT, SCRIPTED, bash, play, step};
use support::{Home, Live, Run, http};

/// The answer of the collector: the status and the body. `None`: it never answers.
type Answers = Option<(u16, &'static str)>;

#[derive(Clone)]
struct Request {
    path: String,
    headers: Vec<(String, String)>,
    body: Value,
}

/// A collector that answers the nth request as it is told.
#[derive(Clone)]
struct Collector {
    port: u16,
    seen: Arc<(Mutex<Vec<Request>>, Condvar)>,
}

impl Collector {
    fn start(answers: impl Fn(usize) -> Answers + Send + Sync + 'static) -> Collector {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let collector = Collector {
            port,
            seen: Arc::default(),
        };
        let (shared, answers) = (collector.clone(), Arc::new(answers));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (shared, answers) = (shared.clone(), Arc::clone(&answers));
                std::thread::spawn(move || shared.serve(stream.unwrap(), &*answers));
            }
        });
        collector
    }

    fn well() -> Collector {
        Collector::start(|_| Some((200, "{}")))
    }

    /// Until the client leaves.
    fn serve(&self, stream: TcpStream, answers: &dyn Fn(usize) -> Answers) {
        let mut from = BufReader::new(stream.try_clone().unwrap());
        let mut to = stream;
        while let Ok(Some((head, body))) = http::read(&mut from) {
            assert_eq!(head.method, "POST");
            let mut seen = self.seen.0.lock().unwrap();
            seen.push(Request {
                path: head.path,
                headers: head.headers,
                body: serde_json::from_slice(&body).unwrap(),
            });
            let number = seen.len() - 1;
            drop(seen);
            self.seen.1.notify_all();
            let Some((status, body)) = answers(number) else {
                continue;
            };
            let head = http::head(status, "application/json", (status == 429).then_some(0));
            if http::write_whole(&mut to, &head, body.as_bytes()).is_err() {
                return;
            }
        }
        let _ = to.flush();
    }

    fn requests(&self, path: &str) -> Vec<Request> {
        let seen = self.seen.0.lock().unwrap();
        let of_path = seen.iter().filter(|request| request.path == path);
        of_path.cloned().collect()
    }

    fn wait_for_requests(&self, count: usize) {
        let (seen, changed) = &*self.seen;
        let waits = |seen: &mut Vec<Request>| seen.len() < count;
        let seen = seen.lock().unwrap();
        let waited = changed.wait_timeout_while(seen, LIMIT, waits).unwrap();
        assert!(!waited.1.timed_out());
    }

    /// All spans that came, with repeated ones.
    fn spans(&self) -> Vec<Value> {
        let requests = self.requests("/v1/traces");
        let spans = requests.iter().flat_map(|request| {
            let scope = &request.body["resourceSpans"][0]["scopeSpans"][0];
            scope["spans"].as_array().unwrap().clone()
        });
        spans.collect()
    }

    fn span(&self, name: &str) -> Value {
        let found = self.spans().into_iter().find(|span| span["name"] == name);
        found.unwrap_or_else(|| panic!("no span {name}: {:?}", self.spans()))
    }

    /// Everything that came, as text.
    fn text(&self) -> String {
        let seen = self.seen.0.lock().unwrap();
        seen.iter()
            .map(|request| request.body.to_string())
            .collect()
    }

    fn run(&self, home: &Home, args: &[&str], env: &[(&str, &str)]) -> Run {
        self.live(home, args, env).wait(LIMIT).expect(0)
    }

    fn live(&self, home: &Home, args: &[&str], env: &[(&str, &str)]) -> Live {
        let mut command = home.rewake(args);
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
        command.envs(env.iter().copied());
        Live::spawn(command)
    }
}

const ON: &str = "[telemetry]\nenabled = true\n";
const GO: [&str; 3] = ["-p", "a secret prompt", "--yolo"];

fn scripted(steps: &[String], more: &str) -> Home {
    let home = Home::new();
    play(&home, steps);
    home.write_config(&format!("{SCRIPTED}{more}"));
    home
}

fn working(more: &str) -> Home {
    let command = "echo secret output; echo $TRACEPARENT > parent; env > env";
    scripted(
        &[step("secret words", &[bash(command)]), step("done", &[])],
        more,
    )
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|pair| pair["key"] == key);
    found.map_or(&Value::Null, |pair| &pair["value"])
}

/// The lines on stderr about telemetry.
fn warnings(run: &Run) -> Vec<&str> {
    let lines = run.stderr.lines();
    lines.filter(|line| line.contains("telemetry")).collect()
}

#[test]
fn a_run_is_a_tree_of_spans_and_its_metrics_without_contents() {
    let collector = Collector::well();
    let home = working(ON);
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let env = [
        ("TRACEPARENT", parent),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=sk-collector"),
        ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "api-key=sk-logs"),
        ("OTEL_SERVICE_NAME", "mine"),
    ];
    let run = collector.run(&home, &GO, &env);
    assert_eq!(warnings(&run), Vec::<&str>::new());
    let (turn, call) = (
        collector.span("invoke_agent rewake"),
        collector.span("execute_tool bash"),
    );
    let chats = collector
        .spans()
        .into_iter()
        .filter(|span| span["name"] == "chat play");
    let below: Vec<Value> = chats
        .chain([call.clone()])
        .map(|span| span["parentSpanId"].clone())
        .collect();
    assert_eq!(below, vec![turn["spanId"].clone(); 3]);
    assert_eq!(turn["parentSpanId"], "00f067aa0ba902b7");
    for span in collector.spans() {
        assert_eq!(span["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    }
    // The command continues the trace below its call, and does not see the keys.
    let id = call["spanId"].as_str().unwrap();
    assert_eq!(
        home.read("parent"),
        format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{id}-01\n")
    );
    assert!(!home.read("env").contains("sk-"), "{}", home.read("env"));
    let request = &collector.requests("/v1/traces")[0];
    assert!(
        request
            .headers
            .contains(&("api-key".into(), "sk-collector".into()))
    );
    let resource = request.body["resourceSpans"][0]["resource"].to_string();
    assert!(resource.contains("\"mine\""), "{resource}");
    let metrics = &collector.requests("/v1/metrics")[0].body["resourceMetrics"][0];
    let names = metrics["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let names: Vec<&str> = names.iter().filter_map(|m| m["name"].as_str()).collect();
    assert_eq!(
        names,
        [
            "gen_ai.client.token.usage",
            "gen_ai.client.operation.duration"
        ]
    );
    assert!(!collector.text().contains("secret"), "{}", collector.text());
}

#[test]
fn contents_are_sent_if_the_user_says_so() {
    let collector = Collector::well();
    let home = working("[telemetry]\nenabled = true\ncontents = true\n");
    collector.run(&home, &GO, &[]);
    let call = collector.span("execute_tool bash");
    let result = attribute(&call, "gen_ai.tool.call.result")["stringValue"].as_str();
    assert!(result.unwrap().starts_with("secret output"), "{call}");
    for text in ["a secret prompt", "secret words", "echo secret output"] {
        assert!(collector.text().contains(text), "{text}");
    }
}

#[test]
fn only_the_users_own_config_turns_it_on() {
    let collector = Collector::well();
    let home = working("");
    std::fs::create_dir(home.path(".rewake")).unwrap();
    std::fs::write(home.path(".rewake/config.toml"), ON).unwrap();
    collector.run(&home, &GO, &[]);
    home.run(["trust", "--yes"]).expect(0);
    play(&home, &[step("done", &[])]);
    collector.run(&home, &GO, &[]);
    home.write_config(&format!("{SCRIPTED}{ON}"));
    collector.run(&home, &GO, &[("OTEL_SDK_DISABLED", "true")]);
    assert_eq!(collector.text(), "");
    // Those runs stay unsent, also if it is on later.
    collector.run(&home, &GO, &[]);
    let turns = collector
        .spans()
        .into_iter()
        .filter(|span| span["name"] == "invoke_agent rewake");
    assert_eq!(turns.count(), 1);
}

#[test]
fn a_session_that_went_on_without_telemetry_is_not_sent_later() {
    let collector = Collector::well();
    let home = scripted(
        &[step("one", &[]), step("two", &[]), step("three", &[])],
        ON,
    );
    collector.run(&home, &GO, &[]);
    home.write_config(SCRIPTED);
    collector.run(&home, &["-p", "-c", "next"], &[]);
    home.write_config(&format!("{SCRIPTED}{ON}"));
    collector.run(&home, &["-p", "-c", "last"], &[]);
    let chats = collector
        .spans()
        .into_iter()
        .filter(|span| span["name"] == "chat play");
    assert_eq!(chats.count(), 2);
}

#[test]
fn a_subagent_is_below_the_call_that_started_it() {
    let collector = Collector::well();
    let scene = Scene::with_task(json!({"prompt": DO_IT}), SHORT);
    let config = std::fs::read_to_string(scene.home.rewake_home().join("config.toml")).unwrap();
    scene.home.write_config(&format!("{config}\n{ON}"));
    let run = collector.run(&scene.home, &["-p", "do it", "--yolo"], &[]);
    assert!(!run.stdout.contains(ANSWER));
    let call = collector.span("execute_tool task");
    let spans = collector.spans();
    let roots = spans
        .iter()
        .filter(|span| span["name"] == "invoke_agent rewake");
    // The parent may send again what the subagent has sent.
    let above: BTreeSet<(&str, &str)> = roots
        .map(|span| (span["spanId"].as_str(), span["parentSpanId"].as_str()))
        .map(|(id, above)| (above.unwrap_or_default(), id.unwrap()))
        .collect();
    let above: Vec<&str> = above.into_iter().map(|(above, _)| above).collect();
    assert_eq!(above, ["", call["spanId"].as_str().unwrap()]);
    let traces: BTreeSet<&str> = spans
        .iter()
        .filter_map(|span| span["traceId"].as_str())
        .collect();
    assert_eq!(traces.len(), 1);
}

#[test]
fn a_collector_that_refuses_is_one_warning_and_its_batch_is_dropped() {
    let partial = r#"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too\u001b[31m old"}}"#;
    let cases = [
        (401, "no", "401"),
        (404, "", "404"),
        (413, "too large", "413"),
        (307, "", "307"),
        (200, partial, "2 items too␛[31m old"),
    ];
    for (status, body, words) in cases {
        let collector = Collector::start(move |_| Some((status, body)));
        let home = working(ON);
        let run = collector.run(&home, &GO, &[]);
        assert_eq!(run.stdout, "done\n");
        let warned = warnings(&run);
        assert!(
            warned.len() == 1 && warned[0].contains(words),
            "{status}: {warned:?}"
        );
        let sent = collector.requests("/v1/traces").len();
        play(&home, &[step("done", &[])]);
        collector.run(&home, &GO, &[("OTEL_TRACES_EXPORTER", "none")]);
        assert_eq!(collector.requests("/v1/traces").len(), sent);
    }
}

/// The run, the warning, and all spans with the next start, when the collector works again.
fn fails_and_recovers(answers: Answers, env: &[(&str, &str)]) -> Run {
    let is_well = Arc::new(Mutex::new(false));
    let well = Arc::clone(&is_well);
    let collector = Collector::start(move |_| match *well.lock().unwrap() {
        true => Some((200, "")),
        false => answers,
    });
    let home = working(ON);
    let run = collector.run(&home, &GO, env);
    assert_eq!(run.stdout, "done\n");
    let warned = warnings(&run);
    assert!(
        warned.len() == 1 && warned[0].contains("next start"),
        "{warned:?}"
    );
    *is_well.lock().unwrap() = true;
    let first = collector.requests("/v1/traces").len();
    // Another session: it sends the rest of this one too.
    play(&home, &[step("done", &[])]);
    until_sent(&collector, &home, first);
    run
}

/// Starts other sessions until the call of the first one came in the requests from this one on.
fn until_sent(collector: &Collector, home: &Home, from: usize) {
    let end = std::time::Instant::now() + LIMIT;
    loop {
        collector.run(home, &GO, &[]);
        let requests = collector.requests("/v1/traces").split_off(from);
        let spans: Vec<Value> = requests.iter().flat_map(spans_of).collect();
        if spans.iter().any(|span| span["name"] == "execute_tool bash") {
            return;
        }
        assert!(std::time::Instant::now() < end, "{spans:?}");
    }
}

fn spans_of(request: &Request) -> Vec<Value> {
    let scope = &request.body["resourceSpans"][0]["scopeSpans"][0];
    scope["spans"].as_array().unwrap().clone()
}

#[test]
fn a_collector_that_cannot_answer_ends_no_run_and_gets_the_rest_later() {
    fails_and_recovers(None, &[]);
    fails_and_recovers(Some((429, "slow down")), &[]);
    fails_and_recovers(Some((503, "")), &[]);
    let unused = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let refusing = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    fails_and_recovers(None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &refusing)]);
}

/// The model's first call lasts until the collector got the first batch `count` times.
fn until_tried(
    answers: impl Fn(usize) -> Answers + Send + Sync + 'static,
    count: usize,
) -> (Collector, Run) {
    let collector = Collector::start(answers);
    let wait = bash("while [ ! -e go ]; do sleep 0.02; done");
    let home = scripted(&[step("", &[wait]), step("done", &[])], ON);
    let run = collector.live(&home, &GO, &[("OTEL_METRICS_EXPORTER", "none")]);
    collector.wait_for_requests(count);
    std::fs::write(home.path("go"), "").unwrap();
    let run = run.wait(LIMIT).expect(0);
    assert_eq!(run.stdout, "done\n");
    (collector, run)
}

#[test]
fn a_batch_is_tried_again_until_the_collector_takes_it() {
    let (collector, run) = until_tried(|n| Some((if n < 2 { 429 } else { 200 }, "")), 3);
    assert_eq!(warnings(&run), Vec::<&str>::new());
    let requests = collector.requests("/v1/traces");
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(requests[0].body, requests[2].body);
    assert_eq!(spans_of(&requests[0]).len(), 1);
}

#[test]
fn tries_of_a_batch_are_bounded() {
    let (collector, run) = until_tried(|_| Some((429, "")), 5);
    assert_eq!(warnings(&run).len(), 1, "{}", run.stderr);
    // Nothing more is tried, at the end neither.
    assert_eq!(collector.requests("/v1/traces").len(), 5);
}

#[test]
fn another_protocol_is_one_warning_and_nothing_is_sent() {
    let collector = Collector::well();
    for protocol in ["grpc", "http/protobuf", "json"] {
        let run = collector.run(
            &working(ON),
            &GO,
            &[("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)],
        );
        let warned = warnings(&run);
        assert!(
            warned.len() == 1 && warned[0].contains("only http/json"),
            "{warned:?}"
        );
    }
    let json = [("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")];
    let run = collector.run(&working(ON), &GO, &json);
    assert_eq!(warnings(&run), Vec::<&str>::new());
    assert_eq!(collector.spans().len(), 4);
}

/// The spans of the whole log: name and times by id.
fn expected(home: &Home) -> BTreeMap<String, (String, i64, i64)> {
    let store = Store::open(&home.rewake_home()).unwrap();
    let session = store.history().newest(None).unwrap().unwrap().id;
    let (_, records) = store.load(&session).unwrap();
    let mut fold = SpanFold::new(&session, Trace::of_session(&session), false);
    let spans = records.iter().flat_map(|record| fold.fold(record));
    spans
        .map(|span| (hex(&span.id), (span.name, span.start_ms, span.end_ms)))
        .collect()
}

/// Returns the log of the newest session, as far as it is recorded.
fn log(home: &Home) -> Vec<Record> {
    let newest = || {
        let store = Store::open_current(&home.rewake_home()).ok()??;
        let session = store.history().newest(None).ok()??.id;
        Some(store.load(&session).ok()?.1)
    };
    newest().unwrap_or_default()
}

/// Runs are killed at random entries, and the collector loses some of its answers, until all is done. No span
/// is lost, and one that came twice is the same.
#[test]
fn no_kill_loses_a_span_or_makes_another_of_it() {
    let wanted = std::env::var("REWAKE_KILLS").ok();
    let wanted = wanted.map_or(12, |n| n.parse().unwrap());
    let mut random = fastrand(7);
    let (mut kills, mut repeated, mut recovered) = (0, 0, 0);
    for round in 0.. {
        if kills >= wanted {
            break;
        }
        assert!(round < wanted, "nothing is killed");
        // Answers that are not received, the first among them: its spans come again.
        let collector = Collector::start(|n| (n % 4 != 0).then_some((200, "{}")));
        let first = bash("while [ ! -e go ]; do sleep 0.02; done");
        let steps: Vec<String> = (0..4)
            .map(|n| match n {
                0 => step("", &[first.clone(), bash("true")]),
                _ => step("", &[bash("sleep 0.1"), bash("true")]),
            })
            .collect();
        let home = scripted(&[steps, vec![step("done", &[])]].concat(), ON);
        let mut args = vec!["-p", "work", "--yolo"];
        for attempt in 0.. {
            assert!(attempt < 50, "it never ends");
            let length = log(&home).len() + 1 + (random() % 6) as usize;
            let mut run = collector.live(&home, &args, &[]);
            // The first kill finds the first command, which waits for it.
            let is_due = |log: &[Record]| match attempt {
                0 => log.iter().any(|r| matches!(r.entry, Entry::Started { .. })),
                _ => log.len() >= length,
            };
            while !is_due(&log(&home)) && !run.has_ended() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let has_begun = !log(&home).is_empty();
            if attempt < 6 && run.kill() {
                kills += 1;
                run.wait(LIMIT);
                std::fs::write(home.path("go"), "").unwrap();
                if has_begun {
                    args = vec!["-p", "-c", "--yolo"];
                }
                continue;
            }
            let run = run.wait(LIMIT);
            if run.stderr.contains("crash loop") {
                let id = Store::open(&home.rewake_home())
                    .unwrap()
                    .history()
                    .newest(None)
                    .unwrap()
                    .unwrap()
                    .id;
                home.run(["unblock", &id]).expect(0);
                continue;
            }
            assert_eq!(run.code(), Some(0), "{}", run.stderr);
            break;
        }
        // The prompt may have been killed before it was recorded.
        let expected = expected(&home);
        let end = std::time::Instant::now() + LIMIT;
        let mut came: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        while came.len() < expected.len() {
            assert!(
                std::time::Instant::now() < end,
                "lost: {} of {}",
                came.len(),
                expected.len()
            );
            collector.run(&home, &["-p", "-c", "--yolo"], &[]);
            came.clear();
            for span in collector.spans() {
                let id = span["spanId"].as_str().unwrap().to_string();
                came.entry(id).or_default().insert(span.to_string());
            }
        }
        for (id, forms) in &came {
            assert_eq!(forms.len(), 1, "{forms:?}");
            let (name, start, end) = &expected[id];
            let form: Value = serde_json::from_str(forms.first().unwrap()).unwrap();
            let nanos = |ms: &i64| json!(format!("{ms}000000"));
            assert_eq!(
                (
                    &form["name"],
                    &form["startTimeUnixNano"],
                    &form["endTimeUnixNano"]
                ),
                (&json!(name), &nanos(start), &nanos(end))
            );
            recovered += usize::from(attribute(&form, "rewake.recovered") != &Value::Null);
        }
        repeated += collector.spans().len() - came.len();
    }
    println!("{kills} kills, {repeated} spans repeated, {recovered} recovered");
    assert!(recovered > 0 && repeated > 0);
}
