//! The page in a real browser: Debian's Chromium, driven over WebDriver.
//!
//! Where there is no browser the test says so. `REWAKE_PAGE_PICTURES` names a folder for pictures.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::scenes::{asking, calling};
use crate::server::client::{LIMIT, Reply, Serve};
use crate::server::routes::{base64, wide_gif};
use crate::server::{done_session, scripted, step, writes};
use support::{Live, skip_everywhere};

/// A phone that is narrow.
const WIDTH: u32 = 360;

struct Browser {
    driver: std::process::Child,
    at: Serve,
    session: String,
    // The browser's own files.
    _home: tempfile::TempDir,
}

impl Browser {
    /// `None`: there is none on this machine.
    fn open(scheme: &str) -> Option<Browser> {
        Browser::sized(scheme, WIDTH, 740)
    }

    fn sized(scheme: &str, width: u32, height: u32) -> Option<Browser> {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let home = tempfile::tempdir().unwrap();
        let mut driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .env("HOME", home.path())
            .env("TMPDIR", home.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let nothing = Live::spawn(Command::new("true"));
        let at = Serve {
            live: nothing,
            port,
            token: String::new(),
        };
        let end = Instant::now() + LIMIT;
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > end {
                let _ = driver.kill();
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let args = json!([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
            format!("--user-data-dir={}", home.path().join("data").display()),
        ]);
        let mobile =
            json!({"deviceMetrics": {"width": width, "height": height, "pixelRatio": 1.0}});
        let options = json!({"args": args, "mobileEmulation": mobile});
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}});
        let made = at.post("/session", &wanted);
        let Some(session) = made.json()["value"]["sessionId"]
            .as_str()
            .map(str::to_string)
        else {
            let _ = driver.kill();
            return None;
        };
        let browser = Browser {
            driver,
            at,
            session,
            _home: home,
        };
        let media = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let set = json!({"cmd": "Emulation.setEmulatedMedia", "params": {"features": media}});
        browser.post("/goog/cdp/execute", &set);
        Some(browser)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let reply: Reply = self
            .at
            .post(&format!("/session/{}{path}", self.session), body);
        assert_eq!(reply.status, 200, "{path} {body}: {}", reply.text());
        reply.json()["value"].clone()
    }

    fn go(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    fn script(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Asked until the script gives true. What it looks at may not be there yet.
    #[track_caller]
    fn until(&self, script: &str) {
        let end = Instant::now() + LIMIT;
        let script = format!("try {{ {script} }} catch (_) {{ return false }}");
        while self.script(&script) != true {
            let page = self.script("return document.body.innerText");
            assert!(
                Instant::now() < end,
                "{script}\nnever came; the page says:\n{page}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[track_caller]
    fn until_text(&self, text: &str) {
        self.until(&format!(
            "return document.body.innerText.includes({})",
            json!(text)
        ));
    }

    /// Typed and pressed as a person does.
    fn element(&self, css: &str) -> String {
        let found = self.post("/element", &json!({"using": "css selector", "value": css}));
        let id = found.as_object().and_then(|it| it.values().next()).cloned();
        id.and_then(|id| id.as_str().map(str::to_string))
            .expect("an element")
    }

    fn type_in(&self, css: &str, text: &str) {
        let id = self.element(css);
        self.post(&format!("/element/{id}/value"), &json!({ "text": text }));
    }

    #[track_caller]
    fn press(&self, css: &str) {
        self.until(&format!(
            "const b = document.querySelector({}); return Boolean(b && !b.disabled && !b.closest('[inert]'))",
            json!(css)
        ));
        let id = self.element(css);
        self.post(&format!("/element/{id}/click"), &json!({}));
    }

    fn resize(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": true});
        let set = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": size});
        self.post("/goog/cdp/execute", &set);
        self.until(&format!("return window.innerWidth === {width}"));
    }

    /// A picture for the documentation, where one is wanted.
    fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("REWAKE_PAGE_PICTURES") else {
            return;
        };
        let path = format!("/session/{}/screenshot", self.session);
        let taken = self.at.get(&path).json();
        let bytes = decoded(taken["value"].as_str().expect("a picture"));
        std::fs::write(std::path::Path::new(&folder).join(name), bytes).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let end = format!("/session/{}", self.session);
        drop(self.at.body("DELETE", &end, "application/json", b"{}"));
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let value = |c: u8| DIGITS.iter().position(|d| *d == c).unwrap_or(0);
    let four = |four: &[u8]| {
        let number = four.iter().fold(0, |n, c| n << 6 | value(*c));
        let ends = four.iter().filter(|c| **c == b'=').count();
        number.to_be_bytes()[5..8 - ends].to_vec()
    };
    text.as_bytes().chunks_exact(4).flat_map(four).collect()
}

/// As a person has it on a phone: follow, answer, send, search; with the server and the agent killed
/// in between.
#[test]
fn a_person_steers_a_session_from_a_phone() {
    let edit = (
        "edit",
        json!({"path": "total.py", "edits": [{"old": "sum(rows)", "new": "round(sum(rows), 2)"}]}),
    );
    let home = scripted(&[
        step("The total is not rounded. I will mend it.", &[edit]),
        step("`total()` is rounded now.", &[]),
        step("You are welcome, walrus.", &[]),
    ]);
    std::fs::write(
        home.path("total.py"),
        "def total(rows):\n    return sum(rows)\n",
    )
    .unwrap();
    let Some(browser) = Browser::open("light") else {
        return skip_everywhere("chromium and chromedriver");
    };
    let agent = |args: &[&str]| {
        Live::spawn(home.rewake(args.iter().chain(&[
            "--on-approval",
            "wait",
            "--output-format",
            "stream-json",
        ])))
    };
    let mut live = agent(&["-p", "Round the total to cents"]);
    live.wait_for(LIMIT, |line| line.contains("entry.asked"));
    let mut server = Serve::start(&home, &[]);
    let port = server.port;
    browser.go(&format!("http://127.0.0.1:{port}/#token={}", server.token));
    browser.until_text("Waits for you");
    browser.until("return !location.href.includes('token')");
    browser.picture("page-list.png");
    browser.press("#sessions a");
    browser.until_text("Change total.py?");
    browser.until_text("round(sum(rows), 2)");
    browser.until("return document.documentElement.scrollWidth <= window.innerWidth");
    browser.picture("page-question-light.png");

    // Words that are typed while the server dies, and the agent with it, are still there.
    browser.type_in("#text", "thank you");
    server.live.kill();
    live.kill();
    drop(live.wait(LIMIT));
    browser.until("return document.getElementById('link').className === 'lost'");
    browser.press("#send-it");
    browser.until_text("the text is still here");
    let listen = format!("127.0.0.1:{port}");
    server = {
        let live = Live::spawn(home.rewake(["serve", "--listen", &listen]));
        live.wait_for(LIMIT, |line| line.contains("#token="));
        Serve { live, ..server }
    };
    browser.until("return document.getElementById('link').textContent === 'connected'");
    // Nobody works in it: the answer starts it again.
    browser.press(".question .yes");
    browser.until_text("is rounded now");
    assert!(home.read("total.py").contains("round(sum(rows), 2)"));
    browser.until("return document.querySelectorAll('.question').length === 0");
    browser.until("return document.getElementById('text').value === 'thank you'");
    // A reload keeps them, too, and each entry is there once.
    browser.post("/refresh", &json!({}));
    browser.until("return document.getElementById('text').value === 'thank you'");
    browser.press("#send-it");
    browser.until_text("You are welcome, walrus.");
    browser.until("return document.getElementById('text').value === ''");
    let once = "const all = [...document.querySelectorAll('#log .words')].map(e => e.textContent); \
                return all.filter(t => t.includes('welcome')).length === 1 && all.filter(t => t === 'thank you').length === 1";
    browser.until(once);
    browser.picture("page-session-light.png");

    browser.press("#back");
    done_session(&home, "another task");
    browser.until("return document.querySelectorAll('#sessions a').length === 2");
    browser.type_in("#words", "walrus");
    browser.until("return document.querySelectorAll('#sessions a').length === 1");
    browser.until_text("welcome, walrus");
    drop(server);
}

/// An image is seen as what it is, and a file that is written anew as what changes in it.
#[test]
fn images_and_changes_of_whole_files_are_seen() {
    let lines = |total: &str| -> String {
        let rows = (0..40).map(|n| format!("row_{n} = {n}\n"));
        rows.chain([format!("{total}\n")]).collect()
    };
    let write = (
        "write",
        json!({"path": "total.py", "content": lines("total = round(sum, 2)")}),
    );
    let home = scripted(&[
        step("ok", &[]),
        step("", &[("read", json!({"path": "total.py"}))]),
        step("I write it anew.", &[write]),
        step("It is written now.", &[]),
    ]);
    std::fs::write(home.path("total.py"), lines("total = sum")).unwrap();
    let id = done_session(&home, "look");
    let Some(browser) = Browser::open("light") else {
        return skip_everywhere("chromium and chromedriver");
    };
    let server = Serve::start(&home, &[]);
    let dot = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/e2e/server/dot.png"
    ));
    let images = [dot.unwrap(), wide_gif()].map(|bytes| json!({"data": base64(&bytes)}));
    let message = json!({"text": "see these", "images": images, "start": true});
    server
        .post(&format!("/sessions/{id}/messages"), &message)
        .expect(202);
    server.until("/questions", |asked| asked[0]["tool"] == "write");
    let link = format!("http://127.0.0.1:{}/#token={}", server.port, server.token);
    browser.go(&link);
    browser.press("#sessions a");
    browser.until_text("see these");
    let image = "document.querySelector('#log img')";
    browser.until(&format!(
        "const i = {image}; return Boolean(i && i.complete && i.naturalWidth > 0)"
    ));
    assert_eq!(
        browser.script(&format!("return {image}.alt")),
        "image 1 of 2"
    );
    // One that a browser could not bear says so.
    browser.until_text("image 2 of 2 is not shown: the image has 8000 x 8000 pixels");
    browser.until_text("-total = sum");
    let counts = "const q = document.querySelector('.question pre.whole'); \
                  return q.querySelectorAll('.add').length === 1 && q.querySelectorAll('.del').length === 1 \
                    && !q.innerText.includes('row_1 ')";
    browser.until(counts);
    browser.until("return document.querySelector('.question details summary').textContent === 'The whole new file'");
    browser.until("return document.documentElement.scrollWidth <= window.innerWidth");
    browser.picture("page-change-light.png");
    browser.press(".question .yes");
    browser.until_text("It is written now.");
    assert_eq!(home.read("total.py"), lines("total = round(sum, 2)"));
    // It is let go with the session.
    browser.press("#back");
    browser.until(&format!("return !{image}.hasAttribute('src')"));
}

/// What a session says is text, whatever it is.
#[test]
fn a_hostile_session_is_shown_and_does_nothing() {
    let hostile = "<script>window.hit=1</script><img src=x onerror=\"window.hit=1\">\u{1b}[31mred \u{202e}evil\u{202c} zero\u{200b}width \u{0}";
    let command = "echo safe\u{202e} # \u{200d}hidden; rm -rf x";
    let home = scripted(&[
        step(
            &hostile.replace('\0', "\u{7}"),
            &[("bash", json!({"command": command, "access": "network"}))],
        ),
        step("end", &[]),
    ]);
    let Some(browser) = Browser::open("dark") else {
        return skip_everywhere("chromium and chromedriver");
    };
    let prompt = "javascript:alert(1) <b>bold</b> \u{202e}drow";
    let live = asking(&home, prompt);
    let server = Serve::start(&home, &[]);
    browser.go(&format!(
        "http://127.0.0.1:{}/#token={}",
        server.port, server.token
    ));
    browser.press("#sessions a");
    browser.until("return Boolean(document.querySelector('.question h3'))");
    for shown in [
        "<script>window.hit=1</script>",
        "\u{241b}[31mred",
        "<U+202E>",
        "<U+200B>",
        "<b>bold</b>",
        "\u{2407}",
    ] {
        browser.until_text(shown);
    }
    // In a command each character counts.
    browser.until("return document.querySelector('.question pre').innerText.includes('<U+200D>')");
    browser.until("return window.hit === undefined && document.querySelectorAll('#log script, #log img, #log b').length === 0");
    browser.until(
        "return getComputedStyle(document.documentElement).backgroundColor === 'rgb(20, 20, 23)'",
    );
    browser.until("return document.documentElement.scrollWidth <= window.innerWidth");
    // Every control has a name that a screen reader says.
    let named = "return [...document.querySelectorAll('main:not([hidden]) button, main:not([hidden]) input, main:not([hidden]) textarea')]\
                 .every(e => e.labels && e.labels.length || e.textContent.trim() || e.getAttribute('aria-label'))";
    browser.until(named);
    browser.picture("page-question-dark.png");
    browser.type_in(".question input", "no harm");
    browser.press(".question .answers button:not(.yes)");
    browser.until_text("denied: the user said no: no harm");
    drop(live);
    // Without a token nothing is shown.
    browser.script("sessionStorage.clear()");
    browser.go(&format!("http://127.0.0.1:{}/", server.port));
    browser.post("/refresh", &json!({}));
    browser.until_text("Paste your link");
}

/// A way to the server that can die: what is sent on it goes nowhere then, and it is not closed.
struct DyingWay {
    port: u16,
    is_dead: Arc<AtomicBool>,
}

impl DyingWay {
    fn to(server: u16) -> DyingWay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_dead = Arc::new(AtomicBool::new(false));
        let dead = Arc::clone(&is_dead);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                let ways = [
                    (near.try_clone().unwrap(), far.try_clone().unwrap()),
                    (far, near),
                ];
                for (from, to) in ways {
                    let dead = Arc::clone(&dead);
                    std::thread::spawn(move || carry(from, to, &dead));
                }
            }
        });
        DyingWay { port, is_dead }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, dead: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(_) if dead.load(Ordering::SeqCst) => {}
            Ok(n) if to.write_all(&buffer[..n]).is_err() => break,
            Ok(_) => {}
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Nothing says that a connection is dead but that nothing comes.
#[test]
fn a_dead_connection_is_detected_and_reopened() {
    let home = writes();
    let Some(browser) = Browser::open("light") else {
        return skip_everywhere("chromium and chromedriver");
    };
    let server = Serve::start(&home, &[]);
    let way = DyingWay::to(server.port);
    browser.go(&format!(
        "http://127.0.0.1:{}/#token={}",
        way.port, server.token
    ));
    browser.until("return document.getElementById('link').textContent === 'connected'");
    way.is_dead.store(true, Ordering::SeqCst);
    // Sooner than a person would want it.
    browser.script("silent = 1000; patience = 1000");
    browser.until("return document.getElementById('link').className === 'lost'");
    let begin = json!({"prompt": "write it", "folder": home.workspace()});
    server.post("/sessions", &begin).expect(201);
    server.until("/questions", |asked| asked[0]["tool"] == "write");
    way.is_dead.store(false, Ordering::SeqCst);
    browser.script("silent = 40000; patience = 20000; window.dispatchEvent(new Event('online'))");
    browser.until("return document.getElementById('link').textContent === 'connected'");
    browser.until_text("write f");
    // The same in a session, and what came meanwhile is there.
    browser.press("#sessions a");
    browser.until_text("Write f?");
    way.is_dead.store(true, Ordering::SeqCst);
    browser.script("silent = 1000; patience = 1000");
    browser.until("return document.getElementById('link').className === 'lost'");
    let asked = server.get("/questions").json();
    let id = asked[0]["session"].as_str().unwrap();
    let verdict = json!({"verdict": "allow"});
    server
        .post(&format!("/sessions/{id}/verdicts"), &verdict)
        .expect(202);
    server.until(&format!("/sessions/{id}"), |s| s["state"] == "done");
    way.is_dead.store(false, Ordering::SeqCst);
    browser.script(
        "silent = 40000; patience = 20000; document.dispatchEvent(new Event('visibilitychange'))",
    );
    browser.until("return document.getElementById('link').textContent === 'connected'");
    browser.until("return document.getElementById('about').textContent.startsWith('done')");
    browser.until("return document.querySelectorAll('.question').length === 0");
}

