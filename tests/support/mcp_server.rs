//! A server of the Model Context Protocol over HTTP, as a test wants it: it answers as a function
//! says, can drop, stall, cut and flood, and keeps what it was asked.

use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::http;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// `GET`, `POST`, `DELETE`.
    pub verb: String,
    pub path: String,
    pub query: String,
    /// Names in lower case.
    headers: HashMap<String, String>,
    pub body: String,
    /// How many came before it with the same verb, path and method of JSON-RPC.
    pub before: usize,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub fn message(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The method of JSON-RPC; empty where there is none.
    pub fn method(&self) -> String {
        self.message()["method"]
            .as_str()
            .unwrap_or_default()
            .to_string()
    }

    pub fn tool(&self) -> String {
        self.message()["params"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_string()
    }

    /// The answer to this request, with its id.
    pub fn result(&self, result: Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.message()["id"], "result": result })
    }

    pub fn text(&self, text: &str) -> Value {
        self.result(json!({ "content": [{ "type": "text", "text": text }] }))
    }
}

/// What it answers.
pub enum Gives {
    Status(u16, Vec<(String, String)>, String),
    /// A stream of events, piece by piece.
    Events(Vec<(String, String)>, Vec<Piece>),
    /// Nothing: the connection is closed.
    Gone,
}

pub enum Piece {
    Text(String),
    Pause(u64),
    /// The connection breaks in the middle of the stream.
    Cut,
    /// Nothing more, until the client goes.
    Wait,
}

impl Gives {
    pub fn json(message: &Value) -> Gives {
        Gives::Status(
            200,
            vec![header("content-type", "application/json")],
            message.to_string(),
        )
    }

    pub fn status(status: u16) -> Gives {
        Gives::Status(status, vec![], String::new())
    }

    pub fn events(pieces: Vec<Piece>) -> Gives {
        Gives::Events(vec![], pieces)
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Gives {
        match &mut self {
            Gives::Status(_, headers, _) | Gives::Events(headers, _) => {
                headers.push(header(name, value));
            }
            Gives::Gone => {}
        }
        self
    }
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_string(), value.to_string())
}

/// An event with a message.
pub fn event(message: &Value) -> Piece {
    Piece::Text(format!("event: message\ndata: {message}\n\n"))
}

type Answers = dyn Fn(&Asked) -> Gives + Send + Sync;

#[derive(Clone)]
pub struct McpServer {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// Of how many streams the client was seen to go.
    left: Arc<Mutex<usize>>,
}

impl McpServer {
    pub fn start(answers: impl Fn(&Asked) -> Gives + Send + Sync + 'static) -> McpServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = McpServer {
            port: listener.local_addr().expect("its port").port(),
            asked: Arc::default(),
            left: Arc::default(),
        };
        let shared = server.clone();
        let answers: Arc<Answers> = Arc::new(answers);
        // It lives as long as the test.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (shared, answers) = (shared.clone(), Arc::clone(&answers));
                std::thread::spawn(move || shared.serve(stream, &*answers));
            }
        });
        server
    }

    pub fn root(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn url(&self) -> String {
        format!("{}/mcp", self.root())
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Those with this method of JSON-RPC.
    pub fn posted(&self, method: &str) -> Vec<Asked> {
        let mut asked = self.asked();
        asked.retain(|asked| asked.verb == "POST" && asked.method() == method);
        asked
    }

    pub fn with_verb(&self, verb: &str) -> Vec<Asked> {
        let mut asked = self.asked();
        asked.retain(|asked| asked.verb == verb);
        asked
    }

    pub fn left(&self) -> usize {
        *self.left.lock().unwrap()
    }

    fn serve(&self, mut stream: TcpStream, answers: &Answers) {
        let mut reader = BufReader::new(stream.try_clone().expect("the same socket"));
        while let Ok(Some((head, body))) = http::read(&mut reader) {
            let mut asked = Asked {
                verb: head.method,
                path: head.path,
                query: head.query,
                headers: head.headers.into_iter().collect(),
                body: String::from_utf8_lossy(&body).into_owned(),
                before: 0,
            };
            {
                let mut all = self.asked.lock().unwrap();
                let kind = (asked.verb.clone(), asked.path.clone(), asked.method());
                let same = |a: &&Asked| (a.verb.clone(), a.path.clone(), a.method()) == kind;
                asked.before = all.iter().filter(same).count();
                all.push(asked.clone());
            }
            // A client that is gone is none of its business.
            if !matches!(self.answer(&mut stream, answers(&asked)), Ok(true)) {
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
    }

    /// False: the connection is to be closed.
    fn answer(&self, stream: &mut TcpStream, gives: Gives) -> std::io::Result<bool> {
        match gives {
            Gives::Gone => Ok(false),
            Gives::Status(status, headers, body) => {
                let mut head = head(status, &headers);
                head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
                stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
                Ok(true)
            }
            Gives::Events(headers, pieces) => {
                let mut head = head(200, &headers);
                head.push_str(
                    "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
                );
                stream.write_all(head.as_bytes())?;
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => http::write_chunk(stream, text.as_bytes())?,
                        Piece::Pause(ms) => std::thread::sleep(Duration::from_millis(ms)),
                        Piece::Cut => return Ok(false),
                        Piece::Wait => {
                            let _ = stream.read(&mut [0]);
                            *self.left.lock().unwrap() += 1;
                            return Ok(false);
                        }
                    }
                }
                stream.write_all(b"0\r\n\r\n")?;
                Ok(true)
            }
        }
    }
}

fn head(status: u16, headers: &[(String, String)]) -> String {
    let headers = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    format!("HTTP/1.1 {status} S\r\n{}", headers.collect::<String>())
}

/// As a server with a handshake answers; `None`: a call, which the test answers.
pub fn with_handshake(asked: &Asked) -> Option<Gives> {
    let is_stateless = asked.header("mcp-protocol-version") == Some("2026-07-28");
    Some(match (asked.verb.as_str(), asked.method().as_str()) {
        ("POST", _) if is_stateless => Gives::status(400),
        ("POST", "initialize") => Gives::json(&asked.result(json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "over http", "version": "1" } })))
        .with("mcp-session-id", &format!("session-{}", asked.before)),
        ("POST", method) if method.starts_with("notifications/") => Gives::status(202),
        ("POST", "tools/list") => {
            let tool = json!({ "name": "do", "inputSchema": { "type": "object" } });
            Gives::json(&asked.result(json!({ "tools": [tool] })))
        }
        ("POST", _) => return None,
        ("DELETE", _) => Gives::status(200),
        _ if asked.header("last-event-id").is_some() => return None,
        _ => Gives::status(405),
    })
}

/// As a server without a handshake answers; `None`: a call, which the test answers.
pub fn without_handshake(asked: &Asked) -> Option<Gives> {
    Some(match (asked.verb.as_str(), asked.method().as_str()) {
        ("POST", "server/discover") => Gives::json(&asked.result(json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {} },
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "over http" } } }))),
        ("POST", "tools/list") => {
            let tool = json!({ "name": "do", "inputSchema": { "type": "object" } });
            Gives::json(&asked.result(json!({ "resultType": "complete", "tools": [tool] })))
        }
        ("POST", _) => return None,
        _ => Gives::status(405),
    })
}
