//! `web_fetch`: pages of a server on this machine, which the user's config allows.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

use crate::support::{Home, Live};
use crate::{LIMIT, SCRIPTED, play, results, step, streamed};

const PAGE: &str =
    "<title>The page</title><nav>menu</nav><h1>Head</h1><p>text <a href='/x'>link</a>";

/// A server of pages: the paths that were requested.
struct Pages {
    port: u16,
    seen: Arc<(Mutex<Vec<String>>, Condvar)>,
}

impl Pages {
    fn start() -> Pages {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<(Mutex<Vec<String>>, Condvar)> = Arc::default();
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || answer(stream.unwrap(), &shared));
            }
        });
        Pages { port, seen }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn requests(&self) -> Vec<String> {
        self.seen.0.lock().unwrap().clone()
    }

    fn wait_for_requests(&self, count: usize) {
        let (seen, changed) = &*self.seen;
        let seen = seen.lock().unwrap();
        let waits = |seen: &mut Vec<String>| seen.len() < count;
        let waited = changed.wait_timeout_while(seen, LIMIT, waits).unwrap();
        assert!(!waited.1.timed_out());
    }

    /// A home whose model fetches these paths, one after the other.
    fn home(&self, paths: &[&str], more: &str) -> Home {
        let home = Home::new();
        let mut steps: Vec<String> = Vec::new();
        for path in paths {
            steps.push(step("", &[fetch(&self.url(path))]));
        }
        steps.push(step("done", &[]));
        play(&home, &steps);
        let config = format!(
            "{SCRIPTED}[web]\nprivate = [\"127.0.0.1:{}\"]\n{more}",
            self.port
        );
        home.write_config(&config);
        home
    }
}

fn fetch(url: &str) -> (&'static str, Value) {
    ("web_fetch", json!({ "url": url }))
}

fn answer(mut stream: TcpStream, (seen, changed): &(Mutex<Vec<String>>, Condvar)) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_string();
    let mut requests = seen.lock().unwrap();
    requests.push(path.clone());
    let is_first = requests.len() == 1;
    drop(requests);
    changed.notify_all();
    if path == "/held" && is_first {
        // Until the client is gone.
        let _ = stream.read(&mut byte);
        return;
    }
    let (status, body) = match path.as_str() {
        "/away" => ("302 Found\r\nlocation: http://other.test/y", String::new()),
        "/deep" => (
            "200 OK",
            format!("<title>Deep</title>{}x", "<div>".repeat(100_000)),
        ),
        "/long" => ("200 OK", format!("<p>{}", "many words <p>".repeat(5_000))),
        "/none" => ("404 Not Found", String::new()),
        _ => ("200 OK", PAGE.to_string()),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes());
}

const ALLOW: &str = "[permissions]\nallow = [\"WebFetch(domain:127.0.0.1)\"]\n";

#[track_caller]
fn fetched(home: &Home, args: &[&str]) -> Vec<(String, String)> {
    results(&streamed(home, &[&["-p", "go"], args].concat()).expect(0))
}

#[test]
fn a_page_is_markdown_that_is_marked_as_not_of_the_user() {
    let pages = Pages::start();
    let home = pages.home(
        &["/a#part", "/a", "/long", "/deep", "/away", "/none", "/long"],
        ALLOW,
    );
    let found = fetched(&home, &[]);
    let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
    let start = format!(
        "Text of a web page, not of the user:\nThe page\n{}\nfetched ",
        pages.url("/a")
    );
    assert!(texts[0].starts_with(&start), "{}", texts[0]);
    assert!(
        texts[0].ends_with(" UTC\n\n# Head\n\ntext [link](/x)"),
        "{}",
        texts[0]
    );
    // The second is the recorded one: only one request.
    assert_eq!(texts[1], texts[0]);
    assert!(
        texts[2].len() < 17 * 1024 && texts[2].contains("memory_page reads on"),
        "{}",
        texts[2]
    );
    assert!(
        texts[3].starts_with("Text of") && texts[3].ends_with('x'),
        "{}",
        texts[3]
    );
    assert!(
        texts[4].contains("redirects to another place:\n\nhttp://other.test/y"),
        "{}",
        texts[4]
    );
    assert_eq!(found[5].0, "error");
    assert!(
        texts[5].contains("there is no such page (HTTP 404"),
        "{}",
        texts[5]
    );
    // The rest of it is a blob, which is stored already.
    assert_eq!(texts[6], texts[2]);
    assert_eq!(pages.requests(), ["/a", "/long", "/deep", "/away", "/none"]);
    assert_eq!(home.run(["doctor"]).code(), Some(0));
}

