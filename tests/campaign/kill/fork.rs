//! Kills while a fork gets files of its own: `rewake fork --files` of 2,000 files is killed with
//! SIGKILL at random instants. After the next start there is no fork and nothing is left of it, or
//! the fork has all of its files.
//!
//! `REWAKE_RESTORE_KILLS=N` kills so often.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use crate::kill::random::{Random, seed_of_now};
use crate::kill::restore::{FILES, files, name, old, scene, wait_for_the_restore};
use support::{Home, Live, Seed};

const KILLS: usize = 8;

fn kills() -> usize {
    let kills = std::env::var("REWAKE_RESTORE_KILLS").ok();
    kills.and_then(|n| n.parse().ok()).unwrap_or(KILLS)
}

fn sessions(home: &Home) -> BTreeSet<String> {
    let listed = home.run(["history"]).expect(0).stdout;
    let ids = listed.lines().filter_map(|l| l.split_whitespace().next());
    ids.map(str::to_string).collect()
}

#[test]
fn a_fork_that_is_killed_is_none_or_has_all_of_its_files() {
    let seed = Seed::of("REWAKE_KILL_SEED", seed_of_now);
    let mut random = Random(seed.number);
    let (home, id, at) = scene();
    let folder = |n: usize| home.workspace().with_file_name(format!("copy{n}"));
    let fork = |n: usize| {
        let folder = folder(n);
        let folder = folder.to_str().unwrap();
        Live::spawn(home.rewake(["fork", &id, "--at", &at, "--files", folder]))
    };
    // How long one takes that is let alone.
    let live = fork(0);
    let begin = Instant::now();
    live.wait(Duration::from_secs(180)).expect(0);
    let mut whole_us = u64::try_from(begin.elapsed().as_micros()).unwrap();
    let is_whole = |n: usize| {
        let there = files(&folder(n));
        (0..FILES).all(|n| there.get(&name(n)) == Some(&old(n)))
    };
    assert!(is_whole(0));
    let (mut none, mut whole, mut in_the_middle) = (0, 0, 0);
    for n in 1..=kills() {
        let before = sessions(&home);
        let mut live = fork(n);
        if n % 2 == 0 {
            wait_for_the_restore(&folder(n));
        }
        // The first ones before anything is done, the others at any time.
        if n > 3 {
            std::thread::sleep(Duration::from_micros(random.between(0, whole_us)));
        }
        if !live.kill() {
            // The machine was busier when it was measured.
            whole_us = (whole_us * 3 / 4).max(1000);
        }
        let there = match folder(n).exists() {
            true => files(&folder(n)).len(),
            false => 0,
        };
        in_the_middle += usize::from(there > 0 && there < FILES);
        let new: Vec<String> = sessions(&home).difference(&before).cloned().collect();
        match &new[..] {
            [] => {
                home.run(["-p", "-r", &id, "--yolo"]);
                assert!(!folder(n).exists(), "something of it is left");
                none += 1;
            }
            [copy] => {
                home.run(["-p", "-r", copy, "--yolo"]);
                assert!(is_whole(n), "{copy} lacks files");
                let names = fs::read_dir(folder(n)).unwrap().flatten();
                let names = names.map(|e| e.file_name().to_string_lossy().into_owned());
                let left: Vec<String> = names.filter(|name| name.contains("rewake")).collect();
                assert!(left.is_empty(), "{left:?}");
                whole += 1;
            }
            more => panic!("{more:?}"),
        }
        let notes = fs::read_dir(home.rewake_home().join("files/forks"));
        assert_eq!(notes.map_or(0, Iterator::count), 0);
    }
    println!(
        "{none} times no fork, {whole} times a whole one, {in_the_middle} killed between two files"
    );
    assert!(none > 0, "every kill came too late");
}
