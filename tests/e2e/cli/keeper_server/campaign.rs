//! An agent is killed with SIGKILL at random instants while it makes calls with effects to a server
//! under a keeper. Afterwards each effect is there once, and no result of the living server is lost.
//!
//! `REWAKE_SERVE_KILLS=N` kills so often.

use std::collections::BTreeMap;

use super::agent::{log, spawn};
use super::*;

const KILLS: usize = 15;

/// An agent that is never killed does so many calls; there are enough for all kills.
const CALLS_A_KILL: usize = 4;

#[test]
fn no_call_is_made_twice_and_no_result_is_lost() {
    let kills = std::env::var("REWAKE_SERVE_KILLS").map_or(KILLS, |n| n.parse().unwrap());
    let place = place();
    let folder = place.folder.path();
    let calls = kills * CALLS_A_KILL;
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos() as usize;

    let mut killed = 0;
    for start in 0.. {
        let mut agent = spawn(folder, calls);
        if killed < kills {
            let ms = (seed.wrapping_add(start * 7919)) % 197;
            std::thread::sleep(Duration::from_millis(ms as u64));
            // One that is done cannot be killed.
            if agent.try_wait().unwrap().is_none() {
                agent.kill().unwrap();
                killed += 1;
            }
            agent.wait().unwrap();
            continue;
        }
        assert!(agent.wait().unwrap().success());
        break;
    }
    let mut effects = BTreeMap::new();
    for line in place.appended() {
        *effects.entry(line).or_insert(0) += 1;
    }
    let twice: Vec<_> = effects.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "seed {seed}: done twice: {twice:?}");
    assert_eq!(effects.len(), calls, "seed {seed}: not all was done");
    let mut hows: BTreeMap<String, usize> = BTreeMap::new();
    for line in log(folder).iter().filter(|line| line[0] == "done") {
        *hows.entry(line[2].clone()).or_default() += 1;
    }
    println!("{killed} kills, {calls} calls: {hows:?}");
    assert_eq!(hows.get("lost"), None, "seed {seed}: {hows:?}");
    // A campaign in which no kill hit a call has shown nothing.
    let met = hows.get("found").unwrap_or(&0) + hows.get("attached").unwrap_or(&0);
    assert!(met > 0, "seed {seed}: {hows:?}");
}
