//! Calls act where they were judged to lead; what would fail anyway is not asked about; and the
//! questions of one answer come before any of its calls that needs one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::scenes::runtime;
use rewake::config::{self, Env, Paths};
use rewake::core::entry::{By, CallId, Entry, Outcome, SaveReason, Verdict, Via};
use rewake::engine::{Command, Engine, Event, RestReason};
use rewake::session::{AppContext, Session, SessionSelector};
use rewake::store::{Message, Store};
use rewake::workspace::here;
use support::Home;
use tokio::sync::mpsc::unbounded_channel;

const SECRET: &str = "not for the model";

/// A workspace with a folder `sub`, and a folder outside.
struct Scene {
    home: Home,
    outside: PathBuf,
}

impl Scene {
    /// `calls` are those of the one answer, in TOML.
    fn new(mode: &str, calls: &str) -> Scene {
        let home = Home::new();
        home.write_config(&format!(
            "model = \"s/x\"\npermission_mode = \"{mode}\"\n[providers.s]\nprotocol = \"script\"\nscript = \"s.toml\"\n"
        ));
        let script = format!("[[step]]\ncalls = [{calls}]\n[[step]]\ntext = \"done\"\n");
        fs::write(home.rewake_home().join("s.toml"), script).unwrap();
        fs::create_dir(home.path("sub")).unwrap();
        fs::write(home.path("sub/f"), "fine").unwrap();
        let outside = home.user().join("outside");
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("f"), SECRET).unwrap();
        Scene { home, outside }
    }

    fn swap(&self) -> impl Fn() + Send + Sync + 'static {
        let (sub, aside) = (self.home.path("sub"), self.home.path("aside"));
        let outside = self.outside.clone();
        move || {
            fs::rename(&sub, &aside).unwrap();
            symlink(&outside, &sub).unwrap();
        }
    }

    fn session(&self) -> Session {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let (rewake, user) = (text(self.home.rewake_home()), text(self.home.user()));
        let vars = [("REWAKE_HOME", rewake.as_str()), ("HOME", user.as_str())];
        let env = Env::new(vars, self.home.workspace());
        let paths = Paths::new(&env).unwrap();
        let here = here(&self.home.workspace()).unwrap();
        let loaded = config::load(&env, &paths, &here.root, &[]).unwrap();
        let ctx = AppContext {
            env,
            paths,
            here,
            loaded,
            flags: Vec::new(),
            given: Default::default(),
        };
        ctx.open(&SessionSelector::New, true).unwrap()
    }

    /// Says "go", and answers each question by `answer`; the entries, and the calls asked about
    /// with the place of each question.
    fn play(&self, session: Session, answer: impl Fn(CallId) -> Verdict + 'static) -> Played {
        let runtime = runtime();
        let id = session.id.clone();
        let Session {
            log,
            world,
            settings,
            lock,
            ..
        } = session;
        let (sender, inbox) = unbounded_channel();
        let asked = Rc::new(RefCell::new(Vec::new()));
        let (seen, decide) = (Rc::clone(&asked), sender.clone());
        let on_event = Box::new(move |_: &_, event: Event| {
            if let Event::Asked { call, .. } = event {
                seen.borrow_mut().push(call.index);
                let verdict = answer(call);
                decide
                    .send(Command::Decide {
                        call,
                        verdict,
                        rule: None,
                    })
                    .ok()
                    .unwrap();
            }
        });
        let message = Message {
            text: "go".into(),
            images: vec![],
            via: Via::Prompt,
            command: None,
            origin: None,
        };
        let say = Command::Say {
            message,
            blobs: vec![],
        };
        sender.send(say).ok().unwrap();
        runtime.block_on(async {
            let mut engine = Engine::new(log, world, settings, inbox, on_event);
            while !matches!(engine.run().await.unwrap(), RestReason::Left(_)) {
                sender.send(Command::Leave(SaveReason::Exit)).ok().unwrap();
                engine.idle().await.unwrap();
            }
        });
        drop(lock);
        let store = Store::open(&self.home.rewake_home()).unwrap();
        let (_, records) = store.load(&id).unwrap();
        Played {
            asked: asked.take(),
            entries: records.into_iter().map(|r| r.entry).collect(),
        }
    }
}