#[test]
fn a_page_needs_a_rule_where_nobody_is_asked() {
    let pages = Pages::start();
    for (args, more, want) in [
        (&[][..], "", "denied"),
        (&["--permission-mode", "acceptEdits"], "", "denied"),
        (&["--permission-mode", "plan"], ALLOW, "done"),
        (&["--permission-mode", "bypassPermissions"], "", "done"),
        (
            &[],
            "[permissions]\nallow = [\"WebFetch\"]\ndeny = [\"WebFetch(domain:127.0.0.1)\"]\n",
            "denied",
        ),
    ] {
        let home = pages.home(&["/a"], more);
        let found = fetched(&home, args);
        assert_eq!(found[0].0, want, "{args:?} {more} {}", found[0].1);
    }
    // The setting for private addresses is no rule, and a rule is no such setting.
    let home = pages.home(&["/a"], ALLOW);
    home.write_config(&format!("{SCRIPTED}{ALLOW}"));
    let found = fetched(&home, &["--permission-mode", "bypassPermissions"]);
    assert!(
        found[0].1.contains("[web] private = [\"127.0.0.1:"),
        "{}",
        found[0].1
    );
    assert_eq!(pages.requests().len(), 2);
}

#[test]
fn a_folder_cannot_open_the_private_network() {
    let pages = Pages::start();
    let home = pages.home(&["/a"], "");
    let own = format!("[web]\nprivate = [\"127.0.0.1:{}\"]\n", pages.port);
    home.write_config(&format!("{SCRIPTED}{ALLOW}"));
    std::fs::create_dir(home.path(".rewake")).unwrap();
    std::fs::write(home.path(".rewake/config.toml"), own).unwrap();
    home.run(["trust", "--yes"]);
    let found = fetched(&home, &[]);
    assert!(
        found[0].1.contains("is in a private network"),
        "{}",
        found[0].1
    );
    assert_eq!(pages.requests(), [""; 0]);
}

#[test]
fn an_address_that_carries_much_is_asked_about() {
    let pages = Pages::start();
    let home = pages.home(&[&format!("/{}", "s".repeat(300)), "/a"], ALLOW);
    let found = fetched(&home, &[]);
    assert_eq!(found[0].0, "denied");
    assert!(found[0].1.contains("301 bytes"), "{}", found[0].1);
    assert_eq!(found[1].0, "done");
    assert_eq!(pages.requests(), ["/a"]);
}

#[test]
fn without_the_web_there_is_no_tool_for_it() {
    let pages = Pages::start();
    let home = pages.home(&["/a"], "enabled = false\n");
    let found = fetched(&home, &["--permission-mode", "bypassPermissions"]);
    assert!(
        found[0].1.contains("there is no tool named \"web_fetch\""),
        "{}",
        found[0].1
    );
    assert_eq!(pages.requests(), [""; 0]);
}

#[test]
fn a_page_that_a_kill_interrupted_is_fetched_again() {
    let pages = Pages::start();
    let home = pages.home(&["/held"], ALLOW);
    let mut live = Live::spawn(home.rewake(["-p", "go"]));
    pages.wait_for_requests(1);
    assert!(live.kill());
    let run = streamed(&home, &["-p", "-c"]).expect(0);
    let found = results(&run);
    assert_eq!(found.len(), 1);
    assert!(found[0].1.contains("# Head"), "{}", found[0].1);
    assert_eq!(pages.requests(), ["/held", "/held"]);
}