/// Who looks elsewhere learns of a question.
#[test]
fn questions_are_counted_in_the_title_and_notified() {
    let home = writes();
    let Some(browser) = Browser::open("light") else {
        return skip_everywhere("chromium and chromedriver");
    };
    let server = Serve::start(&home, &[]);
    browser.go(&format!(
        "http://127.0.0.1:{}/#token={}",
        server.port, server.token
    ));
    browser.until("return document.getElementById('link').textContent === 'connected'");
    browser.script(
        "window.shown = []; \
         window.Notification = class { \
           constructor(title, more) { window.shown.push(title + '|' + more.body); } \
           close() {} \
           static permission = 'default'; \
           static async requestPermission() { Notification.permission = 'granted'; } \
         }; \
         Object.defineProperty(document, 'hidden', { get: () => true }); \
         offerCalls()",
    );
    browser.press("#notify");
    browser.until("return document.getElementById('notify').hidden");
    let begin = json!({"prompt": "write it", "folder": home.workspace()});
    server.post("/sessions", &begin).expect(201);
    browser.until(
        "const a = document.querySelector('#sessions a'); return Boolean(a && (a.seen = true))",
    );
    browser.until("return document.title === '(1) rewake'");
    // The link is still the one that somebody may be pressing.
    browser.until_text("waits for an answer");
    let same = browser.script(
        "return refresh(scope.signal).then(() => document.querySelector('#sessions a').seen)",
    );
    assert_eq!(same, true, "a refresh replaced the link");
    let shown = browser.script("return window.shown");
    assert_eq!(shown, json!(["rewake asks: write it|write f"]));
    browser.press("#sessions a");
    browser.until("return document.title === '(1) write it · rewake'");
    browser.press(".question .yes");
    browser.until("return document.title === 'write it · rewake'");
    assert_eq!(browser.script("return window.shown.length"), 1);
}

