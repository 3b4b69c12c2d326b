//! Servers that are away, that refuse, and that answer nonsense.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::cli::{entries, history, newest, quiet, refused, results, streamed};
use crate::scenes::models::*;
use crate::scenes::resume::assert_has;
use support::{Answer, Home, KEY, Options, Protocol, Says, Server, list};

/// The same home, at another server.
#[track_caller]
fn goes_on_at(home: &Home, protocol: Protocol) {
    let server = Server::start(|_| Says::text("at last").into());
    home.configure(&server, protocol, "");
    let run = home.run(["-p", "-c"]).expect(0);
    quiet(&run);
    assert_eq!(run.stdout, "at last\n", "{}", run.stderr);
    assert_eq!(history(home).len(), 1);
    server.assert_no_violations();
}

#[test]
fn an_unreachable_server_is_told_soon_and_the_session_waits_for_it() {
    let home = Home::new();
    home.write_config(
        "model = \"local/m\"\n[providers.local]\nprotocol = \"openai-chat\"\n\
         base_url = \"http://127.0.0.1:1/v1\"\napi_key_env = \"LOCAL_KEY\"\n",
    );
    let run = home.run(["-p", "fix it", "--set", "retry.tries=1"]);
    let run = refused(run, 75, &["http://127.0.0.1:1/v1", "start the server"]);
    let (id, line) = history(&home).remove(0);
    assert!(
        run.stderr.contains(&format!("rewake -p -r {id}")),
        "{}",
        run.stderr
    );
    assert!(line.contains("  failed "), "{line}");
    goes_on_at(&home, Protocol::Chat);
}

#[test]
fn a_wrong_key_is_reported_and_never_shown() {
    for protocol in Protocol::ALL {
        let options = Options {
            key: Some("another".into()),
            ..Options::default()
        };
        let server = Server::start_with(options, |_| Says::text("never").into());
        let home = Home::with(&server, protocol);
        let run = refused(home.run(["-p", "x"]), 1, &["LOCAL_KEY"]);
        assert!(!run.stderr.contains(KEY), "{}", run.stderr);
        assert_eq!(server.requests().len(), 1, "it is not tried again");
        drop(server);
        goes_on_at(&home, protocol);
    }
}

#[test]
fn an_answer_that_is_none_ends_the_run_not_the_session() {
    let page = |status, body: &str| Answer::Raw {
        status,
        content_type: "text/html",
        body: body.to_string(),
    };
    let table = [
        page(200, "<html>Welcome to the Wi-Fi</html>"),
        page(200, ""),
        page(200, "data: {\n\ndata: \u{1b}[31mno\n\n"),
        page(502, "<html>\u{1b}]0;title\u{7}Bad Gateway</html>"),
        page(404, "not here"),
    ];
    for protocol in Protocol::ALL {
        for answer in &table {
            let answer = answer.clone();
            let server = Server::start(move |_| answer.clone());
            let home = Home::with(&server, protocol);
            let run = home.run(["-p", "x", "--set", "retry.tries=1"]);
            let code = run.code().unwrap();
            assert!(matches!(code, 1 | 75), "{protocol:?}: {run:?}");
            let run = refused(run, code, &[&server.root()]);
            assert!(!run.stderr.contains('\u{1b}'), "{}", run.stderr);
            drop(server);
            goes_on_at(&home, protocol);
        }
    }
}

#[test]
fn a_stream_that_is_cut_is_asked_for_again_and_recorded_once() {
    for protocol in Protocol::ALL {
        let tried = AtomicBool::new(false);
        let server = Server::start(move |_| match tried.swap(true, Ordering::Relaxed) {
            false => Answer::Cut {
                says: Says::text("half of the words and more of them"),
                after_bytes: 300,
            },
            true => Says::text("whole").into(),
        });
        let home = Home::with(&server, protocol);
        let run = home.run(["-p", "x", "--set", "retry.base_ms=1"]).expect(0);
        assert_eq!(run.stdout, "whole\n", "{protocol:?}");
        let id = &newest(&home);
        assert!(!home.run(["show", id]).expect(0).stdout.contains("half"));
    }
}

/// Answers these calls first, and "done" to their results.
fn after(says: Says) -> Server {
    Server::start(list(vec![says.into(), Says::text("done").into()]))
}

#[test]
fn malformed_arguments_and_invented_tools_are_told_to_the_model() {
    for protocol in Protocol::ALL {
        let says = Says::default()
            .and_call("frobnicate", json!({"x": 1}))
            .and_call("read", json!({"pth": "a"}))
            .and_call("bash", json!({"command": 7}));
        let says = match protocol {
            // Its servers send no such call.
            Protocol::Gemini => says,
            _ => says.and_raw_call("read", "{\"path\": ", None),
        };
        let server = after(says);
        let home = Home::with(&server, protocol);
        let run = streamed(&home, &["-p", "x"]).expect(0);
        let results = results(&run);
        assert!(
            results.iter().all(|(kind, _)| kind == "error"),
            "{results:?}"
        );
        let has = |at: usize, word: &str| assert!(results[at].1.contains(word), "{results:?}");
        has(
            0,
            "there is no tool named \"frobnicate\"; the tools are read, ",
        );
        has(1, "path");
        has(2, "`command` must be a string");
        if protocol != Protocol::Gemini {
            has(3, "JSON");
        }
        server.assert_no_violations();
    }
}

