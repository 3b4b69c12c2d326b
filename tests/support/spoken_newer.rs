//! What the server of the tests does in the newer parts of the protocol: it wants to know something
//! in the middle of a call, and answers a call with a task. A task is a file, so a server that is
//! started again knows it too.

use std::path::Path;

use serde_json::{Value, json};

use super::spoken::{answer, append, pause, refuse, say};

/// False: it is none of these.
pub fn act(method: &str, id: &Value, params: &Value) -> bool {
    match method {
        "tools/call" => return call(id, params),
        "tasks/get" => get(id, params),
        "tasks/update" => {
            let answers = params["inputResponses"].to_string();
            std::fs::write(format!("{}.answers", path(params)), answers).expect("keep the answers");
            answer(id, &json!({ "resultType": "complete" }));
        }
        "tasks/cancel" => {
            std::fs::write(format!("{}.cancelled", path(params)), "").expect("keep it");
            answer(id, &json!({ "resultType": "complete" }));
        }
        "prompts/list" => answer(
            id,
            &json!({ "prompts": [
                { "name": "review", "arguments": [{ "name": "file" }] },
                { "name": "weather", "description": "Asks for\u{1b}[31m the weather",
                    "arguments": [{ "name": "city", "required": true }, { "name": "when" }] },
                { "name": "stall" }, { "name": "die" }, { "name": "flood" }, { "name": "die" },
            ], "nextCursor": "round" }),
        ),
        "prompts/get" if params["name"] == "die" => std::process::exit(7),
        "prompts/get" if params["name"] == "flood" => {
            let content = json!({ "type": "text", "text": "x".repeat(1_000_000) });
            let message = json!({ "role": "user", "content": content });
            answer(id, &json!({ "messages": [message] }));
        }
        "prompts/get" if params["name"] == "stall" => {}
        "prompts/get" if params["name"] == "weather" => {
            let arguments = &params["arguments"];
            let text = format!(
                "Weather in {}, {}?\u{7}",
                arguments["city"], arguments["when"]
            );
            let content = json!({ "type": "text", "text": text });
            answer(
                id,
                &json!({ "messages": [{ "role": "user", "content": content },
                { "role": "assistant", "content": { "type": "text", "text": "Sunny." } }] }),
            );
        }
        "prompts/get" => {
            let text = format!("Review {}", params["arguments"]["file"]);
            let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
            answer(id, &json!({ "messages": [message] }));
        }
        "resources/list" => answer(
            id,
            &json!({ "resources": [{ "uri": "a:b", "name": "b" },
                { "uri": "demo://notes", "name": "what we noted", "description": "All notes" }],
                "nextCursor": "round" }),
        ),
        "resources/read" if params["uri"] == "a:gone" => refuse(id, -32002, "Resource not found"),
        "resources/read" if params["uri"] == "a:bytes" => answer(
            id,
            &json!({ "contents": [{ "uri": "a:bytes", "blob": "AAAA",
                "mimeType": "application/zip" }] }),
        ),
        "resources/read" if params["uri"] == "a:picture" => {
            let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
            answer(
                id,
                &json!({ "contents": [{ "uri": "a:picture", "blob": png,
                    "mimeType": "image/png" }] }),
            );
        }
        "resources/read" => {
            answer(
                id,
                &json!({ "contents": [{ "uri": params["uri"], "text": "inside" }] }),
            );
        }
        _ => return false,
    }
    true
}

fn path(params: &Value) -> &str {
    params["taskId"].as_str().expect("a task")
}

fn call(id: &Value, params: &Value) -> bool {
    let arguments = &params["arguments"];
    match params["name"].as_str().unwrap_or_default() {
        "asks" => match &params["inputResponses"] {
            Value::Null => answer(id, &input_required(&form("name"))),
            answers => {
                if arguments["file"].is_string() {
                    append(arguments);
                }
                pause(arguments);
                let told = json!([answers, params["requestState"]]);
                answer(id, &text(&told.to_string()));
            }
        },
        "asks_for_ever" => answer(id, &input_required(&form("name"))),
        "asks_password" => match &params["inputResponses"] {
            Value::Null => answer(id, &input_required(&form("password"))),
            answers => answer(id, &text(&answers.to_string())),
        },
        "asks_old" => ask_old(id, arguments),
        "visits" => visit(id, arguments),
        "asks_many" => ask_many(id, arguments),
        "asks_late" => ask_late(id),
        "task" => begin(id, arguments),
        _ => return false,
    }
    true
}

