//! A session is steered from other processes: words, a stop, a pause, verdicts, limits. Nothing is
//! set up before, and nothing waits for the agent.

use rewake::core::signal::Signal;
use rewake::journal::chain_hash::ChainHash;
use rewake::store::{MAX_SIGNALS, Store, StoreError};
use serde_json::{Value, json};

use crate::cli::resume::scene::*;
use crate::scenes::{newest, until};
use support::{Answer, Protocol, Run, Says, run};

#[test]
fn send_and_stop_print_the_object_of_the_route() {
    let scene = writes();
    let first = scene.waiting();
    let printed = |args: &[&str]| -> Value {
        serde_json::from_str(&scene.steers(args).expect(0).stdout).expect("JSON")
    };
    let id = scene.asked()[0]["session"].clone();
    let sent = printed(&["send", "@here", "more", "--json"]);
    assert_eq!(sent["session"], id);
    assert_eq!(sent["became"], "heard");
    assert_eq!(sent["ids"].as_array().map(Vec::len), Some(1), "{sent}");
    assert_eq!(printed(&["stop", "@here", "--json"])["became"], "heard");
    first.wait(LIMIT);
    let nothing = printed(&["stop", "@here", "--json"]);
    assert_eq!(nothing["became"], "nothing_to_do");
    assert_eq!(nothing["ids"], json!([]));
}

#[test]
fn a_denial_tells_the_model_why() {
    let scene = writes();
    let first = scene.waiting();
    scene
        .steers(&["deny", "@here", "use the other file"])
        .expect(0);
    first.wait(LIMIT).expect(0);
    assert_has(&scene.last_result(), &["denied", "use the other file"]);
    assert_eq!(scene.home.read("f"), "");
}

/// As in CI: nobody answers in time, and the question stays open. It is answered while no process
/// is there, and the next start, without a person, goes on.
#[test]
fn a_question_stays_open_when_nobody_answers_in_time() {
    let scene = writes();
    let run = scene
        .live(&["-p", "do it", "--on-approval", "wait=1s"])
        .wait(LIMIT);
    let run = run.expect(75);
    assert_has(
        &run.stderr,
        &["a question waits for an answer", "rewake allow"],
    );
    assert_eq!(scene.asked().len(), 1);
    // A start without a person answers nothing for them.
    let run = scene.go_on().expect(75);
    assert_has(&run.stderr, &["a question waits for an answer"]);
    assert!(scene.entries("finished").is_empty());
    assert_eq!(scene.entries("asked").len(), 1, "it was asked again");
    assert_eq!(scene.asked()[0]["live"], false);

    let kept = scene.steers(&["allow", "@here"]).expect(0);
    assert_has(&kept.stderr, &["is not running"]);
    scene.go_on().expect(0);
    assert_eq!(scene.home.read("f"), "written\n");
    assert_eq!(scene.entries("decided").len(), 1);
}

/// Two calls of one answer ask, so the call has to be named; both are seen at once.
#[test]
fn allow_requires_a_call_id_when_several_questions_wait() {
    let scene = Scene::new(|seen| match seen.turn {
        0 => Says::call("write", json!({"path": "f", "content": "1"}))
            .and_call("write", json!({"path": "g", "content": "2"}))
            .into(),
        _ => Says::text(FINAL_WORDS).into(),
    });
    let first = scene.waiting();
    let asked = scene.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    let refused = scene.steers(&["allow", "@here"]).expect(2);
    assert_has(&refused.stderr, &["asks 2 things", "name the call"]);
    // The second first: no order is needed.
    for place in [1, 0] {
        let call = asked[place]["call"].as_str().expect("a call");
        scene.steers(&["allow", "@here", call]).expect(0);
    }
    first.wait(LIMIT).expect(0);
    assert_eq!(
        (scene.home.read("f"), scene.home.read("g")),
        ("1".into(), "2".into())
    );
}