struct Played {
    /// Places of the calls in their answer.
    asked: Vec<u32>,
    entries: Vec<Entry>,
}

impl Played {
    /// What the model is told of a call.
    fn told(&self, index: u32) -> String {
        let result = self.entries.iter().find_map(|entry| match entry {
            Entry::Finished { call, outcome, .. } if call.index == index => Some(outcome),
            _ => None,
        });
        match result.expect("a result") {
            Outcome::Done { output } | Outcome::Error { output } => output.text.clone(),
            Outcome::Denied { reason } => reason.clone(),
            Outcome::Interrupted { why, .. } => why.clone(),
        }
    }

    /// What happened to the calls, in order.
    fn course(&self) -> Vec<(&'static str, u32)> {
        let step = |entry: &Entry| match entry {
            Entry::Decided { call, by, .. } => {
                assert_eq!(*by, By::Person);
                Some(("decided", call.index))
            }
            Entry::Started { call, .. } => Some(("started", call.index)),
            Entry::Finished { call, .. } => Some(("finished", call.index)),
            _ => None,
        };
        self.entries.iter().filter_map(step).collect()
    }
}

/// How often a call is judged at most before it is run.
const JUDGED: u32 = 7;

/// As soon as a call was judged for the `nth` time, something happens.
fn once_judged(session: &mut Session, nth: u32, then: impl Fn() + Send + Sync + 'static) {
    let inner = Arc::clone(&session.settings.policy.permission_check);
    let times = AtomicU32::new(0);
    session.settings.policy.permission_check = Arc::new(move |permission, state, granted| {
        let decision = inner(permission, state, granted);
        if times.fetch_add(1, Ordering::Relaxed) + 1 == nth {
            then();
        }
        decision
    });
}

fn allow(_: CallId) -> Verdict {
    Verdict::Allow
}

fn deny(_: CallId) -> Verdict {
    let reason = "no".into();
    Verdict::Deny { reason }
}

/// What is told of a call when the folder becomes a link after each of the times at which it is
/// judged; the person allows nothing.
fn told_of_each(call: &str) -> Vec<String> {
    let told = |nth| {
        let scene = Scene::new("acceptEdits", call);
        fs::write(scene.outside.join("only"), "x").unwrap();
        let mut session = scene.session();
        once_judged(&mut session, nth, scene.swap());
        let told = scene.play(session, deny).told(0);
        assert!(!scene.outside.join("new").exists(), "{call}: {told}");
        assert_eq!(fs::read_to_string(scene.outside.join("f")).unwrap(), SECRET);
        told
    };
    (1..=JUDGED).map(told).collect()
}

fn is_noticed(told: &str) -> bool {
    told.contains("which is not what was permitted")
}

