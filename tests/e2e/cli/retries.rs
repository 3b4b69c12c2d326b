//! `--session-id`: a job whose command line is run again until it succeeds.

use std::fs;
use std::time::Duration;

use rewake::store::Store;

use crate::cli::{
    LIMIT, bash, calling, entries, history, refused, results, scripted, step, streamed, until,
};
use support::{Home, Live, Run};

/// IDs of version 4: the larger one is of the parent in a fork, so no order by ID is right.
const ID: &str = "f9a0c2f0-7d10-4c55-9d0e-0d6f6f3f0a77";
const OTHER: &str = "0a0c2f0e-7d10-4c55-9d0e-0d6f6f3f0a77";

fn line(prompt: &str) -> [&str; 6] {
    [
        "-p",
        prompt,
        "--session-id",
        ID,
        "--permission-mode",
        "acceptEdits",
    ]
}

fn working() -> Home {
    scripted(&[
        step("I look.", &[bash("echo x >> ran; cat ran")]),
        step("all done", &[]),
    ])
}

#[test]
fn the_same_line_again_says_the_prompt_once_and_prints_the_recorded_answer() {
    let home = working();
    let first = streamed(&home, &line("do it")).expect(0);
    let id = |run: &Run| run.events()[0]["session"].as_str().unwrap().to_string();
    assert_eq!(id(&first), ID);
    for _ in 0..2 {
        let again = streamed(&home, &line("do it")).expect(0);
        let events = again.events();
        let result = events.last().unwrap();
        assert_eq!(id(&again), ID);
        assert_eq!(
            (&result["result"], &result["turns"], &result["stop"]),
            (&"all done".into(), &0.into(), &"end_turn".into()),
            "{again:?}"
        );
        assert_eq!(home.run(line("do it")).expect(0).stdout, "all done\n");
    }
    assert_eq!(entries(&home, ID, "said").len(), 1);
    assert_eq!(home.read("ran"), "x\n");
    assert_eq!(history(&home).len(), 1);
    // Another prompt is another turn.
    let more = home.run(line("and this"));
    assert_eq!(entries(&home, ID, "said").len(), 2, "{more:?}");
}

/// A person may work in the session of a job between its attempts.
#[test]
fn a_retry_after_another_prompt_does_not_say_its_prompt_again() {
    let home = working();
    home.run(line("do it")).expect(0);
    home.run(["-p", "and more", "-r", ID]);
    assert_eq!(entries(&home, ID, "said").len(), 2);
    home.run(line("do it"));
    assert_eq!(entries(&home, ID, "said").len(), 2);
    // The next step of the job is sent, and so is a step that comes again after it.
    home.run(line("next"));
    home.run(line("do it"));
    assert_eq!(entries(&home, ID, "said").len(), 4);
}

/// The text of a custom command may differ at each attempt.
#[test]
fn a_retry_compares_the_prompt_as_it_was_typed() {
    let home = working();
    let commands = home.rewake_home().join("commands");
    fs::create_dir_all(&commands).unwrap();
    fs::write(commands.join("work.md"), "do it, first text").unwrap();
    home.run(line("/work hard")).expect(0);
    fs::write(commands.join("work.md"), "do it, second text").unwrap();
    home.run(line("/work hard")).expect(0);
    let said = entries(&home, ID, "said");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0]["text"], "do it, first text\n\nhard");
}

/// The job is killed at random, with all that it started or without, and run again until it ends
/// well.
#[test]
fn a_job_that_is_killed_and_retried_has_one_prompt_and_one_effect() {
    let wanted = std::env::var("REWAKE_KILLS").ok();
    let wanted = wanted.map_or(12, |n| n.parse().unwrap());
    let mut random = fastrand(7);
    let mut kills = 0;
    for round in 0.. {
        if kills >= wanted {
            return;
        }
        assert!(round < wanted, "nothing is killed");
        let home = scripted(&[
            step("", &[bash("echo x >> ran; sleep 0.2")]),
            step("", &[bash("echo y >> ran")]),
            step("done", &[]),
        ]);
        for attempt in 0.. {
            assert!(attempt < 50, "it never ends");
            let mut job = Live::spawn(home.rewake(line("work")));
            std::thread::sleep(Duration::from_millis(random() % 150));
            if attempt < 6 && job.kill() {
                kills += 1;
                job.wait(LIMIT);
                continue;
            }
            let run = job.wait(LIMIT);
            // Starts that were all killed at once: a person says that it may be tried again.
            if run.stderr.contains("crash loop") {
                assert_eq!(run.status.code(), Some(75), "{}", run.stderr);
                home.run(["unblock", ID]).expect(0);
                continue;
            }
            assert_eq!(run.status.code(), Some(0), "round {round}: {}", run.stderr);
            assert_eq!(run.stdout, "done\n");
            break;
        }
        assert_eq!(entries(&home, ID, "said").len(), 1, "round {round}");
        assert_eq!(home.read("ran"), "x\ny\n", "round {round}");
    }
}