#[test]
fn a_stop_ends_a_command_that_runs() {
    let scene = Scene::with_command("echo first words; sleep 100");
    let first = scene.start_command();
    let (_, group) = scene.running().expect("a command");
    scene.steers(&["stop", "@here"]).expect(0);
    first.wait(LIMIT).expect(130);
    assert!(is_gone(group), "the command goes on");
    let stopped = scene.entries("stopped");
    assert_eq!(stopped[0]["origin"], "cli", "{stopped:?}");
    let nothing = scene.steers(&["stop", "@here"]).expect(0);
    assert_has(&nothing.stderr, &["is not running"]);
    // And words go on.
    scene
        .steers(&["send", "@here", "go on", "--start"])
        .expect(0);
    assert_has(&scene.last_request(), &["go on"]);
}

#[test]
fn a_stop_ends_a_stream() {
    let scene = Scene::new(|_| Answer::Slow {
        says: Says::text("words without end ".repeat(2_000)),
        chunk_bytes: 40,
        delay_ms: 50,
    });
    let first = scene.start();
    first.wait_for(LIMIT, |line| line.contains("words without end"));
    scene.steers(&["stop", "@here"]).expect(0);
    first.wait(LIMIT).expect(130);
    let draft = scene.entries("stopped")[0]["draft"].clone();
    assert!(
        draft.as_str().is_some_and(|d| d.contains("without end")),
        "{draft}"
    );
}

/// What was begun ends first. Then nothing would be printed for as long as the pause lasts.
#[test]
fn a_run_that_is_paused_says_so_and_ends() {
    let scene = Scene::with_command(&waits_for_go());
    let first = scene.start_command();
    scene.steers(&["pause", "@here"]).expect(0);
    first.wait_for(LIMIT, |line| is_entry(line, "paused"));
    scene.go();
    let paused = first.wait(LIMIT).expect(75);
    let id = newest(&scene.home);
    assert_has(
        &paused.stderr,
        &[&format!(
            "paused; continue with rewake unblock {}",
            &id[..13]
        )],
    );
    assert_eq!(scene.entries("finished").len(), 1);
    scene.steers(&["unblock", &id]).expect(0);
    scene.go_on().expect(0);
    assert_eq!(scene.effects(), 1);
}

#[test]
fn a_waiting_run_continues_when_its_pause_is_lifted() {
    let scene = Scene::with_command(&waits_for_go());
    let args = ["-p", "do it", "--yolo", "--on-approval", "wait"];
    let first = scene.live(&args);
    until(|| scene.running().is_some());
    scene.steers(&["pause", "@here"]).expect(0);
    first.wait_for(LIMIT, |line| is_entry(line, "paused"));
    scene.go();
    first.wait_for(LIMIT, |line| is_entry(line, "finished"));
    scene.steers(&["unblock", "@here"]).expect(0);
    let run = first.wait(LIMIT).expect(0);
    assert_has(&run.stderr, &["paused; this run waits"]);
}

#[test]
fn at_a_limit_the_session_pauses_and_says_so() {
    let scene = Scene::with_command(&waits_for_go());
    let first = scene.start_command();
    scene.steers(&["set", "@here", "--turns", "1"]).expect(0);
    first.wait_for(LIMIT, |line| is_entry(line, "chose"));
    scene.go();
    // The answer behind the command is the last one; what comes after it would be too many.
    first.wait(LIMIT).expect(0);
    let run = scene.live(&["-p", "-c", "more"]).wait(LIMIT).expect(75);
    assert_has(
        &run.stderr,
        &["the limit of answers is reached", "rewake unblock"],
    );
    assert_eq!(scene.server.requests().len(), 2);
    scene.steers(&["unblock", "@here"]).expect(0);
    scene.go_on().expect(0);
    assert_eq!(scene.server.requests().len(), 3);
}

/// Who says that it is to go on means it: what a person paused and what a limit holds.
#[test]
fn unblock_lifts_a_pause_and_the_turn_limit() {
    let scene = Scene::with_command(&waits_for_go());
    let first = scene.start_command();
    scene.steers(&["set", "@here", "--turns", "1"]).expect(0);
    first.wait_for(LIMIT, |line| is_entry(line, "chose"));
    scene.go();
    first.wait(LIMIT).expect(0);
    // It stands at its limit, and then a person pauses it.
    scene.live(&["-p", "-c", "more"]).wait(LIMIT).expect(75);
    scene.steers(&["pause", "@here"]).expect(0);
    let run = scene.go_on().expect(75);
    assert_has(&run.stderr, &["paused; continue with rewake unblock"]);
    scene.steers(&["unblock", "@here"]).expect(0);
    scene.go_on().expect(0);
    assert_eq!(scene.server.requests().len(), 3);
    assert_eq!(scene.entries("lifted").len(), 1);
    assert_eq!(scene.entries("lifted")[0]["origin"], "cli");
}

