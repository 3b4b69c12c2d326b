//! The kill campaign of `rewake acp`: in each session an editor lets a command run, and the agent is
//! killed at a random instant of it. The next agent loads the session: then the call has its real
//! result, or it still runs and gets it. No command runs twice.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::PoisonError;
use std::time::Duration;

use serde_json::{Value, json};

use crate::kill::QUIET;
use crate::kill::random::{Random, seed_of_now};
use support::{Home, Seed};

/// Kills of a campaign; `REWAKE_KILLS=100` is for long runs.
const KILLS: usize = 15;

/// The results of the sessions.
#[derive(Debug, Default)]
struct Tally {
    kills: usize,
    /// Loads with a result in the replay.
    ended: usize,
    /// Loads while the command ran.
    followed: usize,
    effects_twice: usize,
    /// Calls whose result is not that of the command.
    lost: usize,
    /// Calls that were left in progress.
    left_open: usize,
}

#[test]
fn a_loaded_session_has_the_real_result_of_its_command() {
    let _alone = QUIET.read().unwrap_or_else(PoisonError::into_inner);
    let seed = Seed::of("REWAKE_KILL_SEED", seed_of_now);
    let kills = std::env::var("REWAKE_KILLS").ok();
    let kills = kills.map_or(KILLS, |kills| kills.parse().expect("a number"));
    let (mut random, mut tally) = (Random(seed.number), Tally::default());
    while tally.kills < kills {
        session(&mut random, &mut tally);
    }
    println!("{tally:?}");
    let wrong = (tally.effects_twice, tally.lost, tally.left_open);
    assert_eq!(wrong, (0, 0, 0), "seed {seed}: {tally:?}");
    assert!(tally.ended > 0 && tally.followed > 0, "{tally:?}");
}

fn session(random: &mut Random, tally: &mut Tally) {
    let home = Home::new();
    home.write_config(
        "model = \"s/play\"\n[providers.s]\nprotocol = \"script\"\nscript = \"script.toml\"\n",
    );
    let ms = random.between(50, 400);
    // Some commands run until the session is loaded, however slow the machine is.
    let is_held = tally.kills.is_multiple_of(3);
    let until = match is_held {
        true => "until [ -e gate ]; do sleep 0.02; done".to_string(),
        false => format!("sleep 0.{ms:03}"),
    };
    let line = format!("echo start >> effects; {until}; echo the-real-result-$((40 + 2))");
    let arguments = json!({ "command": line, "access": "workspace" });
    let script = format!(
        "[[step]]\ncalls = [{{ name = \"bash\", arguments = '''{arguments}''' }}]\n\
         [[step]]\ntext = \"that was all\"\n"
    );
    std::fs::write(home.rewake_home().join("script.toml"), script).unwrap();
    let mut editor = Editor::start(&home);
    let open = json!({ "cwd": home.workspace(), "mcpServers": [] });
    let opened = editor.call("session/new", open);
    let id = opened["sessionId"].as_str().expect("a session").to_string();
    let prompt = json!([{ "type": "text", "text": "run it" }]);
    editor.send(
        "session/prompt",
        json!({ "sessionId": id, "prompt": prompt }),
    );
    let asked = editor.wait(|line| line["method"] == "session/request_permission");
    let allow = json!({ "outcome": { "outcome": "selected", "optionId": "allow" } });
    editor.write(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": allow }));
    editor.wait(|line| line["params"]["update"]["status"] == "in_progress");
    std::thread::sleep(random.instant());
    drop(editor);
    tally.kills += 1;
    // Sometimes the command ends while nobody listens.
    std::thread::sleep(Duration::from_millis(random.between(0, 400)));

    let mut editor = Editor::start(&home);
    let load = json!({ "sessionId": id, "cwd": home.workspace(), "mcpServers": [] });
    editor.call("session/load", load);
    if is_held {
        std::fs::write(home.path("gate"), "").unwrap();
    }
    match editor.status.as_deref() {
        Some("completed") => tally.ended += 1,
        Some("in_progress") => {
            tally.followed += 1;
            editor.wait(|line| line["params"]["update"]["status"] == "completed");
        }
        _ => tally.left_open += 1,
    }
    let go = json!([{ "type": "text", "text": "/continue" }]);
    let answer = editor.call("session/prompt", json!({ "sessionId": id, "prompt": go }));
    tally.left_open += usize::from(answer["stopReason"] != "end_turn");
    tally.lost += usize::from(!editor.seen.contains("the-real-result-42"));
    tally.lost += usize::from(editor.status.as_deref() != Some("completed"));
    tally.effects_twice += usize::from(home.read("effects") != "start\n");
}

/// A client that is killed with its agent.
struct Editor {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    last: u64,
    /// The last status of a call.
    status: Option<String>,
    /// All lines so far.
    seen: String,
}

impl Editor {
    fn start(home: &Home) -> Editor {
        let mut command = home.rewake(["acp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("start the agent");
        let mut editor = Editor {
            stdin: child.stdin.take().unwrap(),
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
            last: 0,
            status: None,
            seen: String::new(),
        };
        editor.call("initialize", json!({ "protocolVersion": 1 }));
        editor
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").expect("write to the agent");
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn wait(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.next().expect("a line").expect("read a line");
            let value: Value = serde_json::from_str(&line).expect("a frame");
            self.seen.push_str(&line);
            if let Some(status) = value["params"]["update"]["status"].as_str() {
                self.status = Some(status.to_string());
            }
            if is_wanted(&value) {
                return value;
            }
        }
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.wait(|line| line.get("method").is_none() && line["id"] == id);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
