//! Any set of damages to the database, its write-ahead log, the journal, the mark and journals that
//! were set aside. Then a person starts, and repairs where a start alone does not do it.
//!
//! As long as the database, the journal or the mark is undamaged:
//! - every acknowledged entry that any copy has is there, up to the first one that none has;
//! - a session that is opened has all of its entries, so no effect is repeated;
//! - a session whose entries all are in some copy is not locked.
//!
//! Whatever is damaged: each error has a hint, and a second start finds the same.

mod damages;
mod oracle;
mod stories;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rewake::core::entry::{Entry, Record};
use rewake::store::StoreError;

use crate::store::matrix::damage::all;
use crate::store::matrix::told::restore;
use crate::store::place::Place;
use crate::store::story::{append, said};
use damages::{Damages, Touched};
use oracle::{Had, Tip, chains};
use stories::Story;

/// `REWAKE_RECOVERY_SEEDS` says another number.
const SEEDS: u64 = 200;

/// The result of a start, for each session.
type Started = Result<Vec<Result<Vec<Record>, StoreError>>, StoreError>;

fn data(place: &Place) -> PathBuf {
    place.scene.data()
}

/// Opens each session as `rewake -r` does up to the first step, and continues it.
fn start(place: &Place, ids: &[&String], goes_on: bool) -> Started {
    let mut store = place.ctx.open_store()?;
    let mut sessions = Vec::new();
    for id in ids {
        let (opened, taken_up) = place.take_up(store, id)?;
        store = opened;
        if goes_on && taken_up.is_ok() {
            let (mut head, _) = store.load(id).unwrap();
            append(&mut store, &mut head, vec![said("and on")]);
        }
        sessions.push(taken_up);
    }
    Ok(sessions)
}

fn is_whole(started: &Started) -> bool {
    started
        .as_ref()
        .is_ok_and(|all| all.iter().all(Result::is_ok))
}

fn has_hint(error: &StoreError) {
    assert!(error.hint().is_some(), "no hint: {error}");
}

#[derive(Default)]
struct Ended {
    damages: u64,
    repaired: bool,
    whole: bool,
}

struct Play<'a> {
    story: &'a Story,
    had: Had,
    touched: Touched,
}

impl Play<'_> {
    fn data(&self) -> PathBuf {
        data(&self.story.place)
    }

    /// Checks a session as it was opened.
    fn opened(&self, id: &str, log: &[Record], read: &[Record]) {
        let chain = &self.story.log.chains[id];
        let upto = self.had.upto(chain);
        if self.touched.is_all() {
            // It may have been continued after less.
            let same = log.iter().zip(read).take_while(|(one, other)| one == other);
            let more = &read[same.count()..];
            let is_of_start = |record: &Record| is_and_on(&record.entry);
            assert!(more.iter().all(is_of_start), "{id}: other entries");
            return;
        }
        assert!(
            read.len() >= log.len(),
            "session {id} is opened with {} of {} entries; the copies have {upto}",
            read.len(),
            log.len()
        );
        assert!(read[..log.len()] == *log, "session {id}: other entries");
        let more = &read[log.len()..];
        let is_continued = |record: &Record| is_and_on(&record.entry);
        assert!(more.iter().all(is_continued), "session {id}: {more:?}");
    }

    /// Checks that the reason why a session is not opened is one.
    fn locked(&self, id: &str, error: &StoreError) {
        has_hint(error);
        if self.touched.is_all() || !self.had.named.contains(id) {
            return;
        }
        let is_whole = |chain: &Vec<Tip>| self.had.upto(chain) == chain.len();
        let is_needed = match error {
            StoreError::BackInTime { .. } => !self.story.log.chains.values().all(is_whole),
            _ => !is_whole(&self.story.log.chains[id]),
        };
        assert!(is_needed, "session {id} is locked without need: {error}");
    }

    /// Checks that what the copies have is in the database.
    fn is_there(&self, what: &str) {
        if self.touched.is_all() {
            return;
        }
        let now = chains(&self.data());
        let tips: std::collections::HashSet<&Tip> = now.values().flatten().collect();
        for (id, chain) in &self.story.log.chains {
            if !self.had.named.contains(id) {
                continue;
            }
            let upto = self.had.upto(chain);
            let missing = chain[..upto].iter().position(|tip| !tips.contains(tip));
            assert_eq!(
                missing,
                None,
                "{what}: entries of {id} that a copy has, {upto} of {}",
                chain.len()
            );
        }
    }
}

fn is_and_on(entry: &Entry) -> bool {
    matches!(entry, Entry::Said { text, .. } if text == "and on")
}

