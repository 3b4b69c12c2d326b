//! The kill campaign with hooks: sessions of commands, each with two guards, whose starts are
//! counted. The agent is killed at random instants, and now and then the keeper of a guard. No
//! guard runs twice, no command runs without the verdict of both, and a verdict is lost only with
//! its keeper.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use rewake::command::{OF_HOOK, RunState};
use rewake::core::entry::{Block, CallId, Entry, HookEvent, HookVerdict, Record};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::kill::random::{Random, seed_of_now};
use crate::kill::{LIMIT, QUIET};
use crate::scenes::{newest, records, runs_of};
use support::{Home, Live, Seed};

/// Kills of a campaign; `REWAKE_KILLS=200` is for long runs.
const KILLS: usize = 15;
const CALLS: usize = 10;
const GUARDS: usize = 2;
const MAX_STARTS: usize = 200;
const OVER: &str = "that was all";

/// The results of the sessions.
#[derive(Debug, Default)]
struct Tally {
    kills: usize,
    keepers_killed: usize,
    sessions: usize,
    calls: usize,
    /// Kills while a guard was recorded and had no result.
    in_a_guard: usize,
    guards_twice: usize,
    effects_twice: usize,
    /// Commands that started without a verdict of each guard, or against one.
    unjudged: usize,
    /// Verdicts that are not known although the keeper lived.
    lost: usize,
}

#[test]
fn guards_run_once_and_no_verdict_is_lost() {
    let _alone = QUIET.read().unwrap_or_else(PoisonError::into_inner);
    let seed = Seed::of("REWAKE_KILL_SEED", seed_of_now);
    let kills = std::env::var("REWAKE_KILLS").ok();
    let kills = kills.map_or(KILLS, |kills| kills.parse().expect("a number"));
    let (mut random, mut tally) = (Random(seed.number), Tally::default());
    while tally.kills < kills {
        session(&mut random, &mut tally);
        tally.sessions += 1;
        assert!(
            tally.sessions < 20 + 4 * kills,
            "nothing is killed: {tally:?}"
        );
    }
    println!("{tally:?}");
    let wrong = (
        tally.guards_twice,
        tally.effects_twice,
        tally.unjudged,
        tally.lost,
    );
    assert_eq!(wrong, (0, 0, 0, 0), "seed {seed}: {tally:?}");
    assert!(tally.in_a_guard > 0, "no kill was in a guard: {tally:?}");
}

fn session(random: &mut Random, tally: &mut Tally) {
    let home = Home::new();
    home.write_config(
        "model = \"s/play\"\n[providers.s]\nprotocol = \"script\"\nscript = \"script.toml\"\n",
    );
    let guard = |n: usize, ms: u64| {
        let line = format!("echo $REWAKE_RUN >> guards; sleep 0.0{ms:02}; : {n}");
        json!({ "type": "command", "command": line })
    };
    let guards: Vec<_> = (0..GUARDS)
        .map(|n| guard(n, random.between(0, 60)))
        .collect();
    let hooks = json!({ "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": guards }] } });
    std::fs::write(home.rewake_home().join("hooks.json"), hooks.to_string()).unwrap();
    let mut script = String::new();
    for n in 0..CALLS {
        let arguments = json!({ "command": format!("echo {n} >> effects") });
        script.push_str(&format!(
            "[[step]]\ncalls = [{{ name = \"bash\", arguments = '''{arguments}''' }}]\n"
        ));
    }
    script.push_str(&format!("[[step]]\ntext = \"{OVER}\"\n"));
    std::fs::write(home.rewake_home().join("script.toml"), script).unwrap();
    let killed = work(&home, random, tally);
    tally.calls += CALLS;
    tally.guards_twice += repeated(&home.read("guards"));
    tally.effects_twice += repeated(&home.read("effects"));
    judge(&records(&home), &killed, tally);
}

/// The number of lines that are there more than once.
fn repeated(text: &str) -> usize {
    let mut seen = BTreeSet::new();
    text.lines().filter(|line| !seen.insert(*line)).count()
}

/// Works until the session is over. Returns the guards whose keeper was killed.
fn work(home: &Home, random: &mut Random, tally: &mut Tally) -> BTreeSet<String> {
    let mut killed = BTreeSet::new();
    let mut args = vec!["-p", "--yolo", "do it"];
    for _ in 0..MAX_STARTS {
        let mut live = Live::spawn(home.rewake(&args));
        std::thread::sleep(random.instant());
        if random.between(0, 4) == 0 {
            killed.extend(kill_keeper(home, tally));
        }
        let was_killed = live.kill();
        let run = live.wait(LIMIT);
        if was_killed && run.signal() == Some(9) {
            tally.kills += 1;
            tally.in_a_guard += usize::from(is_in_a_guard(&records(home)));
        }
        if is_over(&records(home)) {
            return killed;
        }
        args = match records(home).is_empty() {
            true => vec!["-p", "--yolo", "do it"],
            false => vec!["-p", "--yolo", "-c"],
        };
        if run.stderr.contains("crash loop") {
            let id = newest(home);
            home.run(["unblock", &id]).expect(0);
        }
    }
    panic!("it does not come to its end");
}

/// Kills the keeper of a guard that runs, and returns its run.
fn kill_keeper(home: &Home, tally: &mut Tally) -> Option<String> {
    let info = runs_of(home)
        .list()
        .into_iter()
        .find(|info| info.spec.call == OF_HOOK && matches!(info.state, RunState::Running { .. }))?;
    let RunState::Running { keeper, .. } = info.state else {
        return None;
    };
    let keeper = Pid::from_raw(i32::try_from(keeper?).ok()?)?;
    kill_process(keeper, Signal::KILL).ok()?;
    tally.keepers_killed += 1;
    Some(info.run)
}

fn is_over(records: &[Record]) -> bool {
    records.iter().any(|record| match &record.entry {
        Entry::Replied { blocks, .. } => blocks.contains(&Block::text(OVER)),
        _ => false,
    })
}

fn is_in_a_guard(records: &[Record]) -> bool {
    let last = records.iter().rev().find_map(|record| match record.entry {
        Entry::Hooking { .. } => Some(true),
        Entry::Hooked { .. } => Some(false),
        _ => None,
    });
    last.unwrap_or_default()
}

/// Compares what was recorded of the guards with what must hold.
fn judge(records: &[Record], killed: &BTreeSet<String>, tally: &mut Tally) {
    let mut runs = BTreeMap::new();
    let mut verdicts: BTreeMap<CallId, Vec<HookVerdict>> = BTreeMap::new();
    for record in records {
        match &record.entry {
            Entry::Hooking { runs: prepared, .. } => {
                runs.insert(record.seq, prepared.clone());
            }
            Entry::Hooked {
                event: HookEvent::PreToolUse,
                of,
                call: Some(call),
                results,
            } => {
                for (run, result) in runs[of].iter().zip(results) {
                    let is_lost = result.verdict == HookVerdict::Failed;
                    tally.lost += usize::from(is_lost && !killed.contains(&run.run));
                    verdicts.entry(*call).or_default().push(result.verdict);
                }
            }
            Entry::Started { call, .. } => {
                let of_call = verdicts.get(call).map_or(&[][..], Vec::as_slice);
                let is_judged = of_call.len() == GUARDS
                    && of_call.iter().all(|verdict| *verdict == HookVerdict::None);
                tally.unjudged += usize::from(!is_judged);
            }
            _ => {}
        }
    }
}
