//! The loop guard: it notices a model that repeats itself, in calls that bring nothing new.
//!
//! Two things count as a repetition:
//! - the same call with the same result, [`SAME_CALLS`] times among the last [`RECENT_CALLS`] calls,
//! - a cycle of at most [`LONGEST_CYCLE`] calls, [`CYCLE_ROUNDS`] times in a row.
//!
//! A note names the repetition to the model once. After [`ROUNDS_AFTER_NOTE`] more rounds the
//! session waits for a person.
//!
//! Waiting does not count. A call that changes files and is new is progress: the calls before it
//! are not compared with those after it, so a test between different edits does not count.
//!
//! Invariant: all of it is folded from the results in the log, and bounded. A compaction and a
//! restart forget nothing; a message of the user does.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::command_changes::without_note;
use super::entry::{Fact, Outcome};
use super::permission::Permission;
use super::tool::ToolCall;

/// Number of equal calls with equal results that make a repetition.
const SAME_CALLS: usize = 4;
/// Number of the newest calls among which these are counted.
const RECENT_CALLS: usize = 40;
/// Maximum number of calls of a cycle.
const LONGEST_CYCLE: usize = 100;
/// Number of rounds of a cycle that make a repetition.
const CYCLE_ROUNDS: usize = 3;
/// Number of further rounds after the note.
const ROUNDS_AFTER_NOTE: usize = 3;

/// Maximum number of characters of a call in the name of a repetition.
const CALL_CHARS: usize = 80;

/// The calls since the last message of the user, as far as they are compared.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoopGuard {
    /// The newest calls, oldest first: at most [`LONGEST_CYCLE`].
    calls: VecDeque<DoneCall>,
    /// Number of calls since the last progress: at most [`RECENT_CALLS`].
    recent: usize,
    /// For each length of a cycle, from 1: the number of newest calls in a row that are equal to
    /// the call this number of calls before.
    equal: Vec<usize>,
    /// A repetition that the model was not told.
    due: Option<Repetition>,
    /// The repetition that the model was told last.
    told: Option<ToldRepetition>,
}

/// A call with its result.
#[derive(Debug, Clone, PartialEq)]
struct DoneCall {
    /// Hash of the tool, the arguments and the result.
    hash: u64,
    name: String,
}

/// A repetition of one call or of a cycle.
#[derive(Debug, Clone, PartialEq)]
pub struct Repetition {
    /// The hashes of its calls.
    hashes: BTreeSet<u64>,
    /// Number of calls of a round: 1, or the length of the cycle.
    length: usize,
    rounds: usize,
    name: String,
}

#[derive(Debug, Clone, PartialEq)]
struct ToldRepetition {
    repetition: Repetition,
    /// The calls of all repetitions that the model was told: at most those of [`LoopGuard::calls`].
    known: BTreeSet<u64>,
    /// Number of calls since the note that continue it.
    again: usize,
    /// Number of other calls since the last one that continued it.
    others: usize,
}

impl LoopGuard {
    /// Adds the result of a call. `has_changed_files`: the files differ from those before it.
    pub(super) fn finished(
        &mut self,
        call: &ToolCall,
        outcome: &Outcome,
        fact: Option<&Fact>,
        has_changed_files: bool,
    ) {
        if !waits(call, outcome) {
            let done = DoneCall {
                hash: hash_of(call, outcome, fact),
                name: call.in_one_line(CALL_CHARS),
            };
            self.add(done, has_changed_files);
        }
    }

    fn add(&mut self, done: DoneCall, has_changed_files: bool) {
        let hash = done.hash;
        if has_changed_files && self.calls.iter().all(|call| call.hash != hash) {
            self.recent = 0;
        }
        self.equal.resize(LONGEST_CYCLE, 0);
        let before = self.calls.iter().rev().map(Some);
        let before = before.chain(std::iter::repeat(None));
        for (equal, before) in self.equal.iter_mut().zip(before) {
            *equal = if before.is_some_and(|call| call.hash == hash) {
                *equal + 1
            } else {
                0
            };
        }
        self.calls.push_back(done);
        if self.calls.len() > LONGEST_CYCLE {
            self.calls.pop_front();
        }
        self.recent = RECENT_CALLS.min(self.recent + 1);
        let found = self.repetition();
        if let Some(told) = &mut self.told {
            told.follow(hash, found.is_some());
        }
        self.told.take_if(|told| told.others > LONGEST_CYCLE);
        // A part of a longer cycle may have been found before the cycle.
        let is_known = |found: &Repetition| {
            let told = self.told.as_ref();
            told.is_some_and(|told| !found.hashes.is_disjoint(&told.known))
        };
        if let Some(found) = found.filter(|found| !is_known(found)) {
            self.due = Some(found);
        }
    }

