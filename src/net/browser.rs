//! Opens addresses in the browser of the user.
//!
//! Invariant: only addresses of the web are, and each is one argument: no shell reads it.

use std::io;
use std::process::{Command, Stdio};

use reqwest::Url;

const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// Opens the address in the browser, without waiting for it.
///
/// # Errors
/// The address is not a web address, or the system has no program that opens addresses.
pub fn open(url: &Url) -> io::Result<()> {
    if !matches!(url.scheme(), "http" | "https") {
        let why = format!("{}: is not a web address", url.scheme());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let mut child = Command::new(OPENER)
        .arg(url.as_str())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot run {OPENER}: {error}")))?;
    // Waits for the process, so that it does not remain a zombie.
    std::thread::spawn(move || drop(child.wait()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_not_http_is_not_opened() {
        for address in ["file:///etc/passwd", "javascript:alert(1)", "ssh://host"] {
            let error = open(&Url::parse(address).unwrap()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{address}");
        }
    }
}