/// The danger of a command is said before it is allowed.
#[test]
fn a_command_without_the_sandbox_says_what_it_could_do() {
    let command = json!({"command": "echo hi", "access": "full"});
    let home = calling(&[("bash", command)]);
    let server = Serve::start(&home, &[]);
    let begin = json!({"prompt": "run it", "folder": home.workspace()});
    server.post("/sessions", &begin).expect(201);
    let asked = server.until("/questions", |asked| asked[0]["tool"] == "bash");
    let danger = "NO SANDBOX: can read and change all your files, use your keys and the network";
    assert_eq!(asked[0]["access_text"], danger);
    assert_eq!(asked[0]["no_sandbox"], true);
    let Some(browser) = Browser::open("light") else {
        return skip_everywhere("chromium and chromedriver");
    };
    browser.go(&format!(
        "http://127.0.0.1:{}/#token={}",
        server.port, server.token
    ));
    browser.press("#sessions a");
    browser.until_text("Run this command without the sandbox?");
    browser.until_text(danger);
    browser.press(".question .answers button:not(.yes)");
    browser.until_text("denied: the user said no");
}

/// The sizes of two phones and of a screen on a desk.
const SIZES: [(&str, u32, u32); 3] = [
    ("small", 390, 664),
    ("phone", 390, 844),
    ("desk", 1280, 800),
];

