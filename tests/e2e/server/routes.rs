//! Every route, as a script uses it; and that the subcommands print the same objects.

use rewake::core::entry::Entry;
use rewake::store::{Batch, Store, now_ms};
use serde_json::{Value, json};

use crate::scenes::{asking, calling};
use crate::server::client::Serve;
use crate::server::{SCRIPTED, done_session, scripted, step, writes};
use support::mcp_server::{Gives, McpServer, without_handshake};

#[test]
fn the_subcommands_print_what_the_routes_give() {
    let plan =
        json!({"steps": [{"text": "look", "state": "done"}, {"text": "mend", "state": "current"}]});
    let home = scripted(&[step("I plan.", &[("plan", plan)]), step("all said", &[])]);
    let id = done_session(&home, "find the walrus");
    done_session(&home, "something else");
    let server = Serve::start(&home, &["--scope", "read"]);
    let printed = |args: &[&str]| home.run(args).expect(0).stdout.trim_end().to_string();
    let folder = home.workspace();
    let folder = folder.to_str().unwrap();
    for (args, path) in [
        (vec!["history", "--json"], "/agent/history".to_string()),
        (
            vec!["history", "walrus", "--json", "--limit", "5"],
            "/agent/history?q=walrus&limit=5".to_string(),
        ),
        (
            vec!["history", "--json", "--folder", folder],
            format!("/agent/history?folder={}", folder.replace(' ', "%20")),
        ),
        (vec!["show", &id, "--json"], format!("/sessions/{id}")),
        (vec!["approvals", "--json"], "/questions".to_string()),
    ] {
        let given = server.get(&path).expect(200);
        assert_eq!(printed(&args), given.text(), "{path}");
    }
    let found = server.get("/agent/history?q=walrus").json();
    assert_eq!(found["sessions"].as_array().unwrap().len(), 1, "{found:#}");
    let session = &found["sessions"][0];
    assert_eq!(session["id"], id.as_str());
    assert_eq!(session["state"], "done");
    assert_eq!(session["plan"]["steps"][1]["state"], "current");
    assert!(
        session["found"]["snippet"]
            .as_str()
            .unwrap()
            .contains("walrus")
    );
    assert_eq!(session["checkpoints"].as_array().unwrap().len(), 3);
}

