//! The same turns in pi, another agent (npm: `@mariozechner/pi-coding-agent`), if it is on `PATH`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::child::Cost;
use crate::sample::Times;
use crate::starting::instants;
use crate::turns::{calls, measure};
use support::Protocol;

/// Returns the times from one request of pi to the next, and what its run cost.
pub fn pi(count: usize, shell: &'static str) -> Option<(Times, Cost)> {
    let program = on_path("pi")?;
    let (server, asked) = instants(calls(count, shell));
    let home = tempfile::tempdir().expect("a folder");
    let config = home.path().join(".pi/agent");
    std::fs::create_dir_all(&config).expect("make a folder");
    let models = json!({ "providers": { "local": {
        "baseUrl": server.base_url(Protocol::Chat),
        "api": "openai-completions",
        "apiKey": "none",
        "models": [{ "id": "test-model", "contextWindow": 100_000_000 }],
    }}});
    std::fs::write(config.join("models.json"), models.to_string()).expect("write the models");
    let workspace = home.path().join("work");
    std::fs::create_dir(&workspace).expect("make a folder");
    let mut command = Command::new(program);
    command
        .args(["-p", "--provider", "local", "--model", "test-model", "work"])
        .env("HOME", home.path())
        .env("PI_OFFLINE", "1")
        .current_dir(workspace);
    Some(measure(command, &asked, count))
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found.find(|program| Path::is_file(program))
}
