//! What a test does on a machine that cannot run it.

use std::io::Write;

/// Says on stderr that the test that calls this is skipped, and why. Where CI is set, as
/// GitHub and others do, it fails: there everything that a test needs has to be there.
#[track_caller]
pub fn skip(needs: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    let in_ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty() && ci != "false");
    assert!(!in_ci, "{name} may not be skipped in CI: it needs {needs}");
    skip_everywhere(needs);
}

/// The same for what is too large to ask of each machine: in CI it may be missing too.
pub fn skip_everywhere(needs: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    // Not with eprintln!, of which a test that passes shows nothing.
    let _ = writeln!(std::io::stderr(), "skipped: {name} needs {needs}");
}