#[test]
fn the_history_is_read_page_by_page() {
    let home = scripted(&[step("ok", &[])]);
    let mut ids: Vec<String> = (0..5)
        .map(|n| done_session(&home, &format!("task {n}")))
        .collect();
    ids.reverse();
    let server = Serve::start(&home, &["--scope", "read"]);
    let (mut seen, mut path) = (Vec::new(), "/agent/history?limit=2".to_string());
    loop {
        let page = server.get(&path).expect(200).json();
        let sessions = page["sessions"].as_array().unwrap();
        seen.extend(
            sessions
                .iter()
                .map(|s| s["id"].as_str().unwrap().to_string()),
        );
        match page["next"].as_i64() {
            Some(next) => path = format!("/agent/history?limit=2&before={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ids);
    let none = server.get("/agent/history?folder=/nowhere").json();
    assert_eq!(none, json!({"sessions": [], "next": null}));
}

#[test]
fn a_session_is_read_whole() {
    let home = scripted(&[
        step("ok", &[("bash", json!({"command": "echo hello"}))]),
        step("done", &[]),
    ]);
    let id = done_session(&home, "say hello");
    let server = Serve::start(&home, &["--scope", "read"]);
    let session = server.get(&format!("/sessions/{id}")).expect(200).json();
    let length = session["entries"].as_u64().unwrap();
    let (mut seen, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let path = format!("/sessions/{id}/entries?from={from}&to={}", from + 2);
        let part = server.get(&path).expect(200).json();
        seen.extend(part["entries"].as_array().unwrap().clone());
        next = part["next"].as_u64();
    }
    let seqs: Vec<u64> = seen.iter().map(|e| e["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (0..length).collect::<Vec<_>>());
    let streamed = home.run(["export", &id, "--json"]).expect(0).stdout;
    let exported: Value = serde_json::from_str(&streamed).unwrap();
    assert_eq!(exported["records"].as_array().unwrap().len(), seen.len());
    // By the beginning of its id, too.
    let short = server
        .get(&format!("/sessions/{}", &id[..13]))
        .expect(200)
        .json();
    assert_eq!(short["id"], id.as_str());
    let checkpoints = server
        .get(&format!("/sessions/{id}/checkpoints"))
        .expect(200)
        .json();
    assert!(checkpoints["checkpoints"].as_array().unwrap().len() >= 3);
    let empty = server
        .get(&format!("/sessions/{id}/entries?from=9999"))
        .expect(200);
    assert_eq!(empty.json()["entries"], json!([]));
}

/// The server folds a session once. So an entry that is damaged after that is not noticed, because
/// only new entries are read. If the session has fewer entries, it is folded again.
#[test]
fn only_new_entries_are_read_of_a_session_that_is_known() {
    let home = scripted(&[
        step("ok", &[("bash", json!({"command": "echo hello"}))]),
        step("done", &[]),
    ]);
    let id = done_session(&home, "say hello");
    let server = Serve::start(&home, &[]);
    let path = format!("/sessions/{id}");
    let get = || server.get(&path).expect(200).json();
    let database = rusqlite::Connection::open(home.rewake_home().join("rewake.db")).unwrap();
    let change = |sql: &str| assert_eq!(database.execute(sql, []).unwrap(), 1, "{sql}");
    let mut store = Store::open(&home.rewake_home()).unwrap();
    let (mut head, _) = store.load(&id).unwrap();
    let before = get();

    let kind = "SELECT kind FROM entries WHERE seq = 1";
    let kind: String = database.query_row(kind, [], |row| row.get(0)).unwrap();
    change("UPDATE entries SET kind = 'paused' WHERE seq = 1");
    assert_eq!(get(), before);
    let batch = Batch {
        at_ms: now_ms(),
        entries: vec![Entry::Paused { origin: None }],
        ..Batch::default()
    };
    store.append(&mut head, &batch).unwrap();
    let paused = get();
    assert_eq!(paused["paused"], true, "{paused:#}");
    assert_eq!(
        paused["entries"].as_u64(),
        before["entries"].as_u64().map(|n| n + 1)
    );

    let fewer = "UPDATE sessions SET length = length - 1,
      head = (SELECT parent FROM entries WHERE id = head)";
    change(fewer);
    assert_eq!(server.get(&path).status, 500, "the damage is found now");
    change(&format!("UPDATE entries SET kind = '{kind}' WHERE seq = 1"));
    let again = get();
    assert_eq!(again["paused"], false, "{again:#}");
    assert_eq!(again["entries"], before["entries"]);
}

#[test]
fn a_blob_is_given_as_bytes_that_no_browser_shows() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &[]);
    let image = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/e2e/server/dot.png"
    ));
    let image = image.expect("an image");
    let data = base64(&image);
    server
        .post(
            &format!("/sessions/{id}/messages"),
            &json!({"text": "see", "images": [{"data": data}]}),
        )
        .expect(202);
    let hash = blake3_of(&home.rewake_home(), &id);
    let blob = server
        .get(&format!("/sessions/{id}/blobs/{hash}"))
        .expect(200);
    assert_eq!(blob.body, image);
    assert!(
        blob.has_header("content-type: application/octet-stream"),
        "{}",
        blob.head
    );
    assert!(blob.has_header("content-disposition: attachment"));
    // As an image it has its type, by its bytes and not by what anybody says of them.
    let shown = server
        .get(&format!("/sessions/{id}/blobs/{hash}?as=image"))
        .expect(200);
    assert_eq!(shown.body, image);
    for line in [
        "content-type: image/png",
        "content-disposition: attachment",
        "x-content-type-options: nosniff",
    ] {
        assert!(shown.has_header(line), "{}", shown.head);
    }
    let other = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>";
    let mut store = Store::open(&home.rewake_home()).unwrap();
    let message = rewake::store::Message {
        text: "see".into(),
        images: vec![],
        via: rewake::core::entry::Via::Signal,
        command: None,
        origin: None,
    };
    let blobs = [other.to_vec(), wide_gif()];
    store.inbox_mut().queue(&id, &message, &blobs, 1).unwrap();
    for (bytes, words) in [
        (&other[..], "not a PNG, JPEG, GIF or WebP"),
        (&wide_gif(), "too many to be shown"),
    ] {
        let hash = rewake::store::blob_ref(bytes).hash;
        let path = format!("/sessions/{id}/blobs/{hash}?as=image");
        server.get(&path).refused(400, words);
    }
    server
        .get(&format!("/sessions/{id}/blobs/{hash}?as=html"))
        .refused(400, "query makes no sense");
    for wrong in ["x", &"0".repeat(64), "..%2f..%2fserve.token"] {
        server
            .get(&format!("/sessions/{id}/blobs/{wrong}"))
            .refused(404, "blob");
    }
}

/// The change that a question asks about, for who may answer it.
#[test]
fn the_change_of_a_question_is_given_to_who_may_answer() {
    let home = scripted(&[
        step("", &[("read", json!({"path": "f"}))]),
        step(
            "",
            &[("write", json!({"path": "f", "content": "written\n"}))],
        ),
        step("done", &[]),
    ]);
    std::fs::write(home.path("f"), "was\n").unwrap();
    let _live = asking(&home, "do it");
    let mut server = Serve::start(&home, &[]);
    let asked = server.get("/questions").json();
    let (id, call) = (
        asked[0]["session"].as_str().unwrap(),
        asked[0]["call"].as_str().unwrap(),
    );
    let path = format!("/sessions/{id}/calls/{call}/change");
    let change = server.get(&path).expect(200).json();
    assert_eq!(
        change,
        json!({
            "session": id, "call": call, "path": "f", "is_new": false,
            "diff": "@@ -1 +1 @@\n-was\n+written\n", "why": null,
        })
    );
    server
        .get(&format!("/sessions/{id}/calls/99.0/change"))
        .refused(409, "does not ask");
    server
        .get(&format!("/sessions/{id}/calls/x/change"))
        .refused(400, "names no call");
    let tokens = std::fs::read_to_string(home.rewake_home().join("keys/.serve.token")).unwrap();
    let read = tokens.lines().find_map(|line| line.strip_prefix("read "));
    server.token = read.unwrap().to_string();
    server.get(&path).refused(403, "needs control");
}

/// A few bytes that a browser would need 256 MB for.
pub fn wide_gif() -> Vec<u8> {
    let side = 8_000_u16.to_le_bytes();
    let size = [side, side].concat();
    let picture = [&[0x2c, 0, 0, 0, 0][..], &size, &[0, 2, 2, 0x4c, 1, 0, 0x3b]].concat();
    [&b"GIF89a"[..], &size, &[0, 0, 0], &picture].concat()
}

pub fn blake3_of(home: &std::path::Path, id: &str) -> String {
    let store = Store::open(home).unwrap();
    let queued = store.inbox().queued(id).unwrap();
    queued[0].message.images[0].blob.hash.clone()
}

pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number =
            three.iter().fold(0_u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

#[test]
fn words_wait_or_start_the_session() {
    let home = scripted(&[step("one", &[]), step("two", &[]), step("three", &[])]);
    let id = done_session(&home, "first");
    let server = Serve::start(&home, &[]);
    let path = format!("/sessions/{id}/messages");
    let kept = server
        .post(&path, &json!({"text": "later"}))
        .expect(202)
        .json();
    assert_eq!(
        (&kept["became"], &kept["started"]),
        (&json!("kept"), &json!(false))
    );
    let session = server.get(&format!("/sessions/{id}")).json();
    assert_eq!(session["queued"][0]["text"], "later");
    assert_eq!(session["queued"][0]["origin"], "http");
    let started = server
        .post(&path, &json!({"text": "now", "start": true}))
        .expect(202)
        .json();
    assert_eq!(started["started"], true);
    let is_done = |s: &Value| s["queued"] == json!([]) && s["state"] == "done";
    server.until(&format!("/sessions/{id}"), is_done);
    let entries = server.get(&format!("/sessions/{id}/entries")).json();
    let said = entries["entries"].as_array().unwrap().iter();
    let said: Vec<&str> = said
        .filter_map(|e| e["text"].as_str().filter(|_| e["type"] == "entry.said"))
        .collect();
    assert_eq!(said, ["first", "later", "now"]);
}

#[test]
fn orders_and_settings_become_entries() {
    let home = writes();
    let _live = asking(&home, "do it");
    let server = Serve::start(&home, &[]);
    let listed = server.get("/agent/history").json();
    let id = listed["sessions"][0]["id"].as_str().unwrap();
    let path = |more: &str| format!("/sessions/{id}{more}");
    server.post(&path("/pause"), &json!({})).expect(202);
    server.until(&path(""), |s| s["paused"] == true);
    let chosen = json!({"title": "The title", "effort": "high", "temperature": 0.5, "turns": 20, "usd": 3.5});
    let accepted = server.send("PATCH", &path(""), &chosen).expect(202).json();
    assert_eq!(accepted["ids"].as_array().unwrap().len(), 3);
    let session = server.until(&path(""), |s| s["signals"] == 0);
    assert_eq!(session["title"], "The title");
    assert_eq!(session["effort"], "high");
    assert_eq!(session["temperature"], 0.5);
    assert_eq!(session["limits"]["usd"], 3.5);
    server
        .send("PATCH", &path(""), &json!({"no_limits": true}))
        .expect(202);
    server.until(&path(""), |s| s["limits"] == json!({}));
    // Nothing is sent when a part of it makes no sense.
    let half = json!({"effort": "low", "usd": -1.0});
    server
        .send("PATCH", &path(""), &half)
        .refused(400, "makes no sense");
    assert_eq!(server.get(&path("")).json()["effort"], "high");
    server.post(&path("/go"), &json!({})).expect(202);
    server.until(&path(""), |s| s["paused"] == false);
    let body = server.body("POST", &path("/stop"), "application/json", b"");
    assert_eq!(body.expect(202).json()["became"], "heard");
    server.until(&path(""), |s| s["state"] == "stopped" && s["live"] == false);
    let nothing = server.post(&path("/stop"), &json!({})).expect(202).json();
    assert_eq!(nothing["became"], "nothing_to_do");

    let fork = server
        .post(&path("/fork"), &json!({"at": 3}))
        .expect(201)
        .json();
    let copy = fork["session"].as_str().unwrap();
    let copy = server.get(&format!("/sessions/{copy}")).expect(200).json();
    assert_eq!(copy["forked_from"], json!({"session": id, "seq": 3}));
    server
        .post(&path("/fork"), &json!({"at": 9999}))
        .refused(404, "the last is");
}

#[test]
fn health_and_static_files_need_no_token() {
    let home = scripted(&[]);
    let mut server = Serve::start(&home, &[]);
    server.token.clear();
    assert_eq!(server.get("/health").expect(200).json()["status"], "ok");
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/app.js", "text/javascript; charset=utf-8"),
        ("/markdown.js", "text/javascript; charset=utf-8"),
        ("/style.css", "text/css; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
        ("/manifest.webmanifest", "application/manifest+json"),
        ("/openapi.json", "application/json"),
    ] {
        let reply = server.get(path).expect(200);
        assert!(
            reply.has_header(&format!("content-type: {kind}")),
            "{}",
            reply.head
        );
        for line in [
            "x-content-type-options: nosniff",
            "x-frame-options: DENY",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(
                reply.has_header(line),
                "{path} lacks {line}: {}",
                reply.head
            );
        }
        assert!(reply.head.contains("default-src 'self'"), "{}", reply.head);
        assert!(!reply.head.to_lowercase().contains("access-control"));
        assert!(!reply.head.to_lowercase().contains("set-cookie"));
    }
    let manifest = server.get("/manifest.webmanifest").json();
    assert_eq!(manifest["start_url"], "/");
    assert!(!manifest.to_string().contains("token"));
    let script = server.get("/app.js").text() + &server.get("/markdown.js").text();
    for word in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "localStorage",
        "http://",
        "https://",
    ] {
        assert!(!script.contains(word), "the page has {word}");
    }
    let page: usize = ["/", "/app.js", "/markdown.js", "/style.css", "/icon.svg"]
        .map(|path| server.get(path).body.len())
        .iter()
        .sum();
    assert!(page < 88_000, "the page has {page} bytes");
}

#[test]
fn a_guard_decides_about_calls_of_a_served_session() {
    let home = calling(&[("bash", json!({ "command": "touch ran" }))]);
    let guard = r#"{"hooks": {"PreToolUse": [{"hooks":
        [{"type": "command", "command": "echo not here >&2; exit 2"}]}]}}"#;
    std::fs::write(home.rewake_home().join("hooks.json"), guard).unwrap();
    let server = Serve::start(&home, &[]);
    let begin = json!({ "prompt": "go", "folder": home.workspace(), "mode": "acceptEdits" });
    let made = server.post("/sessions", &begin).expect(201).json();
    let path = format!("/sessions/{}/entries", made["session"].as_str().unwrap());
    let entries = server.until(&path, |entries| {
        entries.to_string().contains("entry.finished")
    });
    assert!(entries.to_string().contains("not here"), "{entries}");
    assert!(!home.path("ran").exists(), "{entries}");
}

