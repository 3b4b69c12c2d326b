//! Hooks, and a command that they guard.

use std::fs;

use serde_json::json;

use crate::Home;
use crate::scenes::{bash, scripted, step};

pub const ACCEPT: [&str; 4] = ["-p", "go", "--permission-mode", "acceptEdits"];

/// Writes the user's hooks: the event, the matcher and the command of each.
pub fn hooks(home: &Home, hooks: &[(&str, &str, &str)]) {
    fs::write(home.rewake_home().join("hooks.json"), file(hooks)).unwrap();
}

/// The file with these hooks.
pub fn file(hooks: &[(&str, &str, &str)]) -> String {
    let mut events = serde_json::Map::new();
    for (event, matcher, command) in hooks {
        let group = json!({
            "matcher": matcher,
            "hooks": [{ "type": "command", "command": command, "timeout": 20 }],
        });
        let groups = events.entry(event.to_string()).or_insert(json!([]));
        groups.as_array_mut().unwrap().push(group);
    }
    json!({ "hooks": events }).to_string()
}

pub fn touching() -> Home {
    scripted(&[step("", &[bash("touch ran")]), step("done", &[])])
}
