//! The same turns in pi, another agent (npm: `@mariozechner/pi-coding-agent`), if it is on `PATH`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::child::{self, Cost};
use crate::sample::Times;
use crate::support::{Answer, Options, Protocol, Server};

/// Returns the times from one request of pi to the next, and what its run cost.
pub fn pi(count: usize, shell: &'static str) -> Option<(Times, Cost)> {
    let program = on_path("pi")?;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let options = Options {
        keep_bodies: false,
        check: false,
        ..Options::default()
    };
    let server = Server::start_with(options, move |request| {
        seen.lock().unwrap().push(Instant::now());
        match request.turn < count {
            true => Answer::call("bash", json!({ "command": shell })),
            false => Answer::text("done"),
        }
    });
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
    let cost = child::run(command, Duration::from_millis(20));
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), count + 1, "requests of pi");
    Some((Times::between(&asked), cost))
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found.find(|program| Path::is_file(program))
}
