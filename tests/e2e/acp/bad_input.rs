//! Nonsense on stdin: each gets its error, and the connection stays.

use serde_json::{Value, json};

use crate::acp::editor::Editor;
use crate::acp::{scripted, step, writes};

#[test]
fn bad_frames_get_an_error_and_the_connection_stays() {
    let home = scripted(&[step("ok", &[])]);
    let mut editor = Editor::start(&home);
    let deep = format!(
        "{{\"id\":7,\"method\":\"a\",\"params\":{}",
        "[".repeat(10_000)
    );
    let huge = vec![b'a'; 40 * 1024 * 1024];
    let huge_frame = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"a\",\"params\":\"{}\"}}",
        "a".repeat(40 * 1024 * 1024)
    );
    let frames: [(&[u8], i64); 10] = [
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,", -32700),
        (b"nonsense", -32700),
        (b"\xff\xfe{}", -32700),
        (deep.as_bytes(), -32700),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}]", -32600),
        (b"[]", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"a\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":5}", -32600),
        (&huge, -32600),
        (huge_frame.as_bytes(), -32600),
    ];
    for (frame, code) in frames {
        editor.write(frame);
        let answer = editor.wait(|line| line.get("error").is_some());
        assert_eq!(
            answer["error"]["code"],
            code,
            "{:?}",
            &frame[..frame.len().min(60)]
        );
    }
    editor.write(b"");
    // Results for nobody, and unknown notifications, are ignored.
    editor.write(b"{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}");
    editor.write(b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":1,\"message\":\"\"}}");
    editor.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"$/unknown\"}");
    let id = editor.new_session(&home);
    assert_eq!(editor.say(&id, "hello"), "end_turn");
    editor.finish();
}