/// A server that wants a name before it does anything.
fn asks_for_a_name() -> McpServer {
    McpServer::start(|asked| {
        without_handshake(asked).unwrap_or_else(|| {
            let answers = &asked.message()["params"]["inputResponses"];
            let schema = json!({ "type": "object", "required": ["name"],
                "properties": { "name": { "type": "string", "minLength": 2 } } });
            let form = json!({ "mode": "form", "message": "who?", "requestedSchema": schema });
            let request = json!({ "method": "elicitation/create", "params": form });
            let text = json!([{ "type": "text", "text": answers.to_string() }]);
            Gives::json(&asked.result(match answers.is_null() {
                true => json!({ "resultType": "input_required", "requestState": "s",
                    "inputRequests": { "who": request } }),
                false => json!({ "resultType": "complete", "content": text }),
            }))
        })
    })
}

#[test]
fn a_form_from_an_mcp_server_is_answered_over_http() {
    let far = asks_for_a_name();
    let call = json!({ "tool": "mcp__far__do", "arguments": {} });
    let home = scripted(&[
        step("", &[("mcp_find", json!({ "query": "" }))]),
        step("", &[("mcp_call", call)]),
        step("done", &[]),
    ]);
    home.write_config(&format!(
        "{SCRIPTED}[permissions]\nallow = [\"mcp__far\"]\n[mcp_servers.far]\nurl = \"{}\"\n",
        far.url()
    ));
    let server = Serve::start(&home, &[]);
    let begin = json!({"prompt": "ask it", "folder": home.workspace()});
    let made = server.post("/sessions", &begin).expect(201).json();
    let id = made["session"].as_str().unwrap();
    let asked = server.until("/questions", |asked| asked[0]["form"]["server"] == "far");
    assert_eq!(asked[0]["form"]["message"], "who?");
    let field = &asked[0]["form"]["wanted"]["fields"][0];
    assert_eq!(
        (&field["name"], &field["kind"]),
        (&json!("name"), &json!("text"))
    );
    let path = format!("/sessions/{id}/answers");
    for (body, why) in [
        (json!({"answer": "accept"}), "\"name\" is required"),
        (
            json!({"answer": "accept", "values": {"name": "x"}}),
            "from 2 characters",
        ),
        (
            json!({"answer": "accept", "values": {"age": 7}}),
            "no field",
        ),
        (
            json!({"answer": "decline", "values": {}}),
            "only what is accepted",
        ),
    ] {
        server.post(&path, &body).refused(400, why);
    }
    // It was meant for another question.
    let earlier = asked[0]["asked"].as_u64().unwrap() - 1;
    let other = json!({"answer": "decline", "asked": earlier});
    server
        .post(&path, &other)
        .refused(409, "asks something else");
    let verdicts = format!("/sessions/{id}/verdicts");
    let verdict = json!({"verdict": "allow"});
    server
        .post(&verdicts, &verdict)
        .refused(409, "far asks for something");
    let answer = json!({"answer": "accept", "call": asked[0]["call"], "asked": asked[0]["asked"],
        "values": {"name": "ada"}});
    let accepted = server.post(&path, &answer).expect(202).json();
    assert_eq!(accepted["became"], "heard");
    server.until(&format!("/sessions/{id}"), |s| s["state"] == "done");
    let told = far.posted("tools/call");
    assert_eq!(
        told[1].message()["params"]["inputResponses"]["who"]["content"]["name"],
        "ada"
    );
    server
        .post(&path, &answer)
        .refused(409, "does not ask about call");
}