#[test]
fn reading_tools_do_not_follow_a_folder_that_became_a_link() {
    for (call, found) in [
        (
            r#"{ name = "read", arguments = { path = "sub/f" } }"#,
            SECRET,
        ),
        (r#"{ name = "read", arguments = { path = "sub" } }"#, "only"),
        (
            r#"{ name = "read", arguments = { path = "sub/onl" } }"#,
            "near names in that folder: only",
        ),
        (
            r#"{ name = "grep", arguments = { pattern = "model", path = "sub" } }"#,
            SECRET,
        ),
        (
            r#"{ name = "glob", arguments = { pattern = "sub/*" } }"#,
            "only",
        ),
    ] {
        let told = told_of_each(call);
        assert!(
            told.iter().all(|told| !told.contains(found)),
            "{call}: {told:#?}"
        );
        assert!(
            told.iter().any(|told| is_noticed(told)),
            "{call}: {told:#?}"
        );
    }
}

#[test]
fn writes_do_not_follow_a_folder_that_became_a_link() {
    for call in [
        r#"{ name = "write", arguments = { path = "sub/new", content = "x" } }"#,
        r#"{ name = "edit", arguments = { path = "sub/f", edits = [{ old = "not for", new = "x" }] } }"#,
    ] {
        let told = told_of_each(call);
        assert!(
            told.iter().all(|told| !told.contains(SECRET)),
            "{call}: {told:#?}"
        );
        assert!(
            told.iter().any(|told| is_noticed(told)),
            "{call}: {told:#?}"
        );
    }
}

#[test]
fn a_person_allows_the_file_that_they_were_asked_about() {
    let call = r#"{ name = "write", arguments = { path = "sub/new", content = "x" } }"#;
    let scene = Scene::new("default", call);
    let session = scene.session();
    let swap = scene.swap();
    let played = scene.play(session, move |_| {
        swap();
        Verdict::Allow
    });
    assert_eq!(played.asked, [0]);
    assert!(!scene.outside.join("new").exists());
    assert!(is_noticed(&played.told(0)), "{}", played.told(0));
}

#[test]
fn a_link_that_stays_what_it_was_is_followed() {
    let call = r#"{ name = "write", arguments = { path = "link/new", content = "x" } }"#;
    let scene = Scene::new("default", call);
    symlink(&scene.outside, scene.home.path("link")).unwrap();
    let played = scene.play(scene.session(), allow);
    assert_eq!(played.asked, [0]);
    assert_eq!(fs::read_to_string(scene.outside.join("new")).unwrap(), "x");
    assert!(played.told(0).starts_with("created"), "{}", played.told(0));
}

#[test]
fn a_call_that_would_fail_anyway_is_not_asked_about() {
    for (call, why) in [
        (
            r#"{ name = "write", arguments = { path = "sub/f", content = "x" } }"#,
            "read it first",
        ),
        (
            r#"{ name = "write", arguments = { path = "sub", content = "x" } }"#,
            "it is a folder",
        ),
        (
            r#"{ name = "edit", arguments = { path = "sub/x", edits = [{ old = "a", new = "b" }] } }"#,
            "does not exist",
        ),
        (
            r#"{ name = "read", arguments = { path = "sub/f" } }, { name = "edit", arguments = { path = "sub/f", edits = [{ old = "no such", new = "b" }] } }"#,
            "was not found",
        ),
    ] {
        let scene = Scene::new("default", call);
        let played = scene.play(scene.session(), allow);
        let last = u32::from(call.starts_with("{ name = \"read"));
        assert_eq!(played.asked, [0; 0], "{call}");
        assert!(
            played.told(last).contains(why),
            "{call}: {}",
            played.told(last)
        );
    }
}

#[test]
fn a_call_is_asked_about_if_an_earlier_call_may_make_it_valid() {
    let calls = r#"{ name = "write", arguments = { path = "new", content = "old" } }, { name = "edit", arguments = { path = "new", edits = [{ old = "old", new = "newer" }] } }"#;
    let scene = Scene::new("default", calls);
    let played = scene.play(scene.session(), allow);
    assert_eq!(played.asked, [0, 1]);
    assert_eq!(scene.home.read("new"), "newer");
}

#[test]
fn content_of_an_unreadable_file_is_not_revealed_without_asking() {
    let call = r#"{ name = "edit", arguments = { path = "link/f", edits = [{ old = "not for the mode", new = "b" }, { old = "x", new = "y" }] } }"#;
    let scene = Scene::new("default", call);
    symlink(&scene.outside, scene.home.path("link")).unwrap();
    let played = scene.play(scene.session(), deny);
    assert_eq!(
        (played.asked.as_slice(), played.told(0).as_str()),
        (&[0][..], "no")
    );
}

#[test]
fn all_questions_of_an_answer_come_before_a_call_that_needs_one() {
    let calls = r#"{ name = "read", arguments = { path = "sub/f" } }, { name = "write", arguments = { path = "a", content = "x" } }, { name = "read", arguments = { path = "sub/f" } }, { name = "bash", arguments = { command = "touch b" } }, { name = "bash", arguments = { command = "touch c" } }"#;
    let scene = Scene::new("default", calls);
    let played = scene.play(scene.session(), allow);
    assert_eq!(played.asked, [1, 3, 4]);
    let course = played.course();
    let last_verdict = course
        .iter()
        .rposition(|(what, _)| *what == "decided")
        .unwrap();
    let first_begun = course
        .iter()
        .position(|(what, _)| *what == "started")
        .unwrap();
    assert!(last_verdict < first_begun, "{course:?}");
    let finished: Vec<u32> = course
        .iter()
        .filter(|(what, _)| *what == "finished")
        .map(|(_, index)| *index)
        .collect();
    assert_eq!(finished, [0, 1, 2, 3, 4]);
}
