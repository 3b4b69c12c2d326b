//! Calls of tools of a server, and what becomes of one that a dead process had begun: with the real
//! keeper, and a server that is the test binary itself.

use std::time::Duration;

use rewake::command::How;
use rewake::command::server::{Attached, ServerEnv, ServerInfo, ServerSpec, Servers};
use rewake::core::entry::{Guard, Outcome, Output};
use rewake::core::state::State;
use rewake::core::tool::ToolCall;
use rewake::mcp::era::ProtocolHint;
use rewake::tools::{self, ToolResult};
use rewake::world::machine::Machine;
use rewake::world::{KnownTool, Launch, PrepareError, ServerAccess, Settled, World};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::bench::{Bench, call, done, interrupted};
use crate::scenes::until_async;
use support::spoken;

const SERVER: &str = spoken::ITSELF;

/// The server of a test, as the config would have it.
#[derive(Clone)]
struct Of {
    mode: &'static str,
    repeatable: bool,
    limit: Option<Duration>,
    args: Vec<String>,
    session: &'static str,
}

fn usual() -> Of {
    Of {
        mode: "old",
        repeatable: false,
        limit: None,
        args: spoken::arguments(SERVER),
        session: "session",
    }
}

fn repeatable() -> Of {
    Of {
        repeatable: true,
        ..usual()
    }
}

impl Bench {
    fn servers(&self) -> Servers {
        let root = self.folder.path().join("servers");
        Servers::new(root, env!("CARGO_BIN_EXE_rewake"), None)
    }

    /// The world of another process, with a server `far`.
    fn serving(&self, of: &Of) -> Machine {
        let mut machine = self.machine();
        let spec = ServerSpec {
            name: "far".into(),
            session: of.session.into(),
            program: std::env::current_exe().unwrap().to_str().unwrap().into(),
            args: of.args.clone(),
            folder: self.folder.path().into(),
            env: vec![spoken::ASKED.into()],
            linger_ms: 900_000,
            sandbox: None,
            lease: None,
        };
        let own = [(spoken::ASKED.to_string(), of.mode.to_string())];
        let env = ServerEnv::new(|name| std::env::var_os(name), &own);
        let of = of.clone();
        machine.use_servers(ServerAccess {
            servers: self.servers(),
            find: Box::new(move |full| {
                let name = full
                    .strip_prefix("mcp__far__")
                    .ok_or("there is no such tool")?;
                Ok(KnownTool {
                    server: "far".into(),
                    name: name.into(),
                    repeatable: of.repeatable,
                    limit: of.limit,
                })
            }),
            launch: Box::new(move |_| {
                Ok(Launch {
                    spec: spec.clone(),
                    env: env.clone(),
                    startup: Duration::from_secs(90),
                    protocol: ProtocolHint::Unknown,
                })
            }),
        });
        machine
    }

    fn all(&self) -> Vec<ServerInfo> {
        self.servers().list()
    }

    fn of_run(&self, run: &str) -> ServerInfo {
        let mut all = self.all();
        all.retain(|info| info.run == run);
        all.pop().expect("the run is listed")
    }

    /// What the calls did, a line each.
    fn effects(&self) -> Vec<String> {
        let text = self.get("effects");
        text.lines().map(str::to_string).collect()
    }

    fn append(&self, text: &str, ms: u64) -> ToolCall {
        let file = self.folder.path().join("work/effects");
        call(
            "mcp__far__append",
            json!({ "file": file, "text": text, "ms": ms }),
        )
    }

    /// A call that lasts until the file `go` is there.
    fn append_until_go(&self, text: &str) -> ToolCall {
        let work = self.folder.path().join("work");
        call(
            "mcp__far__append",
            json!({ "file": work.join("effects"), "text": text, "until": work.join("go") }),
        )
    }

