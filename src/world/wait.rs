//! The wait for background work, until a command ends or prints a line, the time is over, or the
//! user sends a message.
//!
//! It changes nothing, so a start after a crash waits again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::Duration;

use regex::{Regex, RegexBuilder};
use tokio::time::{Instant, sleep};

use super::World;
use super::machine::{Machine, blocking};
use crate::command::Runs;
use crate::core::entry::Fact;
use crate::core::plain_text::plain_text;
use crate::core::quoted::fenced;
use crate::core::state::{Background, State};
use crate::core::text::{boundary_above, one_line};
use crate::store::Queued;
use crate::tools::{CommandWait, ToolResult};

/// Time between two looks at the run folders.
const LOOK: Duration = Duration::from_millis(250);

/// Maximum bytes of a command's output that one look reads.
const LOOK_BYTES: u64 = 1024 * 1024;

/// Maximum size of a compiled `until`, which bounds the time of a search.
const UNTIL_BYTES: usize = 256 * 1024;

/// Maximum bytes of each command's newest output after a time-out.
const NEWEST_BYTES: usize = 400;

/// Number of bytes from which they are taken: frames of a progress bar are many.
const NEWEST_OF_BYTES: u64 = 64 * 1024;

/// Maximum number of characters of a matching line that the model gets.
const LINE_CHARS: usize = 200;

/// The search for a line in the output of commands.
#[derive(Clone)]
struct Search {
    until: Regex,
    outputs: Vec<Searched>,
}

/// The output of a command, as far as it was searched.
#[derive(Clone)]
struct Searched {
    id: String,
    run: String,
    /// The end of the last complete line that was searched, in bytes.
    upto: u64,
}

impl Search {
    /// Searches the new output. Returns the first matching line, with the id of its command.
    fn look(&mut self, runs: &Runs) -> Option<(String, String)> {
        self.outputs.iter_mut().find_map(|output| {
            let found = output.look(runs, &self.until);
            let line = found.unwrap_or_else(|error| {
                tracing::warn!(run = output.run, %error, "the output of a command cannot be read");
                None
            });
            Some((output.id.clone(), line?))
        })
    }

    fn fact(&self) -> Fact {
        let searched = self.outputs.iter();
        Fact::Waited {
            searched: searched.map(|o| (o.id.clone(), o.upto)).collect(),
        }
    }
}

impl Searched {
    fn look(&mut self, runs: &Runs, until: &Regex) -> io::Result<Option<String>> {
        let mut file = File::open(runs.output_file(&self.run)?)?;
        file.seek(SeekFrom::Start(self.upto))?;
        let mut new = Vec::new();
        file.take(LOOK_BYTES).read_to_end(&mut new)?;
        if new.is_empty() {
            // Output beyond the cap is in another file, of which only the end is searched.
            let tail = runs.tail_beyond_cap(&self.run, LOOK_BYTES)?;
            let lines = String::from_utf8_lossy(&tail);
            let lines = plain_text(&lines);
            return Ok(lines.lines().find(|line| until.is_match(line)).map(shown));
        }
        let is_full = new.len() as u64 == LOOK_BYTES;
        let mut at = 0;
        for line in new.split_inclusive(|byte| *byte == b'\n') {
            at += line.len() as u64;
            let text = String::from_utf8_lossy(line);
            let text = plain_text(text.trim_end_matches(['\n', '\r']));
            let is_match = until.is_match(&text);
            // A line without its end is searched again, unless it fills a whole look.
            if line.ends_with(b"\n") || is_match || (is_full && at == line.len() as u64) {
                self.upto += line.len() as u64;
            }
            if is_match {
                return Ok(Some(shown(&text)));
            }
        }
        Ok(None)
    }
}

fn shown(line: &str) -> String {
    one_line(line, LINE_CHARS)
}

