//! A disk that is full, or that fails.

use crate::support::{FailingDisk, Fails, Home, Run, run, skip};
use crate::{LIMIT, history, quiet, scripted, step};

const NO_SPACE: i32 = 28;

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
