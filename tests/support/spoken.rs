//! A server of the tests that is spoken with a line at a time over stdin and stdout. It can do its
//! work, die in the middle, lie, stall and flood; what it did can be counted in a file.
//!
//! It is the test program itself: its test `as_a_server` calls [`serve_if_asked`]. The harness prints
//! a line before it: that is the banner that some servers print.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::spoken_newer;

/// Set for a process that is to be the server.
pub const ASKED: &str = "REWAKE_TEST_SERVER";

/// A file with the tools of the server as JSON, read whenever they are asked for.
pub const TOOLS: &str = "REWAKE_TEST_TOOLS";
/// What it says of its tools in the mode `tools`: JSON with `description` and `annotations`.
pub const SAYS: &str = "REWAKE_TEST_SERVER_SAYS";

/// The arguments with which a test binary becomes the server. `test` is the path of the test that
/// serves: [`ITSELF`].
pub fn arguments(test: &str) -> Vec<String> {
    [test, "--exact", "--quiet", "--nocapture"]
        .map(String::from)
        .into()
}

/// The name of the server in each test program.
pub const ITSELF: &str = "as_a_server";

/// Serves instead of a test where the environment asks for a server.
pub fn serve_if_asked() {
    let Some(mode) = std::env::var_os(ASKED) else {
        return;
    };
    if mode == "exits" {
        complain("no licence found");
        std::process::exit(3);
    }
    let mut line = String::new();
    // Not locked meanwhile: a call may read the answer to a question of its own.
    while std::io::stdin().read_line(&mut line).is_ok_and(|n| n > 0) {
        let read = std::mem::take(&mut line);
        let Ok(request) = serde_json::from_str::<Value>(&read) else {
            continue;
        };
        if let Some(method) = request["method"].as_str() {
            act(method, &request["id"], &request["params"]);
        }
    }
    std::process::exit(0);
}

fn complain(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

pub fn say(line: &str) {
    say_bytes(format!("{line}\n").as_bytes());
}

fn say_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    // Whoever listened may be gone.
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

pub fn refuse(id: &Value, code: i64, message: &str) {
    let error = json!({ "code": code, "message": message });
    say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
}

pub fn answer(id: &Value, result: &Value) {
    say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string());
}

