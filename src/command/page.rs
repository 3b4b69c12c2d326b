//! Conversion of a page to Markdown, in a separate process.
//!
//! The library that converts builds a tree of what a stranger wrote. It runs in this program, started
//! again with a hidden first argument, which has no rights but to compute. If it takes too much
//! memory or time, or fails, only that process ends.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::net::page;
use crate::sandbox;

/// The hidden first argument.
const WORD: &str = "__page";

/// The argument after it: plain text of the tokens instead of Markdown.
const PLAIN: &str = "plain";

const MEMORY_BYTES: u64 = 512 * 1024 * 1024;
const CONVERTED_WITHIN: Duration = Duration::from_secs(5);

/// Maximum bytes of HTML that are read, and of Markdown that is used. Above the limit of a fetch,
/// since decoding and lists lengthen a text.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// Converts a page from stdin if this process was started for that: prints its title and, after a
/// line end, its main content as Markdown. Returns `None` for an ordinary start.
pub fn become_if_asked() -> Option<ExitCode> {
    if std::env::args_os().nth(1)? != OsStr::new(WORD) {
        return None;
    }
    Some(match convert() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

fn convert() -> io::Result<()> {
    sandbox::only_compute(MEMORY_BYTES, CONVERTED_WITHIN.as_secs()).map_err(io::Error::other)?;
    let mut html = String::new();
    io::stdin().take(MAX_BYTES).read_to_string(&mut html)?;
    let content = page::main_content(&html);
    let text = match std::env::args_os().nth(2) {
        Some(_) => page::to_text(&content.html),
        None => page::to_markdown(&content.html)?,
    };
    io::stdout().write_all(format!("{}\n{text}", content.title).as_bytes())
}

/// Converts a page in a child process. Returns the title and the main content as Markdown. If the
/// child fails, another one makes plain text of the tokens. `exe`: this program.
///
/// # Errors
/// Neither was possible.
pub async fn to_markdown(html: String, exe: &Path) -> Result<(String, String), String> {
    let why = match in_child(&html, exe, None).await {
        Ok(converted) => return Ok(converted),
        Err(why) => why,
    };
    tracing::warn!(bytes = html.len(), why, "a page was not converted");
    let plain = in_child(&html, exe, Some(PLAIN)).await;
    plain.map_err(|why| format!("the page cannot be read: {why}"))
}

/// Returns the title and the content that a child process prints, within the time limit.
async fn in_child(html: &str, exe: &Path, how: Option<&str>) -> Result<(String, String), String> {
    let printed = tokio::time::timeout(CONVERTED_WITHIN, printed_by_child(html, exe, how)).await;
    let printed = printed.map_err(|_| "it took too long".to_string())?;
    let printed = printed.map_err(|e| e.to_string())?;
    let (title, content) = printed.split_once('\n').ok_or("it printed nothing")?;
    Ok((title.to_string(), content.to_string()))
}

async fn printed_by_child(html: &str, exe: &Path, how: Option<&str>) -> io::Result<String> {
    let mut command = sandbox::child(exe);
    command.arg0("rewake").arg(WORD).args(how).env_clear();
    let mut command = tokio::process::Command::from(command);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("no pipes"));
    };
    // It reads all before it writes.
    input.write_all(html.as_bytes()).await?;
    drop(input);
    let mut printed = String::new();
    output.take(MAX_BYTES).read_to_string(&mut printed).await?;
    if child.wait().await?.success() {
        Ok(printed)
    } else {
        Err(io::Error::other("it failed"))
    }
}