#[test]
fn a_model_that_makes_no_sense_is_not_asked_for_ever() {
    for protocol in Protocol::ALL {
        let sober = Arc::new(AtomicBool::new(false));
        let is_sober = Arc::clone(&sober);
        let server = Server::start(move |_| match is_sober.load(Ordering::Relaxed) {
            false => Says::call("frobnicate", json!({})).into(),
            true => Says::text("sorry").into(),
        });
        let home = Home::with(&server, protocol);
        refused(home.run(["-p", "x"]), 1, &["make no sense", "rewake -p -r"]);
        let asked = server.requests().len();
        assert!((2..=10).contains(&asked), "{asked} requests");
        sober.store(true, Ordering::Relaxed);
        assert_eq!(home.run(["-p", "-c"]).expect(0).stdout, "sorry\n");
        server.assert_no_violations();
    }
}

#[test]
fn an_answer_without_words_is_asked_for_again_within_bounds() {
    for protocol in Protocol::ALL {
        let server = Server::start(|_| Says::default().into());
        let home = Home::with(&server, protocol);
        let run = home.run([
            "-p",
            "x",
            "--set",
            "retry.tries=2",
            "--set",
            "retry.base_ms=1",
        ]);
        let code = run.code().unwrap();
        assert!(matches!(code, 1 | 75), "{protocol:?}: {run:?}");
        refused(run, code, &[]);
        assert!(server.requests().len() <= 10);
        drop(server);
        goes_on_at(&home, protocol);
    }
}

#[test]
fn call_ids_that_are_repeated_or_missing_make_no_invalid_request() {
    let says = Says::default()
        .and_raw_call("glob", "{\"pattern\": \"a\"}", Some("same"))
        .and_raw_call("glob", "{\"pattern\": \"b\"}", Some("same"))
        .and_raw_call("glob", "{\"pattern\": \"c\"}", Some(""))
        .and_raw_call("glob", "{\"pattern\": \"d\"}", Some(""));
    let again = says.clone();
    let server = Server::start(list(vec![
        says.into(),
        again.into(),
        Says::text("done").into(),
    ]));
    let home = Home::with(&server, Protocol::Chat);
    let run = streamed(&home, &["-p", "x"]).expect(0);
    let tool_results: Vec<String> = results(&run).into_iter().map(|(_, text)| text).collect();
    for (place, name) in ["a", "b", "c", "d", "a", "b", "c", "d"].iter().enumerate() {
        assert!(
            tool_results[place].contains(&format!("matches {name}\n")),
            "{tool_results:?}"
        );
    }
    server.assert_no_violations();
}

/// The ids of the calls in a request, in order.
fn call_ids(protocol: Protocol, body: &[u8]) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).unwrap();
    let (list, at) = match protocol {
        Protocol::Anthropic => ("messages", "id"),
        Protocol::Chat => ("messages", "id"),
        Protocol::Responses => ("input", "call_id"),
        Protocol::Gemini => ("contents", "id"),
    };
    let mut ids = Vec::new();
    for message in body[list].as_array().unwrap() {
        let parts = match protocol {
            Protocol::Anthropic => message["content"].as_array(),
            Protocol::Chat => message["tool_calls"].as_array(),
            Protocol::Responses | Protocol::Gemini => None,
        };
        let is_call = |part: &&Value| {
            let kind = part["type"].as_str().unwrap_or_default();
            ["tool_use", "function", "function_call"].contains(&kind)
        };
        let one = std::slice::from_ref(message);
        let calls = parts.map_or(one, Vec::as_slice).iter().filter(is_call);
        ids.extend(calls.map(|call| call[at].as_str().unwrap().to_string()));
    }
    ids
}

#[test]
fn the_id_of_a_call_suits_every_server_and_stays_the_same() {
    for protocol in [Protocol::Anthropic, Protocol::Chat, Protocol::Responses] {
        // Ids that no request may have: empty, repeated, too long, of odd characters.
        let says = |n: usize| {
            let odd = ["", "same", "same", "é /\"\n", &"x".repeat(300)];
            let odd = odd.iter().fold(Says::default(), |says, id| {
                says.and_raw_call("glob", "{\"pattern\": \"a\"}", Some(id))
            });
            match n {
                0..3 => Answer::from(odd),
                _ => Says::text("done").into(),
            }
        };
        let server = Server::start(list((0..6).map(says).collect()));
        let home = Home::new();
        home.configure(&server, protocol, "loop_guard = false");

        home.run(["-p", "x"]).expect(0);
        home.run(["-p", "-c", "and again"]).expect(0);
        let requests = server.requests();
        let ids: Vec<Vec<String>> = requests
            .iter()
            .map(|r| call_ids(protocol, r.body.as_ref().unwrap()))
            .collect();
        let counts: Vec<usize> = ids.iter().map(Vec::len).collect();
        assert_eq!(counts, [0, 5, 10, 15, 15]);
        for pair in ids.windows(2) {
            assert_eq!(pair[0], pair[1][..pair[0].len()], "{protocol:?}");
        }
        let is_short = |id: &String| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric());
        assert!(ids[4].iter().all(is_short), "{:?}", ids[4]);
        server.assert_no_violations();
    }
}

