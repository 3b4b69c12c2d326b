//! Entries that are found on their pages, against those that SQL reads of the same files while
//! they are undamaged: the same sessions with the same logs, and nothing of what was removed.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rewake::core::entry::Record;
use rewake::store::{Rebuilt, Repair, Store};
use rusqlite::Connection;

use crate::story::*;

const PAGE: usize = 4096;

/// `REWAKE_CARVE_SEEDS` says another number.
const SEEDS: u64 = 16;

/// Random numbers that a seed repeats.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut n = self.0;
        n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ (n >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Text that does not get smaller by compression.
    fn text(&mut self, bytes: u64) -> String {
        let letter = |n: u64| char::from(b' ' + u8::try_from(n % 90).unwrap());
        (0..bytes).map(|_| letter(self.next())).collect()
    }

    /// Most are short; some go on on other pages.
    fn bytes(&mut self) -> u64 {
        match self.below(10) {
            0..6 => self.below(400),
            6..8 => 3_500 + self.below(700),
            8 => self.below(20_000),
            _ => self.below(120_000),
        }
    }
}

/// Sessions that somebody worked in, and their ids. The log is emptied now and then.
fn work(noise: &mut Noise, data: &Path, ids: &mut Vec<String>) -> Store {
    let mut store = Store::open(data).unwrap();
    for _ in 0..1 + noise.below(3) {
        ids.push(session(&mut store, HERE).session().to_string());
    }
    for _ in 0..10 + noise.below(30) {
        let id = &ids[usize::try_from(noise.below(ids.len() as u64)).unwrap()];
        let (mut head, _) = store.load(id).unwrap();
        match noise.below(12) {
            0 => {
                let at = noise.below(head.seq() + 1);
                let branch = fork(&mut store, id, at, 9).unwrap();
                ids.push(branch.session().to_string());
            }
            1 => {
                raw(data)
                    .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
                    .unwrap();
            }
            n => {
                let entries = (0..1 + n % 3).map(|_| {
                    let bytes = noise.bytes();
                    said(&noise.text(bytes))
                });
                append(&mut store, &mut head, entries.collect());
            }
        }
    }
    store
}

struct Before {
    logs: Vec<(String, Vec<Record>)>,
    gone: Vec<String>,
    /// Rows of them.
    entries: usize,
}

/// A store as a kill leaves it, in another folder, and what SQL reads of it.
fn killed(noise: &mut Noise, data: &Path, copy: &Path) -> Before {
    let (mut ids, mut gone) = (Vec::new(), Vec::new());
    drop(work(noise, data, &mut ids));
    if noise.below(2) == 0 {
        let at = usize::try_from(noise.below(ids.len() as u64)).unwrap();
        gone.push(ids.remove(at));
        let store = Store::open(data).unwrap();
        store.purge(data, None, &gone[0]).unwrap();
    }
    let store = work(noise, data, &mut ids);
    if noise.below(2) == 0 {
        raw(data)
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .unwrap();
    }
    fs::create_dir_all(copy).unwrap();
    // No file that says what was purged.
    for name in ["rewake.db", "rewake.db-wal"] {
        fs::copy(data.join(name), copy.join(name)).unwrap();
    }
    let sql = "SELECT count(*) FROM entries";
    let entries: i64 = raw(data).query_row(sql, [], |row| row.get(0)).unwrap();
    let log = |id: String| (id.clone(), store.load(&id).unwrap().1);
    Before {
        logs: ids.into_iter().map(log).collect(),
        gone,
        entries: usize::try_from(entries).unwrap(),
    }
}

/// Every page that leads to the rows of `entries` is zeroed, where the log has no newer one.
fn hide_entries(folder: &Path) {
    let path = database(folder);
    let root: u32 = {
        let conn = Connection::open(&path).unwrap();
        let sql = "SELECT rootpage - 1 FROM sqlite_schema WHERE name = 'entries'";
        let root = conn.query_row(sql, [], |row| row.get(0)).unwrap();
        // The log is not touched.
        std::mem::forget(conn);
        root
    };
    let mut bytes = fs::read(&path).unwrap();
    let root = root as usize * PAGE;
    bytes[root..root + PAGE].fill(0);
    fs::write(&path, bytes).unwrap();
    let _ = fs::remove_file(folder.join("rewake.db-shm"));
}

fn rebuild(folder: &Path) -> Rebuilt {
    let repair = Repair {
        from: &[],
        program: Some(Path::new(env!("CARGO_BIN_EXE_rewake"))),
        only_whole: false,
        progress: &mut |_| {},
    };
    Store::rebuild(folder, None, repair).unwrap().unwrap()
}

fn play(seed: u64) -> usize {
    let mut noise = Noise(seed);
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy");
    let before = killed(&mut noise, &dir.path().join("data"), &copy);
    hide_entries(&copy);
    let rebuilt = rebuild(&copy);
    assert_eq!((rebuilt.lost(), &rebuilt.torn[..]), (0, &[][..]));
    let store = Store::open(&copy).unwrap();
    for (id, log) in &before.logs {
        assert_eq!(&store.load(id).unwrap().1, log, "{id}");
    }
    for id in &before.gone {
        assert!(!store.knows(id).unwrap(), "{id}");
    }
    let conn = raw(&copy);
    let rows = |table: &str| -> usize {
        let sql = format!("SELECT count(*) FROM {table}");
        let rows: i64 = conn.query_row(&sql, [], |row| row.get(0)).unwrap();
        usize::try_from(rows).unwrap()
    };
    assert_eq!(rows("sessions"), before.logs.len());
    assert_eq!(rows("entries"), before.entries);
    before.entries
}

#[test]
fn what_is_found_is_what_sql_reads() {
    let seeds = std::env::var("REWAKE_CARVE_SEEDS");
    let seeds = seeds.map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let mut entries = 0;
    for seed in 0..seeds {
        println!("seed {seed}");
        entries += play(seed);
    }
    println!("{seeds} seeds, {entries} entries");
}

fn looking(files: [&Path; 2]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rewake"));
    command.arg("__carve").args(files).stdout(Stdio::piped());
    command.stderr(Stdio::null()).stdin(Stdio::null());
    command
}

fn furnished() -> (tempfile::TempDir, PathBuf) {
    let (dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let mut noise = Noise(1);
    for _ in 0..100 {
        append(&mut store, &mut head, vec![said(&noise.text(10_000))]);
    }
    drop(store);
    let path = database(dir.path());
    (dir, path)
}

/// The process has limits of its own before it opens anything.
#[cfg(target_os = "linux")]
#[test]
fn the_process_that_looks_at_pages_is_bounded() {
    let (_dir, path) = furnished();
    let mut child = looking([&path, &path]).spawn().unwrap();
    // Its first words: now it waits until the rest is read.
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 5]).unwrap();
    let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    for (name, most) in [
        ("Max cpu time", 1_000),
        ("Max address space", 4 << 30),
        ("Max core file size", 0),
    ] {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        let hard = line.split_whitespace().rev().nth(1).unwrap();
        let hard: u64 = hard.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(hard <= most, "{line}");
    }
}

/// Pipes are not waited for, and folders are no files.
#[test]
fn what_is_no_file_is_not_looked_at() {
    let (dir, path) = furnished();
    let pipe = dir.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    for (files, is_found) in [
        ([&pipe, &pipe], false),
        ([&path, &pipe], true),
        ([&dir.path().to_path_buf(), &pipe], false),
    ] {
        let done = looking([files[0], files[1]]).output().unwrap();
        assert_eq!(done.status.success(), is_found);
        assert_eq!(done.stdout.is_empty(), !is_found);
    }
}
