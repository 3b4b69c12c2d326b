//! The kill campaign with tools of a server: sessions of calls whose effects are counted, and the
//! agent is killed at random instants. Server and keeper live on, so no effect may happen twice, and
//! no result may be lost or in doubt.

use std::path::PathBuf;
use std::sync::PoisonError;

use rewake::command::server::Servers;
use rewake::core::entry::{Block, Entry, Outcome};
use serde_json::json;

use crate::kill::random::{Random, seed_of_now};
use crate::kill::{LIMIT, QUIET};
use crate::scenes::{newest, records};
use support::{Home, Live, Seed, skip_everywhere, spoken};

/// Kills of a campaign; `REWAKE_KILLS=200` is for long runs.
const KILLS: usize = 10;
const CALLS: usize = 10;
const MAX_STARTS: usize = 200;
const OVER: &str = "that was all";

/// A server, and how its effects are counted.
struct Counted {
    /// `[mcp_servers.far]`, in TOML.
    config: String,
    /// The call that has the effect with this number, as `mcp_call` takes it.
    call: fn(&Home, usize, &mut Random) -> serde_json::Value,
    /// It takes so much longer to be started than ours, which is killed within 0.4 s.
    slower: u32,
    /// How often the effect with this number happened.
    times: fn(&Home, usize) -> usize,
}

/// What one session came to.
#[derive(Debug, Default)]
struct Tally {
    kills: usize,
    starts: usize,
    sessions: usize,
    /// Kills while a call was begun and not finished.
    in_a_call: usize,
    twice: usize,
    missing: usize,
    /// Results that are not the server's own.
    lost: usize,
}

