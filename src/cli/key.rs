//! `rewake key`: a key that is typed once. It is asked for on the terminal, where it is not shown,
//! or read from a pipe; never an argument, which every user of the machine can see.

use std::io::{IsTerminal, Write};

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use crate::config::{self, Config, Env, Key, Paths};
use crate::report::{Trouble, exit, line, note};

/// Longer is no key.
const MAX_BYTES: usize = 16 * 1024;

pub(super) fn run(
    config: &Config,
    env: &Env,
    paths: &Paths,
    provider: &str,
    remove: bool,
) -> Result<u8, Trouble> {
    if remove {
        match config::remove_key(paths, provider)? {
            true => line(&format!("the key of {provider} is removed")),
            false => line(&format!("no key of {provider} was kept")),
        }
        return Ok(exit::DONE);
    }
    if !config.provider_names().contains(provider) {
        return Err(config.unknown_provider(provider).into());
    }
    let typed = match std::io::stdin().is_terminal() {
        true => asked(provider),
        false => read_line().map(Some),
    };
    let typed = typed
        .map_err(|e| Trouble::new(exit::FAILED, format!("cannot read the key: {e}")))?
        .ok_or_else(|| Trouble::new(exit::SIGINT, "no key was typed; nothing is changed"))?;
    let file = config::keep_key(paths, provider, &typed)?;
    line(&format!(
        "the key of {provider} is kept in {}",
        file.display()
    ));
    // What is used may be another one.
    if let Ok(Some(Key { origin, .. })) = config.provider(provider).and_then(|p| p.key(env))
        && origin != config::Origin::Kept(file)
    {
        note(&format!("{origin} goes before it, and is what is used"));
    }
    Ok(exit::DONE)
}

/// Typed on the terminal, a dot for each character. `None`: the user thought better of it.
fn asked(provider: &str) -> std::io::Result<Option<String>> {
    eprint_flushed(&format!("key for {provider} (Esc or Ctrl+C: none): "));
    enable_raw_mode()?;
    let typed = typed();
    disable_raw_mode()?;
    eprint_flushed("\n");
    typed
}

fn typed() -> std::io::Result<Option<String>> {
    const CTRL_C: u8 = 3;
    const CTRL_D: u8 = 4;
    const CTRL_U: u8 = 21;
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        match read_byte()? {
            None | Some(CTRL_C | 0x1b) => return Ok(None),
            Some(CTRL_D) if bytes.is_empty() => return Ok(None),
            Some(b'\r' | b'\n') => return Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Some(CTRL_U) => bytes.clear(),
            Some(8 | 127) => drop(bytes.pop()),
            Some(byte) if !byte.is_ascii_control() && bytes.len() < MAX_BYTES => bytes.push(byte),
            Some(_) => {}
        }
        match bytes.len().cmp(&before) {
            std::cmp::Ordering::Greater => eprint_flushed("•"),
            std::cmp::Ordering::Less => eprint_flushed(&"\u{8} \u{8}".repeat(before - bytes.len())),
            std::cmp::Ordering::Equal => {}
        }
    }
}

/// The first line of a pipe or a file.
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

/// One at a time: what follows is for somebody else.
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
    // Whoever closed stderr wants none of it.
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}
