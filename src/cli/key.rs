//! `rewake key`: stores an API key. The key is typed on the terminal without being shown, or read
//! from a pipe. It is never an argument, because every user of the machine can see those.

use std::io::{IsTerminal, Write};

use clap::Args;
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};

use crate::config::{self, Key};
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;

/// Maximum size of a key.
const MAX_BYTES: usize = 16 * 1024;

const ESC: u8 = 0x1b;

/// Store the API key of a provider
///
/// The key is typed, or read from standard input, and never shown. An environment variable
/// and api_key_file in the config take precedence over it.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct KeyArgs {
    /// Provider, as in PROVIDER/MODEL
    #[arg(value_name = "PROVIDER")]
    pub provider: String,
    /// Remove the stored key
    #[arg(long)]
    pub remove: bool,
}

pub(super) fn run(ctx: &AppContext, args: &KeyArgs) -> Result<u8, CliError> {
    let (config, provider) = (ctx.config(), args.provider.as_str());
    if args.remove {
        match config::remove_key(&ctx.paths, provider)? {
            true => line(&format!("the key for {provider} was removed")),
            false => line(&format!("no key for {provider} was stored")),
        }
        return Ok(exit::DONE);
    }
    if !config.provider_names().contains(provider) {
        return Err(config.unknown_provider(provider).into());
    }
    let typed = match std::io::stdin().is_terminal() {
        true => asked(provider)?,
        false => Some(without_paste_marks(&read_line().map_err(unread)?)),
    };
    let typed = typed
        .ok_or_else(|| CliError::new(exit::SIGINT, "no key was typed; nothing was changed"))?;
    let file = config::store_key(&ctx.paths, provider, &typed)?;
    line(&format!(
        "the key for {provider} is stored in {}",
        file.display()
    ));
    // Another key may take precedence.
    if let Ok(Some(Key { origin, .. })) = config.provider(provider).and_then(|p| p.key(&ctx.env))
        && origin != config::Origin::Kept(file)
    {
        note(&format!("{origin} takes precedence and is used instead"));
    }
    Ok(exit::DONE)
}

/// Reads the key from the terminal, with a dot for each character. `None`: the user cancelled.
fn asked(provider: &str) -> Result<Option<String>, CliError> {
    // Raw mode comes before the prompt, so that early input is not shown either.
    enable_raw_mode().map_err(unread)?;
    eprint_flushed(&format!("key for {provider} (Esc or Ctrl+C: none): "));
    let typed = typed();
    // The rest of a paste must not reach the shell, which would show it.
    has_more_input();
    let _ = tcflush(rustix::stdio::stdin(), QueueSelector::IFlush);
    disable_raw_mode().map_err(unread)?;
    eprint_flushed("\n");
    typed
}

fn unread(error: std::io::Error) -> CliError {
    CliError::failed(format!("cannot read the key: {error}"))
}

fn typed() -> Result<Option<String>, CliError> {
    let mut typed = Typed::default();
    loop {
        let before = typed.bytes.len();
        let Some(byte) = read_byte().map_err(unread)? else {
            return Ok(None);
        };
        // A typed Esc arrives alone, that of a paste does not.
        let is_alone = byte == ESC && !has_more_input();
        match typed.push(byte, is_alone) {
            Next::More => {}
            Next::None => return Ok(None),
            Next::Done => return Ok(Some(String::from_utf8_lossy(&typed.bytes).into_owned())),
            Next::Odd => return Err(invalid_key()),
        }
        match typed.bytes.len().cmp(&before) {
            std::cmp::Ordering::Greater => eprint_flushed("•"),
            std::cmp::Ordering::Less => {
                eprint_flushed(&"\u{8} \u{8}".repeat(before - typed.bytes.len()));
            }
            std::cmp::Ordering::Equal => {}
        }
    }
}

/// Sequences after Esc with which a terminal marks the beginning and the end of a paste.
const PASTE_MARKS: [&[u8]; 2] = [b"[200~", b"[201~"];

/// Maximum length of a sequence. Real keys send shorter ones.
const MAX_SEQUENCE: usize = 16;

/// The input typed so far.
#[derive(Default)]
struct Typed {
    bytes: Vec<u8>,
    /// The sequence that began with Esc.
    sequence: Option<Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    More,
    Done,
    /// The user cancelled.
    None,
    /// The input contains something that no API key contains.
    Odd,
}