#[test]
fn all_of_300_calls_are_answered_and_the_first_64_run() {
    for protocol in Protocol::ALL {
        let mut says = Says::default();
        for n in 0..300 {
            let command = format!("echo {n} >> counted");
            says = says.and_call("bash", json!({ "command": command }));
        }
        let server = after(says);
        let home = Home::new();
        let window = "[models.\"local/test-model\"]\ncontext_window = 1000000\n";
        home.configure(&server, protocol, window);
        let run = streamed(&home, &["-p", "x", "--yolo"]).expect(0);
        let results = results(&run);
        assert_eq!(results.len(), 300);
        let ran = home.read("counted").lines().count();
        assert_eq!(ran, 64, "the first of them are run");
        let closed = |(kind, text): &&(String, String)| kind == "error" && text.contains("64");
        assert_eq!(results.iter().filter(closed).count(), 300 - ran);
        server.assert_no_violations();
    }
}

/// What servers say of a request that is too long: status and body. Status 200 is an error
/// inside the stream.
const TOO_LONG: [(u16, &str); 6] = [
    (
        400,
        r#"{"error":{"code":400,"message":"request (9345 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9345,"n_ctx":8192}}"#,
    ),
    (
        500,
        r#"{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The total length of all messages is too long.","type":"too_many_prompt_tokens","code":400}}"#,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"bad_request_error","message":"invalid params, context window exceeds limit (2013)"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: This model's maximum context length is 8192 tokens. However, you requested 9193 tokens (8193 in the messages, 1000 in the completion)","type":null,"param":null,"code":"400"}}"#,
    ),
    (
        200,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"the request exceeds the available context size (8192 tokens), try increasing it"}}"#,
    ),
];

#[test]
fn a_full_context_is_known_by_its_words_in_every_protocol() {
    for protocol in Protocol::ALL {
        for (status, body) in TOO_LONG {
            let is_full = AtomicBool::new(true);
            let server = Server::start(move |_| match is_full.swap(false, Ordering::Relaxed) {
                true if status == 200 => Answer::Raw {
                    status,
                    content_type: "text/event-stream",
                    body: format!("event: error\ndata: {body}\n\n"),
                },
                true => Answer::Raw {
                    status,
                    content_type: "application/json",
                    body: body.to_string(),
                },
                false => Says::text("it fits now").into(),
            });
            let home = Home::with(&server, protocol);
            let run = streamed(&home, &["-p", "x", "--set", "retry.tries=1"]).expect(0);
            let events = run.events();
            let learned = events.iter().find(|e| e["type"] == "entry.learned");
            let limit = learned.and_then(|e| e["limit"].as_u64()).unwrap_or(0);
            match body.contains("8192") {
                true => assert_eq!(limit, 8_192, "{protocol:?}: {body}"),
                // Neither a status nor a code is taken for a size.
                false => assert!(limit > 4_000, "{protocol:?}: {body}: {limit}"),
            }
            server.assert_no_violations();
        }
    }
}

#[test]
fn a_server_without_keys_is_sent_none() {
    for protocol in Protocol::ALL {
        let options = Options {
            keyless: true,
            ..Options::default()
        };
        let server = Server::start_with(options, |_| Says::text("come in").into());
        let home = Home::new();
        // A variable that is named as empty is none.
        for key in ["", "api_key_env = \"\"\n"] {
            home.write_config(&format!(
                "model = \"local/m\"\n[providers.local]\nprotocol = \"{}\"\nbase_url = \"{}\"\n{key}",
                protocol.name(),
                server.base_url(protocol),
            ));
            let run = home.run(["-p", "x"]).expect(0);
            assert_eq!(run.stdout, "come in\n", "{protocol:?}");
        }
        server.assert_no_violations();
    }
    // One that is known by its name has a key, and the variable to set is said.
    let home = Home::new();
    for (provider, variable) in [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai", "OPENAI_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
    ] {
        home.write_config(&format!(
            "[providers.{provider}]\nbase_url = \"http://127.0.0.1:1\"\n"
        ));
        refused(
            home.run(["-p", "x", "-m", &format!("{provider}/m")]),
            2,
            &[variable],
        );
    }
}

