//! Sessions as the screen opens them: the blank one that is taken up again, copies that part
//! in the middle, and a session that another process has.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use crate::scenes::{newest, runtime, stream};
use rewake::config::{self, Env, Paths, Setting};
use rewake::core::entry::Choice;
use rewake::core::entry::{Entry, Mode, SaveReason};
use rewake::core::signal::Signal;
use rewake::core::state::State;
use rewake::engine::{Command, Engine, Event, RestReason};
use rewake::session::{AppContext, Session, SessionError, SessionSelector};
use rewake::store::{AbandonedDraft, Message, Store, StoreError};
use rewake::ui;
use rewake::ui::live::{LiveEvent, Open, SessionView};
use rewake::workspace::here;
use support::Home;
use tokio::sync::mpsc::unbounded_channel;

const SOON: Duration = Duration::from_secs(90);

fn home(script: &str) -> Home {
    let home = Home::new();
    configure(&home, "x", "");
    std::fs::write(home.rewake_home().join("s.toml"), script).unwrap();
    home
}

fn configure(home: &Home, model: &str, more: &str) {
    home.write_config(&format!(
        "model = \"s/{model}\"\n{more}\n[providers.s]\nprotocol = \"script\"\nscript = \"s.toml\"\n"
    ));
}

fn context(home: &Home) -> AppContext {
    let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
    let (rewake, user) = (text(home.rewake_home()), text(home.user()));
    let vars = [("REWAKE_HOME", rewake.as_str()), ("HOME", user.as_str())];
    let env = Env::new(vars, home.workspace());
    let paths = Paths::new(&env).unwrap();
    let here = here(&home.workspace()).unwrap();
    let loaded = config::load(&env, &paths, &here.root, &[]).unwrap();
    AppContext {
        env,
        paths,
        here,
        loaded,
        given: Default::default(),
        flags: Vec::new(),
    }
}

fn start(home: &Home) -> Session {
    context(home).open(&SessionSelector::New, true).unwrap()
}

fn said(text: &str) -> Message {
    Message {
        text: text.into(),
        images: vec![],
        via: rewake::core::entry::Via::Prompt,
        command: None,
        origin: None,
    }
}

/// Obeys these, and leaves.
fn live(session: Session, commands: Vec<Command>) -> String {
    played(session, commands, false)
}

/// The same, of an engine that waits for a person.
fn live_waiting(session: Session, commands: Vec<Command>) -> String {
    played(session, commands, true)
}

fn played(session: Session, commands: Vec<Command>, waits: bool) -> String {
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
    for command in commands {
        sender.send(command).ok().unwrap();
    }
    runtime.block_on(async {
        let mut engine = Engine::new(log, world, settings, inbox, Box::new(|_, _| {}));
        if waits {
            engine.wait_for_person(false);
        }
        while !matches!(engine.run().await.unwrap(), RestReason::Left(_)) {
            sender.send(Command::Leave(SaveReason::Exit)).ok().unwrap();
            engine.idle().await.unwrap();
        }
    });
    drop(lock);
    id
}

fn log(home: &Home, id: &str) -> Vec<Entry> {
    let (_, records) = store(home).load(id).unwrap();
    records.into_iter().map(|r| r.entry).collect()
}

fn store(home: &Home) -> Store {
    Store::open(&home.rewake_home()).unwrap()
}

fn input(home: &Home, id: &str) -> Option<String> {
    store(home).inbox().drafts(id).unwrap().input
}

fn blanks(home: &Home) -> usize {
    let folder = context(home).workspace();
    store(home)
        .history()
        .blank(&folder, &folder, 99)
        .unwrap()
        .len()
}

