//! A small client of the protocol. It checks every line that it reads.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::schema;
use crate::Home;

pub const LIMIT: Duration = Duration::from_secs(120);

/// An editor with an agent.
pub struct Editor {
    pub child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    reads: Arc<AtomicBool>,
    /// Methods of the requests without an answer, by their IDs.
    asked: BTreeMap<String, String>,
    last: u64,
    capabilities: Value,
    /// All lines so far.
    pub seen: Vec<Value>,
    /// The number of lines before the last request.
    seen_before: usize,
}

impl Editor {
    /// Starts the agent and initializes it. The editor supports nothing optional.
    pub fn start(home: &Home) -> Editor {
        Editor::with(home, &[], json!({}))
    }

    pub fn with(home: &Home, args: &[&str], capabilities: Value) -> Editor {
        let mut editor = Editor::silent(home, args);
        editor.capabilities = capabilities.clone();
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        let result = editor.call("initialize", params).expect("a result");
        assert_eq!(result["protocolVersion"], 1);
        editor
    }

    /// Starts the agent and says nothing.
    pub fn silent(home: &Home, args: &[&str]) -> Editor {
        let mut command = home.rewake([&["acp"], args].concat());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the agent");
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        let reads = Arc::new(AtomicBool::new(true));
        let is_reading = Arc::clone(&reads);
        std::thread::spawn(move || {
            for line in stdout.lines() {
                if line.is_ok_and(|line| sender.send(line).is_err()) {
                    return;
                }
                while !is_reading.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        Editor {
            stdin: child.stdin.take(),
            child,
            lines,
            reads,
            asked: BTreeMap::new(),
            last: 0,
            capabilities: json!({}),
            seen: Vec::new(),
            seen_before: 0,
        }
    }

    /// Writes bytes and a line break.
    pub fn write(&mut self, line: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        // The agent may have ended.
        let _ = stdin.write_all(&[line, b"\n"].concat());
        let _ = stdin.flush();
    }

    fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        self.write(message.to_string().as_bytes());
    }

    pub fn request(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        self.seen_before = self.seen.len();
        let id = json!(format!("r{}", self.last));
        self.asked.insert(id.to_string(), method.to_string());
        self.send(json!({ "id": id, "method": method, "params": params }));
        id
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({ "method": method, "params": params }));
    }

    pub fn respond(&mut self, id: &Value, result: Value) {
        self.send(json!({ "id": id, "result": result }));
    }

    /// Returns the next line. `None`: the agent closed stdout.
    #[track_caller]
    fn next_line(&mut self) -> Option<Value> {
        let line = match self.lines.recv_timeout(LIMIT) {
            Ok(line) => line,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(_) => panic!("no line came; the last ones: {:#?}", self.tail()),
        };
        let value: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("not a frame: {error}: {line:?}"));
        let is_response = value.get("method").is_none();
        let asked = match is_response {
            true => self.asked.remove(&value["id"].to_string()),
            false => None,
        };
        schema::check(&value, asked.as_deref());
        self.check_advertised(&value);
        self.seen.push(value.clone());
        Some(value)
    }

    fn tail(&self) -> &[Value] {
        &self.seen[self.seen.len().saturating_sub(8)..]
    }

    /// Only what the editor supports is sent.
    fn check_advertised(&self, line: &Value) {
        let needs = match (&line["method"], &line["params"]["update"]["sessionUpdate"]) {
            (Value::String(method), _) if method == "elicitation/create" => "/elicitation",
            (_, Value::String(kind)) if kind == "notice" => "/session/notices",
            (_, Value::String(kind)) if kind == "compaction_update" => "/session/compaction",
            _ => return,
        };
        let has = self.capabilities.pointer(needs).is_some();
        assert!(has, "the editor does not support it: {line}");
    }

