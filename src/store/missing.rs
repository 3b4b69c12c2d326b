//! Gaps: entries that are missing from every copy, and the texts about them for people and for the
//! model.

use crate::core::entry::Seq;
use crate::core::quoted::fenced;
use crate::core::text::{clip, count, one_line};

/// Length to which a summary is cut in a line for a person, in characters.
const SHOWN_CHARS: usize = 400;

/// Length to which a summary is cut for the model, in characters.
const TOLD_CHARS: usize = 4_000;

/// Entries of a session that are missing from every copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    pub session: String,
    /// The first and the last missing entry.
    pub first: Seq,
    pub last: Seq,
    /// Number of entries after the gap that were found. They stay where they are.
    pub behind: u64,
    /// Times of the entry before the gap and of the one after it: UTC, milliseconds since 1970.
    /// `None`: not known.
    pub since_ms: Option<i64>,
    pub until_ms: Option<i64>,
    /// The last summary before the gap, if the caller looked for it.
    pub summary: Option<String>,
}

impl Gap {
    /// Returns the message for a person.
    pub fn line(&self) -> String {
        let summary = match &self.summary {
            Some(summary) => format!(
                "; the last summary before that says: {}",
                one_line(&words(summary), SHOWN_CHARS)
            ),
            None => String::new(),
        };
        format!(
            "{} of session {}{} in no copy any more: what they did is done, and files may have \
             changed{summary}",
            self.entries(),
            self.session,
            match self.first == self.last {
                true => format!("{} is", self.time()),
                false => format!("{} are", self.time()),
            }
        )
    }

    /// Returns the note for the model of a session that continues from the entry before the gap.
    pub fn note(&self) -> String {
        let behind = match self.behind {
            0 => String::new(),
            n => format!(
                ", and {} after them cannot be read in order",
                count(n, "entry")
            ),
        };
        let summary = match &self.summary {
            Some(summary) => format!(
                "\n\nThe last summary from before says:\n{}",
                fenced(&clip(summary, TOLD_CHARS))
            ),
            None => String::new(),
        };
        format!(
            "A part of this conversation is lost: {}{}{behind}. What was said and done in that time is \
             not known here, but it happened: files may have changed, and commands may have run. \
             Look at the files as they are before you change anything, and do not repeat a command \
             with an effect before you have checked that it was not done.{summary}",
            self.entries(),
            self.time()
        )
    }

    fn entries(&self) -> String {
        match self.first == self.last {
            true => format!("entry {}", self.first),
            false => format!("entries {} to {}", self.first, self.last),
        }
    }

    fn time(&self) -> String {
        match (self.since_ms.map(utc), self.until_ms.map(utc)) {
            (Some(since), Some(until)) => format!(", recorded between {since} and {until},"),
            (Some(since), None) => format!(", recorded after {since},"),
            (None, Some(until)) => format!(", recorded before {until},"),
            (None, None) => String::new(),
        }
    }
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn utc(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .map(|time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
        .unwrap_or_else(|_| "an unknown time".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_entries_are_reported_with_time_and_last_summary() {
        let gap = Gap {
            session: "01a1".into(),
            first: 20,
            last: 34,
            behind: 2,
            since_ms: Some(1_700_000_000_000),
            until_ms: Some(1_700_000_060_000),
            summary: Some("The parser\nwas begun.".into()),
        };
        assert_eq!(
            gap.line(),
            "entries 20 to 34 of session 01a1, recorded between 2023-11-14 22:13:20 UTC and \
             2023-11-14 22:14:20 UTC, are in no copy any more: what they did is done, and files may \
             have changed; the last summary before that says: The parser was begun."
        );
        let note = gap.note();
        for words in [
            "entries 20 to 34",
            "2 entries after",
            "files may have",
            "The parser\nwas",
        ] {
            assert!(note.contains(words), "{note}");
        }
        let one = Gap {
            last: 20,
            since_ms: None,
            until_ms: None,
            summary: None,
            ..gap
        };
        assert!(
            one.line()
                .starts_with("entry 20 of session 01a1 is in no copy")
        );
    }
}
