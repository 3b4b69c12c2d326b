//! What must be on the disk before what.
//!
//! 1. An entry is written to the journal, a request is sent and a keeper is started only when the log
//!    has no write that is not synced; and each entry in the journal has a sync of its own, but for
//!    what an answer begins, which may be in its transaction (answer, files, started). An entry is
//!    printed only after its line of the journal, by another thread.
//! 2. Between an answer and the next request the result of its call is in the journal, so by 1 it is
//!    on the disk when the request leaves.
//! 3. A keeper is started only when the `Started` with its run is in the journal, so by 1 durable.
//!    Its run folder needs no sync: in another boot nothing is run, whatever it says.
//! 4. A file gets its name in the workspace when its content is synced, and its folder is
//!    synced before the result is in the journal. So are the folders of new folders.
//! 5. An entry that names a tree is in the journal only when all that was written to packs is synced,
//!    and the name of each pack too. What the files were before an effect is in one transaction
//!    with its `Started`.

use std::collections::HashSet;
use std::path::Path;

use crate::power::trace::{Op, What};

const LOG: &str = "rewake.db-wal";
const JOURNAL: &str = "/tail.jsonl";

/// How often the rules had something to say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub requests: usize,
    pub finished: usize,
    pub keepers: usize,
    pub replaced: usize,
    pub folders: usize,
    /// Packs that were written, at the time a tree was named.
    pub packs: usize,
}

/// # Errors
/// The first operation that came too early, and what was missing.
pub fn check(ops: &[Op], port: u16, workspace: &Path) -> Result<Found, String> {
    let mut watch = Watch {
        agent: ops.first().ok_or("the trace is empty")?.pid,
        server: format!("->127.0.0.1:{port}]"),
        workspace: workspace.to_string_lossy().into_owned(),
        ..Watch::default()
    };
    for op in ops {
        if let What::Executed { .. } = op.what
            && op.pid != watch.agent
        {
            watch.others.insert(op.pid);
        }
        watch
            .take(op)
            .map_err(|fault| format!("{fault}, at {}", clip(&op.what)))?;
    }
    Ok(watch.found)
}

fn clip(what: &What) -> String {
    format!("{what:?}").chars().take(300).collect()
}

#[derive(Debug, Default)]
struct Watch {
    agent: u32,
    /// Processes of other programs. The agent's threads are not among them.
    others: HashSet<u32>,
    server: String,
    workspace: String,
    found: Found,
    /// Files and folders with a write or a new name that is not synced.
    dirty: HashSet<String>,
    synced: HashSet<String>,
    /// Syncs of the log since an entry was in the journal.
    commits: usize,
    /// Results in the journal since the last request.
    results: usize,
    /// The `Started` lines.
    begun: Vec<String>,
    packs: HashSet<String>,
    /// Number of entries in the journal.
    recorded: u64,
    /// The entries that may follow without a sync of their own: they may be in the transaction of the
    /// last one.
    may_be_with: &'static [&'static str],
}

impl Watch {
    fn take(&mut self, op: &Op) -> Result<(), String> {
        match &op.what {
            What::Synced { path } => {
                if path.ends_with(LOG) && self.dirty.contains(path) {
                    self.commits += 1;
                }
                self.dirty.remove(path);
                self.synced.insert(path.clone());
                Ok(())
            }
            What::Wrote { to, text, .. } if to.contains(&self.server) => match is_post(text) {
                true => self.request(),
                false => Ok(()),
            },
            What::Wrote { to, text, .. } if to.starts_with("pipe:") && is_folder(text) => {
                self.keeper(text)
            }
            // What a command does is its own affair.
            What::Wrote { .. } if self.others.contains(&op.pid) => Ok(()),
            What::Wrote { to, text, .. } if to.ends_with(JOURNAL) => self.lines(text),
            What::Wrote { text, .. } if is_printed(text) => match seq(text, "\\\"seq\\\":") {
                Some(seq) if seq < self.recorded => Ok(()),
                _ => Err("an entry is printed before its record".into()),
            },
            What::Wrote { to, .. } => {
                if to.ends_with(".pack") && self.packs.insert(to.clone()) {
                    self.dirty.insert(parent(to));
                }
                self.dirty.insert(to.clone());
                Ok(())
            }
            // Without a run folder it is a spare keeper.
            What::Executed { args } if args.contains("__keep") && args.contains("/runs/") => {
                self.keeper(args)
            }
            What::Executed { .. } | What::SyncedAll { .. } => Ok(()),
            What::Named { from, to } if to.starts_with(&self.workspace) => self.named(from, to),
            What::MadeFolder { path } if path.starts_with(&self.workspace) => {
                self.found.folders += 1;
                self.dirty.insert(parent(path));
                Ok(())
            }
            What::Named { .. } | What::MadeFolder { .. } | What::RemovedFolder { .. } => Ok(()),
        }
    }

