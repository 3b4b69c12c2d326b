//! What sessions do to the machine, over HTTP: changed files, running commands, models; and rename,
//! fork, rewind and compact.

use serde_json::{Value, json};

use crate::scenes::{asking, calling};
use crate::server::client::{LIMIT, Serve};
use crate::server::{SCRIPTED, done_session, scripted, step, writes};
use support::{Home, run};

/// A session that wrote `f` twice, and its writing calls.
fn rewritten() -> (Home, String, [String; 2]) {
    let write = |text: &str| ("write", json!({"path": "f", "content": text}));
    let home = scripted(&[
        step("", &[write("one\ntwo\n")]),
        step("first", &[]),
        step("", &[("read", json!({"path": "f"})), write("one\n2\n")]),
        step("second", &[]),
    ]);
    let allow = ["--permission-mode", "acceptEdits"];
    let first = home
        .run(
            ["-p", "write it", "--output-format", "json"]
                .iter()
                .chain(&allow),
        )
        .expect(0);
    let result: Value = serde_json::from_str(&first.stdout).unwrap();
    let id = result["session"].as_str().unwrap().to_string();
    home.run(["-p", "-r", &id, "again"].iter().chain(&allow))
        .expect(0);
    let server = Serve::start(&home, &[]);
    let entries = server.get(&format!("/sessions/{id}/entries")).json();
    let started = entries["entries"].as_array().unwrap().iter();
    let started = started.filter(|e| e["type"] == "entry.started");
    let call = |e: &Value| format!("{}.{}", e["call"]["reply"], e["call"]["index"]);
    let calls: Vec<String> = started.map(call).collect();
    let (first, last) = (calls[0].clone(), calls[calls.len() - 1].clone());
    (home, id, [first, last])
}

fn place_of(server: &Serve, id: &str, is: impl Fn(&Value) -> bool) -> u64 {
    let entries = server.get(&format!("/sessions/{id}/entries")).json();
    let found = entries["entries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|e| is(e));
    found.expect("an entry")["seq"].as_u64().unwrap()
}

#[test]
fn each_call_has_the_diff_of_the_files_that_it_changed() {
    let (home, id, [first, last]) = rewritten();
    let server = Serve::start(&home, &["--scope", "read"]);
    let of = |call: &str| server.get(&format!("/sessions/{id}/calls/{call}/diff"));
    let new = of(&first).expect(200).json();
    assert_eq!(new["files"][0]["path"], "f");
    assert_eq!(new["files"][0]["lines"], json!([2, 0]));
    let diff = of(&last).expect(200).json();
    let lines = diff["files"][0]["diff"].as_str().unwrap();
    assert!(lines.contains("-two\n+2\n"), "{lines}");
    assert_eq!(diff["files"].as_array().unwrap().len(), 1);
    // A call that only reads changes nothing.
    let (reply, _) = last.split_once('.').unwrap();
    let read = of(&format!("{reply}.0")).expect(200).json();
    assert_eq!(read["files"], json!([]));
    of("x").refused(400, "calls 3.0");
    of("99.0").refused(404, "no entry");
    of("1.0").refused(409, "no result");

    let all = server
        .get(&format!("/sessions/{id}/diff"))
        .expect(200)
        .json();
    assert_eq!(
        (&all["files"][0]["path"], &all["more"]),
        (&json!("f"), &json!(0))
    );
    assert!(all["files"][0]["author"].is_string(), "{all}");
    // The same as on the command line.
    let printed = home.run(["diff", &id]).expect(0).stdout;
    let lines = all["files"][0]["diff"].as_str().unwrap();
    assert!(printed.contains(lines.trim_end()), "{printed}\n{lines}");
    let half = format!(
        "/sessions/{id}/diff?from={}",
        last.split_once('.').unwrap().0
    );
    let half = server.get(&half).expect(200).json();
    assert_eq!(half["files"][0]["figures"], "+1 −1");
    server
        .get(&format!("/sessions/{id}/diff?from=x"))
        .refused(400, "query");
}

#[test]
fn a_running_command_shows_its_output_and_is_stopped() {
    let command = json!({"command": "echo begins; until [ -e gate ]; do sleep 0.05; done"});
    let home = calling(&[("bash", command)]);
    let mut server = Serve::start(&home, &["--scope", "admin"]);
    let begin = json!({"prompt": "wait", "folder": home.workspace(), "mode": "bypassPermissions"});
    let made = server.post("/sessions", &begin).expect(201).json();
    let id = made["session"].as_str().unwrap();
    let path = format!("/ps?tail=4096&session={id}");
    let has_begun = |all: &Value| all[0]["tail"] == "begins\n";
    let running = server.until(&path, has_begun);
    assert_eq!(running[0]["kind"], "command");
    assert!(server.get("/ps").json()[0]["tail"].is_null());
    server.get("/ps?tail=999999").refused(400, "tail");
    let run = running[0]["id"].as_str().unwrap();
    server
        .post("/ps/nothing/stop", &json!({}))
        .refused(404, "no command");
    server
        .post("/ps/%20/stop", &json!({}))
        .refused(400, "empty");
    let stopped = server
        .post(&format!("/ps/{run}/stop"), &json!({}))
        .expect(202)
        .json();
    assert_eq!(stopped["became"], "stopping");
    server.until(&path, |all| *all == json!([]));
    server.until(&format!("/sessions/{id}"), |s| s["live"] == false);
    // The session has its result, and so the command is forgotten.
    server
        .post(&format!("/ps/{run}/stop"), &json!({}))
        .refused(404, "no command");
    // Another session runs nothing, and a name that no session has is an error.
    server.get("/ps?session=zzz").refused(404, "no session");
    server.token = "x".into();
    server.get("/ps").refused(401, "not known");
}

#[test]
fn models_are_listed_without_keys() {
    let home = scripted(&[]);
    let provider = "[providers.mine]\nprotocol = \"script\"\nscript = \"s\"\n\
                    [models.\"mine/large\"]\ncontext_window = 5000\n";
    home.write_config(&format!("{SCRIPTED}{provider}"));
    let server = Serve::start(&home, &["--scope", "read"]);
    let found = server.get("/models").expect(200).json();
    let all = found["models"].as_array().unwrap();
    let mine = all.iter().find(|m| m["provider"] == "mine").unwrap();
    assert_eq!(mine["context_window"], 5000);
    let printed = home.run(["models", "--json"]).expect(0).stdout;
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), found);
}