#[test]
fn a_question_of_the_model_is_answered_over_http() {
    let question = json!({"questions": [{"question": "Which database?", "header": "Database",
        "options": [{"label": "SQLite"}, {"label": "PostgreSQL"}]}]});
    let home = calling(&[("ask_user", question)]);
    let server = Serve::start(&home, &[]);
    let begin = json!({"prompt": "choose", "folder": home.workspace()});
    let made = server.post("/sessions", &begin).expect(201).json();
    let id = made["session"].as_str().unwrap();
    let asked = server.until("/questions", |asked| asked[0]["form"]["wanted"].is_object());
    let fields = &asked[0]["form"]["wanted"]["fields"];
    assert_eq!(
        (&fields[0]["name"], &fields[1]["name"]),
        (&json!("q1"), &json!("q1_other"))
    );
    let path = format!("/sessions/{id}/answers");
    let wrong = json!({"answer": "accept", "values": {"q1": "MySQL"}});
    server.post(&path, &wrong).refused(400, "one of");
    let nothing = json!({"answer": "accept", "values": {}});
    server
        .post(&path, &nothing)
        .refused(400, "answers no question");
    let answer =
        json!({"answer": "accept", "asked": asked[0]["asked"], "values": {"q1": "SQLite"}});
    server.post(&path, &answer).expect(202);
    server.until(&format!("/sessions/{id}"), |s| s["state"] == "done");
    server.post(&path, &answer).refused(409, "asks nothing");
    let shown = server.get(&format!("/sessions/{id}/entries?from=1")).text();
    assert!(shown.contains("Database: SQLite"), "{shown}");
}