/// The empty box names itself in one line.
const MESSAGE_FITS: &str = "const box = document.getElementById('text'); const style = getComputedStyle(box); \
     const pen = document.createElement('canvas').getContext('2d'); pen.font = style.font; \
     const room = box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight); \
     return pen.measureText(box.placeholder).width <= room && box.scrollHeight <= box.clientHeight";

/// A change of a line fits on a small phone. The page says it as the screen does, each thing once.
#[test]
fn a_small_change_is_asked_in_the_words_of_the_screen_without_a_scroll() {
    let edit = (
        "edit",
        json!({"path": "./tally.py", "edits": [{"old": "sum(rows)", "new": "round(sum(rows), 2)"}]}),
    );
    let failing = (
        "edit",
        json!({"path": "tally.py", "edits": [{"old": "is not there", "new": "x"}]}),
    );
    let run = |command: &str| {
        let call = json!({"command": command, "access": "workspace"});
        step("", &[("bash", call)])
    };
    let home = scripted(&[
        step("I round it.", &[edit]),
        step("", &[failing]),
        run("seq 4"),
        run("seq 60"),
        run("seq 60; exit 3"),
        step("It is done.", &[]),
    ]);
    let text = "def tally(rows):\n    return sum(rows)\n";
    std::fs::write(home.path("tally.py"), text).unwrap();
    let Some(browser) = Browser::sized("light", 390, 664) else {
        return skip_everywhere("chromium and chromedriver");
    };
    let server = Serve::start(&home, &[]);
    let begin = json!({"prompt": "Round the total", "folder": home.workspace()});
    server.post("/sessions", &begin).expect(201);
    browser.go(&format!(
        "http://127.0.0.1:{}/#token={}",
        server.port, server.token
    ));
    browser.press("#sessions a");
    let title = |title: &str| {
        browser.until(&format!(
            "return document.querySelector('.question h3').textContent === {}",
            json!(title)
        ));
    };
    title("Change ./tally.py? · +1 −1");
    browser.until("return !document.querySelector('.question .yes').disabled");
    // The reason is a sentence with code in it. No link is followed, so none is named.
    browser.until("return document.querySelector('.question > p').textContent.startsWith('It ')");
    browser.until("return document.querySelectorAll('.question > p code').length > 0");
    let said = browser.script("return document.querySelector('.question').innerText");
    let said = said.as_str().unwrap();
    for other in ["`", "leads to", "Scroll to the end"] {
        assert!(!said.contains(other), "{other}: {said}");
    }
    assert_eq!(
        browser.script("return document.querySelector('.question').scrollTop"),
        0
    );
    browser.until(
        "return document.querySelector('.question summary').textContent === 'The requested edits'",
    );
    let leads = "const to = (path, leads_to) => linkOf({ folder: '/w', arguments: { path }, leads_to }); \
                 return [to('a', '/w/a'), to('././a', '/w/a'), to('/w//a', '/w/a'), to('a', '/w/b')]";
    assert_eq!(
        browser.script(leads),
        json!(["", "", "", " · leads to /w/b"])
    );
    browser.picture("small-edit.png");
    browser.press(".question .yes");
    for command in ["seq 4", "seq 60", "seq 60; exit 3"] {
        // The text above the command names its access, and the command does not.
        browser.until(&format!(
            "return document.querySelector('.question pre').textContent === {}",
            json!(command)
        ));
        title("Run this command?");
        browser.until("const q = document.querySelector('.question').innerText; return q.split(/access/i).length === 2");
        browser.press(".question .yes");
    }
    browser.until_text("It is done.");
    let call = |place: usize, what: &str| {
        browser.script(&format!(
            "const li = document.querySelectorAll('#log .call')[{place}]; return {what}"
        ))
    };
    assert_eq!(call(1, "li.className"), "call bad");
    assert!(
        call(1, "li.querySelector('.end').textContent")
            .as_str()
            .unwrap()
            .starts_with("failed")
    );
    assert_eq!(
        call(1, "getComputedStyle(li.firstChild, '::before').content"),
        "\"✗ \""
    );
    // Four lines are shown, and of sixty the last ones.
    assert_eq!(call(2, "li.querySelectorAll('details').length"), 0);
    assert_eq!(call(2, "li.querySelector('pre').textContent"), "1\n2\n3\n4");
    assert_eq!(
        call(3, "li.querySelector('summary').textContent"),
        "60 lines"
    );
    assert_eq!(
        call(3, "li.querySelector('pre.last').textContent"),
        "58\n59\n60"
    );
    assert_eq!(
        call(
            4,
            "li.querySelector('pre.last').textContent.split('\\n')[0]"
        ),
        "51"
    );
    let end = call(4, "li.querySelector('.end').textContent");
    assert!(end.as_str().unwrap().starts_with("exit 3"), "{end}");
    browser.until("const all = document.querySelectorAll('#log > li'); return /^done.* · 1 command failed$/.test(all[all.length - 1].textContent)");
    browser.picture("small-done.png");
}