#[test]
fn a_server_that_wants_a_key_after_all_says_what_to_name() {
    for protocol in Protocol::ALL {
        let server = Server::start(|_| Says::text("never").into());
        let home = Home::new();
        home.write_config(&format!(
            "model = \"local/m\"\n[providers.local]\nprotocol = \"{}\"\nbase_url = \"{}\"\n",
            protocol.name(),
            server.base_url(protocol),
        ));
        refused(
            home.run(["-p", "x"]),
            1,
            &["api_key_env in [providers.local]"],
        );
    }
}

#[test]
fn data_after_the_end_of_an_answer_is_ignored() {
    let tails = [
        "data: [DONE]\n\n",
        "event: data\ndata: [DONE]\n\n",
        ": a comment\n\ndata:\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n",
        "data: [DONE]\n\ndata: {\"cost\": 0.1}\n\ndata: no JSON\n\n",
        "data: no JSON\n\n",
    ];
    for protocol in Protocol::ALL {
        for tail in tails {
            let server = Server::start(move |_| Answer::Tail {
                says: Says::text("whole"),
                tail: tail.to_string(),
            });
            let home = Home::with(&server, protocol);
            let run = home.run(["-p", "x", "--set", "retry.tries=1"]).expect(0);
            assert_eq!(run.stdout, "whole\n", "{protocol:?} {tail:?}");
            assert_eq!(server.requests().len(), 1);
        }
    }
}

/// The answer's end is there, and the word that ends the stream is not.
#[test]
fn a_stop_is_an_end_without_the_word_done() {
    let body = concat!(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"whole\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    );
    let server = Server::start(|_| Answer::Raw {
        status: 200,
        content_type: "text/event-stream",
        body: body.to_string(),
    });
    let home = Home::with(&server, Protocol::Chat);
    let run = home.run(["-p", "x", "--set", "retry.tries=1"]).expect(0);
    assert_eq!(run.stdout, "whole\n");
}

/// Before the first message, so that it is not refused.
#[test]
fn a_server_is_asked_for_its_window() {
    let pages = [
        // vLLM, llama.cpp, LM Studio, Ollama
        (
            "/v1/models",
            json!({"data": [{"id": "test-model", "max_model_len": 40_960}]}),
            40_960,
        ),
        (
            "/props",
            json!({"default_generation_settings": {"n_ctx": 40_960}, "total_slots": 1}),
            40_960,
        ),
        (
            "/api/v0/models",
            json!({"data": [{"id": "test-model", "max_context_length": 131_072, "loaded_context_length": 8_192}]}),
            8_192,
        ),
        (
            "/api/ps",
            json!({"models": [{"name": "test-model:latest", "context_length": 4_096}]}),
            4_096,
        ),
    ];
    for (protocol, (path, page, window)) in Protocol::ALL.into_iter().zip(pages) {
        let options = Options {
            pages: vec![(path, page)],
            limit_tokens: Some(window),
            ..Options::default()
        };
        let server = Server::start_with(options, |_| Says::text("come in").into());
        let home = Home::with(&server, protocol);
        let run = streamed(&home, &["-p", "x"]).expect(0);
        let learnt: Vec<u64> = run
            .events()
            .iter()
            .filter(|line| line["type"] == "entry.learned")
            .map(|line| line["limit"].as_u64().unwrap())
            .collect();
        assert_eq!(learnt, [window], "{protocol:?}: {path}");
        let refused = server.requests().iter().filter(|r| r.status != 200).count();
        assert_eq!(refused, 0, "{protocol:?}: {path}");
        server.assert_no_violations();
        // What the config says is not asked for.
        let own = "[models.\"local/test-model\"]\ncontext_window = 100000\n";
        home.configure(&server, protocol, own);
        let run = streamed(&home, &["-p", "x"]).expect(0);
        let is_learnt = |line: &Value| line["type"] == "entry.learned";
        assert!(!run.events().iter().any(is_learnt));
    }
}

/// A llama.cpp whose slots share their memory refuses a request without a figure, although it fits
/// the window that it names.
#[test]
fn a_refusal_without_a_figure_shrinks_no_window_for_good() {
    let page = json!({"default_generation_settings": {"n_ctx": 40_960}, "total_slots": 4});
    // How many requests are refused in a row, and what follows from it.
    // A refusal in the middle of a stream is billed, so the log is longer at the second one.
    let streamed_refusal = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"some words\"}}}}]}}\n\ndata: {}\n\n",
        TOO_LONG[1].1
    );
    for (refused, is_learnt, in_stream) in [
        (1, false, false),
        (2, true, false),
        (1, false, true),
        (2, true, true),
    ] {
        let body = match in_stream {
            true => streamed_refusal.clone(),
            false => TOO_LONG[1].1.to_string(),
        };
        let options = Options {
            pages: vec![("/props", page.clone())],
            ..Options::default()
        };
        let asked = AtomicUsize::new(0);
        let server = Server::start_with(options, move |_| {
            match asked.fetch_add(1, Ordering::Relaxed) < refused {
                true if in_stream => Answer::Raw {
                    status: 200,
                    content_type: "text/event-stream",
                    body: body.clone(),
                },
                true => Answer::Raw {
                    status: 500,
                    content_type: "application/json",
                    body: body.clone(),
                },
                false => Says::text("it fits now").into(),
            }
        });
        let home = Home::with(&server, Protocol::Chat);
        let args = ["-p", "x", "--set", "retry.tries=1"];
        let run = streamed(&home, &args).expect(0);
        let guesses: Vec<Value> = entries(&home, &newest(&home), "learned")
            .into_iter()
            .filter(|entry| entry["guess"] == true)
            .collect();
        assert_eq!(guesses.len(), usize::from(is_learnt), "{run:?}");
        let words = ["a request that fits its window", "it is sent once more"];
        assert_has(&run.stderr, &words);
        let sends_less = run.stderr.contains("until a longer request succeeds");
        assert_eq!(sends_less, is_learnt, "{run:?}");
        // And no later session is held to it.
        let listed = home.run(["models", "--learnt"]).expect(0).stdout;
        assert!(
            listed.contains("40960") && !listed.contains("4000"),
            "{listed}"
        );
    }
}