    fn log_is_synced(&self) -> Result<(), String> {
        match self.dirty.iter().any(|path| path.ends_with(LOG)) {
            true => Err("the log is written and not synced".into()),
            false => Ok(()),
        }
    }

    fn packs_are_synced(&mut self) -> Result<(), String> {
        self.found.packs = self.packs.len();
        let folders: HashSet<String> = self.packs.iter().map(|pack| parent(pack)).collect();
        let mut all = self.packs.iter().chain(&folders);
        match all.find(|path| self.dirty.contains(*path)) {
            Some(path) => Err(format!("a tree is named, and {path} is not synced")),
            None => Ok(()),
        }
    }

    fn request(&mut self) -> Result<(), String> {
        self.log_is_synced()?;
        if self.found.requests > 0 && self.results == 0 {
            return Err("a request leaves before the result of the call".into());
        }
        self.found.requests += 1;
        self.results = 0;
        Ok(())
    }

    /// Lines of the journal.
    fn lines(&mut self, text: &str) -> Result<(), String> {
        for line in text.split(r#"{\"seq\":"#).skip(1) {
            let (_, behind) = line
                .split_once(r#"\"entry\":{\"kind\":\""#)
                .ok_or("a line has no kind")?;
            let kind = behind.split('\\').next().unwrap_or_default();
            self.entry(kind, line)?;
            self.recorded = seq(line, "").ok_or("a line has no number")? + 1;
        }
        Ok(())
    }

    fn entry(&mut self, kind: &str, text: &str) -> Result<(), String> {
        self.log_is_synced()?;
        let is_with = std::mem::take(&mut self.may_be_with).contains(&kind);
        if self.commits == 0 && !is_with {
            return Err("an entry is recorded that no sync came before".into());
        }
        self.commits = 0;
        if names_tree(text) {
            self.packs_are_synced()?;
        }
        match kind {
            "replied" => {
                self.may_be_with = &["saved", "started"];
                Ok(())
            }
            "saved" if text.contains(r#"\"reason\":\"files\""#) => {
                self.may_be_with = &["started"];
                Ok(())
            }
            "started" => {
                self.begun.push(text.to_string());
                Ok(())
            }
            "finished" => {
                self.results += 1;
                self.found.finished += 1;
                let here = |path: &&String| path.starts_with(&self.workspace);
                match self.dirty.iter().find(here) {
                    Some(path) => Err(format!("{path} is not synced")),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn keeper(&mut self, args: &str) -> Result<(), String> {
        self.log_is_synced()?;
        self.found.keepers += 1;
        let told = |text: &String| run_of(text).is_some_and(|run| args.contains(&run));
        match self.begun.iter().any(told) {
            true => Ok(()),
            false => Err("a keeper is started before its record".into()),
        }
    }

    fn named(&mut self, from: &str, to: &str) -> Result<(), String> {
        let is_synced = self.synced.contains(from) && !self.dirty.contains(from);
        self.dirty.insert(parent(to));
        if !is_synced {
            return Err(format!("{from} is renamed and not synced"));
        }
        // A file beside, about to exchange its name with that of its target.
        match to.ends_with(".out") {
            true => {
                self.synced.insert(to.to_string());
            }
            false => self.found.replaced += 1,
        }
        Ok(())
    }
}

/// Whether a spare keeper is given its run folder: `"/h/runs/r1\0"`.
fn is_folder(text: &str) -> bool {
    text.starts_with("\"/") && text.contains("/runs/") && text.contains(r#"\0""#)
}

fn is_post(text: &str) -> bool {
    text.contains("\"POST ")
}

/// Whether a text has an entry for stdout: `… \"type\":\"entry.finished\"} …`
fn is_printed(text: &str) -> bool {
    text.contains(r#"\"type\":\"entry."#)
}

/// Returns the number after these characters.
fn seq(text: &str, before: &str) -> Option<u64> {
    let (_, behind) = text.split_once(before)?;
    let end = behind.find(|c: char| !c.is_ascii_digit())?;
    behind[..end].parse().ok()
}

fn names_tree(text: &str) -> bool {
    text.contains(r#"\"tree\":\""#)
}

/// The run of a `Started` of a command.
fn run_of(text: &str) -> Option<String> {
    let (_, behind) = text.split_once(r#"\"run\":\""#)?;
    let (run, _) = behind.split_once('\\')?;
    Some(run.to_string())
}

fn parent(path: &str) -> String {
    let parent = Path::new(path).parent().unwrap_or(Path::new("/"));
    parent.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::power::trace;

    /// A good trace, with every rule in it.
    const GOOD: &str = r#"1 execve("rewake", ["rewake", "-p"], 0x1 /* 5 vars */) = 0
1 pwrite64(3</h/rewake.db-wal>, "x", 1, 0) = 1
1 fdatasync(3</h/rewake.db-wal>) = 0
1 write(4</h/journal/s/tail.jsonl>, "{\"seq\":0,\"entry\":{\"kind\":\"said\"}}\n", 30) = 30
9 write(22<pipe:[9]>, "{\"seq\":0,\"type\":\"entry.said\"}\n", 30) = 30
1 sendto(5<TCP:[127.0.0.1:9->127.0.0.1:80]>, "POST /v1 HTTP/1.1", 17, 0, NULL, 0) = 17
3 write(8</h/files/packs/p.pack>, "x", 1) = 1
3 fdatasync(8</h/files/packs/p.pack>) = 0
3 fsync(9</h/files/packs>) = 0
1 pwrite64(3</h/rewake.db-wal>, "x", 1, 0) = 1
1 fdatasync(3</h/rewake.db-wal> <unfinished ...>
1 <... fdatasync resumed>) = 0
1 write(4</h/journal/s/tail.jsonl>, "{\"seq\":1,\"entry\":{\"kind\":\"replied\"}}\n{\"seq\":2,\"entry\":{\"kind\":\"saved\",\"reason\":\"files\",\"tree\":\"ab\"}}\n{\"seq\":3,\"entry\":{\"kind\":\"started\",\"guard\":{\"run\":\"r1\"}}}\n", 30) = 30
2 execve("/proc/self/exe", ["rewake", "__keep"], 0x1 /* 5 vars */) = 0
1 write(9<pipe:[7]>, "/h/runs/r1\0", 11) = 11
2 execve("/proc/self/exe", ["rewake", "__keep", "/h/runs/r1"], 0x1 /* 5 vars */) = 0
1 mkdir("/w/new", 0777) = 0
1 fsync(6</w>) = 0
1 write(7</w/new/.tmp>, "two", 3) = 3
1 fsync(7</w/new/.tmp>) = 0
1 renameat2(AT_FDCWD</w>, "/w/new/.tmp", AT_FDCWD</w>, "/w/new/two", RENAME_NOREPLACE) = 0
1 fsync(6</w/new>) = 0
1 write(7</w/d/.1.tmp>, "2", 1) = 1
1 fsync(7</w/d/.1.tmp>) = 0
1 renameat(6</w/d>, ".1.tmp", 6</w/d>, ".1.out") = 0
1 renameat2(6</w/d>, ".1.out", 6</w/d>, "old", RENAME_EXCHANGE) = 0
1 fsync(6</w/d>) = 0
1 pwrite64(3</h/rewake.db-wal>, "x", 1, 0) = 1
1 fdatasync(3</h/rewake.db-wal>) = 0
1 write(4</h/journal/s/tail.jsonl>, "{\"seq\":4,\"entry\":{\"kind\":\"finished\"}}\n", 30) = 30
9 write(22<pipe:[9]>, "{\"seq\":4,\"type\":\"entry.finished\"}\n", 30) = 30
1 sendto(5<TCP:[127.0.0.1:9->127.0.0.1:80]>, "POST /v1 HTTP/1.1", 17, 0, NULL, 0) = 17
"#;

    fn checked(text: &str) -> Result<Found, String> {
        check(&trace::read(text), 80, Path::new("/w"))
    }

    #[test]
    fn a_good_trace_passes_and_is_counted() {
        let found = Found {
            requests: 2,
            finished: 1,
            keepers: 2,
            replaced: 2,
            folders: 1,
            packs: 1,
        };
        assert_eq!(checked(GOOD), Ok(found));
    }

    #[test]
    fn without_any_one_of_its_syncs_it_is_refused() {
        let is_sync = |line: &str| line.contains("sync(") && !line.contains("unfinished");
        let syncs = GOOD.lines().filter(|line| is_sync(line)).count();
        assert_eq!(syncs, 9);
        for (place, line) in GOOD.lines().enumerate() {
            // The second half of a sync makes it one.
            if is_sync(line) || line.contains("sync resumed") {
                let rest = GOOD.lines().enumerate().filter(|(n, _)| *n != place);
                let rest: String = rest.map(|(_, l)| format!("{l}\n")).collect();
                assert!(checked(&rest).is_err(), "without {line}");
            }
        }
    }

    #[test]
    fn an_effect_before_its_record_is_refused() {
        for early in [
            "__keep\", \"/h",
            r"/h/runs/r1\0",
            "POST",
            r#"\"type\":\"entry.finished"#,
        ] {
            let line = GOOD.lines().rfind(|l| l.contains(early)).unwrap();
            let at = GOOD.rfind(line).unwrap();
            let rest = format!("{}{}", &GOOD[..at], &GOOD[at + line.len() + 1..]);
            let replied = rest.find("3 write(8").unwrap();
            let moved = format!("{}{line}\n{}", &rest[..replied], &rest[replied..]);
            assert!(checked(&moved).is_err(), "{early}");
        }
    }
}