#[test]
fn other_settings_hold_from_the_next_request_on() {
    let scene = Scene::with_command(&waits_for_go());
    let first = scene.start_command();
    let set = ["set", "@here", "--temperature", "0.25", "--mode", "plan"];
    scene.steers(&set).expect(0);
    first.wait_for(LIMIT, |line| is_entry(line, "chose"));
    scene.go();
    first.wait(LIMIT).expect(0);
    assert_has(
        &scene.last_request(),
        &["\"temperature\":0.25", "the mode is plan now"],
    );
    let chose = scene.entries("chose");
    assert_eq!(chose[0]["origin"], "cli", "{chose:?}");
}

/// A second provider, whose key is in a variable that not each process has.
fn with_other_provider(scene: &Scene) {
    let (protocol, base_url) = (Protocol::Chat.name(), scene.server.base_url(Protocol::Chat));
    let other = format!(
        "[providers.other]\nprotocol = \"{protocol}\"\nbase_url = \"{base_url}\"\napi_key_env = \"OTHER_KEY\"\n"
    );
    scene.home.configure(&scene.server, Protocol::Chat, &other);
}

fn with_other_key(scene: &Scene, args: &[&str]) -> Run {
    let mut command = scene.home.rewake(args);
    command.env("OTHER_KEY", "k-other");
    run(command, LIMIT)
}

#[test]
fn a_model_whose_key_only_the_sender_has_is_not_chosen() {
    let scene = Scene::with_command(&waits_for_go());
    with_other_provider(&scene);
    let first = scene.live(&["-p", "do it", "--yolo"]);
    until(|| scene.running().is_some());
    with_other_key(&scene, &["set", "@here", "--model", "other/m"]).expect(0);
    // A signal behind it: when this one was obeyed, that one was looked at.
    scene.steers(&["set", "@here", "--mode", "plan"]).expect(0);
    first.wait_for(LIMIT, |line| is_entry(line, "chose"));
    scene.go();
    let run = first.wait(LIMIT).expect(0);
    assert_has(&run.stderr, &["model other/m", "OTHER_KEY"]);
    let chose = scene.entries("chose");
    assert_eq!(chose.len(), 1, "{chose:?}");
    assert_eq!(chose[0]["mode"], "plan");
}

#[test]
fn a_model_that_was_sent_lets_a_session_start_whose_own_has_no_key() {
    let scene = Scene::new(|_| Says::text(FINAL_WORDS).into());
    with_other_provider(&scene);
    with_other_key(&scene, &["-p", "do it", "--model", "other/m"]).expect(0);
    let refused = scene.steers(&["-p", "-c", "more"]).expect(2);
    assert_has(&refused.stderr, &["OTHER_KEY"]);
    let set = ["set", "@here", "--model", "local/test-model"];
    scene.steers(&set).expect(0);
    scene.steers(&["-p", "-c", "more"]).expect(0);
    let chose = scene.entries("chose");
    assert_eq!(
        chose.last().unwrap()["model"],
        "local/test-model",
        "{chose:?}"
    );
    // One that cannot be asked either helps nobody, and is said as what it is.
    with_other_key(&scene, &["set", "@here", "--model", "other/m"]).expect(0);
    scene.steers(&["-p", "-c", "still"]).expect(0);
    assert_eq!(scene.entries("chose").len(), chose.len());
}

