//! A home for the screen, and commands that wait until the test lets them go.

use serde_json::json;

use super::{LIMIT, bash, play, step, until};
use crate::{Home, Terminal};

/// A home whose model plays these answers, without a sandbox.
pub fn scripted(steps: &[String]) -> Home {
    let home = super::scripted(steps);
    home.write_config(CONFIG);
    home
}

pub const CONFIG: &str = "model = \"s/play\"\nsandbox.enabled = false\n[providers.s]\nprotocol = \"script\"\nscript = \"script.toml\"\n";

/// With commands that ask for nobody.
pub const FREE: &str = "model = \"s/play\"\npermission_mode = \"bypassPermissions\"\n\
    [providers.s]\nprotocol = \"script\"\nscript = \"script.toml\"\n\
    [files]\nwait_ms = 600000\n";

/// Until the turn of this answer has ended, which is some time after its words are on the screen.
#[track_caller]
pub fn turn_ends(terminal: &Terminal, words: &str) {
    terminal.waits("the turn does not end", |screen| {
        let after = screen.rsplit_once(words).map_or("", |(_, after)| after);
        // A time of less than a second is not shown.
        let is_end = |row: &str| row.starts_with("done ·") || row.starts_with("done in ");
        after.lines().any(|row| is_end(row.trim_start()))
    });
}

/// Words that come slowly.
pub fn slowly(text: &str) -> String {
    let text = json!(text);
    format!("[[step]]\ntext = {text}\nchunk_chars = 2\nchunk_ms = 100\n")
}

/// A command that runs until the test says so, and then ends with this code.
pub fn until_gate(home: &Home, exit_code: i32) -> String {
    let gate = home.path("gate");
    let gate = gate.display();
    // What it prints does not stand in the command: seen, it was printed.
    format!(
        "echo it be''gan; while [ ! -e '{gate}' ]; do sleep 0.02; done; echo the real e''nd; exit {exit_code}"
    )
}

/// Lets such a command end.
pub fn open_gate(home: &Home) {
    std::fs::write(home.path("gate"), "").unwrap();
}

/// Until this file of the workspace has something in it.
pub fn wait_for(home: &Home, file: &str) {
    until(|| {
        !std::fs::read_to_string(home.path(file))
            .unwrap_or_default()
            .is_empty()
    });
}

/// Until a file of the store has these bytes.
pub fn wait_until_kept(home: &Home, words: &str) {
    let end = std::time::Instant::now() + LIMIT;
    let has = |path: &std::path::Path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(words.len()).any(|w| w == words.as_bytes())
    };
    loop {
        let files = std::fs::read_dir(home.rewake_home()).unwrap();
        let mut paths = files.map(|f| f.unwrap().path());
        if paths.any(|path| path.is_file() && has(&path)) {
            return;
        }
        assert!(std::time::Instant::now() < end, "{words:?} is not kept");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// A command that runs, with what follows it.
pub fn working(exit_code: i32) -> Home {
    let home = scripted(&[]);
    home.write_config(FREE);
    let steps = [
        step("I will build it.", &[bash(&until_gate(&home, exit_code))]),
        step("So it ended.", &[]),
    ];
    play(&home, &steps);
    home
}