    /// Returns the repetition that the newest call is part of.
    fn repetition(&self) -> Option<Repetition> {
        let newest = self.calls.back()?;
        let recent = self.calls.iter().rev().take(self.recent);
        let times = recent.filter(|call| call.hash == newest.hash).count();
        if times >= SAME_CALLS {
            return Some(Repetition {
                hashes: BTreeSet::from([newest.hash]),
                length: 1,
                rounds: times,
                name: format!("`{}`", newest.name),
            });
        }
        // The equal calls are all rounds but the first.
        let is_cycle = |length: &usize| {
            let equal = self.equal.get(length - 1).copied().unwrap_or_default();
            equal >= length * (CYCLE_ROUNDS - 1)
        };
        let length = (2..=LONGEST_CYCLE).find(is_cycle)?;
        let cycle: Vec<&DoneCall> = self.calls.iter().rev().take(length).collect();
        Some(Repetition {
            hashes: cycle.iter().map(|call| call.hash).collect(),
            length,
            rounds: CYCLE_ROUNDS,
            name: format!(
                "a cycle of {length} calls, from `{}` to `{}`",
                cycle.last()?.name,
                newest.name
            ),
        })
    }

    /// Returns the repetition that the model has to be told.
    pub fn due(&self) -> Option<&Repetition> {
        self.due.as_ref()
    }

    /// The model was told of the repetition that was due.
    pub(super) fn told(&mut self) {
        let Some(repetition) = self.due.take() else {
            return;
        };
        let mut known = self.told.take().map(|told| told.known).unwrap_or_default();
        known.retain(|hash| self.calls.iter().any(|call| call.hash == *hash));
        known.extend(&repetition.hashes);
        self.told = Some(ToldRepetition {
            repetition,
            known,
            again: 0,
            others: 0,
        });
    }

    /// Returns the repetition that the note did not end, in words for a person. The session waits.
    pub fn stuck(&self) -> Option<String> {
        let told = self.told.as_ref()?;
        let rounds = told.again / told.repetition.length;
        (rounds >= ROUNDS_AFTER_NOTE).then(|| told.repetition.in_words(rounds))
    }
}

impl ToldRepetition {
    fn follow(&mut self, hash: u64, repeats: bool) {
        if repeats && self.known.contains(&hash) {
            self.again += 1;
            self.others = 0;
        } else {
            self.others += 1;
        }
    }
}

impl Repetition {
    /// Returns the number of calls of a round, and the number of rounds.
    pub fn size(&self) -> (u64, u64) {
        (self.length as u64, self.rounds as u64)
    }

    /// Returns the note for the model.
    pub fn note(&self) -> String {
        format!(
            "You repeat yourself: {}. The same again will not help: try another way, or end your turn \
             and say what is missing.",
            self.in_words(0)
        )
    }

    fn in_words(&self, more_rounds: usize) -> String {
        let rounds = self.rounds + more_rounds;
        let same = match self.length {
            1 => "the same result",
            _ => "the same results",
        };
        format!("{}, {rounds} times with {same}", self.name)
    }
}

/// Returns whether the call only waited. One that failed did not.
fn waits(call: &ToolCall, outcome: &Outcome) -> bool {
    let sleeps = match call
        .described
        .as_ref()
        .map(|described| &described.permission)
    {
        Ok(Permission::Command { line, .. }) => has_sleep(line),
        _ => false,
    };
    (call.is_wait() || sleeps) && matches!(outcome, Outcome::Done { .. })
}

/// Returns whether a shell line runs `sleep` with a time.
fn has_sleep(line: &str) -> bool {
    let ends = |c: char| c.is_whitespace() || ";&|(){}".contains(c);
    let words: Vec<&str> = line.split(ends).filter(|word| !word.is_empty()).collect();
    let is_time = |word: &str| word.starts_with(|c: char| c.is_ascii_digit() || ".$\"".contains(c));
    words
        .windows(2)
        .any(|two| matches!(two, ["sleep" | "/bin/sleep", time] if is_time(time)))
}

/// Returns the hash of a call and its result. The result of a read includes the whole file, also
/// when the call showed only a part.
fn hash_of(call: &ToolCall, outcome: &Outcome, fact: Option<&Fact>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let (text, is_error) = outcome.to_model_text();
    (&call.name, &call.arguments, is_error).hash(&mut hasher);
    without_note(&text).for_each(|line| line.hash(&mut hasher));
    if let Outcome::Done { output }
    | Outcome::Error { output }
    | Outcome::Interrupted { output, .. } = outcome
    {
        let images = output.images.iter().map(|image| &image.blob);
        for blob in images.chain(&output.blob) {
            blob.hash.hash(&mut hasher);
        }
    }
    if let Some(Fact::Seen { hash, .. }) = fact {
        hash.hash(&mut hasher);
    }
    hasher.finish()
}