    fn was_given(&self, guard: &Guard) -> bool {
        let (run, request) = run_and_request(guard);
        let folder = self.servers().path(run).unwrap();
        let input = std::fs::read_to_string(folder.join("in.0")).unwrap_or_default();
        input.contains(&format!("\"id\":\"{request}\""))
    }

    fn keeper(&self, run: &str) -> u32 {
        let status = std::fs::read(self.servers().path(run).unwrap().join("status")).unwrap();
        // The record is JSON behind a sum and a length.
        let text = String::from_utf8_lossy(&status).into_owned();
        let at = text.find("\"keeper\":").unwrap() + "\"keeper\":".len();
        let digits = text[at..].chars().take_while(char::is_ascii_digit);
        digits.collect::<String>().parse().unwrap()
    }

    fn printed(&self, guard: &Guard) -> String {
        let bytes = self.servers().printed(run_and_request(guard).0, 4096);
        String::from_utf8_lossy(&bytes.unwrap()).into_owned()
    }

    /// Makes the call in a process that dies as soon as the server has it.
    async fn dies_in(&self, of: &Of, call: &ToolCall) -> Guard {
        let machine = self.serving(of);
        let guard = ready(&machine, call).await;
        let mut act = std::pin::pin!(machine.act(call, &guard));
        tokio::select! {
            biased;
            () = until_async(|| self.was_given(&guard)) => {}
            ran = &mut act => panic!("it ended before: {ran:?}"),
        }
        guard.clone()
    }
}

async fn ready(machine: &Machine, call: &ToolCall) -> Guard {
    let state = State::new(tools::describe);
    machine.reach(call).await;
    machine.prepare(call, None, None, &state).await.unwrap()
}

async fn refused(machine: &Machine, call: &ToolCall) -> String {
    let state = State::new(tools::describe);
    machine.reach(call).await;
    match machine.prepare(call, None, None, &state).await {
        Err(PrepareError::Refused(outcome)) => outcome.to_model_text().0,
        other => panic!("it is not refused: {other:?}"),
    }
}

async fn made(machine: &Machine, call: &ToolCall) -> (Guard, ToolResult) {
    let guard = ready(machine, call).await;
    let ran = machine.act(call, &guard).await.expect("its end");
    (guard, ran)
}

fn run_and_request(guard: &Guard) -> (&str, &str) {
    match guard {
        Guard::Served { run, request, .. } => (run, request),
        other => panic!("not a call of a server: {other:?}"),
    }
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
}

#[track_caller]
fn ended(settled: Settled) -> ToolResult {
    match settled {
        Settled::Ended(ran) => ran,
        other => panic!("it has no end: {other:?}"),
    }
}

#[track_caller]
fn not_begun(settled: Settled) -> Guard {
    match settled {
        Settled::NotBegun(guard) => guard,
        other => panic!("it is not to be run: {other:?}"),
    }
}

fn output(ran: &ToolResult) -> &Output {
    match &ran.outcome {
        Outcome::Done { output } | Outcome::Error { output } => output,
        other => panic!("{other:?}"),
    }
}

fn give(result: Value) -> ToolCall {
    call("mcp__far__give", json!({ "result": result }))
}

#[tokio::test]
async fn a_call_gives_its_result_and_the_server_lives_on_for_the_next_one() {
    let bench = Bench::new();
    let machine = bench.serving(&usual());
    let (guard, ran) = made(&machine, &bench.append("one", 0)).await;
    assert!(done(&ran).starts_with("done\n"), "{ran:?}");
    machine.discard(&guard).await;
    let (other, ran) = made(&machine, &call("mcp__far__pid", json!({}))).await;
    let pid = done(&ran);
    assert_eq!(run_and_request(&guard).0, run_and_request(&other).0);
    drop(machine);
    // The next process of the session finds it.
    let machine = bench.serving(&usual());
    assert_eq!(
        done(&made(&machine, &call("mcp__far__pid", json!({}))).await.1),
        pid
    );
    assert_eq!(bench.effects(), ["one"]);
    machine.leave().await;
    assert_eq!(bench.all().len(), 0);
}

