//! A server that is tested, and a client that can send anything: also what no HTTP library would.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Home, Live};

pub const LIMIT: Duration = Duration::from_secs(180);

/// `rewake serve` on a port of its own.
pub struct Serve {
    pub live: Live,
    pub port: u16,
    /// Of the link that it printed.
    pub token: String,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("no JSON: {e}: {}\n{}", self.head, self.text()))
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Reply {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.text());
        self
    }

    /// Refused with an error and a hint, as every refusal is.
    #[track_caller]
    pub fn refused(self, status: u16, words: &str) -> Reply {
        let reply = self.expect(status);
        let problem = reply.json();
        let error = problem["error"].as_str().expect("an error");
        let hint = problem["hint"].as_str().expect("a hint");
        let said = format!("{error} {hint}");
        assert!(said.contains(words), "{words:?} is not in {said}");
        reply
    }

    pub fn has_header(&self, line: &str) -> bool {
        let has = |l: &str| l.eq_ignore_ascii_case(line);
        self.head.lines().any(has)
    }
}

impl Serve {
    #[track_caller]
    pub fn start(home: &Home, args: &[&str]) -> Serve {
        Serve::start_as(home, args, |command| command)
    }

    /// The same with another command line than the one that is given.
    #[track_caller]
    pub fn start_as(home: &Home, args: &[&str], as_it: fn(Command) -> Command) -> Serve {
        // The server takes a port that is free. A link to another host names none.
        let port = match args.contains(&"--host") {
            true => free_port(),
            false => 0,
        };
        let address = format!("127.0.0.1:{port}");
        let listen = ["serve", "--listen", &address];
        let live = Live::spawn(as_it(home.rewake(listen.iter().chain(args))));
        let link = live.wait_for(LIMIT, |line| line.contains("/#token="));
        let (address, token) = link.split_once("/#token=").expect("a link");
        let named = || address.rsplit(':').next()?.parse().ok();
        Serve {
            port: match port {
                0 => named().expect("a port"),
                port => port,
            },
            token: token.to_string(),
            live,
        }
    }