/// Two senders at once: each message is said once, and each sender's in their order.
#[test]
fn two_senders_at_once() {
    let scene = Scene::with_command(&waits_for_go());
    let first = scene.start_command();
    std::thread::scope(|threads| {
        for sender in ["a", "b"] {
            let scene = &scene;
            threads.spawn(move || {
                for n in 0..4 {
                    let text = format!("{sender}{n}");
                    scene.steers(&["send", "@here", &text]).expect(0);
                }
            });
        }
    });
    scene.go();
    first.wait(LIMIT).expect(0);
    let said: Vec<String> = scene
        .entries("said")
        .iter()
        .filter(|e| e["origin"] == "cli")
        .map(|e| e["text"].as_str().unwrap_or_default().to_string())
        .collect();
    assert_eq!(said.len(), 8, "{said:?}");
    for sender in ["a", "b"] {
        let own: Vec<&String> = said.iter().filter(|t| t.starts_with(sender)).collect();
        assert!(own.is_sorted() && own.len() == 4, "{said:?}");
    }
}

#[test]
fn a_command_of_the_agent_cannot_answer_for_its_person() {
    let program = env!("CARGO_BIN_EXE_rewake");
    let command = format!(
        "{program} unblock @here; echo code $?; env -u REWAKE_RUN {program} unblock @here; echo code $?; \
         {program} -p -c --permission-mode bypassPermissions </dev/null; echo code $?"
    );
    let scene = Scene::with_command(&command);
    scene.start().wait(LIMIT).expect(0);
    let result = scene.last_result();
    let why = "sessions are not steered from inside a command";
    assert_eq!(result.matches(why).count(), 2, "{result}");
    assert!(
        result.contains("a session is not resumed from inside a command"),
        "{result}"
    );
    assert_eq!(result.matches("code 2").count(), 3, "{result}");
}

/// Without the variable and in a session of its own: the filter of the sandbox says where it is.
#[test]
fn a_command_of_the_agent_changes_neither_trust_nor_keys_nor_sessions() {
    let program = env!("CARGO_BIN_EXE_rewake");
    let tries = [
        "trust --yes",
        "trust --remove",
        "key anthropic",
        "purge 01 --yes",
    ];
    let lines: Vec<String> = tries
        .iter()
        .map(|args| {
            format!("env -u REWAKE_RUN setsid -w {program} {args} </dev/null; echo code $?")
        })
        .collect();
    let scene = Scene::with_command(&lines.join("; "));
    scene.start().wait(LIMIT).expect(0);
    let result = scene.last_result();
    let why = "are not changed from inside a command";
    assert_eq!(result.matches(why).count(), 4, "{result}");
    assert_eq!(result.matches("code 2").count(), 4, "{result}");
}

#[test]
fn invalid_steering_commands_are_refused_with_a_hint() {
    let scene = writes();
    scene.live(&["-p", "do it"]).wait(LIMIT).expect(0);
    let table: [(&[&str], &[&str]); 10] = [
        (&["unblock"], &["<ID>", "rewake -- unblock"]),
        (&["send", "0000", "x"], &["there is no session", "hint:"]),
        (&["send", "@here"], &["the message is empty", "hint:"]),
        (
            &["send", "@here", "x", "--image", "gone.png"],
            &["gone.png"],
        ),
        (&["allow", "@here", "first"], &["names no call"]),
        (
            &["deny", "@here", "two", "reasons"],
            &["quote the whole reason"],
        ),
        (&["set", "@here"], &["there is nothing to set", "a model"]),
        (&["set", "@here", "--temperature", "7"], &["temperature"]),
        (&["set", "@here", "--usd", "-1"], &["a limit of"]),
        (&["set", "@here", "--model", "nowhere/x"], &["nowhere"]),
    ];
    for (args, parts) in table {
        let args: Vec<&str> = match args.last() {
            Some(&"-1") => vec!["set", "@here", "--usd=-1"],
            _ => args.to_vec(),
        };
        let refused = scene.steers(&args).expect(2);
        assert_has(&refused.stderr, parts);
    }
    let mut long = scene.home.rewake(["send", "@here", "-"]);
    let file = scene.home.path("long");
    std::fs::write(&file, vec![b'x'; 50 << 20]).expect("a long file");
    long.stdin(std::fs::File::open(&file).expect("the file"));
    let refused = run(long, LIMIT).expect(2);
    assert_has(&refused.stderr, &["at most", "put it into a file"]);
    assert!(
        scene
            .store()
            .inbox()
            .queued(&scene.id())
            .expect("the inbox")
            .is_empty()
    );
}