#[tokio::test]
async fn a_call_that_outlives_the_agent_gives_its_actual_result() {
    let bench = Bench::new();
    let call = bench.append("one", 300);
    let guard = bench.dies_in(&usual(), &call).await;
    let machine = bench.serving(&usual());
    let ran = ended(machine.settle(&call, &guard, None, false).await);
    assert!(done(&ran).starts_with("done\n"), "{ran:?}");
    assert_eq!(bench.effects(), ["one"]);
    // That process died, too, before it could record it.
    let again = bench.serving(&usual());
    drop(machine);
    assert_eq!(ended(again.settle(&call, &guard, None, false).await), ran);
    assert_eq!(bench.effects(), ["one"]);
    again.leave().await;
}

#[tokio::test]
async fn a_call_that_the_server_never_had_is_made_at_the_same_server() {
    let bench = Bench::new();
    let call = bench.append("one", 0);
    let guard = ready(&bench.serving(&usual()), &call).await;
    let machine = bench.serving(&usual());
    let again = not_begun(machine.settle(&call, &guard, None, false).await);
    assert_eq!(again, guard);
    assert_eq!(bench.effects(), [""; 0]);
    let ran = machine.act(&call, &again).await.expect("its end");
    assert!(done(&ran).starts_with("done\n"), "{ran:?}");
    assert_eq!(bench.effects(), ["one"]);
    machine.leave().await;
}

#[tokio::test]
async fn a_server_that_died_before_the_call_is_restarted_for_it() {
    let bench = Bench::new();
    let call = bench.append("one", 0);
    let machine = bench.serving(&usual());
    let guard = ready(&machine, &call).await;
    let run = run_and_request(&guard).0.to_string();
    kill(bench.of_run(&run).group.unwrap());
    until_async(|| !bench.of_run(&run).is_kept).await;
    // The same process, and another one.
    assert_eq!(machine.act(&call, &guard).await, None);
    drop(machine);
    let machine = bench.serving(&usual());
    let again = not_begun(machine.settle(&call, &guard, None, false).await);
    let (new_run, request) = run_and_request(&again);
    assert_ne!(new_run, run);
    assert_eq!(request, format!("{}-2", run_and_request(&guard).1));
    machine.discard(&guard).await;
    let ran = machine.act(&call, &again).await.expect("its end");
    assert!(done(&ran).starts_with("done\n"), "{ran:?}");
    assert_eq!(bench.effects(), ["one"]);
    assert_eq!(bench.all().len(), 1, "the run that is over is removed");
    machine.leave().await;
}

/// The server, or its keeper, dies in the call: nobody knows whether it happened.
#[tokio::test]
async fn a_call_whose_server_or_keeper_died_in_it_is_told_as_in_doubt() {
    for by_keeper in [false, true] {
        let bench = Bench::new();
        let call = bench.append("one", 20_000);
        let guard = bench.dies_in(&usual(), &call).await;
        let run = run_and_request(&guard).0;
        match by_keeper {
            true => kill(bench.keeper(run)),
            false => kill(bench.of_run(run).group.unwrap()),
        }
        let machine = bench.serving(&usual());
        let text = interrupted(&ended(machine.settle(&call, &guard, None, false).await));
        assert!(text.contains("may or may not have happened"), "{text}");
        assert_eq!(bench.effects(), [""; 0]);
    }
}

#[tokio::test]
async fn a_call_that_may_be_repeated_is_made_again_when_its_server_died_in_it() {
    let bench = Bench::new();
    let call = bench.append_until_go("one");
    let guard = bench.dies_in(&repeatable(), &call).await;
    kill(bench.of_run(run_and_request(&guard).0).group.unwrap());
    bench.put("go", "");
    let machine = bench.serving(&repeatable());
    let again = not_begun(machine.settle(&call, &guard, None, false).await);
    assert_ne!(run_and_request(&again), run_and_request(&guard));
    let ran = machine.act(&call, &again).await.expect("its end");
    assert!(done(&ran).starts_with("done\n"), "{ran:?}");
    assert_eq!(bench.effects(), ["one"]);
    machine.leave().await;
}

