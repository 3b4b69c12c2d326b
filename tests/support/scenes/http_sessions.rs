//! Sessions for a server.

use serde_json::Value;

pub use super::acp::writes;
use crate::Home;

/// A session that is done, by its id.
pub fn done_session(home: &Home, prompt: &str) -> String {
    let run = home
        .run(["-p", prompt, "--output-format", "json"])
        .expect(0);
    let result: Value = serde_json::from_str(&run.stdout).expect("a result");
    result["session"].as_str().expect("an id").to_string()
}