    /// Waits for a line.
    #[track_caller]
    pub fn wait(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        while let Some(line) = self.next_line() {
            if is_wanted(&line) {
                return line;
            }
        }
        panic!("the agent ended; the last lines: {:#?}", self.tail());
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub fn answer(&mut self, id: &Value) -> Result<Value, Value> {
        let line = self.wait(|line| line.get("method").is_none() && line["id"] == *id);
        match line.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(line["result"].clone()),
        }
    }

    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.request(method, params);
        self.answer(&id)
    }

    /// Opens a session in the workspace.
    #[track_caller]
    pub fn new_session(&mut self, home: &Home) -> String {
        let params = json!({ "cwd": home.workspace(), "mcpServers": [] });
        let result = self.call("session/new", params).expect("a session");
        result["sessionId"].as_str().unwrap().to_string()
    }

    /// Loads a session of the workspace.
    pub fn load(&mut self, home: &Home, id: &str) -> Result<Value, Value> {
        let params = json!({ "sessionId": id, "cwd": home.workspace(), "mcpServers": [] });
        self.call("session/load", params)
    }

    /// Sends a prompt, and returns the ID of the request.
    pub fn prompt(&mut self, session: &str, text: &str) -> Value {
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": session, "prompt": prompt });
        self.request("session/prompt", params)
    }

    /// Sends a prompt and waits for its stop reason.
    #[track_caller]
    pub fn say(&mut self, session: &str, text: &str) -> String {
        let id = self.prompt(session, text);
        self.stop_reason(&id)
    }

    #[track_caller]
    pub fn stop_reason(&mut self, prompt: &Value) -> String {
        let result = self.answer(prompt).expect("a stop reason");
        result["stopReason"].as_str().unwrap().to_string()
    }

    /// Waits for a question about a call.
    #[track_caller]
    pub fn asked(&mut self) -> Value {
        self.wait(|line| line["method"] == "session/request_permission")
    }

    /// Waits for a question about a call, and chooses an option.
    #[track_caller]
    pub fn choose(&mut self, option: &str) -> Value {
        let asked = self.asked();
        self.respond(&asked["id"], selected(option));
        asked
    }

    #[track_caller]
    pub fn allow(&mut self) -> Value {
        self.choose("allow")
    }

    /// Waits for an update of this kind.
    #[track_caller]
    pub fn update(&mut self, kind: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let line = self.wait(|line| {
            let update = &line["params"]["update"];
            update["sessionUpdate"] == kind && is_wanted(update)
        });
        line["params"]["update"].clone()
    }

    /// Waits for an update of this kind, unless it came before the answer to the last request.
    #[track_caller]
    pub fn effect(&mut self, kind: &str, is_wanted: impl Fn(&Value) -> bool) {
        let since = &self.seen[self.seen_before..];
        let mut updates = since.iter().map(|line| &line["params"]["update"]);
        if !updates.any(|update| update["sessionUpdate"] == kind && is_wanted(update)) {
            self.update(kind, is_wanted);
        }
    }

    /// The updates so far of this kind.
    pub fn updates(&self, kind: &str) -> Vec<&Value> {
        let updates = self.seen.iter().map(|line| &line["params"]["update"]);
        updates
            .filter(|update| update["sessionUpdate"] == kind)
            .collect()
    }

    /// The last status of each call.
    pub fn statuses(&self) -> BTreeMap<String, String> {
        let updates = self.seen.iter().map(|line| &line["params"]["update"]);
        let text = |value: &Value| value.as_str().map(str::to_string);
        let status =
            |update: &Value| Some((text(&update["toolCallId"])?, text(&update["status"])?));
        updates.filter_map(status).collect()
    }

    /// The text of the messages of this kind, joined.
    pub fn text(&self, kind: &str) -> String {
        let chunks = self.updates(kind).into_iter();
        let texts = chunks.filter_map(|update| update["content"]["text"].as_str());
        texts.collect::<Vec<_>>().join("")
    }

    /// Kills the agent.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops to read after the next line, or reads again.
    pub fn reads(&self, reads: bool) {
        self.reads.store(reads, Ordering::SeqCst);
    }

    /// Gives the pipe to the agent away.
    pub fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().unwrap()
    }

    /// Closes stdin without waiting.
    pub fn hang_up(&mut self) {
        drop(self.stdin.take());
    }

    /// Waits for the end of the agent, and checks its last lines.
    #[track_caller]
    pub fn ended(&mut self) -> ExitStatus {
        while self.next_line().is_some() {}
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the agent does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Closes stdin. The agent leaves with code 0.
    #[track_caller]
    pub fn finish(mut self) {
        self.hang_up();
        assert_eq!(self.ended().code(), Some(0));
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answer that chooses an option.
pub fn selected(option: &str) -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": option } })
}