#[tokio::test]
async fn an_answer_counts_even_if_keeper_or_machine_is_dead() {
    let bench = Bench::new();
    let call = bench.append("one", 0);
    let machine = bench.serving(&usual());
    let (guard, ran) = made(&machine, &call).await;
    drop(machine);
    let run = run_and_request(&guard).0.to_string();
    kill(bench.keeper(&run));
    let Guard::Served {
        server,
        run,
        request,
        ..
    } = guard
    else {
        panic!("another guard");
    };
    // Also after the machine went down.
    let guard = Guard::Served {
        server,
        run,
        request,
        boot: "another".into(),
        repeatable: false,
    };
    let machine = bench.serving(&usual());
    assert_eq!(ended(machine.settle(&call, &guard, None, false).await), ran);
    assert_eq!(bench.effects(), ["one"]);
}

#[tokio::test]
async fn without_its_run_folder_nothing_is_known_of_a_call() {
    let bench = Bench::new();
    let call = bench.append("one", 100);
    let guard = bench.dies_in(&usual(), &call).await;
    std::fs::remove_dir_all(bench.servers().path(run_and_request(&guard).0).unwrap()).unwrap();
    let machine = bench.serving(&usual());
    let text = interrupted(&ended(machine.settle(&call, &guard, None, false).await));
    assert!(text.contains("may or may not have happened"), "{text}");
}

#[tokio::test]
async fn a_stop_tells_the_server_and_leaves_it_alive() {
    let bench = Bench::new();
    let stall = call("mcp__far__stall", json!({}));
    let guard = bench.dies_in(&usual(), &stall).await;
    let machine = bench.serving(&usual());
    let text = interrupted(&ended(machine.settle(&stall, &guard, None, true).await));
    assert!(text.contains("the user stopped it"), "{text}");
    assert!(text.contains("may or may not have happened"), "{text}");
    let (_, request) = run_and_request(&guard);
    until_async(|| {
        bench
            .printed(&guard)
            .contains(&format!("cancelled {request}"))
    })
    .await;
    machine.discard(&guard).await;
    let (other, _) = made(&machine, &call("mcp__far__pid", json!({}))).await;
    assert_eq!(run_and_request(&other).0, run_and_request(&guard).0);
    machine.leave().await;
}