/// The time of a turn is that of the screen: questions and absences do not count.
#[test]
fn the_end_of_a_turn_has_its_time() {
    let home = scripted(&[step("ok", &[])]);
    let Some(browser) = Browser::open("light") else {
        return skip_everywhere("chromium and chromedriver");
    };
    let server = Serve::start(&home, &[]);
    browser.go(&format!("http://127.0.0.1:{}/", server.port));
    let entry = |at_ms: u64, mut entry: Value| {
        entry["at_ms"] = at_ms.into();
        entry
    };
    let text = json!([{"type": "text", "text": "ok"}]);
    let replied = |at_ms| {
        entry(
            at_ms,
            json!({"type": "entry.replied", "stop": "end_turn", "blocks": text, "took_ms": 2_000}),
        )
    };
    let ran = json!({"type": "entry.finished", "outcome": {"outcome": "done"}, "fact": {"took_ms": 40_000, "exit_code": 1}});
    let log = json!([
        entry(1_000, json!({"type": "entry.said"})),
        entry(3_000, json!({"type": "entry.asked"})),
        entry(100_000, json!({"type": "entry.decided", "by": "person"})),
        entry(101_000, json!({"type": "entry.started"})),
        entry(901_000, json!({"type": "entry.woke", "by": "person"})),
        entry(902_000, ran),
        replied(903_000),
        replied(950_000),
        entry(960_000, json!({"type": "entry.said"})),
        entry(960_500, json!({"type": "entry.stopped"})),
    ]);
    let ends = browser.script(&format!(
        "const log = {log}; const session = {{}}; return log.map(e => endOfTurn(session, e)).filter(Boolean)"
    ));
    let wanted = [
        "done in 45 s · 1 command failed",
        "done in 2 s",
        "stopped by you",
    ];
    assert_eq!(ends, json!(wanted));
}

/// The buttons of a question stay above the bar, however long the question and wherever the page is
/// scrolled. What is allowed was seen to its end.
#[test]
fn a_question_never_hides_its_buttons() {
    let rows = |n: usize| {
        (0..n)
            .map(|n| format!("row_{n} = {n}\n"))
            .collect::<String>()
    };
    let long_name = "-with-a-long-name".repeat(5);
    let many: Vec<String> = (0..60).map(|n| format!("touch f{n}{long_name}")).collect();
    for (size, width, height) in SIZES {
        let change = json!({"path": "total.py", "content": format!("{}total = 1\n", rows(40))});
        let long = json!({"command": many.join(" && "), "access": "workspace"});
        let home = scripted(&[
            step("I read it.", &[("read", json!({"path": "total.py"}))]),
            step(
                &format!("# Plan\n\n{}", "word ".repeat(400)),
                &[("write", change)],
            ),
            step("", &[("bash", long)]),
            step(
                "",
                &[(
                    "bash",
                    json!({"command": "touch more", "access": "workspace"}),
                )],
            ),
            step("It is done.", &[]),
        ]);
        std::fs::write(home.path("total.py"), rows(40)).unwrap();
        let server = Serve::start(&home, &[]);
        let link = format!("http://127.0.0.1:{}/#token={}", server.port, server.token);
        let mut browsers = Vec::new();
        for scheme in ["light", "dark"] {
            let Some(browser) = Browser::sized(scheme, width, height) else {
                return skip_everywhere("chromium and chromedriver");
            };
            browser.go(&link);
            browser.until("return document.getElementById('link').textContent === 'connected'");
            browsers.push((scheme, browser));
        }
        let begin = json!({"prompt": "Round the total", "folder": home.workspace()});
        server.post("/sessions", &begin).expect(201);
        server.until("/questions", |asked| asked[0]["tool"] == "write");
        let stays = "const bar = document.querySelector('footer').getBoundingClientRect(); \
                     const row = [...document.querySelectorAll('.bar > *, #send > :not(label)')].filter(e => e.offsetHeight).map(e => e.getBoundingClientRect()); \
                     const all = [...document.querySelectorAll('.question .answers button')]; \
                     return all.length >= 2 && bar.height < 70 && bar.bottom <= window.innerHeight \
                       && row.every(r => r.top >= bar.top && r.bottom <= bar.bottom && r.right <= window.innerWidth) \
                       && document.documentElement.scrollWidth <= window.innerWidth \
                       && all.every(b => { const r = b.getBoundingClientRect(); const on = document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2); \
                            return r.top >= 0 && r.bottom <= bar.top && b.contains(on); })";
        for (scheme, browser) in &browsers {
            browser.until_text("Waits for you");
            // On top of the list, before the form that starts a session.
            browser.until("const y = id => document.getElementById(id).getBoundingClientRect().top; return y('asks') < y('start-form')");
            browser.press("#sessions a");
            browser.until_text("Write total.py?");
            browser.until_text("+total = 1");
            browser.until(stays);
            browser.script("window.scrollTo(0, 0)");
            browser.until(stays);
            browser.picture(&format!("{size}-{scheme}-change.png"));
        }
        browsers[0].1.press(".question .yes");
        for (scheme, browser) in &browsers {
            browser.until_text("Run this command?");
            browser.until(stays);
            browser.until_text("Scroll to the end to allow it.");
            browser.until("return document.querySelector('.question .yes').disabled && !document.querySelector('.question .answers button:not(.yes)').disabled");
            browser.picture(&format!("{size}-{scheme}-long.png"));
            browser.script(
                "const q = document.querySelector('.question'); q.scrollTop = q.scrollHeight",
            );
            browser.until("return !document.querySelector('.question .yes').disabled");
            browser.until(stays);
        }
        // As on the screen: no further command of this kind is asked.
        browsers[1].1.until_text("For this session allows touch");
        browsers[1].1.press(".question .yes:nth-of-type(2)");
        for (_, browser) in &browsers {
            browser.until_text("It is done.");
            browser.until("return document.querySelectorAll('.question').length === 0");
        }
        assert!(home.path(format!("f59{long_name}")).exists() && home.path("more").exists());
    }
}

