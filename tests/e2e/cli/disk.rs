//! A disk that is full, or that fails.

use std::fs;

use crate::cli::{LIMIT, bash, history, quiet, refused, scripted, step};
use support::{FailingDisk, Fails, Home, Run, run, skip};

const NO_SPACE: i32 = 28;
const INPUT_OUTPUT: i32 = 5;

const COMPILER: &str = "a C compiler (cc)";

fn under(disk: &FailingDisk, home: &Home, fails: &Fails<'_>, args: &[&str]) -> Run {
    let run = run(disk.under(home.rewake(args), fails), LIMIT);
    quiet(&run);
    run
}

fn count_of(home: &Home, kind: &str) -> usize {
    let (id, _) = history(home).remove(0);
    let run = home.run(["export", &id, "--json"]).expect(0);
    let kind = format!("\"kind\":\"{kind}\"");
    run.stdout.matches(&kind).count()
}

const fn full(after: u32) -> Fails<'static> {
    Fails {
        call: "write",
        file: "rewake.db-wal",
        after,
        errno: NO_SPACE,
        times: None,
        drops: false,
    }
}

/// An answer that takes many more writes than a start does.
fn noise() -> String {
    let mut state = 1u32;
    let letters = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'a' + (state >> 24) as u8 % 26)
    });
    letters.take(200_000).collect()
}

/// A session whose words were said, and whose answer found no room.
fn said_on_a_full_disk(disk: &FailingDisk) -> Home {
    for after in (1..500).step_by(2) {
        let home = scripted(&[step(&noise(), &[])]);
        let run = under(disk, &home, &full(after), &["-p", "the words"]);
        let is_said = !history(&home).is_empty() && count_of(&home, "said") == 1;
        if is_said {
            assert_eq!(run.code(), Some(75), "{after}: {run:?}");
            assert_eq!(count_of(&home, "replied"), 0);
            return home;
        }
    }
    panic!("nothing was ever said");
}

/// The disk is full again and again once a start was recorded: when there is room, it goes on.
#[test]
fn starts_that_end_on_a_full_disk_are_no_crash_loop() {
    let Some(disk) = FailingDisk::build() else {
        return skip(COMPILER);
    };
    let home = said_on_a_full_disk(&disk);
    // So many writes that the start is recorded and the answer is not.
    let mut after = 1;
    for n in 1..=5 {
        while count_of(&home, "woke") < n {
            let run = under(&disk, &home, &full(after), &["-p", "-c"]).expect(75);
            assert!(run.stderr.contains("free some space"), "{}", run.stderr);
            if count_of(&home, "woke") < n {
                after += 1;
            }
            assert!(after < 500, "{}", run.stderr);
        }
    }
    assert_eq!(count_of(&home, "replied"), 0);
    let run = home.run(["-p", "-c"]).expect(0);
    assert_eq!(run.stdout.trim_end(), noise());
}

/// Each kind of call on the database fails once it was used for a while: what was asked of the
/// disk is said, with what to do; then the session goes on, and nothing is done twice.
#[test]
fn an_error_of_the_disk_is_named_and_nothing_is_lost() {
    let Some(disk) = FailingDisk::build() else {
        return skip(COMPILER);
    };
    let cases = [
        ("sync", "rewake.db-wal", "syncing rewake.db-wal", 75),
        ("write", "rewake.db-wal", "writing to rewake.db-wal", 75),
        ("read", "rewake.db", "reading rewake.db", 1),
    ];
    for (call, file, words, code) in cases {
        let home = scripted(&[
            step("", &[bash("echo one >> effects")]),
            step("", &[bash("echo two >> effects")]),
            step("over", &[]),
        ]);
        let mut named = 0;
        // Later each time, until nothing fails any more.
        for after in (0..).step_by(if call == "sync" { 1 } else { 5 }) {
            let before = home.read("effects");
            let args = match history(&home).is_empty() {
                true => &["-p", "go", "--yolo"][..],
                false => &["-p", "go on", "-c"],
            };
            let fails = Fails {
                call,
                file,
                after,
                errno: INPUT_OUTPUT,
                times: None,
                drops: false,
            };
            let run = under(&disk, &home, &fails, args);
            if run.code() == Some(0) {
                break;
            }
            assert!(home.read("effects").starts_with(&before));
            let run = refused(run, code, &["hint: ", "rewake doctor"]);
            // SQLite takes some pages that cannot be read for damaged ones.
            if call == "read" && run.stderr.contains("is damaged") {
                continue;
            }
            for words in [words, "hint: the disk reports an error"] {
                assert!(run.stderr.contains(words), "{call} {after}: {}", run.stderr);
            }
            named += 1;
            assert!(after < 2_000, "{}", run.stderr);
        }
        assert!(named > 0, "{call} never failed");
        // All of it is there.
        if home.read("effects") != "one\ntwo\n" {
            home.run(["-p", "-c", "and then"]).expect(0);
        }
        assert_eq!(home.read("effects"), "one\ntwo\n", "{call}");
        home.run(["doctor"]).expect(0);
    }
}

/// After a sync that failed the kernel may drop what was to be synced, and call the next sync of that
/// file a success: what a row names then is in another pack, and all of it can be read.
#[test]
fn a_pack_whose_sync_failed_is_not_written_on() {
    let Some(disk) = FailingDisk::build() else {
        return skip(COMPILER);
    };
    let noise = |file: &str| bash(&format!("head -c 100000 /dev/urandom > {file}"));
    for after in 0..3 {
        let home = scripted(&[
            step("", &[noise("one")]),
            step("", &[noise("two")]),
            step("", &[noise("three")]),
            step("", &[bash("echo over > last")]),
            step("over", &[]),
        ]);
        let fails = Fails {
            call: "sync",
            file: ".pack",
            after,
            errno: INPUT_OUTPUT,
            times: Some(1),
            drops: true,
        };
        under(&disk, &home, &fails, &["-p", "go", "--yolo"]).expect(0);
        let packs = fs::read_dir(home.rewake_home().join("files/packs")).unwrap();
        let packs: Vec<u64> = packs
            .flatten()
            .map(|f| f.metadata().unwrap().len())
            .collect();
        // What no row names did not stay.
        assert_eq!(
            packs.len(),
            if after == 0 { 1 } else { 2 },
            "{after}: {packs:?}"
        );
        assert!(packs.iter().sum::<u64>() < 301_000, "{after}: {packs:?}");
        let (id, _) = history(&home).remove(0);
        let last = format!("{id}:{}", last_entry(&home, &id));
        for file in ["one", "two", "three"] {
            home.run(["restore", file, "--at", &last, "-o", "restored"])
                .expect(0);
            let read = |name: &str| fs::read(home.path(name)).unwrap();
            assert!(read("restored") == read(file), "{after}: {file}");
        }
    }
}

fn last_entry(home: &Home, id: &str) -> String {
    let export = home.run(["export", id, "--json"]).expect(0).stdout;
    let export: serde_json::Value = serde_json::from_str(&export).unwrap();
    export["records"].as_array().unwrap().last().unwrap()["seq"].to_string()
}