#[tokio::test]
async fn a_stop_does_not_start_a_call_that_was_not_started() {
    let bench = Bench::new();
    let call = bench.append("one", 0);
    let guard = ready(&bench.serving(&usual()), &call).await;
    let machine = bench.serving(&usual());
    assert_eq!(
        not_begun(machine.settle(&call, &guard, None, true).await),
        guard
    );
    kill(bench.keeper(run_and_request(&guard).0));
    drop(machine);
    let machine = bench.serving(&usual());
    assert_eq!(
        not_begun(machine.settle(&call, &guard, None, true).await),
        guard
    );
    assert_eq!(bench.effects(), [""; 0]);
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_told_and_cancelled() {
    let bench = Bench::new();
    let of = Of {
        limit: Some(Duration::from_millis(100)),
        ..usual()
    };
    let machine = bench.serving(&of);
    let (guard, ran) = made(&machine, &call("mcp__far__stall", json!({}))).await;
    let text = interrupted(&ran);
    assert!(text.contains("within 0.1 s (tool_timeout_sec)"), "{text}");
    assert!(text.contains("may or may not have happened"), "{text}");
    let (_, request) = run_and_request(&guard);
    until_async(|| {
        bench
            .printed(&guard)
            .contains(&format!("cancelled {request}"))
    })
    .await;
    machine.leave().await;
}

#[tokio::test]
async fn a_server_that_cannot_be_started_says_why_and_is_not_tried_all_the_time() {
    let bench = Bench::new();
    let of = Of {
        mode: "exits",
        ..usual()
    };
    let machine = bench.serving(&of);
    let call = call("mcp__far__pid", json!({}));
    for _ in 0..2 {
        let text = refused(&machine, &call).await;
        assert!(
            text.contains("not run: the server far cannot be started"),
            "{text}"
        );
        assert!(text.contains("exited with code 3"), "{text}");
        assert!(text.contains("no licence found"), "{text}");
    }
    // The wait for a third start is too long to be waited for.
    let text = refused(&machine, &call).await;
    assert!(text.contains("the server far is down"), "{text}");
    assert!(
        text.contains("no licence found") && text.contains("hint:"),
        "{text}"
    );
    until_async(|| bench.all().iter().all(|info| !info.is_kept)).await;
}

#[tokio::test]
async fn a_server_that_ended_in_a_call_is_started_for_the_next_one() {
    let bench = Bench::new();
    let machine = bench.serving(&usual());
    let die = call("mcp__far__die", json!({}));
    let guard = ready(&machine, &die).await;
    assert_eq!(machine.act(&die, &guard).await, None);
    let text = interrupted(&ended(machine.settle(&die, &guard, None, false).await));
    assert!(text.contains("out of luck"), "{text}");
    assert!(text.contains("may or may not have happened"), "{text}");
    machine.discard(&guard).await;
    let (other, _) = made(&machine, &call("mcp__far__pid", json!({}))).await;
    assert_ne!(run_and_request(&other).0, run_and_request(&guard).0);
    assert_eq!(bench.all().len(), 1);
    machine.leave().await;
}

#[tokio::test]
async fn a_server_that_lies_repeats_itself_or_talks_nonsense_harms_its_own_call_alone() {
    let bench = Bench::new();
    let machine = bench.serving(&usual());
    for (tool, text) in [("lie", "the first"), ("twice", "the first")] {
        let tool = call(&format!("mcp__far__{tool}"), json!({}));
        let (guard, ran) = made(&machine, &tool).await;
        assert_eq!(done(&ran), text);
        machine.discard(&guard).await;
    }
    for (tool, words) in [
        (
            "garble",
            "its result is not an object; the call may have happened",
        ),
        ("long", "which is too long"),
    ] {
        let tool = call(&format!("mcp__far__{tool}"), json!({}));
        let (guard, ran) = made(&machine, &tool).await;
        let (text, _) = ran.outcome.to_model_text();
        assert!(text.contains(words), "{text}");
        machine.discard(&guard).await;
    }
    let half = call("mcp__far__half", json!({}));
    let guard = ready(&machine, &half).await;
    assert_eq!(machine.act(&half, &guard).await, None);
    let text = interrupted(&ended(machine.settle(&half, &guard, None, false).await));
    assert!(text.contains("may or may not have happened"), "{text}");
    machine.discard(&guard).await;
    let pid = call("mcp__far__pid", json!({}));
    assert!(done(&made(&machine, &pid).await.1).parse::<u32>().is_ok());
    machine.leave().await;
}

/// A process dies between the start of a server and what it wanted it for; or starts it another
/// way than the one before.
#[tokio::test]
async fn a_session_has_one_server_of_a_name_and_another_session_has_its_own() {
    let bench = Bench::new();
    let pid = call("mcp__far__pid", json!({}));
    let first = bench.serving(&usual());
    let (guard, _) = made(&first, &pid).await;
    let other = bench.serving(&Of {
        session: "other",
        ..usual()
    });
    let (of_other, _) = made(&other, &pid).await;
    assert_ne!(run_and_request(&of_other).0, run_and_request(&guard).0);
    drop(first);
    let mut args = spoken::arguments(SERVER);
    args.push("--test-threads=1".into());
    let changed = bench.serving(&Of { args, ..usual() });
    let (again, _) = made(&changed, &pid).await;
    assert_ne!(run_and_request(&again).0, run_and_request(&guard).0);
    let old = run_and_request(&guard).0.to_string();
    until_async(|| {
        !bench
            .all()
            .iter()
            .any(|info| info.run == old && info.is_kept)
    })
    .await;
    match bench.servers().attach(&old).await.unwrap() {
        Attached::Over(past) => assert_eq!(past.how(), &How::Stopped),
        other => panic!("it lives: {other:?}"),
    }
    let of_other = bench.of_run(run_and_request(&of_other).0);
    assert!(of_other.is_kept);
    changed.leave().await;
}

#[tokio::test]
async fn a_start_that_nobody_waits_for_any_more_is_the_one_that_is_used() {
    let bench = Bench::new();
    let machine = bench.serving(&usual());
    let pid = call("mcp__far__pid", json!({}));
    let dropped = tokio::time::timeout(Duration::from_millis(5), machine.reach(&pid)).await;
    drop(dropped);
    made(&machine, &pid).await;
    assert_eq!(bench.all().len(), 1);
    machine.leave().await;
}

#[tokio::test]
async fn each_kind_of_result_reaches_the_model() {
    use base64::Engine as _;
    let bench = Bench::new();
    let machine = bench.serving(&usual());
    let png = base64::engine::general_purpose::STANDARD.encode(PNG);
    let ran = made(
        &machine,
        &give(json!({ "content": [
            { "type": "text", "text": "a\u{1b}[31mb" },
            { "type": "image", "mimeType": "image/png", "data": png },
            { "type": "image", "mimeType": "image/png", "data": "AAAA" },
            { "type": "resource_link", "uri": "file:///x", "name": "x" },
        ] })),
    )
    .await
    .1;
    let (text, lines) = (done(&ran), output(&ran).text.lines().count());
    assert!(
        text.starts_with("a[31mb\n[image 1: image/png, 3 x 2 px,"),
        "{text}"
    );
    assert!(
        text.contains("is not a PNG") && text.ends_with("[link: x file:///x]"),
        "{text}"
    );
    assert_eq!((lines, ran.blobs.len()), (4, 1));
    assert_eq!(output(&ran).images.len(), 1);
    assert_eq!(ran.blobs[0], PNG);

    let long = made(
        &machine,
        &give(json!({ "content": [
        { "type": "text", "text": "x".repeat(50_000) } ] })),
    )
    .await
    .1;
    assert!(output(&long).text.len() <= 16_000);
    assert_eq!(long.blobs[0].len(), 50_000);
    assert_eq!(output(&long).blob.as_ref().unwrap().bytes, 50_000);

    let structured = made(&machine, &give(json!({ "structuredContent": { "n": 1 } })))
        .await
        .1;
    assert_eq!(done(&structured), "{\"n\":1}");
    let failed = made(
        &machine,
        &give(json!({ "isError": true, "content": [
        { "type": "text", "text": "no such row" } ] })),
    )
    .await
    .1;
    assert_eq!(failed.outcome, Outcome::error("no such row"));
    let refused = made(&machine, &call("mcp__far__refuse", json!({}))).await.1;
    let text = &output(&refused).text;
    assert!(matches!(refused.outcome, Outcome::Error { .. }));
    assert!(text.contains("no such word (-32602)"), "{text}");
    machine.leave().await;
}

const PNG: &[u8] = b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x03\x00\x00\x00\x02\x08\x02\x00\x00\x00\x12\x16\xf1\x4d\x00\x00\x00\x03\x74\x45\x58\x74\x61\x00\x62\xdc\x49\xa2\x3b\x00\x00\x00\x10\x49\x44\x41\x54\x78\x9c\x63\xf8\xcf\xc0\x00\x41\x0c\x70\x16\x00\x41\xd2\x05\xfb\x87\xf0\xb9\x48\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";
