//! Sessions that are killed, exported and imported.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use super::{LIMIT, newest, until};
use support::{Answer, Home, Live, Protocol, Says, Server};

/// A model that runs a command with an effect, and then one that waits, in the folder of the agent.
pub fn worker() -> Server {
    Server::start(|seen| match seen.turn {
        0 => Answer::call(
            "bash",
            json!({ "command": "echo one >> effects; echo printed-one" }),
        ),
        1 => Answer::call("write", json!({ "path": "made", "content": "made" })),
        2 => Answer::call(
            "bash",
            json!({ "command": "echo two >> effects; sleep 20" }),
        ),
        _ => Answer::text("all of it is done"),
    })
}

/// Where the same session is continued: the model only speaks.
pub fn speaker() -> Server {
    Server::start(|_| Says::text("I go on here").into())
}

/// A session that was killed in its second command.
pub fn killed(server: &Server) -> (Home, String) {
    let home = Home::with(server, Protocol::Chat);
    let args = [
        "-p",
        "please work",
        "--permission-mode",
        "bypassPermissions",
    ];
    let mut live = Live::spawn(home.rewake(args));
    until(|| home.read("effects").contains("two"));
    assert!(live.kill());
    live.wait(LIMIT);
    let id = newest(&home);
    (home, id)
}

pub fn bundle_of(home: &Home, id: &str) -> Vec<u8> {
    let output = home
        .rewake(["export", id, "--bundle", "-"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// Imports from stdin. Returns the IDs.
pub fn imported(home: &Home, bytes: &[u8], more: &[&str]) -> Vec<String> {
    let args = [&["import", "-"], more].concat();
    let mut command = home.rewake(args);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(String::from).collect()
}
