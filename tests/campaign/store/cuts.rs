//! A recovery that is cut short: by a kill or a power cut at each write, sync, rename and unlink, or
//! by a full disk. The next one ends with every entry.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rewake::core::entry::Record;
use rewake::recovery::{Repair, recover};
use rewake::store::{Head, JournalPlace, Store};

use crate::store::matrix::told::{Image, image, restore};
use crate::store::place::Place;
use crate::store::story::*;
use support::cut_short::{Cut, CutShort, Done, Ran, lose_what_is_not_synced};
use support::skip;

const FOLDER: &str = "REWAKE_TEST_CUT_FOLDER";
const PAGE: usize = 4096;

/// One of this number of page writes is cut. `REWAKE_CUTS=all` cuts each.
const STEP: usize = 9;

/// A store that is damaged, and the entries that its copies have.
struct Damaged {
    name: &'static str,
    image: Image,
    logs: BTreeMap<String, Vec<Record>>,
    /// A start finds nothing to recover.
    is_sound: bool,
}

/// A database of garbage, one with damaged pages beside a write-ahead log, and a sound one with a
/// session that has no journal.
fn damaged(place: &Place) -> [Damaged; 3] {
    let mut store = place.ctx.open_store().unwrap();
    let mut first = session(&mut store, HERE);
    let mut branch = fork(&mut store, first.session(), 0, 9).unwrap();
    for n in 0..12 {
        let text = format!("words {n} {}", "x".repeat(900));
        append(&mut store, &mut first, vec![said(&text)]);
        append(&mut store, &mut branch, vec![said(&text)]);
    }
    place.scene.database();
    append(&mut store, &mut first, vec![said("in the log")]);
    let log = |head: &Head| {
        let id = head.session().to_string();
        let log = store.load(&id).unwrap().1;
        (id, log)
    };
    let logs: BTreeMap<_, _> = [&first, &branch].map(log).into();
    let whole = image(place.scene.dir.path());
    drop(store);
    let database = Path::new("data/rewake.db");
    let (mut garbage, mut pages) = (whole.clone(), whole);
    garbage.insert(database.into(), vec![b'x'; 50_000]);
    let bytes = pages.get_mut(database).unwrap();
    let last = bytes.len() / PAGE - 1;
    for page in [0, last / 2, last] {
        bytes[page * PAGE + 100..(page + 1) * PAGE].fill(0);
    }
    let mut sound = garbage.clone();
    sound.insert(database.into(), place.scene.database());
    let branch = Path::new("data/journal").join(branch.session());
    let is_alone = |path: &Path| path.starts_with(&branch) || path.ends_with("rewake.db-wal");
    sound.retain(|path, _| !is_alone(path));
    let of = |name, image| Damaged {
        name,
        image,
        logs: logs.clone(),
        is_sound: name == "sound",
    };
    [
        of("garbage", garbage),
        of("pages", pages),
        of("sound", sound),
    ]
}

#[test]
#[ignore = "the child of the tests below"]
fn child_recovers() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let root = Path::new(&folder);
    let place = JournalPlace {
        folder: root.join("data/journal"),
        state_dir: root.join("state"),
        pause: Duration::from_millis(100),
    };
    let repair = Repair {
        from: &[],
        same_machine: true,
        only_whole: false,
        progress: &mut |_| {},
    };
    let recovered = recover(&root.join("data"), Some(&place), repair);
    if let Err(error) = &recovered {
        println!("{error}; {}", error.hint().unwrap_or_default());
    }
    recovered.unwrap().unwrap();
}

fn child(root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "store::cuts::child_recovers",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(FOLDER, root);
    command
}