impl Machine {
    /// Waits until one of these ends, prints a matching line, the time is over, or a message for
    /// the session waits.
    pub(super) async fn wait_commands(
        &self,
        wait: CommandWait,
        background: &BTreeMap<String, Background>,
    ) -> ToolResult {
        let (named, mut search) = match prepare(&wait, background) {
            Ok(prepared) => prepared,
            Err(why) => return ToolResult::error(why),
        };
        let end = Instant::now() + wait.timeout;
        loop {
            let is_over = |id: &&str| self.background_end(id, &background[*id]).is_some();
            let (ended, running): (Vec<&str>, Vec<&str>) = named.iter().partition(|id| is_over(id));
            let (archive, runs, session) = (
                self.archive.clone(),
                self.runs.clone(),
                self.session.clone(),
            );
            let looked = blocking(move || {
                let line = search.as_mut().and_then(|search| search.look(&runs));
                let queued = archive.with(|store| store.inbox().queued(&session));
                let is_message = |queued: &Queued| !queued.is_note();
                let has_message = matches!(queued, Ok(Ok(all)) if all.iter().any(is_message));
                (search, line, has_message)
            });
            let (line, has_message);
            (search, line, has_message) = match looked.await {
                Ok(looked) => looked,
                Err(why) => return ToolResult::error(why),
            };
            let mut newest = String::new();
            let reason = match line {
                _ if !ended.is_empty() => format!("{} ended", ended.join(", ")),
                Some((id, line)) => format!("{id} printed: {line}"),
                None if has_message => "the user sent a message".to_string(),
                None if Instant::now() >= end => {
                    let newest_of = |id: &&str| self.newest_lines(id, &background[*id]);
                    newest = running.iter().map(newest_of).collect();
                    format!("timeout: nothing ended in {} s", wait.timeout.as_secs_f64())
                }
                None => {
                    sleep(LOOK.min(end - Instant::now())).await;
                    continue;
                }
            };
            let rest = match running.is_empty() {
                true => String::new(),
                false => format!("; still at work: {}", running.join(", ")),
            };
            let fact = search.as_ref().map(Search::fact);
            return ToolResult {
                fact,
                ..ToolResult::done(format!("{reason}{rest}{newest}"))
            };
        }
    }
}

impl Machine {
    /// Returns the last lines that a command printed, for a wait that timed out. Empty: it printed
    /// nothing, or it is a task.
    fn newest_lines(&self, id: &str, background: &Background) -> String {
        let printed = self
            .runs
            .tail(&background.run, NEWEST_OF_BYTES)
            .unwrap_or_default();
        let text = newest(&String::from_utf8_lossy(&printed));
        if text.is_empty() {
            return String::new();
        }
        format!("\nnewest output of {id}:\n{}", fenced(&text))
    }
}

/// Returns the end of an output as plain text.
fn newest(printed: &str) -> String {
    let text = plain_text(printed.trim());
    let start = boundary_above(&text, text.len().saturating_sub(NEWEST_BYTES));
    text[start..].trim().to_string()
}

/// Maximum time for stopped commands to end.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

impl Machine {
    /// Stops the background commands of the session, and waits a moment for their ends. Subagents
    /// are not concerned.
    pub async fn stop_commands(&self, state: &State) {
        let commands = || state.background.iter().filter(|(_, b)| b.child.is_none());
        for (_, background) in commands() {
            let (runs, run) = (self.runs.clone(), background.run.clone());
            let stopped = blocking(move || runs.stop(&run).map_err(|e| e.to_string())).await;
            if let Err(error) = stopped.and_then(|stopped| stopped) {
                tracing::warn!(run = background.run, error, "a command was not stopped");
            }
        }
        let end = Instant::now() + STOPS_WITHIN;
        while commands().any(|(id, b)| self.background_end(id, b).is_none()) && Instant::now() < end
        {
            sleep(LOOK.min(end - Instant::now())).await;
        }
    }
}

/// Returns the ids to wait for, and the search in their output.
///
/// # Errors
/// The reason for the model, with the ids that it can wait for.
fn prepare<'a>(
    wait: &CommandWait,
    background: &'a BTreeMap<String, Background>,
) -> Result<(Vec<&'a str>, Option<Search>), String> {
    let known: Vec<&str> = background.keys().map(String::as_str).collect();
    let listed = match known.is_empty() {
        true => "nothing runs in the background, and a note told the end of each".to_string(),
        false => format!("at work: {}", known.join(", ")),
    };
    let unknown = wait.ids.iter().find(|id| !background.contains_key(*id));
    if let Some(id) = unknown {
        return Err(format!("no {} is at work; {listed}", one_line(id, 60)));
    }
    if known.is_empty() {
        return Err(listed);
    }
    let is_named = |id: &&str| wait.ids.is_empty() || wait.ids.iter().any(|named| named == id);
    let named: Vec<&str> = known.into_iter().filter(is_named).collect();
    let Some(until) = &wait.until else {
        return Ok((named, None));
    };
    let until = RegexBuilder::new(until).size_limit(UNTIL_BYTES).build();
    let until =
        until.map_err(|error| format!("`until` is not a regular expression: {error}; {listed}"))?;
    let outputs = named.iter().filter_map(|id| {
        let background = background.get(*id)?;
        // The output of a subagent is its log.
        background.child.is_none().then(|| Searched {
            id: id.to_string(),
            run: background.run.clone(),
            upto: background.searched,
        })
    });
    let outputs = outputs.collect();
    Ok((named, Some(Search { until, outputs })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_output_is_not_made_of_frames() {
        let bar: String = (0..500).map(|n| format!("\r{n:3}/500 files")).collect();
        let printed = format!("{}\nready\n{bar}", "é".repeat(1_000));
        let text = newest(&printed);
        assert!(text.ends_with("é\nready\n499/500 files"), "{text}");
        assert!(text.len() <= NEWEST_BYTES, "{text}");
    }
}