#[test]
fn a_title_applies_at_once_and_is_cut() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "Fix the parser. It fails.");
    let server = Serve::start(&home, &[]);
    let names = || {
        let listed = server.get("/agent/history").json()["sessions"][0]["name"].clone();
        let shown = server.get(&format!("/sessions/{id}")).json()["name"].clone();
        let printed = home.run(["show", &id]).expect(0).stdout;
        let title = printed
            .lines()
            .find_map(|line| line.strip_prefix("title     "));
        assert_eq!(listed, shown);
        assert_eq!(listed, title.unwrap());
        listed.as_str().unwrap().to_string()
    };
    assert_eq!(names(), "Fix the parser");
    let title = |title: &str| {
        let path = format!("/sessions/{id}");
        server.send("PATCH", &path, &json!({ "title": title }))
    };
    // Nobody has the session open, and still nothing waits.
    let done = title("  The\nparser ").expect(202).json();
    assert_eq!(
        (&done["became"], &done["ids"]),
        (&json!("done"), &json!([]))
    );
    assert_eq!(names(), "The");
    title(&"ä".repeat(10_000)).expect(202);
    let cut = names();
    assert_eq!(cut.chars().count(), 200, "{cut}");
    assert!(cut.starts_with("äää") && cut.ends_with('…'));
    title(" ").refused(400, "empty");
}