#[test]
fn a_schema_that_is_owed_is_dropped_once_and_for_all() {
    let home = home(&"[[step]]\ntext = \"in words\"\n".repeat(9));
    let schema = r#"{"type": "object"}"#;
    home.run(["-p", "count", "--json-schema", schema]).expect(1);
    let again = home.run(["-p", "-c", "in words, please"]).expect(1);
    assert_eq!(again.stdout, "", "it is still owed");
    let id = newest(&home);
    let drop = || {
        Command::Signal(Signal::Choose(Choice {
            without_schema: true,
            ..Choice::default()
        }))
    };
    let which = SessionSelector::Named {
        id: id.clone(),
        fork: false,
    };
    let session = context(&home).open(&which, true).unwrap();
    live(session, vec![drop(), drop()]);
    let is_dropped = |entry: &&Entry| matches!(entry, Entry::Chose(c) if c.without_schema);
    assert_eq!(log(&home, &id).iter().filter(is_dropped).count(), 1);
    let free = home.run(["-p", "-c", "in words, please"]).expect(0);
    assert_eq!(free.stdout, "in words\n");
}

#[test]
fn a_session_in_which_nothing_was_said_is_taken_up_and_never_listed() {
    let home = home("");
    let first = live(start(&home), vec![Command::KeepInput("half a tho".into())]);
    let nothing = home.run(["-p", "-c", "x"]);
    assert!(
        nothing.stderr.contains("there is no session"),
        "{}",
        nothing.stderr
    );
    assert_eq!(home.run(["history"]).expect(0).stdout, "");
    // Everything that is set up at a start changed, one start after the other.
    configure(&home, "y", "permission_mode = \"plan\"");
    for round in 0..4 {
        std::fs::write(home.path("AGENTS.md"), format!("rule {round}")).unwrap();
        let session = start(&home);
        assert_eq!(session.id, first);
        assert!(session.found.is_none());
        let kinds = session.recent.iter().map(|record| record.entry.kind());
        assert_eq!(kinds.collect::<Vec<_>>(), ["opened"]);
        assert_eq!(input(&home, &first).as_deref(), Some("half a tho"));
        live(
            session,
            vec![Command::Signal(Signal::Choose(Choice::of_mode(
                Mode::Default,
            )))],
        );
        assert_eq!(blanks(&home), 1);
    }
    let log = log(&home, &first);
    let state = |kind| log.iter().filter(|e| e.kind() == kind).count();
    assert_eq!(state("rendered"), 4);
    let model = log.iter().find_map(|e| match e {
        Entry::Chose(choice) => choice.model.clone(),
        _ => None,
    });
    assert_eq!(model.as_deref(), Some("s/y"));
    assert!(
        context(&home)
            .session_list()
            .offers(&store(&home), false)
            .unwrap()
            .is_empty()
    );
    assert_eq!(home.run(["history"]).expect(0).stdout, "");
}

#[test]
fn a_finished_session_with_unsent_words_was_not_stopped_while_answering() {
    let home = home("[[step]]\ntext = \"hello\"\n");
    home.run(["-p", "say hello"]).expect(0);
    let id = newest(&home);
    let mut store = store(&home);
    store.inbox_mut().set_input(&id, "and then").unwrap();
    let ctx = context(&home);
    let offers = ctx.session_list().offers(&store, false).unwrap();
    let running = (&ctx.runs().unwrap(), &ctx.servers().unwrap());
    let details = ctx.session_list().details(&store, &offers[0].info, running);
    let details = details.unwrap();
    assert_eq!((details.how.as_str(), details.doing), ("done", None));
    assert_eq!(details.typed.as_deref(), Some("and then"));
}

#[test]
fn a_blank_session_of_a_removed_model_is_reused() {
    let home = home("");
    let first = live(start(&home), vec![]);
    home.write_config(
        "model = \"t/z\"\n[providers.t]\nprotocol = \"script\"\nscript = \"s.toml\"\n",
    );
    assert_eq!(start(&home).id, first);
}

#[test]
fn two_simultaneous_starts_get_separate_sessions() {
    let home = home("");
    let (first, second) = (start(&home), start(&home));
    assert_ne!(first.id, second.id);
    let first = live(first, vec![]);
    live(second, vec![Command::Note("told".into())]);
    // What was told something is a session now; the other is still nobody's.
    assert_eq!(start(&home).id, first);
    assert_eq!(blanks(&home), 1);
}

