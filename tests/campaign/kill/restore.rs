//! Kills in restores: `rewake rewind` of 2,000 files is killed with SIGKILL at random instants and
//! begun again until it is done. After each kill every path is as it was, as it is to be, or as
//! somebody left it meanwhile, and none is torn. What somebody wrote into a file that a command then
//! removed lies beside it.
//!
//! `REWAKE_RESTORE_KILLS=N` kills so often.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::kill::random::{Random, seed_of_now};
use support::{Home, Live, Seed};

pub const FILES: usize = 2_000;
const KILLS: usize = 6;
const SAVED: &str = "saved by hand\n";
/// A person replaced this file, and a command of the model removed it.
const REMOVED: usize = FILES - 1;
const REPLACED: &str = "replaced by hand\n";

const SCRIPTED: &str = "\
model = \"s/play\"
[providers.s]
protocol = \"script\"
script = \"script.toml\"
[files]
# A snapshot is taken, however long it takes on a busy machine.
wait_ms = 600000
";

pub fn old(n: usize) -> String {
    format!("old {n}\n{}", "x".repeat(n % 700))
}

fn new(n: usize) -> String {
    format!("new {n}\n{}", "y".repeat(n % 900))
}

pub fn name(n: usize) -> String {
    format!("d{}/f{n}", n % 40)
}

/// A session in which one command changed all files: its id, and the entry before that.
pub fn scene() -> (Home, String, String) {
    let home = Home::new();
    home.write_config(SCRIPTED);
    let script = "\
        for f in d*/f*; do n=${f##*f}; printf 'new %s\\n' \"$n\" > \"$f\"; \
        head -c $((n % 900)) /dev/zero | tr '\\0' y >> \"$f\"; done";
    let arguments = serde_json::json!({ "command": script }).to_string();
    let step = format!(
        "[[step]]\ntext = \"\"\ncalls = [{{ name = \"bash\", arguments = {} }}]\n[[step]]\ntext = \"done\"\n",
        Value::from(arguments)
    );
    fs::write(home.rewake_home().join("script.toml"), step).unwrap();
    for n in 0..FILES {
        let path = home.path(name(n));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, old(n)).unwrap();
    }
    let went = home.run(["-p", "go", "--yolo"]);
    assert_eq!(went.code(), Some(0), "{}", went.stderr);
    let listed = home.run(["history"]).expect(0).stdout + &went.stdout + &went.stderr;
    let id = listed.split_whitespace().next().unwrap().to_string();
    let export = home.run(["export", &id, "--json"]).expect(0).stdout;
    let export: Value = serde_json::from_str(&export).unwrap();
    let records = export["records"].as_array().unwrap();
    let at = records
        .iter()
        .find(|r| r["entry"]["tree"].is_string())
        .unwrap();
    let at = at["seq"].to_string();
    assert_eq!(
        home.read(name(1_234)),
        new(1_234),
        "the command did not do its work"
    );
    (home, id, at)
}

/// A person replaces a file, and the next command of the session removes it.
fn remove_what_somebody_replaced(home: &Home, id: &str, at: &str) {
    let path = name(REMOVED);
    // A preview takes a snapshot, so what follows is known not to be the first command's.
    home.run(["rewind", id, at, "--files", "--preview"])
        .expect(0);
    fs::write(home.path(&path), REPLACED).unwrap();
    let script = home.rewake_home().join("script.toml");
    let arguments = serde_json::json!({ "command": format!("rm {path}") }).to_string();
    let steps = format!(
        "[[step]]\ntext = \"\"\ncalls = [{{ name = \"bash\", arguments = {} }}]\n[[step]]\ntext = \"done\"\n",
        Value::from(arguments)
    );
    let played = fs::read_to_string(&script).unwrap();
    fs::write(&script, played + &steps).unwrap();
    home.run(["-p", "-c", "more", "--yolo"]).expect(0);
    assert!(!home.path(&path).exists());
}

/// What lies beside the file that was removed.
fn beside(files: &BTreeMap<String, String>) -> Vec<(&String, &String)> {
    let kept = format!("{}.rewake-kept", name(REMOVED));
    let beside = files.iter().filter(|(name, _)| name.starts_with(&kept));
    beside.collect()
}

