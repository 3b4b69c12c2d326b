//! The readers on the fixtures, on every prefix of them, and on damage.

#![allow(clippy::unwrap_used, reason = "all of this file is a test")]

use std::io::Cursor;
use std::path::{Path, PathBuf};

use super::lines::Lines;
use super::*;

mod copies;
mod entries;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/import")
}

/// The files of JSON lines below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            // Claude Code stores subagents beside the session.
            if !path.ends_with("subagents") {
                files(&path, found);
            }
        } else if path.extension().is_some_and(|ending| ending == "jsonl") {
            found.push(path);
        }
    }
}

/// The agent, the name of the fixture and its bytes.
fn all() -> Vec<(Agent, String, Vec<u8>)> {
    let mut all = Vec::new();
    let entries = std::fs::read_dir(fixtures()).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    for name in names {
        let agent = Agent::ALL.into_iter();
        let agent = agent.filter(|agent| name.starts_with(agent.name()));
        let mut found = Vec::new();
        files(&fixtures().join(&name), &mut found);
        for path in found {
            let agent = agent.clone().next().unwrap();
            all.push((agent, name.clone(), std::fs::read(path).unwrap()));
        }
    }
    assert_eq!(all.len(), 13, "opencode has a database");
    all
}

/// The same for the plan of two commands, of which the second was killed.
fn all_killed() -> Vec<(Agent, String, Vec<u8>)> {
    let is_killed = |name: &String| name.ends_with("killed") || name.ends_with("resumed");
    let all = all().into_iter().filter(|(_, name, _)| is_killed(name));
    all.collect()
}

/// Ends of some prefixes: each line end, and this number of others. `REWAKE_IMPORT_PREFIXES=all`: each
/// byte.
fn ends(bytes: &[u8], others: usize) -> impl Iterator<Item = usize> + '_ {
    let every = match std::env::var("REWAKE_IMPORT_PREFIXES").as_deref() {
        Ok("all") => 1,
        _ => bytes.len() / others + 1,
    };
    (0..=bytes.len()).filter(move |end| {
        let is_near_a_line_end = bytes[..*end].ends_with(b"\n") || bytes[*end..].starts_with(b"\n");
        is_near_a_line_end || end % every == 0
    })
}

fn read(agent: Agent, bytes: &[u8]) -> (About, Vec<Piece>, Report) {
    let mut report = Report::default();
    let mut pieces = Vec::new();
    let mut sink = |piece| pieces.push(piece);
    let lines = Lines::new(Cursor::new(bytes.to_vec()));
    let about = find::read_lines(agent, lines, None, &mut report, &mut sink);
    (about.unwrap(), pieces, report)
}

fn said(pieces: &[Piece]) -> Vec<&str> {
    let texts = pieces.iter().filter_map(|piece| match piece {
        Piece::Said { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn each_agent_gives_the_words_of_the_user() {
    for (agent, name, bytes) in all_killed() {
        let (about, pieces, report) = read(agent, &bytes);
        assert!(!about.id.is_empty(), "{name}");
        let mut want = vec!["Please run the two commands of the plan. The word is marmalade."];
        if name.ends_with("resumed") {
            want.push("Go on with the plan, then say tangerine.");
        }
        assert_eq!(said(&pieces), want, "{name}");
        assert_eq!(report.problems(), Vec::<String>::new(), "{name}");
        if agent != Agent::Gemini {
            assert_eq!(
                about.folder.as_deref(),
                Some(Path::new("/tmp/demo")),
                "{name}"
            );
        }
    }
}

/// A kill cuts a file anywhere. What was read before stays, but for the last answer.
#[test]
fn every_prefix_of_a_source_is_read() {
    for (agent, name, bytes) in all() {
        let mut before: Vec<Piece> = Vec::new();
        for end in ends(&bytes, 800) {
            let (_, pieces, _) = read(agent, &bytes[..end]);
            let same = before
                .iter()
                .zip(&pieces)
                .take_while(|(a, b)| a == b)
                .count();
            // A message of gemini-cli is written a second time with its calls.
            let may_change = if agent == Agent::Gemini {
                before.len()
            } else {
                0
            };
            assert!(same + may_change >= before.len(), "{name}, {end} bytes");
            before = pieces;
        }
    }
}

#[test]
fn damage_is_counted_and_loses_its_own_line_only() {
    let (_, _, bytes) = all_killed().swap_remove(0);
    let (_, whole, _) = read(Agent::Claude, &bytes);
    let mut damaged = b"\xef\xbb\xbf".to_vec();
    damaged.extend(
        String::from_utf8(bytes)
            .unwrap()
            .replace('\n', "\r\n")
            .into_bytes(),
    );
    damaged.extend(b"\0\0\0\0\n[1]\n{\"type\":\"tomorrow\"}\n{\"type\":\"mode\",\"x\":\"\xff\"}\n{\"type\":\"as");
    let (_, pieces, report) = read(Agent::Claude, &damaged);
    assert_eq!(pieces, whole);
    let want = [
        "3 damaged lines skipped",
        "1 line with bytes that are not UTF-8",
        "1 line of the unknown kind tomorrow",
    ];
    assert_eq!(report.problems(), want);
}

#[test]
fn a_line_that_is_too_deep_is_damage() {
    let deep = format!(
        "{{\"type\":\"user\",\"x\":{}1{}}}\n",
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    let (_, pieces, report) = read(Agent::Claude, deep.as_bytes());
    assert!(pieces.is_empty());
    assert_eq!(report.damaged, 1);
}

#[test]
fn a_file_of_a_later_version_is_noticed() {
    let lines = "{\"type\":\"next\"}\n{\"type\":\"newer\"}\n{\"type\":\"mode\"}\n";
    let (_, _, report) = read(Agent::Claude, lines.as_bytes());
    assert!(report.is_newer_than_known());
}

/// Returns the source with lines dropped, doubled, exchanged and cut.
fn changed(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % below.max(1)
    };
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let mut changed: Vec<Vec<u8>> = lines.map(<[u8]>::to_vec).collect();
    for _ in 0..=random(4) {
        let (at, other) = (random(changed.len()), random(changed.len()));
        match random(4) {
            0 => drop(changed.remove(at)),
            1 => changed.insert(at, changed[other].clone()),
            2 => changed.swap(at, other),
            _ => {
                let length = random(changed[at].len());
                changed[at].truncate(length);
            }
        }
    }
    changed.concat()
}