/// Numbers that are the same in each run.
pub fn fastrand(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    }
}

/// A stop does not end the work: the next attempt continues it.
#[test]
fn a_stopped_job_goes_on() {
    let home = scripted(&[
        step(
            "",
            &[bash(
                "echo x >> ran; while [ ! -e go ]; do sleep 0.02; done",
            )],
        ),
        step("went on", &[]),
    ]);
    let job = Live::spawn(home.rewake(line("work")));
    until(|| home.read("ran") == "x\n");
    home.run(["stop", ID]).expect(0);
    assert_ne!(job.wait(LIMIT).status.code(), Some(0));
    let run = home.run(line("work")).expect(0);
    assert_eq!(run.stdout, "went on\n");
    let said = entries(&home, ID, "said");
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(
        (&said[0]["text"], &said[1]["origin"]),
        (&"work".into(), &"retry".into())
    );
    assert_eq!(home.run(line("work")).expect(0).stdout, "went on\n");
    assert_eq!(entries(&home, ID, "said").len(), 2);
}

#[test]
fn an_id_that_cannot_be_used_is_refused() {
    let home = working();
    for bad in [
        "7",
        "F9A0C2F0-7D10-4C55-9D0E-0D6F6F3F0A77",
        "f9a0c2f07d104c559d0e0d6f6f3f0a77",
    ] {
        let run = home.run(["-p", "x", "--session-id", bad]);
        refused(run, 2, &["not a UUID in lower case with hyphens"]);
    }
    refused(home.run(["-p", "--session-id", ID]), 2, &["nothing to do"]);
    refused(
        home.run(["-p", "x", "-c", "--session-id", ID]),
        2,
        &["cannot be used with"],
    );
    assert!(history(&home).is_empty());
    home.run(line("do it")).expect(0);
    fs::create_dir(home.user().join("elsewhere")).unwrap();
    let elsewhere = home.user().join("elsewhere");
    let there = [
        "-C",
        elsewhere.to_str().unwrap(),
        "-p",
        "x",
        "--session-id",
        ID,
    ];
    refused(home.run(there), 2, &["it works in", "another UUID"]);
    home.run(["dismiss", ID]).expect(0);
    home.run(["purge", ID, "--yes"]).expect(0);
    refused(home.run(line("do it")), 2, &["was purged", "another UUID"]);
}

#[test]
fn a_session_in_use_exits_with_75() {
    let home = calling(&[bash(
        "echo x >> ran; while [ ! -e go ]; do sleep 0.02; done",
    )]);
    let first = Live::spawn(home.rewake(line("work")));
    until(|| home.read("ran") == "x\n");
    refused(home.run(line("work")), 75, &["in use"]);
    fs::write(home.path("go"), "").unwrap();
    assert_eq!(first.wait(LIMIT).status.code(), Some(0));
    assert_eq!(entries(&home, ID, "said").len(), 1);
}

/// The database is lost. The journal has the sessions, whatever their IDs are.
#[test]
fn a_lost_database_is_rebuilt_with_chosen_ids() {
    let home = working();
    let done = streamed(&home, &line("do it")).expect(0);
    assert_eq!(results(&done).len(), 1);
    let copy = streamed(&home, &["-p", "more", "-r", ID, "--fork-session"]);
    let copy = copy.events()[0]["session"].as_str().unwrap().to_string();
    home.run(["-p", "x", "--session-id", OTHER]).expect(0);
    let count = |id: &str| {
        let store = Store::open(&home.rewake_home()).unwrap();
        store.load(id).unwrap().1.len()
    };
    let before = [ID, &copy, OTHER].map(count);
    assert!(before[1] > before[0] && before[2] > 3, "{before:?}");
    let database = home.rewake_home().join("rewake.db");
    for is_damaged in [false, true] {
        for end in ["-wal", "-shm"] {
            let _ = fs::remove_file(database.with_extension(format!("db{end}")));
        }
        match is_damaged {
            true => fs::write(&database, "no database").unwrap(),
            false => fs::remove_file(&database).unwrap(),
        }
        home.run(["doctor", "--repair"]).expect(0);
        assert_eq!([ID, &copy, OTHER].map(count), before);
        // The fork still shares the entries of its parent.
        let store = Store::open(&home.rewake_home()).unwrap();
        let forked = store.history().find(&copy).unwrap().forked_from;
        assert_eq!(forked.map(|from| from.session).as_deref(), Some(ID));
    }
    assert_eq!(home.run(line("do it")).expect(0).stdout, "all done\n");
}