fn text(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

fn form(field: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { field: { "type": "string" } } });
    json!({ "mode": "form", "message": "who are you?", "requestedSchema": schema })
}

fn input_required(params: &Value) -> Value {
    let request = json!({ "method": "elicitation/create", "params": params });
    json!({ "resultType": "input_required", "inputRequests": { "who": request },
        "requestState": "opaque" })
}

/// In the older way: a request of its own, whose answer it waits for.
fn ask_old(id: &Value, arguments: &Value) {
    say(
        &json!({ "jsonrpc": "2.0", "id": 70, "method": "elicitation/create",
        "params": form("name") })
        .to_string(),
    );
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("an answer");
    let said: Value = serde_json::from_str(&line).expect("JSON");
    if arguments["file"].is_string() {
        append(arguments);
    }
    pause(arguments);
    answer(id, &text(&said["result"].to_string()));
}

/// It wants an address to be opened first, and does its work all the same.
fn visit(id: &Value, arguments: &Value) {
    append(arguments);
    let file = arguments["file"].as_str().expect("a file");
    if std::fs::read_to_string(file)
        .expect("the file")
        .lines()
        .count()
        > 1
    {
        return answer(id, &text("opened"));
    }
    let visit = json!({ "mode": "url", "message": "log in", "elicitationId": "1",
        "url": "https://example.com/login" });
    let error = json!({ "code": -32042, "message": "first log in",
        "data": { "elicitations": [visit] } });
    say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
}

/// So many questions at once. The result says what became of them.
fn ask_many(id: &Value, arguments: &Value) {
    let count = arguments["count"].as_u64().unwrap_or(0);
    for n in 0..count {
        let asked = json!({ "jsonrpc": "2.0", "id": 100 + n, "method": "elicitation/create",
            "params": form("name") });
        say(&asked.to_string());
    }
    let mut actions = Vec::new();
    for _ in 0..count {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).expect("an answer");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        actions.push(said["result"]["action"].as_str().unwrap_or("").to_string());
    }
    let of = |name: &str| actions.iter().filter(|action| *action == name).count();
    let told = format!("{} accepted, {} declined", of("accept"), of("decline"));
    answer(id, &text(&told));
}

/// It asks when the call is over.
fn ask_late(id: &Value) {
    answer(id, &text("done"));
    let asked = json!({ "jsonrpc": "2.0", "id": 300, "method": "elicitation/create",
        "params": form("name") });
    say(&asked.to_string());
}

/// The file has how often it is still to be asked about.
fn begin(id: &Value, arguments: &Value) {
    let state = arguments["state"].as_str().expect("a file for the task");
    append(arguments);
    let polls = arguments["polls"].as_u64().unwrap_or(2);
    if arguments["ttl"] == 0 {
        std::fs::write(format!("{state}.no-time"), "").expect("keep it");
    }
    if arguments["lost"] != true {
        keep(state, &format!("{polls} {}", arguments["asks"] == true));
    }
    let task = json!({ "resultType": "task", "taskId": state, "status": "working",
        "ttlMs": arguments["ttl"], "pollIntervalMs": 50 });
    answer(id, &task);
}

/// Whole or not at all, because the server may be killed here.
fn keep(path: &str, state: &str) {
    let new = format!("{path}.new");
    std::fs::write(&new, state).expect("keep it");
    std::fs::rename(new, path).expect("keep it");
}

fn get(id: &Value, params: &Value) {
    let path = path(params);
    let Ok(state) = std::fs::read_to_string(path) else {
        return refuse(id, -32602, "Task not found");
    };
    let (polls, asks) = state.split_once(' ').expect("what was written");
    let polls: u64 = polls.parse().expect("a number");
    let mut task = json!({ "resultType": "complete", "taskId": path, "pollIntervalMs": 50 });
    if Path::new(&format!("{path}.no-time")).exists() {
        task["ttlMs"] = json!(0);
    }
    let answers = std::fs::read_to_string(format!("{path}.answers"));
    if asks == "true" && answers.is_err() {
        task["status"] = json!("input_required");
        task["inputRequests"] = input_required(&form("name"))["inputRequests"].clone();
    } else if polls > 0 || Path::new(&format!("{path}.stop")).exists() {
        keep(path, &format!("{} {asks}", polls.saturating_sub(1)));
        task["status"] = json!("working");
    } else {
        task["status"] = json!("completed");
        task["result"] = text(&answers.unwrap_or_else(|_| "done".to_string()));
    }
    answer(id, &task);
}
