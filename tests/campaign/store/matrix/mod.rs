//! The damage matrix: one file of a store is damaged in one way, before a start or after a kill;
//! then a person starts, and repairs where a start alone does not do it.
//!
//! What has to hold for any of them: what was acknowledged is there, or the session is held or an
//! error says what to do; no entry is silently gone or another one; nothing that was said or obeyed
//! waits again; no panic; a second start changes nothing.

pub mod damage;
pub mod told;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use rewake::core::entry::Record;
use rewake::store::{Store, StoreError};

use crate::store::place::Place;
use damage::Case;
use told::{Acknowledged, Images, restore};

/// Of each half. `REWAKE_DAMAGE_SEEDS` says another number.
const SEEDS: u64 = 150;

/// A session as a start finds it.
#[derive(Debug, PartialEq)]
enum Found {
    Whole(Vec<Record>),
    /// What a person is told.
    Told(String),
}

/// What a start gives.
struct Started {
    sessions: Vec<Found>,
    /// What was said.
    line: Option<String>,
}

impl Place {
    /// What `rewake -r` does up to the first step, for each session.
    /// `clear_restored_count`: the repair said that something is lost.
    fn start(
        &self,
        known: &Acknowledged,
        case: &Case,
        is_told: bool,
    ) -> Result<Started, StoreError> {
        let mut store = self.ctx.open_store()?;
        let lost = self.ctx.missing_sessions_warning(&store).unwrap();
        let mut sessions = Vec::new();
        for (id, log) in &known.logs {
            let (opened, taken_up) = self.take_up(store, id)?;
            store = opened;
            let found = match taken_up {
                Ok(log) => Found::Whole(log),
                Err(StoreError::NotFound { .. }) => {
                    let lost = lost
                        .clone()
                        .or_else(|| self.ctx.find_missing_sessions_warning());
                    assert!(
                        lost.is_some()
                            || store.restore_report().skipped > 0
                            || case.is_of_all()
                            || is_told,
                        "{id} is gone and nothing says so"
                    );
                    Found::Told(ageless(&lost.unwrap_or_default()))
                }
                Err(error) => {
                    assert!(error.hint().is_some(), "no hint: {error}");
                    Found::Told(ageless(&error.to_string()))
                }
            };
            if let Found::Whole(read) = &found {
                let upto = match case.is_of_all() {
                    true => read.len().min(log.len()),
                    false => log.len(),
                };
                assert!(
                    *read == log[..upto],
                    "session {id}: {} of {}",
                    read.len(),
                    log.len()
                );
                if !case.is_of_all() {
                    self.nothing_waits_again(&store, known, id);
                }
            }
            sessions.push(found);
        }
        if let Ok(Some(blob)) = store.blob(&known.blob.hash) {
            assert_eq!(blob.len() as u64, known.blob.bytes);
        }
        // What stays where it is is said at each start.
        let mut brought = store.restore_report().clone();
        brought.skipped = 0;
        let line = brought.line();
        Ok(Started { sessions, line })
    }

    fn nothing_waits_again(&self, store: &Store, known: &Acknowledged, id: &str) {
        let queued = store.inbox().queued(id).unwrap_or_default();
        let said = queued.iter().find(|q| q.message.text == known.taken);
        assert_eq!(said.map(|q| q.id), None, "what was said waits again");
        let sent = store.inbox().signals(id).unwrap_or_default();
        assert_eq!(sent, [], "what was obeyed waits again");
    }

    /// `rewake doctor --repair`: true when it says that something is lost.
    fn repair(&self) -> Result<bool, StoreError> {
        let rebuilt = self.scene.rebuild(false, &[])?;
        Ok(rebuilt.is_some_and(|rebuilt| rebuilt.lost() > 0 || !rebuilt.torn.is_empty()))
    }