fn play(story: &Story, seed: u64) -> Ended {
    let damages = Damages::of(seed);
    let place = &story.place;
    let root = place.scene.dir.path();
    restore(root, &story.image);
    let touched = damages.cause(root, &story.image, &story.older);
    let play = Play {
        story,
        had: story.log.had(&data(place)),
        touched,
    };
    let mut ended = Ended {
        damages: damages.number(),
        ..Ended::default()
    };
    let ids: Vec<&String> = story.logs.iter().map(|(id, _)| id).collect();
    let check = |started: &Started, is_final: bool| match started {
        Ok(all) => {
            for ((id, log), found) in story.logs.iter().zip(all) {
                match found {
                    Ok(_) if story.is_parted => {}
                    Ok(read) => play.opened(id, log, read),
                    Err(error) if is_final => play.locked(id, error),
                    Err(error) => has_hint(error),
                }
            }
        }
        Err(error) => has_hint(error),
    };
    // A person continues the sessions that open before the rest is repaired, or repairs first.
    let mut started = start(place, &ids, seed.is_multiple_of(3));
    note_start(&started);
    check(&started, false);
    if !is_whole(&started) {
        ended.repaired = true;
        match place.scene.rebuild(false, &[]) {
            Ok(rebuilt) => note(&format!("repair: {rebuilt:?}")),
            Err(error) => {
                note(&format!("repair: {error}"));
                has_hint(&error);
            }
        }
        started = start(place, &ids, false);
        note_start(&started);
        check(&started, true);
    }
    let has_nothing = |chain: &Vec<Tip>| play.had.upto(chain) == 0;
    let is_nothing = story.log.chains.values().all(has_nothing);
    if let Err(error) = &started {
        assert!(
            touched.is_all() || is_nothing,
            "no session can be opened: {error}"
        );
    }
    ended.whole = is_whole(&started);
    if started.is_ok() && !is_nothing {
        play.is_there("after the recovery");
    }
    let again = start(place, &ids, true);
    same(&started, &again);
    // A damaged frame stays as it is while the database has its entries.
    if ended.whole && !story.is_parted && !touched.journal {
        from_the_journal(&play, &ids);
    }
    ended
}

/// Prints more of a seed that is played alone.
fn note(text: &str) {
    if std::env::var_os("REWAKE_RECOVERY_SEED").is_some() {
        println!("{text}");
    }
}

fn note_start(started: &Started) {
    let told = |found: &Result<Vec<Record>, StoreError>| match found {
        Ok(log) => format!("{} entries", log.len()),
        Err(error) => error.to_string(),
    };
    match started {
        Ok(all) => all.iter().for_each(|found| note(&told(found))),
        Err(error) => note(&error.to_string()),
    }
}

fn same(one: &Started, other: &Started) {
    match (one, other) {
        (Ok(one), Ok(other)) => {
            for (one, other) in one.iter().zip(other) {
                match (one, other) {
                    (Ok(one), Ok(other)) => {
                        let without = |log: &[Record]| {
                            let mut log = log.to_vec();
                            log.retain(|record| !is_and_on(&record.entry));
                            log
                        };
                        assert!(
                            without(one) == without(other),
                            "a second start finds other entries"
                        );
                    }
                    (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
                    (one, other) => {
                        panic!("{:?}, then {:?}", one.as_ref().err(), other.as_ref().err())
                    }
                }
            }
        }
        (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
        (one, other) => panic!("{:?}, then {:?}", one.as_ref().err(), other.as_ref().err()),
    }
}

/// Every session was opened and continued, so its journal alone has it again.
fn from_the_journal(play: &Play<'_>, ids: &[&String]) {
    let place = &play.story.place;
    let before: BTreeMap<String, Vec<Tip>> = chains(&data(place));
    remove_database(&data(place));
    let started = start(place, ids, false);
    for path in all(&data(place).join("journal")) {
        note(&path.display().to_string());
    }
    assert!(
        is_whole(&started),
        "the journal alone: {:?}",
        started.map(|all| all
            .into_iter()
            .filter_map(Result::err)
            .map(|e| e.to_string())
            .collect::<Vec<_>>())
    );
    let after = chains(&data(place));
    for id in ids {
        assert!(
            before[*id] == after[*id],
            "session {id} of the journal alone"
        );
    }
}

fn remove_database(data: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(data.join(format!("rewake.db{suffix}")));
    }
}

fn play_half(half: u64) {
    let seeds = std::env::var("REWAKE_RECOVERY_SEEDS");
    let seeds = seeds.map_or(SEEDS, |seeds| seeds.parse::<u64>().unwrap());
    let only: Option<u64> = std::env::var("REWAKE_RECOVERY_SEED")
        .ok()
        .map(|s| s.parse().unwrap());
    let mut stories: BTreeMap<u64, Story> = BTreeMap::new();
    let mut failed = Vec::new();
    let (mut played, mut damages, mut whole, mut repaired) = (0, 0, 0, 0);
    let chosen =
        (0..seeds).filter(|seed| seed % 2 == half && only.is_none_or(|only| only == *seed));
    for seed in chosen {
        let number = seed / 2 % stories::NUMBER;
        let story = stories.entry(number).or_insert_with(|| Story::of(number));
        match catch_unwind(AssertUnwindSafe(|| play(story, seed))) {
            Ok(ended) => {
                played += 1;
                damages += ended.damages;
                whole += u64::from(ended.whole);
                repaired += u64::from(ended.repaired);
            }
            Err(why) => {
                let why = why.downcast_ref::<String>().cloned().unwrap_or_default();
                failed.push(format!(
                    "seed {seed}, story {number}: {:?}: {why}",
                    Damages::of(seed)
                ));
            }
        }
    }
    println!(
        "{played} seeds with {damages} damages: {whole} whole at the end, {repaired} repaired or tried"
    );
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
    assert!(
        only.is_some() || whole > played / 2 && whole < played,
        "the cases are too alike"
    );
}

#[test]
fn no_set_of_damages_loses_what_a_copy_has_first_half() {
    play_half(0);
}

#[test]
fn no_set_of_damages_loses_what_a_copy_has_second_half() {
    play_half(1);
}
