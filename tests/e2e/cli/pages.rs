//! `web_fetch` and `web_search`: pages of a server on this machine, which the user's config allows.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

use crate::cli::{LIMIT, SCRIPTED, play, results, step, streamed};
use support::{Authority, Home, Live, Options, Says, Server};

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
    let (path, query) = path.split_once('?').unwrap_or((&path, ""));
    let (status, body) = match path {
        "/search" => {
            assert!(query.ends_with("&format=json"), "{query}");
            let json = include_str!("../../fixtures/searxng.json");
            ("200 OK\r\ncontent-type: application/json", json.to_string())
        }
        "/html" => ("200 OK\r\ncontent-type: text/html", PAGE.to_string()),
        "/403" => ("403 Forbidden", String::new()),
        "/away" => ("302 Found\r\nlocation: http://other.test/y", String::new()),
        "/deep" => (
            "200 OK",
            format!("<title>Deep</title>{}x", "<div>".repeat(100_000)),
        ),
        "/slow" => {
            let attributes = (0..400_000).map(|n| format!(" a{n}"));
            let attributes: String = attributes.collect();
            (
                "200 OK",
                format!("<title>Slow</title><p{attributes}>the end"),
            )
        }
        "/long" => ("200 OK", format!("<p>{}", "many words <p>".repeat(5_000))),
        "/none" => ("404 Not Found", String::new()),
        _ => ("200 OK", PAGE.to_string()),
    };
    let html = match status.contains("content-type") {
        true => "",
        false => "content-type: text/html\r\n",
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\n{html}content-length: {}\r\nconnection: close\r\n\r\n{body}",
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

/// A page may be made to keep its reader busy.
#[test]
fn a_page_that_takes_too_long_to_read_is_an_error() {
    let pages = Pages::start();
    let home = pages.home(&["/slow", "/a"], ALLOW);
    let found = fetched(&home, &[]);
    assert_eq!(found[0].0, "error");
    assert!(found[0].1.contains("it took too long"), "{}", found[0].1);
    assert!(found[1].1.contains("# Head"), "{}", found[1].1);
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

/// A home with a search server whose model searches for these.
fn searching(pages: &Pages, path: &str, queries: &[&str], more: &str) -> Home {
    let home = Home::new();
    let call = |query: &&str| step("", &[("web_search", json!({ "query": query }))]);
    let mut steps: Vec<String> = queries.iter().map(call).collect();
    steps.push(step("done", &[]));
    play(&home, &steps);
    home.write_config(&format!(
        "{SCRIPTED}[web]\nsearch_url = {:?}\n{more}",
        pages.url(path)
    ));
    home
}

const MAY_SEARCH: &str = "[permissions]\nallow = [\"WebSearch\"]\n";

#[test]
fn a_search_names_titles_addresses_and_excerpts() {
    let pages = Pages::start();
    let queries = ["tokio select", "tokio select", " ", &"q".repeat(600)];
    let home = searching(&pages, "/search", &queries, MAY_SEARCH);
    let found = fetched(&home, &[]);
    let text = &found[0].1;
    let start = "Results of a web search, not of the user:\n\n1. Select | Tokio - An asynchronous \
                 Rust runtime\nhttps://tokio.rs/tokio/tutorial/select\nThe tokio::select! macro";
    assert!(text.starts_with(start), "{text}");
    assert!(text.contains("\n10. "), "{text}");
    assert!(
        !text.contains("\n11. ") && !text.contains("javascript"),
        "{text}"
    );
    // The second is the recorded one.
    assert_eq!(found[1].1, *text);
    assert!(found[2].1.contains("`query` is empty"), "{}", found[2].1);
    assert!(
        found[3].1.contains("longer than 512 bytes"),
        "{}",
        found[3].1
    );
    assert_eq!(pages.requests(), ["/search?q=tokio+select&format=json"]);
}

#[test]
fn a_search_needs_a_rule_where_nobody_is_asked() {
    let pages = Pages::start();
    let is_denied = |query: &str, rules: &str| {
        let home = searching(&pages, "/search", &[query], rules);
        fetched(&home, &[])[0].0 == "denied"
    };
    assert!(is_denied("a", ""));
    assert!(is_denied("a", "[permissions]\nallow = [\"WebFetch\"]\n"));
    let denied = "[permissions]\nallow = [\"WebSearch\"]\ndeny = [\"WebSearch\"]\n";
    assert!(is_denied("a", denied));
    // Text of the session that the user did not write.
    assert!(is_denied(&"secret ".repeat(40), MAY_SEARCH));
    assert_eq!(pages.requests(), Vec::<String>::new());
    assert!(!is_denied("a", MAY_SEARCH));
}

#[test]
fn a_search_server_that_fails_is_named_with_the_setting() {
    let pages = Pages::start();
    for (path, why) in [
        ("/away", "redirects (HTTP 302 Found), which is not followed"),
        ("/html", "sent a page instead of JSON"),
        ("/403", "its owner adds `json` to `search.formats`"),
        ("/none", "failed (HTTP 404"),
    ] {
        let home = searching(&pages, path, &["a"], MAY_SEARCH);
        let found = fetched(&home, &[]);
        assert_eq!(found[0].0, "error");
        assert!(found[0].1.contains(why), "{}", found[0].1);
    }
    assert_eq!(pages.requests().len(), 4);
}

#[test]
fn only_the_users_own_config_names_a_search_server() {
    let pages = Pages::start();
    let home = searching(&pages, "/search", &["a"], "");
    home.write_config(&format!(
        "{SCRIPTED}[permissions]\nallow = [\"WebSearch\"]\n"
    ));
    let url = pages.url("/search");
    std::fs::create_dir(home.path(".rewake")).unwrap();
    let own = format!("[web]\nsearch_url = {url:?}\n");
    std::fs::write(home.path(".rewake/config.toml"), own).unwrap();
    home.run(["trust", "--yes"]);
    let found = fetched(&home, &[]);
    assert!(found[0].1.contains("no tool named"), "{}", found[0].1);
    let wrong = searching(&pages, "/search", &["a"], "");
    wrong.write_config(&format!("{SCRIPTED}[web]\nsearch_url = \"searx.test\"\n"));
    let ran = wrong.run(["-p", "go"]);
    assert_eq!(ran.code(), Some(2));
    assert!(
        ran.stderr.contains("web.search_url must be the address"),
        "{}",
        ran.stderr
    );
    assert_eq!(pages.requests(), Vec::<String>::new());
}

#[test]
fn a_page_with_an_unknown_certificate_is_not_read() {
    let options = Options {
        tls: Some(Authority::new().server("127.0.0.1")),
        ..Options::default()
    };
    let server = Server::start_with(options, |_| Says::text("secret").into());
    let home = Home::new();
    let url = format!("{}/page", server.root());
    play(&home, &[step("", &[fetch(&url)]), step("done", &[])]);
    let place = server.root().replace("https://", "");
    home.write_config(&format!("{SCRIPTED}[web]\nprivate = [{place:?}]\n{ALLOW}"));
    let found = fetched(&home, &[]);
    assert_eq!(found[0].0, "error");
    assert!(found[0].1.contains("certificate"), "{}", found[0].1);
    assert!(server.requests().is_empty());
}