#[test]
fn a_message_removed_from_the_queue_leaves_no_pending_turn() {
    let home = home("");
    let session = start(&home);
    let id = session.id.clone();
    let message = said("never mind");
    let queued = store(&home)
        .inbox_mut()
        .queue(&id, &message, &[], 1)
        .unwrap();
    live(
        session,
        vec![
            Command::STOP,
            Command::EditQueued {
                id: queued,
                message: None,
            },
        ],
    );
    assert!(!store(&home).history().find(&id).unwrap().unfinished);
}

#[test]
fn an_edit_of_an_already_sent_message_is_sent_as_well() {
    let home = home("[[step]]\ntext = \"heard\"\n");
    let session = start(&home);
    let id = session.id.clone();
    let message = |text: &str| Message {
        text: text.into(),
        images: vec![],
        via: rewake::core::entry::Via::Queue,
        command: None,
        origin: None,
    };
    let mut store = store(&home);
    let queued = store
        .inbox_mut()
        .queue(&id, &message("first"), &[], 1)
        .unwrap();
    store.inbox_mut().remove_queued(queued).unwrap();
    let late = Command::EditQueued {
        id: queued,
        message: Some(message("second")),
    };
    live(session, vec![late]);
    let said = |e: &Entry| matches!(e, Entry::Said { text, .. } if text == "second");
    assert_eq!(log(&home, &id).iter().filter(|e| said(e)).count(), 1);
}

fn forked(home: &Home, id: &str, at: &str) -> String {
    home.run(["fork", id, "--at", at])
        .expect(0)
        .stdout
        .trim()
        .to_string()
}

const TASK: &str = "[[step]]\ncalls = [{ name = \"bash\", arguments = { command = \"echo x >> effects\" } }]\n\
                    [[step]]\ntext = \"done\"\n";

#[test]
fn a_fork_can_start_after_any_entry_of_a_session_or_a_fork() {
    let home = home(TASK);
    home.run(["-p", "go", "--yolo"]).expect(0);
    let id = newest(&home);
    let kinds: Vec<_> = log(&home, &id).iter().map(Entry::kind).collect();
    let last = kinds.len() - 1;
    for at in 0..=last {
        let fork = forked(&home, &id, &at.to_string());
        let again = forked(&home, &fork, &(at + 1).to_string());
        let log = log(&home, &again);
        let its: Vec<_> = log.iter().map(Entry::kind).collect();
        assert_eq!(its[..=at], kinds[..=at]);
        assert_eq!(its[at + 1..], ["forked", "forked"]);
        assert_eq!(
            context(&home)
                .open(
                    &SessionSelector::Named {
                        id: again,
                        fork: false
                    },
                    true
                )
                .unwrap()
                .log
                .state
                .next_seq(),
            at as u64 + 3
        );
    }
    assert_eq!(home.read("effects").lines().count(), 1);
    let beyond = home.run(["fork", &id, "--at", &(last + 1).to_string()]);
    assert_ne!(beyond.code(), Some(0));
    assert!(
        beyond.stderr.contains(&format!("the last is {last}")),
        "{}",
        beyond.stderr
    );
}

/// Killed right behind Enter, it stood in the box again, and the next Enter ran it once more.
#[test]
fn a_recorded_user_command_is_removed_from_the_draft() {
    let home = home("");
    let typed = vec![
        Command::KeepInput("!less notes".into()),
        Command::RunForUser {
            command: "less notes".into(),
            on_terminal: true,
        },
    ];
    let id = live(start(&home), typed);
    let is_command = |e: &Entry| matches!(e, Entry::UserCommand { .. });
    assert!(log(&home, &id).iter().any(is_command));
    assert_eq!(input(&home, &id), None);
}

