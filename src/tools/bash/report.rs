//! Results of commands for the model: of one that ended, and of one in the background.

use std::path::Path;

use super::super::{ToolResult, truncate_output};
use super::hint;
use crate::command::{How, LEASE_ENDED, RunEnd, Runs};
use crate::core::background::BackgroundMode;
use crate::core::command_changes;
use crate::core::entry::{CallId, Fact, Outcome, Output, Spent};
use crate::core::plain_text::plain_text;
use crate::core::quoted::fenced;
use crate::core::state::Background;
use crate::core::to_person::{NOT_BEGUN, RAN, TYPE_AGAIN};

/// Bytes of a background command's output that the model is shown when the command ends. The run
/// folder is removed then, so the whole output is stored as a blob. With its frame the text fits
/// into a request of the smallest context window.
const TOLD_BYTES: usize = 1_200;

/// Bytes reserved for the lines that say how a command ended.
const ENDING_BYTES: usize = 400;

/// Maximum number of bytes of an output that the store keeps.
const STORED_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Returns the result of a call that started in `folder`. A longer output than `inline_max_bytes`
/// is cut, and stored whole as a blob.
pub(crate) fn result(
    runs: &Runs,
    ended: &RunEnd,
    folder: &Path,
    inline_max_bytes: usize,
) -> ToolResult {
    let printed = printed(runs, ended, STORED_MAX_BYTES).unwrap_or_else(|why| format!("[{why}]"));
    let of_sandbox = hint::lines(ended, &plain_text(&printed), folder);
    let told: usize = of_sandbox.iter().map(String::len).sum();
    let room = inline_max_bytes.saturating_sub(ENDING_BYTES + told);
    let (output, blobs) = truncate_output(printed, room);
    let (line, exit_code) = how(ended);
    let fact = Some(Fact::Ran {
        exit_code,
        took_ms: ended.took_ms,
        refused: hint::is_refused(ended, &output.text, folder),
    });
    let outcome = match &ended.how {
        _ if ended.is_output_lost => Outcome::Interrupted { output, why: line },
        How::Exited(0) => Outcome::Done { output },
        // A command that fails has a result like any other, which tells the model how it failed.
        How::Exited(_) | How::Signalled(_) | How::TimedOut => Outcome::Done {
            output: with_line(output, &line),
        },
        How::NotRun(_) => Outcome::Error {
            output: with_line(output, &line),
        },
        How::Stopped | How::LeaseEnded | How::Lost { .. } => {
            Outcome::Interrupted { output, why: line }
        }
    };
    let outcome = with_lines(outcome, &of_sandbox);
    ToolResult {
        outcome,
        fact,
        blobs,
    }
}

/// Note on a command that outlived its agent. The system prompt explains it to the model.
const WENT_ON: &str = "rewake was down; the command kept running";

/// The same note in sessions of version 0.1.0.
const WENT_ON_BEFORE: &str = "the command went on while rewake was down";

/// Adds the note of a command that outlived its agent to the command's result.
pub(crate) fn after_restart(mut ran: ToolResult) -> ToolResult {
    ran.outcome = match ran.outcome {
        Outcome::Done { output } => Outcome::Done {
            output: with_line(output, WENT_ON),
        },
        other => other,
    };
    ran
}

/// The output of a command, separated from the notes that follow it in its result.
#[derive(Debug, PartialEq, Eq)]
pub struct Printed<'a> {
    pub text: &'a str,
    /// How the command ended, if it did not exit by itself: `ended by signal 9`.
    pub ended: Option<&'a str>,
    /// Other notes on the command, in words for a person.
    pub notes: Vec<String>,
}