/// A server without tools, or the config, makes the text at the end of an answer a call: it is judged
/// like any other, and the model is told once.
#[test]
fn calls_in_text_count_for_a_model_without_tools() {
    let caps = |tools: bool| json!({ "chat_template": "x", "chat_template_caps": { "supports_tools": tools } });
    let set = |value: &str| format!("\n[models.\"local/test-model\"]\ncalls_in_text = {value}\n");
    for (has_tools, config, counts) in [
        (false, String::new(), true),
        (true, String::new(), false),
        (true, set("true"), true),
        (false, set("false"), false),
    ] {
        let options = Options {
            pages: vec![("/props", caps(has_tools))],
            ..Options::default()
        };
        let server = Server::start_with(options, |seen| {
            let call = |name: &str, arguments: Value| {
                let call = json!({ "name": name, "arguments": arguments });
                Answer::text(format!("I look.\n<tool_call>\n{call}\n</tool_call>"))
            };
            match seen.turn {
                0 => call("glob", json!({ "pattern": "*" })),
                1 => call("bash", json!({ "command": "touch denied" })),
                _ => Answer::text("done"),
            }
        });
        let home = Home::new();
        home.configure(&server, Protocol::Chat, &config);
        std::fs::write(home.workspace().join("found.txt"), "").unwrap();
        let run = streamed(&home, &["-p", "x"]);
        let session = newest(&home);
        let ended = entries(&home, &session, "finished");
        assert_eq!(ended.len(), if counts { 2 } else { 0 }, "{run:?}");
        if counts {
            assert!(ended[0].to_string().contains("found.txt"), "{ended:?}");
            assert!(ended[1].to_string().contains("denied"), "{ended:?}");
            let replies = entries(&home, &session, "replied");
            assert_eq!(replies[0]["blocks"][0]["text"], "I look.");
        }
        assert!(!home.workspace().join("denied").exists());
        let notes = entries(&home, &session, "noted");
        let is_note = |note: &&Value| note["text"].as_str().is_some_and(|t| t.contains("as text"));
        let told = notes.iter().filter(is_note).count();
        assert_eq!(told, usize::from(counts), "{notes:?}");
        server.assert_no_violations();
    }
}

/// At llama.cpp and at Ollama, once in each process.
#[test]
fn a_model_without_tools_is_reported_at_the_start() {
    let caps = |tools: bool| json!({ "chat_template": "x", "chat_template_caps": { "supports_tools": tools } });
    let ollama = |tools: &str| {
        vec![
            ("/api/ps", json!({ "models": [] })),
            (
                "/api/show",
                json!({ "capabilities": ["completion", tools] }),
            ),
        ]
    };
    for (pages, way_out) in [
        (vec![("/props", caps(false))], Some("--jinja")),
        (vec![("/props", caps(true))], None),
        (ollama("vision"), Some("ollama show")),
        (ollama("tools"), None),
        (
            vec![("/props", json!("<html>")), ("/api/ps", json!([]))],
            None,
        ),
    ] {
        let options = Options {
            pages,
            ..Options::default()
        };
        let server = Server::start_with(options, |seen| match seen.turn {
            0 => Says::call("glob", json!({ "pattern": "*" })).into(),
            _ => Answer::text("done"),
        });
        let home = Home::with(&server, Protocol::Chat);
        let run = home.run(["-p", "x"]).expect(0);
        let said = run
            .stderr
            .matches("local/test-model cannot call tools")
            .count();
        assert_eq!(said, usize::from(way_out.is_some()), "{}", run.stderr);
        assert!(
            run.stderr.contains(way_out.unwrap_or_default()),
            "{}",
            run.stderr
        );
        server.assert_no_violations();
    }
}