#[test]
fn words_that_came_along_are_forgotten_in_the_session_that_was_left() {
    let home = home("");
    let other = live(
        start(&home),
        vec![
            Command::Signal(Signal::Name {
                title: "one".into(),
            }),
            Command::KeepInput("along".into()),
        ],
    );
    let bring = |draft: &str| Command::BringInput {
        text: "along".into(),
        from: AbandonedDraft {
            session: other.clone(),
            draft: draft.into(),
        },
    };
    // Other words were typed there meanwhile.
    let here = live(start(&home), vec![bring("alone")]);
    assert_eq!(input(&home, &other).as_deref(), Some("along"));
    assert_eq!(input(&home, &here).as_deref(), Some("along"));
    let here = live(start(&home), vec![bring("along")]);
    assert_eq!(input(&home, &other), None);
    assert_eq!(input(&home, &here).as_deref(), Some("along"));
}

#[test]
fn a_wait_for_a_person_is_not_ended_by_other_commands() {
    let home = home("[[step]]\ntext = \"heard\"\n");
    let answered = |commands: Vec<Command>| {
        let session = start(&home);
        let said = said("go");
        store(&home)
            .inbox_mut()
            .queue(&session.id, &said, &[], 1)
            .unwrap();
        let id = live_waiting(session, commands);
        log(&home, &id)
            .iter()
            .any(|e| matches!(e, Entry::Replied { .. }))
    };
    let other = vec![
        Command::KeepInput("half a thought".into()),
        Command::Signal(Signal::Name {
            title: "a name".into(),
        }),
        Command::Note("a command ended".into()),
        Command::Signal(Signal::Choose(Choice::of_mode(Mode::Plan))),
    ];
    assert!(!answered(other));
    assert!(answered(vec![Command::Signal(Signal::GoOn)]));
}

#[test]
fn a_copy_of_the_sound_part_of_a_damaged_session_is_made_without_a_word() {
    let home = home(TASK);
    home.run(["-p", "go", "--yolo"]).expect(0);
    let id = newest(&home);
    let database = rusqlite::Connection::open(home.rewake_home().join("rewake.db")).unwrap();
    database
        .execute("UPDATE entries SET checksum = x'00' WHERE seq = 4", [])
        .unwrap();
    drop(database);
    let sound = home.run(["fork", &id, "--at", "2"]).expect(0);
    assert!(!sound.stderr.contains("damaged"), "{}", sound.stderr);
    let fork = sound.stdout.trim();
    assert_eq!(log(&home, fork).len(), 4);
    // Behind the damage there is nothing to part from: the copy ends before it, and says so.
    let cut = home.run(["fork", &id, "--at", "5"]).expect(0);
    assert!(cut.stderr.contains("ends at entry 3"), "{}", cut.stderr);
}

#[test]
fn a_command_that_runs_stays_with_the_origin_of_a_copy() {
    let home = home(&TASK.replace("echo x >> effects", "echo x >> effects; sleep 60"));
    let mut first = stream(&home, &["-p", "go", "--yolo"]);
    first.wait_for(SOON, |line| line.contains("entry.started"));
    while home.read("effects").is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    first.kill();
    first.wait(SOON);
    let id = newest(&home);
    let started = log(&home, &id).len() - 1;
    for at in [started, started - 1] {
        let fork = forked(&home, &id, &at.to_string());
        let done = home
            .run(["-p", "-r", &fork, "--output-format", "json"])
            .expect(0);
        assert!(done.stdout.contains("done"), "{}", done.stdout);
    }
    assert_eq!(home.read("effects").lines().count(), 1);
    let runs = home.run(["ps"]).expect(0).stdout;
    let run = runs.split_whitespace().next().expect("it runs").to_string();
    home.run(["ps", "stop", &run]).expect(0);
}