/// Splits the result of a command into its output and its notes. The model reads which access would
/// allow a denied operation; a person reads only what may have denied it.
pub fn printed_of(result: &str) -> Printed<'_> {
    let mut printed = Printed {
        text: result.trim_end(),
        ended: None,
        notes: Vec::new(),
    };
    loop {
        let (before, line) = printed.text.rsplit_once('\n').unwrap_or(("", printed.text));
        let own = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'));
        let Some(own) = own else { break };
        if own.starts_with("exit code ") && own.ends_with(OUT_OF_MEMORY) {
            printed.ended = Some(OUT_OF_MEMORY);
        } else if own.starts_with("ended by signal ") || own.starts_with("ended by rewake: ") {
            printed.ended = Some(own);
        } else if let Some(note) = hint::note(own) {
            printed.notes.insert(0, note);
        } else if command_changes::is_note(own) {
            printed.notes.insert(0, own.to_string());
        } else if [WENT_ON, WENT_ON_BEFORE].contains(&own) {
            printed.notes.insert(0, WENT_ON.to_string());
        } else if !own.starts_with("exit code ") {
            break;
        }
        printed.text = before.trim_end();
    }
    printed
}

/// Appends the notes of the sandbox to the output.
fn with_lines(outcome: Outcome, lines: &[String]) -> Outcome {
    let with = |output| {
        lines
            .iter()
            .fold(output, |output, line| with_line(output, line))
    };
    match outcome {
        Outcome::Done { output } => Outcome::Done {
            output: with(output),
        },
        Outcome::Error { output } => Outcome::Error {
            output: with(output),
        },
        Outcome::Interrupted { output, why } => Outcome::Interrupted {
            output: with(output),
            why,
        },
        other => other,
    }
}

fn with_line(mut output: Output, line: &str) -> Output {
    if !output.text.is_empty() && !output.text.ends_with('\n') {
        output.text.push('\n');
    }
    output.text.push_str(&format!("[{line}]"));
    output
}

/// Returns the model's name of a background command, which is that of its call.
pub(crate) fn background_id(call: CallId) -> String {
    format!("bg_{}_{}", call.reply, call.index)
}

/// Returns the result of a command that was started in the background. `output` is the file that it
/// prints to. With `at_end`, the run ends with the model's turn.
pub(crate) fn in_background(
    call: CallId,
    run: &str,
    line: &str,
    output: &str,
    at_end: Option<BackgroundMode>,
) -> ToolResult {
    let id = background_id(call);
    let told = match at_end {
        None | Some(BackgroundMode::Wake) => "you are told when it ends",
        Some(BackgroundMode::Stop) => "this run ends with your answer, which stops the command",
        Some(BackgroundMode::Remind | BackgroundMode::Leave) => {
            "this run ends with your answer: then nobody waits for it, and it runs on"
        }
    };
    let text = format!("started in the background as {id}; output: {output}; {told}");
    let fact = Fact::Background {
        id,
        run: run.to_string(),
        command: line.to_string(),
        child: None,
    };
    ToolResult::done(text).with(Some(fact))
}

/// How a background command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundEnd {
    /// `None` when it did not exit by itself.
    pub exit_code: Option<i32>,
    /// The text for the model: how the command ended and its last lines.
    pub text: String,
    /// The whole output, if it is longer than the text: recorded with the text.
    pub blobs: Vec<Vec<u8>>,
    /// The tokens and cost of a subagent's models.
    pub spent: Vec<Spent>,
}

pub(crate) fn background_end(
    runs: &Runs,
    id: &str,
    background: &Background,
    ended: &RunEnd,
    folder: &Path,
) -> BackgroundEnd {
    let command = crate::core::text::one_line(&background.command, 80);
    if let How::NotRun(why) = &ended.how {
        return BackgroundEnd {
            exit_code: None,
            text: format!("the background command {id} ({command}) never ran: {why}"),
            blobs: Vec::new(),
            spent: Vec::new(),
        };
    }
    let (line, exit_code) = how(ended);
    let (last, blobs) = match printed(runs, ended, STORED_MAX_BYTES) {
        Ok(text) if text.trim().is_empty() => ("it printed nothing".to_string(), Vec::new()),
        Ok(text) => {
            let (output, blobs) = truncate_output(text, TOLD_BYTES);
            let quoted = fenced(output.text.trim_end());
            (format!("its output:\n{quoted}"), blobs)
        }
        Err(why) => (why, Vec::new()),
    };
    let mut text = format!("the background command {id} ({command}) ended: {line}; {last}");
    for line in hint::lines(ended, &text, folder) {
        text.push_str(&format!("\n[{line}]"));
    }
    BackgroundEnd {
        spent: Vec::new(),
        exit_code,
        text,
        blobs,
    }
}

