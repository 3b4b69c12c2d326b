//! The report about a resumed session: how it ended, and which commands still run.

use crate::command::{RunState, Runs};
use crate::core::ending::Ending;
use crate::core::entry::{Mode, Record};
use crate::core::state::State;
use crate::core::text::{count, one_line, session_name};
use crate::store::short_id;

/// The findings of a resume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeReport {
    pub id: String,
    /// Whether this start forked it.
    pub forked: bool,
    /// Its permission mode from now on.
    pub mode: Mode,
    pub title: String,
    pub ending: Ending,
    /// Time since its last entry.
    pub age_ms: i64,
    /// Number of entries in its chain.
    pub entries: u64,
    /// Commands that still run, with their ages in milliseconds.
    pub running: Vec<(String, i64)>,
    /// Number of messages in its inbox.
    pub queued: usize,
    /// Whether work is pending without a new message.
    pub owed: bool,
    /// Number of entries that the database lacked and the journal had.
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
            title: session_name(title).to_string(),
            ending: state.ending(last.map(|r| &r.entry)),
            age_ms: (now_ms - last_ms).max(0),
            entries: state.next_seq(),
            running,
            queued,
            owed: queued > 0 || state.unfinished(),
            brought: 0,
        }
    }

    /// Returns a line such as `resumed 0197… "fix the parser", killed 3 min ago: 41 entries,
    /// 1 command still running (cargo test, 4 min 12 s)`.
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
        // A mode that was chosen earlier and still applies must be visible.
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

/// Shortens the recorded line of [`ResumeReport::line`] for the session's own screen: how it ended,
/// its length, the commands that kept running, and the mode. `None`: it is another line.
///
/// `resumed after a kill · 41 entries · 1 command ran on`
pub fn resumed_in_short(line: &str) -> Option<String> {
    let rest = line.strip_prefix("resumed ")?;
    // A title and a command may have quotes too. The way in which the session ended follows the
    // title.
    let mut ends = rest
        .match_indices("\", ")
        .map(|(at, end)| &rest[at + end.len()..]);
    let (after, facts) = ends.find_map(|rest| {
        let (how, facts) = rest.split_once(" ago: ")?;
        let after = match how.split_whitespace().next()? {
            "done" => "resumed",
            "killed" => "resumed after a kill",
            "left" | "interrupted" => "resumed after an interruption",
            "turn" => "resumed after the turn limit",
            "stopped" => "resumed after a stop",
            "failed" => "resumed after a failure",
            "dismissed" => "resumed after it was dismissed",
            _ => return None,
        };
        Some((after, facts))
    })?;
    // A command may contain commas, and is named last.
    let (facts, running) = match facts.split_once(" still running (") {
        Some((facts, _)) => match facts.rsplit_once(", ") {
            Some((facts, running)) => (facts, Some(format!("{running} ran on"))),
            None => ("", Some(format!("{facts} ran on"))),
        },
        None => (facts, None),
    };
    let facts = facts.split(", ").filter(|f| !f.is_empty());
    let facts = facts.map(str::to_string);
    let parts = std::iter::once(after.to_string())
        .chain(facts)
        .chain(running);
    Some(parts.collect::<Vec<_>>().join(" · "))
}

/// Returns a time span in one unit: `3 min`.
pub fn ago(ms: i64) -> String {
    let s = ms / 1000;
    match s {
        ..60 => format!("{s} s"),
        60..3600 => format!("{} min", s / 60),
        3600..172_800 => format!("{} h", s / 3600),
        _ => format!("{} d", s / 86_400),
    }
}

/// Returns a running time: `4 min 12 s`.
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
        assert_eq!(ago(400_000_000), "4 d");
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

    #[test]
    fn the_resume_report_has_a_short_form_for_viewers() {
        let found = ResumeReport {
            id: "0197a1b2-c3d4-7000-8000-000000000000".into(),
            title: "fix \"it\", then: all".into(),
            ending: Ending::Killed,
            age_ms: 180_000,
            entries: 41,
            running: vec![("echo \"a\", b: c".into(), 252_000)],
            queued: 0,
            owed: true,
            brought: 2,
            forked: false,
            mode: Mode::BypassPermissions,
        };
        assert_eq!(
            resumed_in_short(&found.line()).as_deref(),
            Some(
                "resumed after a kill · 41 entries · 2 of them from the journal · mode bypassPermissions · \
                 1 command ran on"
            )
        );
        let of = |ending| {
            let plain = ResumeReport {
                title: "untitled".into(),
                ending,
                running: vec![],
                queued: 1,
                brought: 0,
                mode: Mode::Default,
                ..found.clone()
            };
            resumed_in_short(&plain.line()).unwrap_or_default()
        };
        assert_eq!(
            of(Ending::Stopped),
            "resumed after a stop · 41 entries · 1 message queued"
        );
        assert_eq!(of(Ending::Done), "resumed · 41 entries · 1 message queued");
        for (ending, begins) in [
            (Ending::Left, "resumed after an interruption · "),
            (Ending::TurnLimit, "resumed after the turn limit · "),
        ] {
            assert!(of(ending).starts_with(begins), "{}", of(ending));
        }
        assert_eq!(resumed_in_short("asked to go on"), None);
    }
}
