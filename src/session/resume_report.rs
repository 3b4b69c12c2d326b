//! What a start finds of a session: how it ended, and what still runs.

use crate::command::{RunState, Runs};
use crate::core::ending::Ending;
use crate::core::entry::{Mode, Record};
use crate::core::state::State;
use crate::core::text::{count, one_line};

/// What a resume found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeReport {
    pub id: String,
    /// This start forked it.
    pub forked: bool,
    /// What the model may do from now on.
    pub mode: Mode,
    pub title: String,
    pub ending: Ending,
    /// Since its last entry.
    pub age_ms: i64,
    /// Entries in its chain.
    pub entries: u64,
    /// Command and age of what still runs.
    pub running: Vec<(String, i64)>,
    /// Messages that wait in its inbox.
    pub queued: usize,
    /// Something is to be done without a new message.
    pub owed: bool,
    /// Entries that the database lacked and its journal had.
    pub brought: u64,
}

impl ResumeReport {
    pub(super) fn look(
        id: &str,
        title: Option<&str>,
        last: Option<&Record>,
        state: &State,
        runs: &Runs,
        queued: usize,
        now_ms: i64,
    ) -> ResumeReport {
        let last_ms = last.map_or(now_ms, |r| r.at_ms);
        let running = runs
            .list()
            .into_iter()
            .filter(|r| r.spec.session == id && matches!(r.state, RunState::Running { .. }))
            .map(|r| (one_line(&r.spec.command, 60), now_ms - r.since_ms))
            .collect();
        ResumeReport {
            id: id.to_string(),
            forked: false,
            mode: state.mode,
            title: title.unwrap_or("untitled").to_string(),
            ending: state.ending(last.map(|r| &r.entry)),
            age_ms: (now_ms - last_ms).max(0),
            entries: state.next_seq(),
            running,
            queued,
            owed: queued > 0 || state.unfinished(),
            brought: 0,
        }
    }

    /// `resumed 0197… "fix the parser", killed 3 min ago: 41 entries, 1 command still running (cargo test, 4 min 12 s)`
    pub fn line(&self) -> String {
        let title = &self.title;
        let entries = count(self.entries, "entry");
        let id = short_id(&self.id);
        let mut line = match self.forked {
            true => format!("forked as {id} \"{title}\": {entries}"),
            false => format!(
                "resumed {id} \"{title}\", {} {} ago: {entries}",
                self.ending.word(),
                ago(self.age_ms),
            ),
        };
        if self.brought > 0 {
            line.push_str(&format!(", {} of them from the journal", self.brought));
        }
        // One that was chosen once and goes on must not go unseen.
        if self.mode != Mode::Default {
            line.push_str(&format!(", mode {}", self.mode.name()));
        }
        if self.queued > 0 {
            line.push_str(&format!(", {} queued", count(self.queued, "message")));
        }
        if !self.running.is_empty() {
            let each: Vec<String> = self
                .running
                .iter()
                .map(|(command, age)| format!("{command}, {}", clock(*age)))
                .collect();
            line.push_str(&format!(
                ", {} still running ({})",
                count(self.running.len(), "command"),
                each.join("; ")
            ));
        }
        line
    }
}

/// As it is shown: enough of an id to name the session here.
pub fn short_id(id: &str) -> &str {
    id.get(..13).unwrap_or(id)
}

/// A time span in one unit: `3 min`.
pub fn ago(ms: i64) -> String {
    let s = ms / 1000;
    match s {
        ..60 => format!("{s} s"),
        60..3600 => format!("{} min", s / 60),
        3600..172_800 => format!("{} h", s / 3600),
        _ => count(s / 86_400, "day"),
    }
}

/// A running time: `4 min 12 s`.
pub fn clock(ms: i64) -> String {
    let s = ms / 1000;
    match s {
        ..60 => format!("{s} s"),
        60..3600 if s % 60 == 0 => format!("{} min", s / 60),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3600, s / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_few_words() {
        assert_eq!(ago(3_000), "3 s");
        assert_eq!(ago(181_000), "3 min");
        assert_eq!(ago(3_600_000), "1 h");
        assert_eq!(ago(400_000_000), "4 days");
        assert_eq!(clock(252_000), "4 min 12 s");
        assert_eq!(clock(3_720_000), "1 h 2 min");
    }

    #[test]
    fn the_line_says_what_was_taken_and_what_was_found() {
        let found = ResumeReport {
            id: "0197a1b2-c3d4-7000-8000-000000000000".into(),
            title: "fix the parser".into(),
            ending: Ending::Killed,
            age_ms: 180_000,
            entries: 41,
            running: vec![("cargo test".into(), 252_000)],
            queued: 0,
            owed: true,
            brought: 0,
            forked: false,
            mode: Mode::Default,
        };
        assert_eq!(
            found.line(),
            "resumed 0197a1b2-c3d4 \"fix the parser\", killed 3 min ago: 41 entries, 1 command still running (cargo test, 4 min 12 s)"
        );
        let forked = ResumeReport {
            running: vec![],
            forked: true,
            mode: Mode::BypassPermissions,
            ..found
        };
        assert_eq!(
            forked.line(),
            "forked as 0197a1b2-c3d4 \"fix the parser\": 41 entries, mode bypassPermissions"
        );
    }
}
