//! The bridge to a server over HTTP, as its keeper starts it: this program, with lines on stdin
//! and stdout.
//!
//! Its definition, including keys, comes in the environment, which other programs of the user can
//! read. So the program restarts itself without the variable, and reads the definition from a
//! pipe.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;

use crate::command::own_exe;
use crate::mcp::bridge;
use crate::mcp::launch::{BRIDGE_ENV, BRIDGE_WORD, BridgeConfig};
use crate::sandbox::child;

/// Maximum size of the definition: more does not fit into a pipe before it is read.
const DEFINITION_MAX_BYTES: usize = 48 * 1024;

/// Returns the arguments after the bridge word, if this process was started as a bridge.
pub(super) fn asked() -> Option<Vec<String>> {
    let mut args = std::env::args().skip(1);
    (args.next()? == BRIDGE_WORD).then(|| args.collect())
}

pub(super) fn run(args: &[String]) -> u8 {
    let definition = match args {
        [_, descriptor] => read(descriptor),
        [name] => Err(begin_again(name)),
        _ => Err("a bridge is started by its keeper".to_string()),
    };
    match definition {
        Ok(definition) => bridge::run(&definition),
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "{why}");
            1
        }
    }
}

/// Restarts the program. Returns only if that failed.
fn begin_again(name: &str) -> String {
    let Ok(definition) = std::env::var(BRIDGE_ENV) else {
        return format!("a bridge is started by its keeper, with {BRIDGE_ENV}");
    };
    if definition.len() > DEFINITION_MAX_BYTES {
        return format!(
            "the definition of server {name} is longer than {DEFINITION_MAX_BYTES} bytes"
        );
    }
    let piped = || -> std::io::Result<_> {
        // The pipe stays open across the restart.
        let (read, write) = rustix::pipe::pipe()?;
        File::from(write).write_all(definition.as_bytes())?;
        Ok((read, own_exe()?))
    };
    match piped() {
        Ok((read, exe)) => {
            let descriptor = read.as_raw_fd().to_string();
            let mut again = child(exe);
            again.arg0("rewake").args([BRIDGE_WORD, name, &descriptor]);
            again.env_remove(BRIDGE_ENV);
            format!("the bridge cannot begin: {}", again.exec())
        }
        Err(e) => format!("the bridge cannot begin: {e}"),
    }
}

fn read(descriptor: &str) -> Result<BridgeConfig, String> {
    let is_number = descriptor.bytes().all(|byte| byte.is_ascii_digit());
    let path = format!("/dev/fd/{descriptor}");
    let read = || -> std::io::Result<String> {
        let mut text = String::new();
        let file = File::open(path)?;
        Read::take(file, DEFINITION_MAX_BYTES as u64).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = match is_number {
        true => read().map_err(|e| format!("the definition of the server cannot be read: {e}"))?,
        false => return Err("a bridge is started by its keeper".to_string()),
    };
    serde_json::from_str(&text).map_err(|e| format!("the definition of the server is none: {e}"))
}