fn kills() -> usize {
    let asked = std::env::var("REWAKE_KILLS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(KILLS)
}

fn campaign(of: &Counted) {
    let _alone = QUIET.read().unwrap_or_else(PoisonError::into_inner);
    let seed = Seed::of("REWAKE_KILL_SEED", seed_of_now);
    let mut random = Random(seed.number);
    let mut tally = Tally::default();
    while tally.kills < kills() {
        session(of, &mut random, &mut tally);
        tally.sessions += 1;
        assert!(
            tally.sessions < 20 + 4 * kills(),
            "nothing is ever killed: {tally:?}"
        );
    }
    println!("{tally:?}");
    assert_eq!(
        (tally.twice, tally.missing, tally.lost),
        (0, 0, 0),
        "seed {seed}: {tally:?}"
    );
    // One that is quick is seldom hit in a call.
    let is_enough = tally.in_a_call > 0 || (of.slower > 1 && tally.kills < 100);
    assert!(is_enough, "no kill was in a call: {tally:?}");
}

fn session(of: &Counted, random: &mut Random, tally: &mut Tally) {
    let home = Home::new();
    home.write_config(&format!(
        "model = \"s/play\"\n[providers.s]\nprotocol = \"script\"\nscript = \"script.toml\"\n\
         [permissions]\nallow = [\"mcp__far\"]\n{}",
        of.config
            .replace("WORK", home.workspace().to_str().unwrap())
    ));
    let step = |name: &str, arguments: serde_json::Value| {
        let arguments = arguments.to_string();
        format!("[[step]]\ncalls = [{{ name = \"{name}\", arguments = '''{arguments}''' }}]\n")
    };
    let mut script = step("mcp_find", json!({ "query": "" }));
    for n in 0..CALLS {
        script.push_str(&step("mcp_call", (of.call)(&home, n, random)));
    }
    script.push_str(&format!("[[step]]\ntext = \"{OVER}\"\n"));
    std::fs::write(home.rewake_home().join("script.toml"), script).unwrap();
    work(&home, of.slower, random, tally);
    for n in 0..CALLS {
        match (of.times)(&home, n) {
            0 => tally.missing += 1,
            1 => {}
            _ => tally.twice += 1,
        }
    }
    tally.lost += lost(&home);
    let left = servers(&home).list();
    let left: Vec<_> = left.iter().filter(|info| info.is_kept).collect();
    assert!(left.len() <= 1, "more than one server is left: {left:?}");
}

/// Starts a process again and again, as a person would, until the work is done.
fn work(home: &Home, slower: u32, random: &mut Random, tally: &mut Tally) {
    let mut args = vec!["-p".to_string(), "do it".to_string()];
    let mut in_vain = 0;
    for _ in 0..MAX_STARTS {
        tally.starts += 1;
        let mut live = Live::spawn(home.rewake(&args));
        std::thread::sleep(random.instant() * slower * (1 + in_vain / 4));
        let before = finished(home);
        let killed = live.kill();
        let run = live.wait(LIMIT);
        if killed && run.signal() == Some(9) {
            tally.kills += 1;
            tally.in_a_call += usize::from(is_in_a_call(home));
        }
        in_vain = match finished(home) > before {
            true => in_vain / 2,
            false => in_vain + 1,
        };
        let go_on = |words: &[&str]| words.iter().map(|word| (*word).to_string()).collect();
        assert!(
            in_vain < 30,
            "nothing goes on: {args:?} {:?}\n{}\n{}\n{:?}",
            run.code(),
            run.stdout,
            run.stderr,
            entries(home).last()
        );
        args = match run.code() {
            None => go_on(&["-p", "-c"]),
            // It may have been killed before it could print that.
            Some(0) if is_over(home) => return,
            Some(0) => go_on(&["-p", "-c", "do it"]),
            Some(2) if run.stderr.contains("there is no session") => go_on(&["-p", "do it"]),
            Some(75) if run.stderr.contains("crash loop") => {
                let id = newest(home);
                vec!["-p".into(), "-r".into(), id]
            }
            Some(code) => panic!("exit {code}\n{}\n{}", run.stdout, run.stderr),
        };
    }
    panic!("it does not come to its end");
}

fn servers(home: &Home) -> Servers {
    let root = home.rewake_home().join("servers");
    Servers::new(root, env!("CARGO_BIN_EXE_rewake"), None)
}

fn entries(home: &Home) -> Vec<Entry> {
    let records = records(home).into_iter();
    records.map(|record| record.entry).collect()
}

fn finished(home: &Home) -> usize {
    let is_result = |entry: &&Entry| matches!(entry, Entry::Finished { .. });
    entries(home).iter().filter(is_result).count()
}

fn is_over(home: &Home) -> bool {
    let says_so = |entry: &Entry| match entry {
        Entry::Replied { blocks, .. } => blocks.contains(&Block::text(OVER)),
        _ => false,
    };
    entries(home).iter().any(says_so)
}

fn is_in_a_call(home: &Home) -> bool {
    let mut began = false;
    for entry in entries(home) {
        match entry {
            Entry::Started { .. } => began = true,
            Entry::Finished { .. } => began = false,
            _ => {}
        }
    }
    began
}

fn lost(home: &Home) -> usize {
    let results = entries(home).into_iter().filter_map(|entry| match entry {
        Entry::Finished { outcome, .. } => Some(outcome),
        _ => None,
    });
    let is_lost = |outcome: &Outcome| !matches!(outcome, Outcome::Done { .. });
    results.filter(is_lost).count()
}

#[test]
fn calls_of_a_server_happen_once_and_no_result_is_lost() {
    let program = std::env::current_exe().unwrap();
    let args = spoken::arguments(spoken::ITSELF);
    let config = format!(
        "[mcp_servers.far]\ncommand = {:?}\nargs = {args:?}\nenv = {{ {} = \"tools\" }}\n",
        program.to_str().unwrap(),
        spoken::ASKED
    );
    campaign(&Counted {
        config,
        slower: 1,
        call: |home, n, random| {
            let ms = random.between(0, 120);
            json!({ "tool": "mcp__far__append", "arguments": {
                "file": home.path("effects"), "text": n.to_string(), "ms": ms } })
        },
        times: |home, n| {
            let effects = home.read("effects");
            effects
                .lines()
                .filter(|line| *line == n.to_string())
                .count()
        },
    });
}

/// Where `@modelcontextprotocol/server-filesystem` is installed, if node is here too.
fn filesystem_server() -> Option<PathBuf> {
    let folder = std::env::var_os("REWAKE_TEST_MCP_MODULES")?;
    let file = PathBuf::from(folder).join("@modelcontextprotocol/server-filesystem/dist/index.js");
    let node = std::process::Command::new("node").arg("--version").output();
    (file.is_file() && node.is_ok_and(|node| node.status.success())).then_some(file)
}

/// The same with a server that somebody else wrote: each call moves a file, which can be done once.
#[test]
fn kills_do_not_repeat_calls_of_a_third_party_server() {
    let Some(file) = filesystem_server() else {
        skip_everywhere(
            "REWAKE_TEST_MCP_MODULES names no node_modules with @modelcontextprotocol/server-filesystem, or there is no node",
        );
        return;
    };
    campaign(&Counted {
        config: format!(
            "[mcp_servers.far]\ncommand = \"node\"\nargs = [{:?}, \"WORK\"]\n",
            file.to_str().unwrap()
        ),
        slower: 2,
        call: |home, n, _| {
            std::fs::write(home.path(format!("file-{n}")), "x").unwrap();
            json!({ "tool": "mcp__far__move_file", "arguments": {
                "source": home.path(format!("file-{n}")),
                "destination": home.path(format!("moved-{n}")) } })
        },
        // A second move of the same file fails, and that would be no result of its own.
        times: |home, n| usize::from(home.path(format!("moved-{n}")).exists()),
    });
}