/// A double tap does not answer the question that comes after the answered one.
#[test]
fn a_question_that_comes_to_the_front_is_not_answered_at_once() {
    let home = scripted(&[step("ok", &[])]);
    done_session(&home, "x");
    let Some(browser) = Browser::open("light") else {
        return skip_everywhere("chromium and chromedriver");
    };
    let server = Serve::start(&home, &[]);
    browser.go(&format!(
        "http://127.0.0.1:{}/#token={}",
        server.port, server.token
    ));
    browser.press("#sessions a");
    browser.until("return view && view.last !== null");
    // The page itself draws no questions meanwhile.
    let inert = browser.script(
        "const draw = drawQuestions; drawQuestions = () => {}; \
         const ask = call => ({ call, asked: 1, tool: 'bash', arguments: { command: 'ls' }, why: 'why' }); \
         const ready = async (css) => { while (document.querySelector(css).disabled) await new Promise(done => setTimeout(done, 20)); }; \
         const front = (...calls) => { draw(view, calls.map(ask)); return document.querySelector('.question'); }; \
         return (async () => { \
           front(1, 2); \
           await ready('.question .yes'); \
           await ready('.question + .question .answers button:not(.yes)'); \
           const first = front(1, 2).inert; \
           return [first, front(2).inert]; \
         })()",
    );
    assert_eq!(inert, json!([false, true]));
    browser.press(".question .yes");
}

/// The connection dies in the middle of an answer, and comes back in the middle or after its end.
#[test]
fn a_phone_that_sleeps_in_the_middle_of_an_answer_sees_each_word_once() {
    let words: String = (0..300).map(|n| format!("word{n} ")).collect();
    let slow = format!(
        "[[step]]\ntext = {}\nchunk_chars = 10\nchunk_ms = 80\n",
        json!(words)
    );
    let home = scripted(&[slow]);
    let Some(browser) = Browser::open("light") else {
        return skip_everywhere("chromium and chromedriver");
    };
    let server = Serve::start(&home, &[]);
    let way = DyingWay::to(server.port);
    browser.go(&format!(
        "http://127.0.0.1:{}/#token={}",
        way.port, server.token
    ));
    let begin = json!({"prompt": "speak", "folder": home.workspace()});
    let made = server.post("/sessions", &begin).expect(201).json();
    let id = made["session"].as_str().unwrap();
    browser.script(&format!("location.hash = 's={id}'"));
    let streams = |n: usize| {
        browser.until(&format!(
            "return document.getElementById('streamed').textContent.length > {n}"
        ));
    };
    let wakes = || {
        way.is_dead.store(false, Ordering::SeqCst);
        browser.script("window.dispatchEvent(new Event('online'))");
    };
    let once = "const text = document.getElementById('session').innerText; \
                const all = text.match(/word\\d+/g); return new Set(all).size === all.length";
    streams(40);
    way.is_dead.store(true, Ordering::SeqCst);
    browser.script("silent = 600; patience = 1000");
    browser.until("return document.getElementById('link').className === 'lost'");
    browser.script("silent = 40000; patience = 20000");
    wakes();
    streams(200);
    browser.until(once);
    way.is_dead.store(true, Ordering::SeqCst);
    server.until(&format!("/sessions/{id}"), |s| s["state"] == "done");
    wakes();
    browser.until("return document.getElementById('about').textContent.startsWith('done')");
    browser.until("return document.getElementById('session').innerText.includes('word299')");
    browser.until(once);
}