    fn play(&self, images: &Images, case: &Case) -> Ended {
        let (image, known) = images.before(case.after_kill);
        restore(&self.root(), image);
        case.damage(&self.root(), images);
        let mut ended = Ended::default();
        let mut started = self.start(known, case, false);
        let mut is_told = false;
        if !is_whole(&started) {
            ended.repaired = true;
            if let Err(error) = &started {
                assert!(error.hint().is_some(), "no hint: {error}");
            }
            match self.repair() {
                Ok(told) => is_told = told,
                Err(error) => assert!(error.hint().is_some(), "no hint: {error}"),
            }
            started = self.start(known, case, is_told);
        }
        ended.whole = is_whole(&started);
        let again = self.start(known, case, is_told);
        match (started, again) {
            (Ok(first), Ok(second)) => {
                assert_eq!(first.sessions, second.sessions, "a second start");
                assert_eq!(second.line, None, "a second start brings something in");
                ended.told = first.sessions.into_iter().find_map(|found| match found {
                    Found::Told(why) => Some(why),
                    Found::Whole(_) => None,
                });
            }
            (Err(first), Err(second)) => {
                assert_eq!(first.to_string(), second.to_string());
                ended.told = Some(first.to_string());
            }
            (first, second) => panic!("{:?}, then {:?}", first.err(), second.err()),
        }
        ended
    }

    fn root(&self) -> PathBuf {
        self.scene.dir.path().to_path_buf()
    }
}

fn is_whole(started: &Result<Started, StoreError>) -> bool {
    started.as_ref().is_ok_and(|started| {
        let is_whole = |found: &Found| matches!(found, Found::Whole(_));
        started.sessions.iter().all(is_whole)
    })
}

/// How a case ended.
#[derive(Debug, Default)]
struct Ended {
    repaired: bool,
    whole: bool,
    told: Option<String>,
}

/// What more cases than these have found.
#[test]
fn formerly_failing_seeds_pass() {
    let place = Place::new();
    let images = Images::of(&place);
    for seed in [652, 688, 1486, 2777, 9041] {
        let case = Case::of(seed);
        let ended = place.play(&images, &case);
        assert!(ended.whole || case.is_of_several(), "{seed}: {ended:?}");
    }
}

fn play(half: u64) {
    let seeds = std::env::var("REWAKE_DAMAGE_SEEDS");
    let seeds = seeds.map_or(SEEDS, |seeds| seeds.parse::<u64>().unwrap() / 2);
    let place = Place::new();
    let images = Images::of(&place);
    let mut failed = Vec::new();
    let (mut whole, mut repaired) = (0, 0);
    for seed in (0..seeds).map(|n| 2 * n + half) {
        let case = Case::of(seed);
        let played = catch_unwind(AssertUnwindSafe(|| {
            let ended = place.play(&images, &case);
            // Any one of the files may be lost: the others have it.
            assert!(ended.whole || case.is_of_several(), "{ended:?}");
            ended
        }));
        match played {
            Ok(ended) => {
                whole += u64::from(ended.whole);
                repaired += u64::from(ended.repaired);
            }
            Err(_) => failed.push(format!("seed {seed}: {case:?}")),
        }
    }
    println!("{seeds} cases: {whole} whole at the end, {repaired} of them repaired or tried");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(
        whole > seeds / 2 && whole < seeds,
        "the cases are too alike"
    );
}

#[test]
fn whatever_is_damaged_first_half() {
    play(0);
}

#[test]
fn whatever_is_damaged_second_half() {
    play(1);
}

/// A second later it says "19 s ago": that is no difference.
fn ageless(told: &str) -> String {
    let words: Vec<&str> = told.split(' ').collect();
    let is_age = |at: usize| {
        words
            .get(at + 2)
            .is_some_and(|word| word.starts_with("ago"))
    };
    let shown = words.iter().enumerate().map(|(at, word)| match is_age(at) {
        true => "N",
        false => *word,
    });
    shown.collect::<Vec<_>>().join(" ")
}