    fn head(&self, method: &str, path: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n",
            self.port, self.token
        )
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connect");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        stream
    }

    /// These bytes, as they are.
    pub fn raw(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect();
        // A server that has enough may close before it has read all.
        let _ = stream.write_all(bytes);
        let (mut all, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        while !is_whole(&all) {
            match stream.read(&mut buffer) {
                // The end of a child of another test, where a handler was set for it.
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(n) => all.extend_from_slice(&buffer[..n]),
            }
        }
        let _ = stream.shutdown(Shutdown::Both);
        parse(&all)
    }

    pub fn get(&self, path: &str) -> Reply {
        self.raw(format!("{}\r\n", self.head("GET", path)).as_bytes())
    }

    /// With a JSON body.
    pub fn send(&self, method: &str, path: &str, body: &Value) -> Reply {
        self.body(
            method,
            path,
            "application/json",
            body.to_string().as_bytes(),
        )
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, body)
    }

    pub fn body(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> Reply {
        let head = self.head(method, path);
        let length = body.len();
        let head = format!("{head}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
        self.raw(&[head.as_bytes(), body].concat())
    }

    /// Asked until it is so.
    #[track_caller]
    pub fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + LIMIT;
        loop {
            let found = self.get(path).expect(200).json();
            if is_so(&found) {
                return found;
            }
            assert!(Instant::now() < end, "it never came: {found:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Follows a stream of events from this place on.
    pub fn follow(&self, path: &str, last: Option<u64>) -> Follow {
        let last = last.map_or(String::new(), |last| format!("Last-Event-ID: {last}\r\n"));
        let mut stream = self.connect();
        let head = format!("{}{last}\r\n", self.head("GET", path));
        stream.write_all(head.as_bytes()).expect("ask");
        Follow::of(stream)
    }
}

/// A port that nobody listens on, until somebody takes it.
fn free_port() -> u16 {
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    free.expect("a port").port()
}

/// Whether all came that the head says. A server that was not sent a whole body does not close.
fn is_whole(all: &[u8]) -> bool {
    let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&all[..end]).to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    length.is_some_and(|length| {
        length
            .trim()
            .parse()
            .is_ok_and(|length: usize| all.len() >= end + 4 + length)
    })
}

fn parse(all: &[u8]) -> Reply {
    let end = all.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(end) = end else {
        return Reply {
            status: 0,
            head: String::from_utf8_lossy(all).into_owned(),
            body: Vec::new(),
        };
    };
    let head = String::from_utf8_lossy(&all[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = &all[end + 4..];
    let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    Reply {
        status: status.unwrap_or(0),
        body: match is_chunked {
            true => dechunked(body),
            false => body.to_vec(),
        },
        head,
    }
}

fn dechunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
        let size = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let size = usize::from_str_radix(&size, 16).unwrap_or(0);
        let start = end + 2;
        if size == 0 || bytes.len() < start + size {
            break;
        }
        all.extend_from_slice(&bytes[start..start + size]);
        bytes = &bytes[(start + size + 2).min(bytes.len())..];
    }
    all
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub name: String,
    pub id: Option<u64>,
    pub data: Value,
}

/// The events so far, and whether the stream has ended.
type Events = (Vec<Event>, bool);

/// What came so far, whether the server has begun to follow for this client; and that more came.
type Came = Arc<(Mutex<(Events, bool)>, Condvar)>;

/// What came of a stream so far.
pub struct Follow {
    came: Came,
    stream: TcpStream,
}

impl Follow {
    fn of(stream: TcpStream) -> Follow {
        let came = Came::default();
        let (to, from) = (Arc::clone(&came), stream.try_clone().expect("a stream"));
        std::thread::spawn(move || {
            let mut event = Event {
                name: String::new(),
                id: None,
                data: Value::Null,
            };
            // Chunk sizes stand on lines of their own, which mean nothing as a field.
            for line in BufReader::new(from).lines() {
                let Ok(line) = line else {
                    break;
                };
                match line.trim_end().split_once(": ") {
                    Some(("id", id)) => event.id = id.parse().ok(),
                    Some(("event", name)) => event.name = name.to_string(),
                    Some(("data", data)) => {
                        event.data = serde_json::from_str(data).expect("JSON in an event");
                        let (lock, more) = &*to;
                        lock.lock().unwrap().0.0.push(event.clone());
                        more.notify_all();
                        event.id = None;
                    }
                    // Its first line.
                    Some(("retry", _)) => {
                        let (lock, more) = &*to;
                        lock.lock().unwrap().1 = true;
                        more.notify_all();
                    }
                    _ => {}
                }
            }
            let (lock, more) = &*to;
            lock.lock().unwrap().0.1 = true;
            more.notify_all();
        });
        Follow { came, stream }
    }

    /// Waits until this is so of the events. Whether the stream has ended comes with them.
    #[track_caller]
    pub fn until(&self, is_so: impl Fn(&[Event], bool) -> bool) -> Vec<Event> {
        self.wait(|events, _| is_so(&events.0, events.1))
    }

    /// Waits until the server follows: what is recorded from now on is told.
    #[track_caller]
    pub fn begun(&self) {
        self.wait(|_, has_begun| has_begun);
    }

    #[track_caller]
    fn wait(&self, is_so: impl Fn(&Events, bool) -> bool) -> Vec<Event> {
        let end = Instant::now() + LIMIT;
        let (lock, more) = &*self.came;
        let mut came = lock.lock().unwrap();
        while !is_so(&came.0, came.1) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it did not come: {:#?}", came.0);
            came = more.wait_timeout(came, left).unwrap().0;
        }
        came.0.0.clone()
    }

    /// Waits for an entry of this type.
    #[track_caller]
    pub fn entry(&self, kind: &str) -> Value {
        let is = |event: &Event| event.data["type"] == format!("entry.{kind}");
        let came = self.until(|all, _| all.iter().any(is));
        came.into_iter().find(is).expect("it came").data
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