#[test]
fn a_limit_by_time_is_waited_for_and_what_never_succeeds_is_not() {
    for protocol in Protocol::ALL {
        let asked = AtomicUsize::new(0);
        let server = Server::start(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
            0..8 => Answer::Error {
                status: 429,
                message: "Rate limit reached. Please try again in 5ms.".into(),
                retry_after_secs: None,
            },
            _ => Says::text("at last").into(),
        });
        let home = Home::with(&server, protocol);
        let run = streamed(&home, &["-p", "x", "--set", "retry.base_ms=1"]).expect(0);
        assert_eq!(server.requests().len(), 9, "{protocol:?}");
        let lines = run.events();
        let retries: Vec<&Value> = lines.iter().filter(|l| l["type"] == "retry").collect();
        assert_eq!(retries.len(), 8);
        assert!(retries.iter().all(|l| l["until_ms"].as_i64().unwrap() > 0));

        // The time that is configured is all there is.
        let server = Server::start(|_| Answer::Error {
            status: 429,
            message: "Please try again in 20s.".into(),
            retry_after_secs: None,
        });
        home.configure(&server, protocol, "");
        let run = home.run(["-p", "-c", "x", "--set", "retry.max_wait_ms=1000"]);
        refused(run, 75, &["20 s", "retry.max_wait_ms"]);

        let server = Server::start(|_| Answer::Error {
            status: 500,
            message: "tools param requires --jinja flag".into(),
            retry_after_secs: None,
        });
        home.configure(&server, protocol, "");
        refused(
            home.run(["-p", "-c", "x"]),
            1,
            &["llama-server with --jinja"],
        );
        assert_eq!(server.requests().len(), 1, "it is not tried again");
    }
}

/// What a request says of the effort.
fn effort_in(json: &Value, protocol: Protocol) -> Value {
    match protocol {
        Protocol::Chat => json["reasoning_effort"].clone(),
        Protocol::Responses => json["reasoning"]["effort"].clone(),
        Protocol::Anthropic => json["thinking"]["budget_tokens"].clone(),
        Protocol::Gemini => json["generationConfig"]["thinkingConfig"]["thinkingLevel"].clone(),
    }
}

#[test]
fn an_effort_is_sent_in_every_protocol_and_holds_after_a_restart() {
    for protocol in Protocol::ALL {
        let seen_last = Arc::new(Mutex::new(Arc::new(Value::Null)));
        let keep = Arc::clone(&seen_last);
        let server = Server::start(move |seen| {
            *keep.lock().unwrap() = Arc::clone(&seen.json);
            Says::text("fine").into()
        });
        let home = Home::with(&server, protocol);
        let last = |args: &[&str]| {
            quiet(&home.run(args.iter().copied()).expect(0));
            let json = Arc::clone(&seen_last.lock().unwrap());
            let temperature = match protocol {
                Protocol::Gemini => json["generationConfig"]["temperature"].clone(),
                _ => json["temperature"].clone(),
            };
            (effort_in(&json, protocol), temperature)
        };
        let high = match protocol {
            Protocol::Anthropic => json!(4_095),
            _ => json!("high"),
        };
        let low = match protocol {
            Protocol::Anthropic => json!(4_095),
            _ => json!("low"),
        };
        assert_eq!(
            last(&["-p", "x"]),
            (Value::Null, Value::Null),
            "{protocol:?}"
        );
        let flags = ["-p", "x", "--effort", "high", "--set", "temperature=0.5"];
        // With thinking, Anthropic takes no temperature.
        let temperature = match protocol {
            Protocol::Anthropic => Value::Null,
            _ => json!(0.5),
        };
        assert_eq!(
            last(&flags),
            (high.clone(), temperature.clone()),
            "{protocol:?}"
        );
        assert_eq!(
            last(&["-p", "-c", "more"]),
            (high, temperature.clone()),
            "{protocol:?}"
        );
        let low_now = last(&["-p", "-c", "more", "--effort", "low"]);
        assert_eq!(low_now, (low.clone(), temperature), "{protocol:?}");
        let more = "[models.\"local/test-model\"]\neffort = \"low\"\n";
        home.configure(&server, protocol, more);
        assert_eq!(last(&["-p", "another"]), (low, Value::Null), "{protocol:?}");
        server.assert_no_violations();
    }
}

#[test]
fn another_model_answers_when_the_own_one_is_overloaded() {
    let server = Server::start(|seen| match seen.model.as_str() {
        "test-model" | "second" => Answer::error(503, "no capacity"),
        _ => Says::text("here I am").into(),
    });
    let home = Home::with(&server, Protocol::Chat);
    let more =
        "fallback_model = [\"local/second\", \"local/third\"]\n[retry]\ntries = 2\nbase_ms = 1\n";
    home.configure(&server, Protocol::Chat, more);
    let asked = || -> Vec<String> { server.requests().iter().map(|r| r.model.clone()).collect() };
    let run = home.run(["-p", "x"]).expect(0);
    assert_eq!(run.stdout, "here I am\n");
    let said = "local/third answers in its place until the next prompt";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    let order = ["test-model", "test-model", "second", "second", "third"];
    assert_eq!(asked(), order);
    // The next message goes to the own model again.
    let run = home
        .run(["-p", "-c", "more", "--output-format", "stream-json"])
        .expect(0);
    assert_eq!(asked()[5..], order);
    let lines: Vec<Value> = run
        .stdout
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let change = lines.iter().find(|l| l["type"] == "entry.chose").unwrap();
    assert_eq!(change["fallback"]["model"], "local/second");
    assert_eq!(change["fallback"]["error"]["class"], "overloaded");
    server.assert_no_violations();
}