#[test]
fn a_session_is_rewound_and_a_preview_changes_nothing() {
    let (home, id, _) = rewritten();
    let server = Serve::start(&home, &[]);
    let path = format!("/sessions/{id}/rewind");
    let again = place_of(&server, &id, |e| e["text"] == "again");
    let to = again - 1;
    let wanted = |what: &str| json!({"entry": to, "what": what, "preview": true});
    let before = server.get(&format!("/sessions/{id}")).json()["entries"].clone();
    for what in ["files", "both"] {
        let shown = server.post(&path, &wanted(what)).expect(200).json();
        assert_eq!(shown["changes"][0]["path"], "f");
        assert_eq!(shown["changes"][0]["figures"], "+1 −1");
    }
    let shown = server
        .post(&path, &wanted("conversation"))
        .expect(200)
        .json();
    assert_eq!(shown["changes"], json!([]));
    assert_eq!(home.read("f"), "one\n2\n");
    assert_eq!(
        server.get(&format!("/sessions/{id}")).json()["entries"],
        before
    );
    for (body, words) in [
        (json!({"entry": to}), "missing field"),
        (json!({"entry": to, "what": "all"}), "unknown variant"),
        (json!({"entry": 9999, "what": "conversation"}), "9999"),
    ] {
        let refused = server.post(&path, &body);
        assert!((400..410).contains(&refused.status), "{}", refused.text());
        assert!(refused.text().contains(words), "{}", refused.text());
    }
    let done = server
        .post(&path, &json!({"entry": to, "what": "both"}))
        .expect(200)
        .json();
    assert_eq!(
        (&done["written"], &done["error"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(home.read("f"), "one\ntwo\n");
    let copy = done["session"].as_str().unwrap();
    let text = server.get(&format!("/sessions/{copy}/entries")).text();
    assert!(text.contains("first") && !text.contains("second"), "{text}");
}

#[test]
fn a_session_that_is_in_use_is_not_rewound() {
    let home = writes();
    let server = Serve::start(&home, &[]);
    let mut live = asking(&home, "x");
    let asked = server.get("/questions").json();
    let path = format!("/sessions/{}/rewind", asked[0]["session"].as_str().unwrap());
    let files = json!({"entry": 1, "what": "files"});
    server.post(&path, &files).refused(409, "process");
    live.kill();
}

#[test]
fn a_session_is_compacted_by_a_process_that_the_server_starts() {
    let home = scripted(&[step("one", &[]), step("two", &[]), step("a summary", &[])]);
    let id = done_session(&home, "first");
    home.run(["-p", "-r", &id, "second"]).expect(0);
    let server = Serve::start(&home, &[]);
    let path = format!("/sessions/{id}/compact");
    let sent = server
        .post(&path, &json!({"start": true}))
        .expect(202)
        .json();
    assert_eq!(
        (&sent["became"], &sent["started"]),
        (&json!("done"), &json!(true))
    );
    let entries = server.get(&format!("/sessions/{id}/entries")).text();
    assert!(entries.contains("entry.closed"), "{entries}");
    server.until(&format!("/sessions/{id}"), |s| {
        s["live"] == false && s["signals"] == 0
    });
    server
        .post(&path, &json!({"begin": true}))
        .refused(400, "unknown field");
    server
        .post("/sessions/zzz/compact", &json!({}))
        .refused(404, "no session");
}

#[test]
fn a_session_is_started_with_limits() {
    let home = scripted(&[step("one", &[])]);
    let price = "[models.\"s/play\"]\ninput_price = 1.0\noutput_price = 1.0\n";
    home.write_config(&format!("{SCRIPTED}{price}"));
    let server = Serve::start(&home, &[]);
    let begin = |more: Value| {
        let mut body = json!({"prompt": "x", "folder": home.workspace()});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        server.post("/sessions", &body)
    };
    begin(json!({"turns": 0})).refused(400, "turns");
    begin(json!({"usd": -1})).refused(400, "usd");
    let made = begin(json!({"turns": 7, "usd": 2.5, "effort": "low", "mode": "plan"}));
    let made = made.expect(201).json();
    let path = format!("/sessions/{}", made["session"].as_str().unwrap());
    let session = server.until(&path, |s| s["live"] == false);
    assert_eq!(session["limits"]["usd"], 2.5);
    assert_eq!(
        (&session["mode"], &session["effort"]),
        (&json!("plan"), &json!("low"))
    );
}

/// A change of the clock moves nothing: the place in the log decides.
#[test]
fn sessions_are_listed_by_their_last_entry_and_not_by_the_clock() {
    let home = scripted(&[step("one", &[]), step("two", &[])]);
    let first = done_session(&home, "first");
    let last = done_session(&home, "last");
    let database = home.rewake_home().join("rewake.db");
    assert!(database.exists(), "{}", database.display());
    let late =
        format!("UPDATE sessions SET updated_ms = updated_ms + 99999999999 WHERE id = '{first}'");
    rusqlite::Connection::open(database)
        .unwrap()
        .execute(&late, [])
        .unwrap();
    let server = Serve::start(&home, &[]);
    let listed = server.get("/agent/history").json();
    assert_eq!(listed["sessions"][0]["id"], last.as_str());
    assert_eq!(listed["sessions"][1]["id"], first.as_str());
}

#[test]
fn the_link_is_shown_as_a_qr_code() {
    let home = scripted(&[]);
    let server = Serve::start(&home, &["--qr", "--host", "desk.example"]);
    let blocks = |line: &str| line.contains('█') && line.contains('▄');
    server.live.wait_for(LIMIT, blocks);
    drop(server);
    // A phone would look for this address on itself.
    for host in [
        &[][..],
        &["--host", "localhost"],
        &["--host", "127.0.0.1:80"],
    ] {
        let mut server = Serve::start(&home, &[&["--qr"][..], host].concat());
        // It has said all when it answers.
        server.get("/questions").expect(200);
        server.live.kill();
        let ended = server.live.wait(LIMIT);
        assert!(!ended.stdout.contains('█'), "{}", ended.stdout);
        let said = &ended.stderr;
        assert!(
            said.contains("no QR code") && said.contains("--host NAME"),
            "{said}"
        );
    }
    // Not without the option.
    let help = run(home.rewake(["serve", "--help"]), LIMIT).expect(0);
    assert!(help.stdout.contains("--qr"), "{}", help.stdout);
}