/// Returns how a command of the user ended, with its output.
pub fn user_command_end(
    runs: &Runs,
    command: &str,
    ended: &RunEnd,
    inline_max_bytes: usize,
) -> BackgroundEnd {
    let (line, exit_code) = how(ended);
    let (output, blobs) = match printed(runs, ended, STORED_MAX_BYTES) {
        Ok(text) => truncate_output(text, inline_max_bytes.saturating_sub(ENDING_BYTES)),
        Err(why) => (Output::text(format!("[{why}]")), Vec::new()),
    };
    let quoted = match output.text.trim().is_empty() {
        true => String::new(),
        false => fenced(output.text.trim_end()),
    };
    BackgroundEnd {
        spent: Vec::new(),
        exit_code,
        text: format!("{RAN}{}\n{line}\n{quoted}", in_brief(command)),
        blobs,
    }
}

/// Returns the end of a user's command that was recorded, but that its keeper never started.
pub fn user_command_not_started(command: &str) -> BackgroundEnd {
    BackgroundEnd {
        spent: Vec::new(),
        exit_code: None,
        text: format!("{NOT_BEGUN}{}\n{TYPE_AGAIN}", in_brief(command)),
        blobs: Vec::new(),
    }
}

/// Clips a command line, which may be as long as a file.
fn in_brief(command: &str) -> String {
    const CHARS: usize = 4_000;
    crate::core::text::clip(command, CHARS).into_owned()
}

/// Returns the output as text. Bytes that are not UTF-8 become replacement characters.
fn printed(runs: &Runs, ended: &RunEnd, max_bytes: u64) -> Result<String, String> {
    let printed = runs
        .output(ended, max_bytes)
        .map_err(|e| format!("the output cannot be read: {e}"))?;
    let mut text = String::from_utf8_lossy(&printed.head).into_owned();
    if printed.left_out > 0 {
        text.push_str(&format!(
            "\n[… {} bytes were not kept …]\n",
            printed.left_out
        ));
        text.push_str(&String::from_utf8_lossy(&printed.tail));
    }
    if let Some(error) = &ended.write_error {
        text.push_str(&format!("\n[not all of the output was kept: {error}]"));
    }
    Ok(text.replace('\0', "\u{2400}"))
}

/// Returns one line on how a command ended, and its exit code.
pub(crate) fn how(ended: &RunEnd) -> (String, Option<i32>) {
    let (mut line, exit_code) = ending(ended);
    let after = ended.sandbox.as_ref();
    let has_failed = matches!(ended.how, How::Exited(1..) | How::Signalled(_));
    if has_failed && after.is_some_and(|after| after.out_of_memory) {
        line = format!("{line}; {OUT_OF_MEMORY}");
    }
    match ended.is_output_lost {
        false => (line, exit_code),
        true => (format!("{line}; {OUTPUT_LOST}"), exit_code),
    }
}

/// Note on a command that failed after the kernel had killed a process for lack of memory. Another
/// process of its cgroup may have been that process.
const OUT_OF_MEMORY: &str = "killed (out of memory?)";

/// Note on a command that ended before a crash of the machine destroyed its output.
const OUTPUT_LOST: &str = "it had ended when the machine went down, which took its output: what is left of that may lack \
     parts; look at what it did before you repeat it";

/// The end of a command that the user stopped.
pub const STOPPED: &str = "stopped before it ended";

/// Beginning of the note on a command whose end is not known.
const KEEPER_KILLED: &str = "the supervisor of this command was killed; the output ends here";

