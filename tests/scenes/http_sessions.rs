//! Sessions for a server.

use serde_json::{Value, json};

use super::{scripted, step};
use crate::support::Home;

/// A model that writes the file `f`, which asks, and then says that it is done.
pub fn writes() -> Home {
    let write = ("write", json!({"path": "f", "content": "written\n"}));
    scripted(&[step("I write it.", &[write]), step("done", &[])])
}

/// A session that is done, by its id.
pub fn done_session(home: &Home, prompt: &str) -> String {
    let run = home
        .run(["-p", prompt, "--output-format", "json"])
        .expect(0);
    let result: Value = serde_json::from_str(&run.stdout).expect("a result");
    result["session"].as_str().expect("an id").to_string()
}