#[test]
fn a_refused_key_causes_no_fallback_to_another_model() {
    let server = Server::start(|seen| match seen.model.as_str() {
        "test-model" => Answer::error(401, "bad key"),
        _ => Says::text("never").into(),
    });
    let home = Home::with(&server, Protocol::Chat);
    home.configure(
        &server,
        Protocol::Chat,
        "fallback_model = [\"local/second\"]\n",
    );
    refused(home.run(["-p", "x"]), 1, &["LOCAL_KEY"]);
    assert_eq!(server.requests().len(), 1);
    // One that could not be asked is left out, with a word.
    home.configure(&server, Protocol::Chat, "fallback_model = [\"groq/x\"]\n");
    let run = home.run(["-p", "x"]).expect(1);
    assert!(
        run.stderr.contains("fallback_model groq/x is left out"),
        "{}",
        run.stderr
    );
    home.configure(&server, Protocol::Chat, "fallback_model = [\"grok/x\"]\n");
    let run = home.run(["-p", "x"]).expect(2);
    assert!(
        run.stderr.contains("did you mean \"groq\""),
        "{}",
        run.stderr
    );
}

/// Answers of gateways, for the model NAME.
const GONE: [(u16, &str); 6] = [
    (
        403,
        r#"{"error":{"code":"no_access","message":"No access to model: NAME"}}"#,
    ),
    (
        401,
        r#"{"type":"error","error":{"type":"ModelError","message":"Model NAME is not supported"}}"#,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Unsupported model: NAME"}}"#,
    ),
    (
        404,
        r#"{"code":404,"reason":"MODEL_NOT_FOUND","message":"no"}"#,
    ),
    (
        404,
        r#"{"errors":[{"code":"model_withdrawn","message":"It has been withdrawn."}]}"#,
    ),
    (
        410,
        r#"{"error":{"message":"This model was sunset on 2026-11-01."}}"#,
    ),
];

#[test]
fn a_model_that_is_gone_in_the_words_of_a_gateway_goes_to_the_fallback() {
    for protocol in [Protocol::Chat, Protocol::Anthropic] {
        let server = Server::start(|seen| match seen.model.strip_prefix("old-") {
            Some(number) => {
                let (status, body) = GONE[number.parse::<usize>().unwrap()];
                Answer::Raw {
                    status,
                    content_type: "application/json",
                    body: body.replace("NAME", &seen.model),
                }
            }
            None => Says::text(format!("I am {}.", seen.model)).into(),
        });
        let home = Home::with(&server, protocol);
        let more = "fallback_model = [\"local/second\"]\n";
        home.configure(&server, protocol, more);
        for (number, (_, body)) in GONE.iter().enumerate() {
            let model = format!("local/old-{number}");
            let run = home.run(["-p", "-m", &model, "x"]).expect(0);
            assert_eq!(run.stdout, "I am second.\n", "{protocol:?} {body}");
        }
    }
}

#[test]
fn an_error_that_names_the_model_names_another_way() {
    for protocol in [Protocol::Chat, Protocol::Anthropic] {
        let server = Server::start(|_| Answer::Raw {
            status: 403,
            content_type: "application/json",
            body: r#"{"model":"test-model"}"#.into(),
        });
        let home = Home::with(&server, protocol);
        let hints = ["check the key", "or choose another model: -m ", "/model"];
        refused(home.run(["-p", "x"]), 1, &hints);
    }
}

#[test]
fn a_used_up_quota_goes_to_the_fallback_and_is_an_error_without_one() {
    let day = json!({"error": {"code": 429, "message": "You exceeded your current quota", "status": "RESOURCE_EXHAUSTED",
        "details": [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}, {"retryDelay": "34s"}]}});
    let month = json!({"error": {"message": "You have reached your monthly usage limit.", "type": "rate_limit_error"}});
    let credit = json!({"error": {"code": 402, "message": "Insufficient credits"}});
    for (status, body) in [(429, day), (429, month), (402, credit)] {
        for protocol in Protocol::ALL {
            let body = body.to_string();
            let server = Server::start(move |seen| match seen.model.as_str() {
                "test-model" => Answer::Raw {
                    status,
                    content_type: "application/json",
                    body: body.clone(),
                },
                model => Says::text(format!("I am {model}.")).into(),
            });
            let home = Home::with(&server, protocol);
            refused(home.run(["-p", "x"]), 1, &["hint: "]);
            let more = "fallback_model = [\"local/second\"]\n";
            home.configure(&server, protocol, more);
            let run = streamed(&home, &["-p", "x"]).expect(0);
            let events = run.events();
            let chose = events.iter().find(|e| e["type"] == "entry.chose").unwrap();
            assert_eq!(chose["fallback"]["error"]["class"], "used_up");
            // Waiting does not help, so each is asked once.
            assert_eq!(asked(&server), ["test-model", "test-model", "second"]);
        }
    }
}