/// A session is started with the form, seen while its command runs, stopped, renamed and rewound.
#[test]
fn a_session_is_started_watched_renamed_and_rewound() {
    let markdown = "# Done\n\nThe **total** is *rounded* in `total.py`:\n\n```python\nround(x, 2)  # <b>\n```\n\n\
                    - one\n- two\n  1. inner\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> [docs](https://example.org/a_b) and \
                    [no](javascript:alert(1)) <img src=x onerror=\"window.hit=1\">";
    for (size, width, height) in SIZES {
        let waits = json!({"command": "echo begins; until [ -e gate ]; do sleep 0.05; done"});
        let write = json!({"path": "total.py", "content": "total = round(x, 2)\n"});
        let home = scripted(&[
            step("I wait.", &[("bash", waits)]),
            step("", &[("write", write)]),
            step(markdown, &[]),
            step("as you said", &[]),
        ]);
        let Some(browser) = Browser::sized("light", width, height) else {
            return skip_everywhere("chromium and chromedriver");
        };
        let server = Serve::start(&home, &["--scope", "admin"]);
        browser.go(&format!(
            "http://127.0.0.1:{}/#token={}",
            server.port, server.token
        ));
        browser.until_text("There are no sessions yet.");
        browser.type_in("#start-prompt", "Round the total");
        browser.press("#start summary");
        browser.until("return document.querySelectorAll('#models option').length > 5");
        let folder = home.workspace().display().to_string();
        // Without one it is that of the server, which the empty field names.
        let own = std::fs::canonicalize(home.workspace()).unwrap();
        browser.until(&format!(
            "return document.getElementById('start-folder').placeholder === {}",
            json!(own)
        ));
        for label in ["Pause after N answers", "Pause at a cost of (US$)"] {
            browser.until_text(label);
        }
        browser.type_in("#start-folder", &folder);
        browser.script("document.getElementById('start-mode').value = 'bypassPermissions'");
        browser.type_in("#start-turns", "9");
        browser.picture(&format!("{size}-start.png"));
        browser.press("#start-form button");
        // The command runs, and what it prints is there.
        browser.until("const p = document.querySelector('#running pre'); return Boolean(p && p.textContent === 'begins')");
        browser.until("return document.documentElement.scrollWidth <= window.innerWidth");
        // Once: the call is in the conversation again when it has ended.
        browser.until("return document.getElementById('session').innerText.split('until [ -e gate ]').length === 2");
        browser.script("window.shown = document.querySelector('#running li')");
        browser
            .until("return /^\\d+ s$/.test(document.querySelector('#running .end').textContent)");
        // No two buttons have one word, and each is large enough for a finger.
        browser.until("return !document.getElementById('stop').hidden");
        let buttons = "const all = [...document.querySelectorAll('#running button, .bar > button, .bar > form button')].filter(b => b.offsetHeight); \
                       const words = all.map(b => b.getAttribute('aria-label') || b.innerText); \
                       return words.length === 3 && new Set(words).size === 3 \
                         && all.every(b => b.offsetHeight >= 44 && b.offsetWidth >= 44)";
        browser.until(buttons);
        assert_eq!(
            browser.script("return document.querySelector('#running button').innerText"),
            "Stop command"
        );
        browser.picture(&format!("{size}-running.png"));
        if size == "small" {
            browser.resize(320, height);
            browser.until(MESSAGE_FITS);
            browser.until(buttons);
            browser.picture("narrow-running.png");
            browser.resize(width, height);
        }
        browser.script("return running(view)");
        browser.until("return window.shown === document.querySelector('#running li')");
        browser.press("#running button");
        browser.until("return document.querySelectorAll('#running li').length === 0");
        browser
            .until("return document.getElementById('log').innerText.includes('until [ -e gate ]')");
        // What each call changed.
        browser.until("const d = document.querySelector('#log .diff'); return Boolean(d && d.open && d.querySelector('.add').textContent.includes('round'))");
        browser.until("return document.querySelectorAll('#log .diff').length === 1");
        // Markdown is nodes, and nothing of it runs.
        browser.until("const m = document.querySelector('#log .md h3'); return Boolean(m && m.textContent === 'Done')");
        for found in [
            "strong",
            "em",
            "pre.code",
            "ul > li ol > li",
            "table td",
            "blockquote a[rel='noopener noreferrer']",
        ] {
            browser.until(&format!(
                "return document.querySelectorAll(\"#log .md {found}\").length > 0"
            ));
        }
        browser.until("return window.hit === undefined && document.querySelectorAll('#log img, #log b').length === 0");
        browser.until(
            "return [...document.querySelectorAll('#log a')].every(a => /^https?:/.test(a.href))",
        );
        browser.until("return document.documentElement.scrollWidth <= window.innerWidth");
        browser.picture(&format!("{size}-session.png"));
        // The new name is there at once, and the words that are typed stay, with the focus.
        browser.press("#menu summary");
        browser.script("document.getElementById('new-title').value = ''");
        browser.type_in("#new-title", "Rounded totals");
        browser.press("#rename button");
        browser.until("return document.getElementById('title').textContent === 'Rounded totals'");
        browser.type_in("#text", "and then");
        browser.press("#send-it");
        browser.until_text("as you said");
        browser.until("return document.getElementById('about').textContent.startsWith('done')");
        // Back to before the last message: first seen, then done.
        let back = "const all = document.querySelectorAll('#log .said button'); \
                    if (all.length) all[all.length - 1].click(); return all.length > 0";
        browser.until(back);
        browser.until("const p = document.getElementById('rewind-preview').textContent; return p.includes('becomes a new session')");
        browser.picture(&format!("{size}-rewind.png"));
        let first = browser.script("return view.id");
        browser.press("#rewind-it");
        browser.until(&format!(
            "return view && view.last !== null && view.id !== {first}"
        ));
        browser.until_text("forked from");
        browser.until("return !document.getElementById('log').innerText.includes('as you said')");
        browser.press("#back");
        browser.until("return document.querySelectorAll('#sessions a').length === 2");
        browser.until("return [...document.querySelectorAll('#sessions .row span:first-child')].every(e => e.textContent.endsWith('Rounded totals'))");
        // A further session chooses from the known folders.
        browser.script("document.getElementById('start').open = true; document.getElementById('start-folder').value = ''");
        browser.press("#folders button");
        let chosen = browser.script("return document.getElementById('start-folder').value");
        assert_eq!(chosen, folder.as_str());
        browser.picture(&format!("{size}-list.png"));
        server.until("/agent/history", |all| {
            let all = all["sessions"].as_array().unwrap();
            all.iter().all(|s| s["live"] == false)
        });
    }
}

/// Typed words, focus and scroll position stay while lists change.
#[test]
fn lists_change_in_place() {
    let home = scripted(&[]);
    let steps: Vec<String> = (0..40).map(|n| step(&format!("answer {n}"), &[])).collect();
    std::fs::write(home.rewake_home().join("script.toml"), steps.concat()).unwrap();
    for n in 0..12 {
        done_session(&home, &format!("task {n}"));
    }
    let Some(browser) = Browser::sized("light", 390, 844) else {
        return skip_everywhere("chromium and chromedriver");
    };
    let server = Serve::start(&home, &[]);
    browser.go(&format!(
        "http://127.0.0.1:{}/#token={}",
        server.port, server.token
    ));
    browser.until("return document.querySelectorAll('#sessions a').length === 12");
    let focus = "const a = document.querySelectorAll('#sessions a')[5]; a.focus(); window.scrollTo(0, 150); \
                 window.had = a; return window.scrollY";
    let at = browser.script(focus);
    assert_eq!(at, 150);
    // One below it moves to the top, and gets another name.
    let listed = server.get("/agent/history").json();
    let id = listed["sessions"][9]["id"].as_str().unwrap().to_string();
    let path = format!("/sessions/{id}");
    server
        .send("PATCH", &path, &json!({"title": "another name"}))
        .expect(202);
    browser.until(
        "return document.querySelector('#sessions .row span').textContent === 'another name'",
    );
    browser.until("return document.activeElement === window.had && window.had.isConnected");
    // A question that stays is the same node, with what is typed in it.
    let ask = (
        "ask_user",
        json!({"questions": [{"question": "Which?", "header": "One",
        "options": [{"label": "A"}, {"label": "B"}]}]}),
    );
    std::fs::write(home.rewake_home().join("script.toml"), step("", &[ask])).unwrap();
    let begin = json!({"prompt": "ask me", "folder": home.workspace()});
    let made = server.post("/sessions", &begin).expect(201).json();
    let id = made["session"].as_str().unwrap().to_string();
    server.until("/questions", |asked| asked[0]["form"]["wanted"].is_object());
    browser.script(&format!("location.hash = 's={id}'"));
    browser.until("return Boolean(document.querySelector('.question input:not([type])'))");
    browser.type_in("#questions input:not([type])", "none of them");
    browser.script("window.had = document.activeElement; return about(view)");
    let text = json!({"text": "waits for you"});
    server
        .post(&format!("/sessions/{id}/messages"), &text)
        .expect(202);
    browser.until_text("waits: waits for you");
    browser.until(
        "return document.activeElement === window.had && window.had.value === 'none of them'",
    );
    server
        .post(&format!("/sessions/{id}/stop"), &json!({}))
        .expect(202);
    server.until(&format!("/sessions/{id}"), |s| s["live"] == false);
}

