//! The kill campaign: the real binary works on a task of 48 calls and is killed with SIGKILL
//! at random instants, then taken up again until it is done. What is counted afterwards:
//! finished calls that were lost, side effects that happened twice, requests that a real
//! API would have refused. All three must be zero.
//!
//! The tasks take turns in what their commands may do: with access `read` and `workspace`, on
//! this kernel and on ones that lack something, and without a sandbox. Each command tries at
//! its end to get out, also when the agent that started it is long dead.
//!
//! Only the agent is killed. The keepers of its commands live on, so no command may be in
//! doubt here; what a killed keeper means is shown in `resume`.
//!
//! `REWAKE_KILL_SEED=N` plays one campaign again; a failure prints its seed. The instants
//! are measured against a real clock, so a seed repeats the intent, not the schedule.
//! `REWAKE_KILLS=N` kills so often in each campaign.

mod acp;
mod fork;
mod hooks;
mod random;
mod restore;
mod script;
mod served;
mod stream;
mod task;

use std::collections::BTreeMap;
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use random::{Random, seed_of_now};
use script::{REACHES, Reach};
use support::{Protocol, Seed};
use task::Task;

/// Kills of a campaign: enough for every change; `REWAKE_KILLS=200` is for long runs.
const KILLS: usize = 20;

/// What a campaign must have seen, or it has shown nothing.
struct Enough {
    kills: usize,
    /// Of those, at least so many in each phase that matters.
    kills_a_phase: usize,
    results: usize,
    re_attached: usize,
    /// One for each of what commands may do.
    tasks: usize,
    max_tasks: usize,
}

impl Enough {
    fn of(kills: usize) -> Enough {
        Enough {
            kills,
            kills_a_phase: (kills / 20).max(1),
            results: kills * 2 / 5,
            re_attached: (kills / 20).max(1),
            tasks: reaches().len(),
            max_tasks: kills.max(20),
        }
    }
}

/// No process takes so long.
const LIMIT: Duration = Duration::from_secs(180);

/// Held alone while half a second counts, so that nothing else of this file loads the machine.
static QUIET: RwLock<()> = RwLock::new(());

#[test]
fn anthropic() {
    campaign(Protocol::Anthropic);
}

#[test]
fn chat() {
    campaign(Protocol::Chat);
}

#[test]
fn responses() {
    campaign(Protocol::Responses);
}

#[test]
fn gemini() {
    campaign(Protocol::Gemini);
}

/// Where in its work a process was when it was killed, as far as it had said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Before it said which session it has.
    Opening,
    /// A request was out.
    Model,
    /// A command ran.
    Command,
    /// A file was being replaced: a matter of microseconds.
    File,
    Between,
}

/// What a campaign has seen; a campaign that saw nothing has shown nothing.
#[derive(Debug, Default)]
struct Tally {
    kills: BTreeMap<Phase, usize>,
    tasks: usize,
    starts: usize,
    /// Results printed by processes that were killed later.
    printed_results: usize,
    /// Commands whose result was given by another process than the one that started them.
    re_attached: usize,
    /// Commands that ran in a sandbox to their end, and those of them that were re-attached.
    sandboxed: usize,
    re_attached_in_sandbox: usize,
    /// Kills while several commands ran at the same time.
    at_once: usize,
}

impl Tally {
    fn all_kills(&self) -> usize {
        self.kills.values().sum()
    }

    fn is(&self, enough: &Enough) -> bool {
        let phases = [Phase::Opening, Phase::Model, Phase::Command, Phase::Between];
        let hit = |phase| self.kills.get(phase).copied().unwrap_or(0) >= enough.kills_a_phase;
        self.all_kills() >= enough.kills
            && phases.iter().all(hit)
            && self.printed_results >= enough.results
            && self.re_attached >= enough.re_attached
            && self.tasks >= enough.tasks
            && (enough.tasks == 1 || self.re_attached_in_sandbox > 0)
    }
}

/// What commands may do here: all, where this kernel has all of the sandbox.
fn reaches() -> &'static [Reach] {
    static HERE: OnceLock<&[Reach]> = OnceLock::new();
    HERE.get_or_init(|| {
        let doctor = support::Home::new().run(["doctor"]);
        match support::has_whole_sandbox(&doctor.stdout) {
            true => &REACHES,
            false => &[Reach::FULL],
        }
    })
}

/// Tasks, each in a session of its own, until enough was hit and seen.
fn campaign(protocol: Protocol) {
    let seed = match std::env::var("REWAKE_KILL_SEED") {
        Ok(text) => text.parse().expect("REWAKE_KILL_SEED is a number"),
        Err(_) => seed_of_now(),
    };
    let kills = match std::env::var("REWAKE_KILLS") {
        Ok(text) => text.parse().expect("REWAKE_KILLS is a number"),
        Err(_) => KILLS,
    };
    let enough = Enough::of(kills);
    let seed = Seed::new(
        seed,
        format!("REWAKE_KILL_SEED={seed} REWAKE_KILLS={kills}"),
    );
    let mut random = Random(seed.number);
    let mut tally = Tally::default();
    while !tally.is(&enough) {
        let _loud = QUIET.read().unwrap_or_else(PoisonError::into_inner);
        tally.tasks += 1;
        assert!(
            tally.tasks <= enough.max_tasks,
            "seed {seed}: too little to show: {tally:?}"
        );
        let name = format!("{} seed {seed} task {}", protocol.name(), tally.tasks);
        let reach = reaches()[(tally.tasks - 1) % reaches().len()];
        let mut task = Task::new(protocol, name, reach);
        task.work(&mut random, &mut tally);
        task.check(&mut tally);
    }
    if reaches().len() > 1 {
        assert!(
            tally.sandboxed > 0,
            "no command ran in a sandbox: {tally:?}"
        );
    }
    println!("{}: {tally:?}, seed {seed}", protocol.name());
}