impl Damaged {
    /// The old database is somewhere, and every entry is in the new one.
    fn is_recovered(&self, place: &Place, what: &str) {
        let root = place.scene.dir.path();
        let old = &self.image[Path::new("data/rewake.db")];
        let files = fs::read_dir(root.join("data")).unwrap();
        let mut files = files.map(|file| file.unwrap().path());
        // A start copies the write-ahead log into it before it finds the damage.
        let is_old = |path: PathBuf| {
            let is_renamed = path.to_string_lossy().contains("rewake.db.damaged-");
            path.is_file() && (is_renamed || fs::read(path).unwrap() == *old)
        };
        let has_old = self.is_sound || files.any(is_old);
        assert!(has_old, "{what}: the old database is gone");
        let store = Store::open(&place.scene.data()).unwrap();
        assert_eq!(
            store.check().quick_check().unwrap(),
            Vec::<String>::new(),
            "{what}"
        );
        for (id, log) in &self.logs {
            assert!(store.load(id).unwrap().1 == *log, "{what}: session {id}");
        }
        drop(store);
        let names = all_names(&root.join("data"));
        // The next recovery removes what was not complete.
        let is_left = |name: &&String| {
            name.contains(".complete") || name.contains(".rebuilding") && !self.is_sound
        };
        assert_eq!(names.iter().find(is_left), None, "{what}");
    }
}

fn all_names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap();
    files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// The numbers of the calls that are cut, of those that a whole recovery makes.
fn cuts(done: &[Done]) -> Vec<usize> {
    let is_all = std::env::var_os("REWAKE_CUTS").is_some();
    let is_page = |done: &Done| matches!(done, Done::Wrote(_));
    let chosen = done
        .iter()
        .enumerate()
        .filter(|(at, done)| is_all || !is_page(done) || at % STEP == 0);
    chosen.map(|(at, _)| at + 1).collect()
}

/// Cuts the recovery at each call, and recovers again.
fn cut_at_each(cut: Cut, after: impl Fn(&Place, &Damaged, &Ran, &str)) {
    let Some(library) = CutShort::build() else {
        return skip("a C compiler (cc)");
    };
    let place = Place::new();
    let root = place.scene.dir.path().to_path_buf();
    for damaged in damaged(&place) {
        restore(&root, &damaged.image);
        let whole = library.run(&mut child(&root), &root, (Cut::Kill, usize::MAX >> 33));
        assert!(whole.ended, "{}: {}", damaged.name, whole.said);
        damaged.is_recovered(&place, damaged.name);
        let all = cuts(&whole.done);
        assert!(
            all.len() > 20,
            "{} calls of {}",
            all.len(),
            whole.done.len()
        );
        let mut was_cut = 0;
        for at in all {
            restore(&root, &damaged.image);
            let ran = library.run(&mut child(&root), &root, (cut, at));
            was_cut += usize::from(!ran.ended);
            let what = format!("{}, {cut:?} at call {at}", damaged.name);
            after(&place, &damaged, &ran, &what);
        }
        println!("{}: {was_cut} recoveries were cut by {cut:?}", damaged.name);
        assert!(was_cut > 8, "{}: {was_cut} were cut", damaged.name);
    }
}

/// The next start, or the next repair, does the rest.
fn recover_again(place: &Place, damaged: &Damaged, what: &str) {
    match what.ends_with(['0', '2', '4', '6', '8']) {
        true => drop(
            place
                .ctx
                .open_store()
                .unwrap_or_else(|e| panic!("{what}: {e}")),
        ),
        false => drop(place.scene.rebuild(false, &[]).unwrap()),
    }
    damaged.is_recovered(place, what);
}

#[test]
fn a_kill_during_a_recovery_loses_nothing() {
    cut_at_each(Cut::Kill, |place, damaged, _, what| {
        recover_again(place, damaged, what);
    });
}

#[test]
fn a_power_cut_during_a_recovery_loses_nothing() {
    cut_at_each(Cut::Kill, |place, damaged, ran, what| {
        lose_what_is_not_synced(&ran.done, what.ends_with(['1', '3', '5', '7', '9']));
        recover_again(place, damaged, what);
    });
}

#[test]
fn a_disk_that_is_full_during_a_recovery_loses_nothing() {
    cut_at_each(Cut::FullDisk, |place, damaged, ran, what| {
        let is_told = ran.said.contains("free some space");
        assert!(ran.ended || is_told, "{what}: {}", ran.said);
        recover_again(place, damaged, what);
    });
}

/// Each call fails once: no recovery reports success without it.
#[test]
fn an_error_of_the_disk_during_a_recovery_loses_nothing() {
    cut_at_each(Cut::Error, |place, damaged, _, what| {
        recover_again(place, damaged, what);
    });
}