#[test]
fn a_session_is_taken_over_from_one_who_leaves_and_not_from_one_who_does_not() {
    let home =
        home("[[step]]\ntext = \"one two three four five six\"\nchunk_chars = 1\nchunk_ms = 500\n");
    let live = stream(&home, &["-p", "go"]);
    live.wait_for(SOON, |line| line.contains("delta.text"));
    let id = newest(&home);
    let signal = |name: &str| {
        let pid = live.id().to_string();
        let sent = std::process::Command::new("kill")
            .args([name, &pid])
            .status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    let stays = context(&home)
        .session_list()
        .take_over(&id, Duration::from_millis(50))
        .unwrap_err();
    let SessionError::Store(StoreError::Held { pid, .. }) = &stays else {
        panic!("{stays}");
    };
    assert_eq!(*pid, Some(live.id()));
    assert!(
        stays.to_string().contains("is in use by process"),
        "{stays}"
    );
    signal("-CONT");
    context(&home).session_list().take_over(&id, SOON).unwrap();
    live.wait(SOON).expect(143);
    // It is ours now: nobody is asked to leave.
    let ours = context(&home)
        .open(
            &SessionSelector::Named {
                id: id.clone(),
                fork: false,
            },
            true,
        )
        .unwrap();
    assert!(context(&home).session_list().take_over(&id, SOON).is_err());
    drop(ours);
}

/// The lock's file names a process that is there, and is not who holds the lock.
#[test]
fn nobody_is_taken_for_a_holder_who_bears_the_pid_of_a_dead_one() {
    let home = home("");
    let session = start(&home);
    let lock = home
        .rewake_home()
        .join("locks")
        .join(format!("{}.lock", session.id));
    let signed = std::fs::read_to_string(&lock).unwrap();
    let other = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let stale = signed.replace(&std::process::id().to_string(), &other.id().to_string());
    std::fs::write(&lock, stale).unwrap();
    let taken = context(&home)
        .session_list()
        .take_over(&session.id, Duration::from_millis(50));
    assert!(matches!(
        taken,
        Err(SessionError::Store(StoreError::Held { pid: None, .. }))
    ));
    let mut other = other;
    assert!(other.try_wait().unwrap().is_none(), "a stranger was ended");
    other.kill().unwrap();
    other.wait().unwrap();
}

/// What the screen is told of a session, event by event, until there is nothing to do.
fn shown(ctx: AppContext, which: SessionSelector) -> Vec<SessionView> {
    let (sender, events) = std::sync::mpsc::channel();
    let open = Open {
        which,
        take_over: false,
        named: true,
    };
    let on_event = move |event| {
        let _ = sender.send(event);
    };
    let live =
        ui::live::EngineHandle::start(ctx.into(), open, Vec::new(), std::sync::Arc::new(on_event));
    let mut shown = Vec::new();
    loop {
        match events.recv_timeout(SOON).unwrap() {
            LiveEvent::Opened(opening) => shown.push(opening.now),
            LiveEvent::Engine(_, Some(now)) => shown.push(*now),
            LiveEvent::Resting(_) => break,
            LiveEvent::NotOpened(why) => panic!("{why:?}"),
            _ => {}
        }
    }
    drop(live);
    shown
}

#[test]
fn a_copy_that_is_made_with_flags_shows_them_from_the_first_moment() {
    let home = home("[[step]]\ntext = \"done\"\n");
    home.run(["-p", "go"]).expect(0);
    let id = newest(&home);
    let mut ctx = context(&home);
    ctx.flags = vec![
        Setting::new("--model", "model", "s/other").unwrap(),
        Setting::new("--permission-mode", "permission_mode", "plan").unwrap(),
    ];
    ctx.loaded = config::load(&ctx.env, &ctx.paths, &ctx.here.root, &ctx.flags).unwrap();
    let shown = shown(ctx, SessionSelector::Named { id, fork: true });
    assert!(shown.len() >= 3, "opened, resumed, chosen: {}", shown.len());
    for now in shown {
        assert_eq!((now.model.as_str(), now.mode), ("s/other", Mode::Plan));
    }
}

/// Talks to a session with a summary model that plays these answers, until `is_there`; the title
/// and the kinds of what was recorded.
fn titled(home: &Home, answers: &str, name: Option<&str>) -> (String, Vec<Entry>) {
    home.write_config(
        "model = \"s/x\"\nsummary_model = \"t/small\"\n[providers.s]\nprotocol = \"script\"\n\
         script = \"s.toml\"\n[providers.t]\nprotocol = \"script\"\nscript = \"t.toml\"\n",
    );
    std::fs::write(home.rewake_home().join("t.toml"), answers).unwrap();
    let session = start(home);
    let id = session.id.clone();
    let Session {
        log,
        world,
        settings,
        lock,
        ..
    } = session;
    let (sender, inbox) = unbounded_channel();
    let message =
        said("# please mend the parser. It fails on the last token, and nobody knows why");
    let say = Command::Say {
        message,
        blobs: vec![],
    };
    let named = name.map(|name| Command::Signal(Signal::Name { title: name.into() }));
    for command in named.into_iter().chain([say]) {
        sender.send(command).ok().unwrap();
    }
    let is_named = name.is_some();
    let leaver = sender.clone();
    // The title comes while nobody says anything; it is left when it is there.
    let on_event = move |_: &State, event: Event| {
        let is_over = match event {
            Event::Recorded(record) => match record.entry {
                Entry::Titled { .. } => true,
                Entry::Replied { .. } => is_named,
                _ => false,
            },
            _ => false,
        };
        if is_over {
            let _ = leaver.send(Command::Leave(SaveReason::Exit));
        }
    };
    let runtime = runtime();
    runtime.block_on(async {
        let mut engine = Engine::new(log, world, settings, inbox, Box::new(on_event));
        let work = async {
            while !matches!(engine.run().await.unwrap(), RestReason::Left(_)) {
                engine.idle().await.unwrap();
            }
        };
        tokio::time::timeout(SOON, work)
            .await
            .expect("a title comes");
    });
    drop(lock);
    (
        store(home).history().find(&id).unwrap().title.unwrap(),
        self::log(home, &id),
    )
}

const MENDED: &str = "[[step]]\ntext = \"mended\"\n";

#[test]
fn the_summary_model_makes_a_title_once_and_what_it_took_is_counted() {
    let home = home(MENDED);
    let made = "[[step]]\ntext = \"\\\"Mend the parser\\\"\"\nusage = { input = 70, output = 4 }\n";
    let (title, log) = titled(&home, made, None);
    assert_eq!(title, "Mend the parser");
    let spent: u64 = log
        .iter()
        .filter(|e| e.kind() == "titled")
        .flat_map(|e| e.spent().map(|(_, usage)| usage.all()).collect::<Vec<_>>())
        .sum();
    assert_eq!(spent, 74);
    let id = newest(&home);
    let (_, records) = store(&home).load(&id).unwrap();
    let state = State::of(rewake::tools::describe, &records).unwrap();
    assert_eq!(state.title(), Some("Mend the parser"));
    assert_eq!(state.untitled_task(), None, "it is not asked for again");
}

#[test]
fn without_a_title_of_the_model_the_task_is_the_title() {
    let home = home(MENDED);
    let failing = "[[step]]\ntext = \"x\"\nfail = { class = \"auth\", tries = 99 }\n";
    let (title, log) = titled(&home, failing, None);
    assert_eq!(title, "please mend the parser");
    let none = |e: &&Entry| matches!(e, Entry::Titled { title: None, .. });
    assert_eq!(log.iter().filter(none).count(), 1);
}

#[test]
fn a_name_that_a_person_gave_is_no_other() {
    let home = home(MENDED);
    let (title, log) = titled(&home, "[[step]]\ntext = \"Another\"\n", Some("mine"));
    assert_eq!(title, "mine");
    assert!(log.iter().all(|e| e.kind() != "titled"));
}