impl Typed {
    fn push(&mut self, byte: u8, is_alone: bool) -> Next {
        const CTRL_C: u8 = 3;
        const CTRL_D: u8 = 4;
        const CTRL_U: u8 = 21;
        if let Some(sequence) = &mut self.sequence {
            sequence.push(byte);
            let is_open = PASTE_MARKS.iter().any(|mark| mark.starts_with(sequence));
            return match &sequence[..] {
                whole if PASTE_MARKS.contains(&whole) => {
                    self.sequence = None;
                    Next::More
                }
                begun if is_open && begun.len() < MAX_SEQUENCE => Next::More,
                _ => Next::Odd,
            };
        }
        match byte {
            CTRL_C => return Next::None,
            CTRL_D if self.bytes.is_empty() => return Next::None,
            ESC if is_alone => return Next::None,
            ESC => self.sequence = Some(Vec::new()),
            b'\r' | b'\n' => return Next::Done,
            CTRL_U => self.bytes.clear(),
            8 | 127 => drop(self.bytes.pop()),
            byte if byte.is_ascii_control() || self.bytes.len() >= MAX_BYTES => return Next::Odd,
            byte => self.bytes.push(byte),
        }
        Next::More
    }
}

fn invalid_key() -> CliError {
    let why =
        "what was typed holds a control character or an escape sequence, or is too long for a key";
    CliError::usage(format!("{why}; nothing was stored"))
        .with_hint("copy the key alone, and paste it; or: rewake key PROVIDER < FILE")
}

/// Returns whether more input is available at once.
fn has_more_input() -> bool {
    let stdin = rustix::stdio::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let patience = Timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    poll(&mut fds, Some(&patience)).is_ok_and(|ready| ready > 0)
}

/// Reads the first line of a pipe or a file.
fn read_line() -> std::io::Result<String> {
    let mut bytes = Vec::new();
    while let Some(byte) = read_byte()? {
        if byte == b'\n' || bytes.len() > MAX_BYTES {
            break;
        }
        bytes.push(byte);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Removes the paste marks from a file into which a paste was written.
fn without_paste_marks(text: &str) -> String {
    text.replace("\u{1b}[200~", "").replace("\u{1b}[201~", "")
}

/// Reads a single byte, because the following input is for another reader.
fn read_byte() -> std::io::Result<Option<u8>> {
    let mut byte = [0];
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(byte[0])),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

fn eprint_flushed(text: &str) {
    let mut err = std::io::stderr();
    // If stderr is closed, the text is lost, which is fine.
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of these bytes when they arrive at once.
    fn typed(bytes: &str) -> (Next, String) {
        let mut typed = Typed::default();
        let mut next = Next::More;
        for byte in bytes.bytes() {
            next = typed.push(byte, false);
            if next != Next::More {
                break;
            }
        }
        (next, String::from_utf8(typed.bytes).unwrap())
    }

    #[test]
    fn the_marks_of_a_paste_are_no_part_of_the_key() {
        for bytes in [
            "sk-1\r",
            "\u{1b}[200~sk-1\u{1b}[201~\r",
            "\u{1b}[200~sk-1\r\u{1b}[201~",
            "x\u{15}sk-12\u{7f}\r",
        ] {
            assert_eq!(typed(bytes), (Next::Done, "sk-1".to_string()), "{bytes:?}");
        }
        let piped = without_paste_marks("\u{1b}[200~sk-1\u{1b}[201~");
        assert_eq!(piped, "sk-1");
    }

    #[test]
    fn keys_with_control_bytes_or_too_many_bytes_are_refused() {
        for bytes in ["sk\u{1b}[31m", "\u{1b}[A", "sk\u{1}", "\u{1b}x", "a\tb"] {
            assert_eq!(typed(bytes).0, Next::Odd, "{bytes:?}");
        }
        assert_eq!(typed(&"k".repeat(MAX_BYTES + 1)).0, Next::Odd);
        let mut alone = Typed::default();
        assert_eq!(alone.push(ESC, true), Next::None);
        assert_eq!(Typed::default().push(3, false), Next::None);
    }
}