fn ending(ended: &RunEnd) -> (String, Option<i32>) {
    match &ended.how {
        How::Exited(code) => (format!("exit code {code}"), Some(*code)),
        How::Signalled(signal) => (format!("ended by signal {signal}"), None),
        How::TimedOut => {
            let limit_ms = ended.limit_ms.unwrap_or(ended.took_ms);
            (
                format!(
                    "ended by rewake: it ran longer than its time limit of {} s",
                    limit_ms as f64 / 1_000.0
                ),
                None,
            )
        }
        How::Stopped => (STOPPED.into(), None),
        How::LeaseEnded => (format!("ended by rewake: {LEASE_ENDED}"), None),
        How::NotRun(why) => (format!("it never ran: {why}"), None),
        How::Lost { group: Some(group) } => (
            format!(
                "{KEEPER_KILLED}. Its processes still run: `ps -o pid,args -g {group}` shows them, \
                 `kill -- -{group}` ends them. Check before you repeat it."
            ),
            None,
        ),
        How::Lost { group: None } => (
            format!(
                "{KEEPER_KILLED}. It may have finished, stopped half-way, or still run. Check before \
                 you repeat it."
            ),
            None,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Aftermath;

    fn ended(how: How, is_output_lost: bool) -> RunEnd {
        RunEnd {
            how,
            limit_ms: None,
            took_ms: 1,
            ended_at_ms: 1,
            bytes_total: 0,
            bytes_kept: 0,
            output: "/nowhere/output".into(),
            write_error: None,
            is_output_lost,
            sandbox: None,
            access: None,
            not_held: Vec::new(),
        }
    }

    #[test]
    fn the_result_names_the_end_of_the_lease() {
        let runs = Runs::new("/nowhere", "/nowhere");
        let ended = ended(How::LeaseEnded, false);
        let ran = result(&runs, &ended, Path::new("/nowhere"), 10_000);
        let Outcome::Interrupted { why, .. } = ran.outcome else {
            panic!("{:?}", ran.outcome);
        };
        let told = "ended by rewake: the lease of the session on this machine ended";
        assert_eq!(why, told);
    }

    #[test]
    fn a_result_whose_output_a_power_cut_took_is_interrupted_and_names_its_exit_code() {
        let runs = Runs::new("/nowhere", "/nowhere");
        let folder = Path::new("/nowhere");
        for code in [0, 3] {
            let lost = result(&runs, &ended(How::Exited(code), true), folder, 10_000);
            let Outcome::Interrupted { why, .. } = lost.outcome else {
                panic!("{:?}", lost.outcome);
            };
            let begins = format!("exit code {code}; it had ended when the machine went down");
            assert!(why.starts_with(&begins), "{why}");
            assert!(matches!(lost.fact, Some(Fact::Ran { exit_code: Some(c), .. }) if c == code));
            let whole = result(&runs, &ended(How::Exited(code), false), folder, 10_000);
            assert!(matches!(whole.outcome, Outcome::Done { .. }));
        }
        let background = Background {
            run: String::new(),
            command: "serve".into(),
            child: None,
            searched: 0,
        };
        let end = background_end(
            &runs,
            "bg",
            &background,
            &ended(How::Exited(3), true),
            folder,
        );
        assert_eq!(end.exit_code, Some(3));
        assert!(end.text.contains("the machine went down"), "{}", end.text);
    }

    #[test]
    fn a_failed_command_says_that_memory_may_have_been_lacking() {
        let with_kill = |how| RunEnd {
            sandbox: Some(Aftermath {
                out_of_memory: true,
                ..Aftermath::default()
            }),
            ..ended(how, false)
        };
        let line = |how| super::how(&with_kill(how)).0;
        assert_eq!(
            line(How::Signalled(9)),
            "ended by signal 9; killed (out of memory?)"
        );
        let exited = line(How::Exited(137));
        assert_eq!(exited, "exit code 137; killed (out of memory?)");
        assert_eq!(line(How::Exited(0)), "exit code 0");
        assert_eq!(line(How::Stopped), STOPPED);
        let printed = format!("out\n[{exited}]");
        let printed = printed_of(&printed);
        assert_eq!(printed.text, "out");
        assert_eq!(printed.ended, Some("killed (out of memory?)"));
    }

    #[test]
    fn the_note_about_changed_files_is_not_part_of_the_output() {
        let result = "out\n[exit code 3]\n[changed since it started: a]";
        let printed = printed_of(result);
        assert_eq!(printed.text, "out");
        assert_eq!(printed.notes, ["changed since it started: a"]);
    }
}