pub fn pause(params: &Value) {
    std::thread::sleep(Duration::from_millis(params["ms"].as_u64().unwrap_or(0)));
    // Until a file is there.
    while let Some(file) = params["until"].as_str()
        && !std::path::Path::new(file).exists()
    {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn act(method: &str, id: &Value, params: &Value) {
    match method {
        "append" => {
            pause(params);
            append(params);
            if params["die_before_answer"] == true {
                std::process::exit(7);
            }
            answer(id, &json!("appended"));
        }
        "echo" => answer(id, params),
        "note" => append(params),
        "stall" => {}
        "deaf" => loop {
            std::thread::park();
        },
        "die" => std::process::exit(7),
        "die_in_a_line" => {
            say_bytes(format!("{{\"id\":{id},\"resu").as_bytes());
            std::process::exit(7);
        }
        "lie" => {
            answer(&json!("nobody_asked"), &json!("a lie"));
            answer(&json!(1), &json!("a lie"));
            answer(id, &json!("the truth"));
        }
        "twice" => {
            answer(id, &json!("first"));
            answer(id, &json!("second"));
        }
        "flood" => {
            let note = json!({ "method": "noise", "params": "x".repeat(1000) }).to_string();
            for _ in 0..params["lines"].as_u64().unwrap_or(0) {
                say(&note);
            }
            answer(id, &json!("after the flood"));
        }
        "long" => {
            say_bytes(format!("{{\"id\":{id},\"result\":\"").as_bytes());
            let chunk = vec![b'x'; 1024 * 1024];
            for _ in 0..params["mib"].as_u64().unwrap_or(0) {
                say_bytes(&chunk);
            }
            say("\"}");
        }
        "not_utf8" => {
            say_bytes(format!("{{\"id\":{id},\"result\":\"").as_bytes());
            say_bytes(b"\xff\xfe\"}\n");
        }
        "environment" => {
            let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
            answer(id, &names.collect());
        }
        "notifications/cancelled" => {
            let id = params["requestId"].as_str().unwrap_or_default();
            complain(&format!("cancelled {id}"));
        }
        "complain" => {
            complain(params["words"].as_str().unwrap_or_default());
            answer(id, &json!("complained"));
        }
        "pid" => answer(id, &json!(std::process::id())),
        _ if spoken_newer::act(method, id, params) => {}
        _ => speak_mcp(method, id, params),
    }
}

/// As a server of the Model Context Protocol, of the era that the environment says.
fn speak_mcp(method: &str, id: &Value, params: &Value) {
    let mode = std::env::var(ASKED).unwrap_or_default();
    let info = json!({ "name": "spoken", "version": "1" });
    let mut capabilities = json!({ "tools": { "listChanged": true } });
    if mode == "offers" {
        capabilities["prompts"] = json!({});
        capabilities["resources"] = json!({});
    }
    match (method, mode.as_str()) {
        (_, "silent") => {}
        ("server/discover", "tools") if note_in_file(method) => {}
        ("initialize", "old" | "circle" | "tools" | "offers") => {
            note_in_file(method);
            answer(
                id,
                &json!({ "protocolVersion": params["protocolVersion"],
                    "capabilities": capabilities, "serverInfo": info }),
            );
        }
        ("initialize", "ancient") => answer(id, &json!({ "protocolVersion": "2023-01-01" })),
        ("server/discover", "new") => answer(
            id,
            &json!({ "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                "_meta": { "io.modelcontextprotocol/serverInfo": info } }),
        ),
        ("tools/list", _) if std::env::var_os(TOOLS).is_some() => {
            let file = std::env::var_os(TOOLS).expect("it is set");
            let tools = std::fs::read(file).ok();
            let tools = tools.and_then(|tools| serde_json::from_slice::<Value>(&tools).ok());
            answer(id, &json!({ "tools": tools.unwrap_or_default() }));
        }
        ("tools/list", "tools") => answer(id, &json!({ "tools": own_tools() })),
        ("tools/list", _) => {
            let more = params["cursor"].is_string();
            let name = if more { "second" } else { "do.it" };
            let tool = json!({ "name": name, "description": "Does\u{1b}[31m it",
                "inputSchema": { "type": "object" } });
            let mut page = json!({ "tools": [tool] });
            if mode == "circle" || !more {
                page["nextCursor"] = json!("2");
            }
            answer(id, &page);
        }
        ("tools/call", _) => call_tool(id, params),
        (_, _) if id.is_null() => {}
        _ => say(&json!({ "jsonrpc": "2.0", "id": id,
            "error": { "code": -32601, "message": "no such method" } })
        .to_string()),
    }
}

/// Adds the method to the file that [`SAYS`] names as `asked`. Returns whether it names one: then
/// the server answers no `server/discover`.
fn note_in_file(method: &str) -> bool {
    let says = std::env::var(SAYS).unwrap_or_default();
    let says: Value = serde_json::from_str(&says).unwrap_or_default();
    let Some(file) = says["asked"].as_str() else {
        return false;
    };
    let mut open = std::fs::OpenOptions::new();
    let file = open.create(true).append(true).open(file);
    writeln!(file.expect("the file"), "{method}").expect("a line");
    true
}

/// What it can be called for, described as [`SAYS`] has it.
fn own_tools() -> Vec<Value> {
    let says = std::env::var(SAYS).unwrap_or_default();
    let says: Value = serde_json::from_str(&says).unwrap_or_default();
    let names = ["append", "pid", "give", "stall", "die"];
    let tool = |name| {
        let description = says["description"].as_str().unwrap_or("Does it");
        json!({ "name": name, "description": description, "annotations": says["annotations"],
            "inputSchema": { "type": "object" } })
    };
    names.into_iter().map(tool).collect()
}

fn call_tool(id: &Value, params: &Value) {
    let arguments = &params["arguments"];
    match params["name"].as_str().unwrap_or_default() {
        "append" => {
            pause(arguments);
            append(arguments);
        }
        "ask_back" => {
            say(&json!({ "jsonrpc": "2.0", "id": 7, "method": "roots/list" }).to_string());
            say(&list_changed());
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).expect("an answer");
            let said: Value = serde_json::from_str(&line).expect("JSON");
            let text = json!([{ "type": "text", "text": said["result"].to_string() }]);
            return answer(id, &json!({ "content": text }));
        }
        "change" => {
            pause(arguments);
            say(&list_changed());
        }
        "change_later" => {
            let content = json!([{ "type": "text", "text": "it will change" }]);
            answer(id, &json!({ "content": content }));
            let file = std::env::var_os(TOOLS).expect("it is set");
            std::fs::write(file, arguments["tools"].to_string()).expect("the new list");
            return say(&list_changed());
        }
        "flood" => {
            std::thread::spawn(|| {
                loop {
                    say(&list_changed());
                }
            });
        }
        "stall" => return,
        "lie" | "twice" => {
            let content = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
            if params["name"] == "lie" {
                answer(&json!("nobody_asked"), &content("a lie"));
                answer(&json!(1), &content("a lie"));
            }
            answer(id, &content("the first"));
            return answer(id, &content("the second"));
        }
        "garble" => {
            say_bytes(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"").as_bytes());
            return say_bytes(b"\xff\xfe\"}\n");
        }
        "long" => {
            say_bytes(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"").as_bytes());
            let chunk = vec![b'x'; 1024 * 1024];
            (0..100).for_each(|_| say_bytes(&chunk));
            return say("\"}");
        }
        "half" => {
            say_bytes(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"resu").as_bytes());
            std::process::exit(7);
        }
        "give" => return answer(id, &arguments["result"]),
        "pid" => {
            let text = std::process::id().to_string();
            return answer(
                id,
                &json!({ "content": [{ "type": "text", "text": text }] }),
            );
        }
        "die" => {
            complain("out of luck");
            std::process::exit(7);
        }
        "refuse" => {
            let error = json!({ "code": -32602, "message": "no such word" });
            return say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
        }
        _ => {}
    }
    let content = json!([{ "type": "text", "text": "done" },
        { "type": "image", "mimeType": "image/png", "data": "AAAA" }]);
    answer(
        id,
        &json!({ "content": content, "isError": params["name"] == "fail" }),
    );
}

fn list_changed() -> String {
    json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }).to_string()
}

/// The effect that is counted.
pub fn append(params: &Value) {
    let path = params["file"].as_str().expect("a file to append to");
    let file = OpenOptions::new().create(true).append(true).open(path);
    let line = format!("{}\n", params["text"].as_str().unwrap_or_default());
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("append to the file");
}