/// What lies at each path, beside what the restore lays out.
pub fn files(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for folder in fs::read_dir(root).unwrap().flatten() {
        let folder = folder.path();
        if !folder.is_dir() || folder.display().to_string().contains(".rewake-restore-") {
            continue;
        }
        for file in fs::read_dir(&folder).unwrap().flatten() {
            let path = file.path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    found
}

fn kills() -> usize {
    let kills = std::env::var("REWAKE_RESTORE_KILLS").ok();
    kills.and_then(|n| n.parse().ok()).unwrap_or(KILLS)
}

#[test]
fn a_restore_that_is_killed_leaves_nothing_torn_and_is_done_by_the_next_start() {
    let seed = Seed::of("REWAKE_KILL_SEED", seed_of_now);
    let mut random = Random(seed.number);
    let (home, id, at) = scene();
    remove_what_somebody_replaced(&home, &id, &at);
    // How long one takes that is let alone.
    let live = Live::spawn(home.rewake(["rewind", &id, &at, "--files", "--yes"]));
    wait_for_the_restore(&home.workspace());
    let begin = Instant::now();
    live.wait(Duration::from_secs(180)).expect(0);
    let mut whole_us = u64::try_from(begin.elapsed().as_micros()).unwrap();
    let mut is_back = true;
    let (mut killed, mut cut_short, mut in_the_middle, mut rounds) = (0, 0, 0, 0);
    let mut by_hand: BTreeMap<String, String> = BTreeMap::new();
    // Until enough of them hit a restore.
    while killed < kills() || cut_short * 4 < killed {
        rounds += 1;
        assert!(
            rounds < kills() * 6,
            "{killed} kills in {rounds} rounds, of which {cut_short} hit a restore"
        );
        let more: [&str; 4] = match is_back {
            false => ["rewind", &id, &at, "--files"],
            true => ["rewind", &id, "--redo", "--yes"],
        };
        let mut command: Command = home.rewake(more);
        command.arg("--yes");
        if is_back {
            command = home.rewake(more);
        }
        let mut live = Live::spawn(command);
        // Every third at any time, the others while files are laid out and placed.
        match rounds % 3 {
            0 => std::thread::sleep(Duration::from_millis(random.between(0, 900))),
            _ => {
                wait_for_the_restore(&home.workspace());
                std::thread::sleep(Duration::from_micros(random.between(0, whole_us)));
            }
        }
        let saved = name(usize::try_from(random.between(0, FILES as u64 - 1)).unwrap());
        if rounds % 2 == 0 && saved != name(REMOVED) && home.path(&saved).exists() {
            fs::write(home.path("beside"), SAVED).unwrap();
            fs::rename(home.path("beside"), home.path(&saved)).unwrap();
            by_hand.insert(saved.clone(), SAVED.to_string());
        }
        let was_killed = live.kill();
        if !was_killed {
            // The machine was busier when it was measured.
            whole_us = (whole_us * 3 / 4).max(1000);
        }
        let now = files(&home.workspace());
        let (mut olds, mut news) = (0, 0);
        for n in 0..FILES {
            let path = name(n);
            match now.get(&path).map(String::as_str) {
                Some(SAVED) if by_hand.contains_key(&path) => {}
                None if n == REMOVED => {}
                Some(content) if content == old(n) => olds += 1,
                Some(content) if content == new(n) => news += 1,
                // Between the two renames of nothing: an exchange leaves no gap.
                other => panic!("{path} is torn after a kill: {other:?}"),
            }
        }
        killed += usize::from(was_killed);
        cut_short += usize::from(was_killed && staged(&home.workspace()) > 0);
        in_the_middle += usize::from(olds > 0 && news > 0);
        // A start does the rest, and another one nothing.
        let start = || home.run(["-p", "-r", &id, "--yolo"]);
        let first = start();
        let done = files(&home.workspace());
        let second = start();
        let changed = files(&home.workspace()) != done;
        assert!(
            !changed,
            "a second start changed something: {first:?}, then {second:?}"
        );
        let of = |is: &dyn Fn(usize) -> String| {
            let same = |n: &usize| {
                let path = name(*n);
                *n == REMOVED || by_hand.contains_key(&path) || done.get(&path) == Some(&is(*n))
            };
            (0..FILES).filter(same).count()
        };
        let (all_old, all_new) = (of(&old) == FILES, of(&new) == FILES);
        assert!(
            all_old || all_new,
            "half of it is left: {} old, {} new",
            of(&old),
            of(&new)
        );
        is_back = all_old;
        let lies = done.get(&name(REMOVED));
        let is_beside = beside(&done)
            .iter()
            .any(|(_, content)| *content == REPLACED);
        match is_back {
            true => assert!(lies == Some(&old(REMOVED)) && is_beside, "{lies:?}"),
            false => assert_eq!(lies, None),
        }
        // The next rewind has to lay it there again.
        if !is_back {
            for (path, _) in beside(&done) {
                fs::remove_file(home.path(path)).unwrap();
            }
        }
        assert_eq!(staged(&home.workspace()), 0, "something is left of it");
        for (path, content) in &by_hand {
            let kept = done
                .iter()
                .any(|(name, is)| name.starts_with(path) && is == content);
            assert!(kept, "{path} was saved by hand and is lost");
        }
    }
    println!(
        "{killed} kills in {rounds} rounds: {cut_short} cut a restore short, {in_the_middle} between two files"
    );
}

/// Folders in which a restore laid something out.
fn staged(root: &Path) -> usize {
    let names = fs::read_dir(root).into_iter().flatten().flatten();
    let is_staged = |e: &fs::DirEntry| e.file_name().to_string_lossy().contains(".rewake-restore-");
    names.filter(is_staged).count()
}

/// It begins soon, or the process ends without it.
pub fn wait_for_the_restore(root: &Path) {
    for _ in 0..2_000 {
        if staged(root) > 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