#[test]
fn the_questions_of_the_model_are_answered_or_skipped_one_after_the_other() {
    let questions = json!([
        {"question": "Which database?", "header": "Database", "options": [{"label": "SQLite"}, {"label": "MySQL"}]},
        {"question": "Which name?", "header": "Name"},
        {"question": "Which parts?", "header": "Parts", "multiple": true, "options": [{"label": "A"}, {"label": "B"}]},
    ]);
    let ask = || step("", &[("ask_user", json!({ "questions": questions }))]);
    let home = scripted(&[ask(), ask(), step("done", &[])]);
    let Some(browser) = Browser::sized("light", 390, 2000) else {
        return skip_everywhere("chromium and chromedriver");
    };
    let server = Serve::start(&home, &[]);
    let begin = json!({"prompt": "choose", "folder": home.workspace()});
    let made = server.post("/sessions", &begin).expect(201).json();
    let id = made["session"].as_str().unwrap();
    browser.go(&format!(
        "http://127.0.0.1:{}/#token={}",
        server.port, server.token
    ));
    browser.until("return document.querySelectorAll('#sessions a').length === 1");
    // The list names the first of them.
    browser.until_text("The agent asks: Which database? · 3 questions");
    browser.script(&format!("location.hash = 's={id}'"));
    let (next, skip) = ("#questions .yes", "#questions .answers button:nth-child(3)");
    let says = |text: &str| browser.until_text(text);
    let hint = "Choose an answer first, or skip this question.";
    // Of the three questions and the last step, only this one is there.
    let at = |n: usize| {
        browser.until(&format!(
            "const all = [...document.querySelectorAll('#questions form > div:not(.answers), #questions form > .words')]; \
             return all.length === 4 && all.every((box, i) => box.hidden === (i !== {n}))"
        ));
    };
    at(0);
    let word = |word: &str| {
        browser.until(&format!(
            "return document.querySelector('#questions .yes').textContent === {}",
            json!(word)
        ));
    };
    word("Continue");
    says("In your own words");
    // Enter answers nothing.
    browser.press(next);
    says(hint);
    browser.press("#questions .options button:nth-child(1)");
    browser.press("#questions .options button:nth-child(2)");
    browser.press(next);
    at(1);
    browser.type_in("#questions form > div:nth-child(2) input", "ada\n");
    at(2);
    browser.press(next);
    says(hint);
    browser.press(skip);
    at(3);
    word("Send answers");
    says("Database: MySQL\nName: ada\nParts: skipped");
    let asked = server.get("/questions").json();
    assert!(asked[0]["form"].is_object(), "nothing was sent: {asked}");
    browser.press(next);
    // The second time all are skipped, which is a refusal.
    let of_second = server.until("/questions", |now| {
        now[0]["form"].is_object() && now[0]["asked"] != asked[0]["asked"]
    });
    browser.until(&format!(
        "return document.querySelector('#questions .question').dataset.call === {:?}",
        of_second[0]["call"].as_str().unwrap()
    ));
    for n in 0..3 {
        at(n);
        browser.press(skip);
    }
    says("Database: skipped\nName: skipped\nParts: skipped");
    browser.press(next);
    server.until(&format!("/sessions/{id}"), |s| s["state"] == "done");
    let entries = server.get(&format!("/sessions/{id}/entries?from=1")).json();
    let all = entries.to_string();
    assert!(all.contains("Database: MySQL"), "{all}");
    assert!(all.contains("Parts: not answered"), "{all}");
    assert!(all.contains("the user did not answer"), "{all}");
}

/// Two tabs of one browser, each with the link of another scope.
#[test]
fn each_tab_has_the_scope_of_its_own_token() {
    let home = scripted(&[step("ok", &[])]);
    done_session(&home, "x");
    let Some(browser) = Browser::open("light") else {
        return skip_everywhere("chromium and chromedriver");
    };
    let server = Serve::start(&home, &[]);
    let tokens = std::fs::read_to_string(home.rewake_home().join("keys/.serve.token")).unwrap();
    let read = tokens
        .lines()
        .find_map(|line| line.strip_prefix("read "))
        .unwrap();
    let may = |expected: bool| {
        browser.press("#sessions a");
        browser.until("return view && view.last !== null");
        let shown = "return getComputedStyle(document.querySelector('main:not([hidden]) footer')).display !== 'none'";
        assert_eq!(browser.script(shown), expected);
        browser.press("#back");
        let shown =
            "return getComputedStyle(document.getElementById('start-form')).display !== 'none'";
        assert_eq!(browser.script(shown), expected);
    };
    browser.go(&format!(
        "http://127.0.0.1:{}/#token={}",
        server.port, server.token
    ));
    may(true);
    let first = browser
        .at
        .get(&format!("/session/{}/window", browser.session))
        .json()["value"]
        .clone();
    let made = browser.post("/window/new", &json!({"type": "tab"}));
    browser.post("/window", &json!({"handle": made["handle"]}));
    browser.go(&format!("http://127.0.0.1:{}/#token={read}", server.port));
    may(false);
    // Neither a reload of the one nor of the other changes anything.
    for (tab, expected) in [(&first, true), (&made["handle"], false), (&first, true)] {
        browser.post("/window", &json!({ "handle": tab }));
        browser.post("/refresh", &json!({}));
        may(expected);
    }
    assert_eq!(
        browser.script("return localStorage.length + document.cookie.length"),
        0
    );
}