#[test]
fn a_session_refuses_signals_beyond_its_limit() {
    let scene = writes();
    scene.live(&["-p", "do it"]).wait(LIMIT).expect(0);
    let (mut store, id) = (scene.store(), scene.id());
    for n in 0..MAX_SIGNALS {
        let name = |_| Signal::Name {
            title: format!("name {n}"),
        };
        store
            .inbox_mut()
            .signal(&id, "test", 1, name)
            .expect("sent");
    }
    drop(store);
    let refused = scene.steers(&["unblock", "@here"]).expect(1);
    assert_has(
        &refused.stderr,
        &["1000 signals wait in it already", "hint:"],
    );
    // They are obeyed, in their order, by the next process.
    scene.live(&["-p", "-c", "more"]).wait(LIMIT).expect(0);
    assert!(scene.signals(&id).is_empty());
    let info = scene.store().history().find(&id).expect("the session");
    assert_eq!(info.title.as_deref(), Some("name 999"));
}

/// A home that belongs to a newer version is refused as it is everywhere.
#[test]
fn a_store_of_a_newer_version_is_refused() {
    let scene = writes();
    scene.live(&["-p", "do it"]).wait(LIMIT).expect(0);
    let path = scene.home.rewake_home().join("rewake.db");
    let conn = rusqlite::Connection::open(path).expect("the database");
    conn.pragma_update(None, "user_version", 99).expect("set");
    drop(conn);
    let refused = scene.steers(&["send", "@here", "x"]).expect(1);
    assert_has(&refused.stderr, &["its schema is 99", "update rewake"]);
}

/// The cost counts from the first request of the session on, and a limit of it is no limit of
/// answers.
#[test]
fn at_a_limit_of_cost_the_session_pauses_and_says_so() {
    let scene = Scene::with_command(&waits_for_go());
    let config = scene.home.rewake_home().join("config.toml");
    let before = std::fs::read_to_string(&config).expect("the config");
    // Each request has ten tokens or more: ten dollars.
    let price = "[models.\"local/test-model\"]\ninput_price = 1000000\noutput_price = 0\n";
    std::fs::write(&config, format!("{before}\n{price}")).expect("a price");
    let first = scene.start_command();
    scene.steers(&["set", "@here", "--usd", "0.5"]).expect(0);
    first.wait_for(LIMIT, |line| is_entry(line, "chose"));
    scene.go();
    let run = first.wait(LIMIT).expect(75);
    let asked = scene.server.requests().len();
    assert_eq!(asked, 1, "it was asked beyond the limit");
    assert_has(
        &run.stderr,
        &[
            "the limit of cost is reached: $",
            "of $0.50",
            "rewake unblock",
        ],
    );
    // What was begun has its result, and nothing more is asked before somebody lifts it.
    assert_eq!(scene.entries("finished").len(), 1);
    let again = scene.go_on().expect(75);
    assert_has(&again.stderr, &["the limit of cost is reached"]);
    assert_eq!(scene.server.requests().len(), asked);
    scene.steers(&["set", "@here", "--usd", "5000"]).expect(0);
    scene.go_on().expect(0);
    assert_eq!(scene.server.requests().len(), asked + 1);
}

#[test]
fn a_limit_of_cost_without_a_price_is_not_passed_over() {
    let scene = Scene::with_command(&waits_for_go());
    let first = scene.start_command();
    scene.steers(&["set", "@here", "--usd", "5"]).expect(0);
    first.wait_for(LIMIT, |line| is_entry(line, "chose"));
    scene.go();
    let run = first.wait(LIMIT).expect(75);
    assert_has(
        &run.stderr,
        &[
            "the price of a model that was asked is not known",
            "rewake unblock",
        ],
    );
    assert_eq!(scene.server.requests().len(), 1);
    scene.steers(&["set", "@here", "--no-limits"]).expect(0);
    scene.go_on().expect(0);
}