#[test]
fn wrong_requests_get_the_codes_of_the_protocol() {
    let home = writes();
    let here = home.workspace();
    let mut editor = Editor::silent(&home, &[]);
    let nobody = "01900000-0000-7000-8000-000000000000";
    let early = json!({ "sessionId": nobody, "prompt": [] });
    let error = editor.call("session/prompt", early).unwrap_err();
    assert_eq!(error["code"], -32600);
    let odd = [
        json!(null),
        json!({}),
        json!([1]),
        json!({ "session": null, "auth": [] }),
    ];
    for (version, capabilities) in [0, 1, 2, 65535].into_iter().zip(odd) {
        let params = json!({ "protocolVersion": version, "clientCapabilities": capabilities });
        let result = editor.call("initialize", params).unwrap();
        assert_eq!(result["protocolVersion"], 1);
    }
    let id = editor.new_session(&home);
    let text = json!([{ "type": "text", "text": "a" }]);
    let audio = json!([{ "type": "audio", "data": "", "mimeType": "audio/wav" }]);
    let image = json!([{ "type": "image", "data": "AAAA", "mimeType": "image/png" }]);
    let sse = json!([{ "type": "sse", "name": "a", "url": "https://a.b", "headers": [] }]);
    let both = json!([{ "name": "a", "command": "", "args": [], "env": [] }]);
    let table: Vec<(&str, Value, i64)> = vec![
        ("session/nothing", json!({}), -32601),
        ("session/delete", json!({ "sessionId": id }), -32601),
        ("fs/read_text_file", json!({}), -32601),
        (
            "session/new",
            json!({ "cwd": "work", "mcpServers": [] }),
            -32602,
        ),
        (
            "session/new",
            json!({ "cwd": "/nowhere/at/all", "mcpServers": [] }),
            -32602,
        ),
        ("session/new", json!({ "mcpServers": [] }), -32602),
        ("session/new", json!({ "cwd": 7 }), -32602),
        (
            "session/new",
            json!({ "cwd": here, "mcpServers": sse }),
            -32602,
        ),
        (
            "session/new",
            json!({ "cwd": here, "mcpServers": both }),
            -32602,
        ),
        (
            "session/new",
            json!({ "cwd": here, "mcpServers": [], "additionalDirectories": ["/gone"] }),
            -32602,
        ),
        (
            "session/load",
            json!({ "sessionId": nobody, "cwd": here, "mcpServers": [] }),
            -32002,
        ),
        (
            "session/load",
            json!({ "sessionId": "", "cwd": here, "mcpServers": [] }),
            -32002,
        ),
        (
            "session/load",
            json!({ "sessionId": "../x", "cwd": here, "mcpServers": [] }),
            -32002,
        ),
        (
            "session/load",
            json!({ "sessionId": nobody, "cwd": "a", "mcpServers": [] }),
            -32602,
        ),
        (
            "session/resume",
            json!({ "sessionId": nobody, "cwd": here }),
            -32002,
        ),
        (
            "session/prompt",
            json!({ "sessionId": nobody, "prompt": text }),
            -32002,
        ),
        (
            "session/prompt",
            json!({ "sessionId": id, "prompt": [] }),
            -32602,
        ),
        (
            "session/prompt",
            json!({ "sessionId": id, "prompt": audio }),
            -32602,
        ),
        (
            "session/prompt",
            json!({ "sessionId": id, "prompt": image }),
            -32602,
        ),
        (
            "session/prompt",
            json!({ "sessionId": id, "prompt": [{ "type": "x" }] }),
            -32602,
        ),
        ("session/prompt", json!([]), -32602),
        (
            "session/set_mode",
            json!({ "sessionId": id, "modeId": "fast" }),
            -32602,
        ),
        (
            "session/set_mode",
            json!({ "sessionId": nobody, "modeId": "plan" }),
            -32002,
        ),
        ("session/close", json!({ "sessionId": nobody }), -32002),
        ("session/list", json!({ "cwd": "a" }), -32602),
    ];
    for (method, params, code) in table {
        let shown = params.to_string();
        let error = editor.call(method, params).unwrap_err();
        assert_eq!(error["code"], code, "{method} {shown}: {error}");
    }
    for ignored in ["session/cancel", "$/cancel_request", "nothing/at_all"] {
        editor.notify(ignored, json!({ "sessionId": nobody, "requestId": 1 }));
    }
    let prompt = editor.prompt(&id, "write it");
    editor.allow();
    assert_eq!(editor.stop_reason(&prompt), "end_turn");
    editor.finish();
}

/// Below a command of an agent, only new sessions are opened.
#[test]
fn an_agent_does_not_resume_sessions_through_the_protocol() {
    let home = scripted(&[step("one", &[])]);
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    assert_eq!(editor.say(&id, "first"), "end_turn");
    editor.finish();
    let frames = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "session/load", "params": {
            "sessionId": id, "cwd": home.workspace(), "mcpServers": [] } }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "session/new", "params": {
            "cwd": home.workspace(), "mcpServers": [] } }),
    ];
    let frames: Vec<String> = frames.iter().map(Value::to_string).collect();
    std::fs::write(home.path("frames"), frames.join("\n") + "\n").unwrap();
    let program = home.rewake([""; 0]);
    let line = format!(
        "(cat frames; sleep 3) | {} acp > answers",
        program.get_program().to_string_lossy()
    );
    crate::acp::play(
        &home,
        &[
            step("", &[("bash", json!({ "command": line }))]),
            step("done", &[]),
        ],
    );
    home.run(["-p", "--yolo", "do it"]).expect(0);
    let answers = home.read("answers");
    let answer = |id: u32| -> Value {
        let all = answers
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let mut all = all.filter(|line: &Value| line["id"] == id);
        all.next()
            .unwrap_or_else(|| panic!("no answer {id}: {answers}"))
    };
    let refused = &answer(2)["error"];
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("inside a command"),
        "{refused}"
    );
    assert!(answer(3)["result"]["sessionId"].is_string());
}