#[test]
fn without_a_fallback_a_retired_model_names_the_way_out() {
    for protocol in Protocol::ALL {
        let server = without(protocol, &["test-model"]);
        let home = Home::with(&server, protocol);
        refused(home.run(["-p", "x"]), 1, &["test-model", "-m ", "/model"]);
        assert_eq!(asked(&server).len(), 1, "{protocol:?}");
        refused(home.run(["-p", "-c", "x"]), 1, &["-m "]);
        let run = home.run(["-p", "-c", "-m", "local/new", "x"]).expect(0);
        assert_eq!(run.stdout, "I am new.\n");
        // The choice is a part of the session.
        let run = home.run(["-p", "-c", "and on"]).expect(0);
        assert_eq!(run.stdout, "I am new.\n");
    }
}

#[test]
fn an_address_that_does_not_exist_is_no_retired_model() {
    let server = Server::start(|seen| match seen.model.as_str() {
        "test-model" => Answer::Raw {
            status: 404,
            content_type: "text/html",
            body: "<html>the URL /v1/models was not found</html>".into(),
        },
        _ => Says::text("never").into(),
    });
    let home = Home::with(&server, Protocol::Chat);
    let more = "fallback_model = [\"local/second\"]\n";
    home.configure(&server, Protocol::Chat, more);
    refused(home.run(["-p", "x"]), 1, &["base_url"]);
    assert_eq!(asked(&server), ["test-model"]);
}

#[test]
fn a_retired_summary_model_goes_to_the_fallback() {
    let server = without(Protocol::Chat, &["test-summary", "second"]);
    let home = Home::with(&server, Protocol::Chat);
    let more = "fallback_model = [\"local/second\", \"local/third\"]\n";
    home.configure(&server, Protocol::Chat, more);
    home.run(["-p", "one"]).expect(0);
    home.run(["-p", "-c", "two"]).expect(0);
    let run = home.run(["compact", &newest(&home)]).expect(0);
    let said = "is not there for summaries and titles, so local/third is asked";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    assert!(
        !run.stderr.contains("a digest from the log"),
        "{}",
        run.stderr
    );
    assert_eq!(asked(&server)[2..], ["test-summary", "second", "third"]);
}

#[test]
fn a_subagent_with_a_retired_model_goes_to_the_fallback_or_says_so() {
    let server = Server::start(|seen| {
        let is_child = seen.json.to_string().contains("You are a subagent");
        match (is_child, seen.turn, seen.model.as_str()) {
            (true, _, "test-model") => gone(Protocol::Chat, &seen.model),
            (true, ..) => Says::text("the child's answer").into(),
            (false, 0, _) => Answer::call(
                "task",
                json!({"description": "count", "prompt": "count the files"}),
            ),
            (false, ..) => Says::text(seen.last_result()).into(),
        }
    });
    let home = Home::with(&server, Protocol::Chat);
    let run = home.run(["-p", "x", "--yolo"]).expect(0);
    assert!(run.stdout.contains("model_not_found") || run.stdout.contains("has been deprecated"));
    let more = "fallback_model = [\"local/second\"]\n";
    home.configure(&server, Protocol::Chat, more);
    let run = home.run(["-p", "x", "--yolo"]).expect(0);
    assert!(run.stdout.contains("the child's answer"), "{}", run.stdout);
}

#[test]
fn the_end_of_a_model_in_use_is_told_at_the_start_and_by_doctor() {
    let server = without(Protocol::Chat, &[]);
    let home = Home::with(&server, Protocol::Chat);
    let ends = |model: &str, day: &str| {
        let more =
            format!("fallback_model = [\"local/second\"]\n[models.{model:?}]\nends = {day:?}\n");
        home.configure(&server, Protocol::Chat, &more);
    };
    let said = "has ended: its provider does not offer it since 2001-02-03 on";
    for model in ["local/test-model", "local/second", "local/test-summary"] {
        ends(model, "2001-02-03");
        let run = home.run(["-p", "x"]).expect(0);
        assert!(
            run.stderr.contains(&format!("{model} {said}")),
            "{}",
            run.stderr
        );
        let doctor = home.run(["doctor"]).stdout;
        assert!(doctor.contains(&format!("{model} {said}")), "{doctor}");
        ends(model, "9999-01-01");
        let run = home.run(["-p", "x"]).expect(0);
        assert!(!run.stderr.contains("has ended"), "{}", run.stderr);
        assert!(!run.stderr.contains("ends in"), "{}", run.stderr);
    }
    ends("local/test-model", "soon");
    refused(home.run(["-p", "x"]), 2, &["ends"]);
}