/// The last entry of a session becomes one of a kind that this version does not know.
fn as_of_a_newer_version(scene: &Scene, id: &str) {
    let body = r#"{"kind":"teleported","to":"mars"}"#;
    let path = scene.home.rewake_home().join("rewake.db");
    let conn = rusqlite::Connection::open(path).expect("the database");
    let sql = "SELECT e.id, e.parent, e.seq, e.at_ms, p.tip FROM sessions s
      JOIN entries e ON e.id = s.head JOIN entries p ON p.id = e.parent WHERE s.id = ?1";
    let row: (i64, i64, i64, i64, Vec<u8>) = conn
        .query_row(sql, [id], |row| row.try_into())
        .expect("the last entry");
    let (row, parent, seq, at_ms, before) = row;
    let seq = u64::try_from(seq).expect("a place");
    let mut checksum = blake3::Hasher::new();
    checksum.update(&parent.to_le_bytes());
    checksum.update(&seq.to_le_bytes());
    checksum.update(&at_ms.to_le_bytes());
    checksum.update(body.as_bytes());
    let checksum = checksum.finalize();
    let tip = ChainHash::from_bytes(&before).expect("a tip");
    let tip = tip.and(seq, at_ms, body.as_bytes());
    let sql = "UPDATE entries SET kind = 'teleported', body = ?2, checksum = ?3, tip = ?4
      WHERE id = ?1";
    let set = rusqlite::params![row, body, &checksum.as_bytes()[..16], tip.as_bytes()];
    conn.execute(sql, set).expect("changed");
}

/// A session that a newer version worked in cannot be read here. What needs no reading is kept for
/// whoever can.
#[test]
fn a_session_of_a_newer_version_is_told() {
    let scene = writes();
    scene
        .live(&["-p", "do it", "--on-approval", "wait=1s"])
        .wait(LIMIT)
        .expect(75);
    let id = scene.id();
    as_of_a_newer_version(&scene, &id);
    for args in [&["pause", "@here"][..], &["allow", "@here"]] {
        let refused = scene.steers(args).expect(1);
        assert_has(&refused.stderr, &["teleported", "hint:", "update rewake"]);
    }
    let asked = scene.steers(&["approvals"]).expect(0);
    assert_has(&asked.stderr, &["a session cannot be read", "teleported"]);
    let kept = scene.steers(&["send", "@here", "later"]).expect(0);
    assert_has(&kept.stderr, &["is not running"]);
    assert_eq!(
        scene.store().inbox().queued(&id).expect("the inbox").len(),
        1
    );
}

/// Each waits for the other, and each of ten thousand has an answer: it fits, or it is refused.
#[test]
fn ten_thousand_signals_do_no_harm() {
    let scene = writes();
    scene.live(&["-p", "do it"]).wait(LIMIT).expect(0);
    let id = scene.id();
    let fits = |store: &mut Store, title: &str| loop {
        let name = |_| Signal::Name {
            title: title.to_string(),
        };
        match store.inbox_mut().signal(&id, "test", 1, name) {
            Ok(_) => return true,
            Err(StoreError::TooMany { .. }) => return false,
            // On a busy machine the other sender may write for long.
            Err(StoreError::Busy { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    };
    let accepted: Vec<Vec<String>> = std::thread::scope(|threads| {
        let sender = |of: u64| {
            let mut store = scene.store();
            threads.spawn(move || {
                let titles = (0..5_000).map(|n| format!("{of} {n}"));
                titles.filter(|title| fits(&mut store, title)).collect()
            })
        };
        let senders = [sender(1), sender(2)];
        senders
            .map(|sender| sender.join().expect("the titles"))
            .into()
    });
    assert_eq!(accepted.concat().len() as u64, MAX_SIGNALS);
    let live = scene.live(&["-p", "-c", "more"]);
    // The limit is for the next fifty, and not for all.
    for title in accepted.iter().flat_map(|titles| titles.iter().step_by(50)) {
        let title = json!(title).to_string();
        live.wait_for(LIMIT, |line| {
            line.contains(&title) && is_entry(line, "named")
        });
    }
    live.wait(LIMIT).expect(0);
    assert!(scene.signals(&id).is_empty());
    assert_eq!(scene.entries("named").len() as u64, MAX_SIGNALS);
}
