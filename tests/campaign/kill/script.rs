//! What the model plays: a task of 48 calls, with every effect class, alone and several in
//! one answer.

use std::sync::{Arc, Mutex};

use serde_json::json;

use support::{Answer, Options, Says, Seen, Server};

pub const CALLS: usize = 48;
pub const ROUNDS: usize = 4;
pub const FINAL_WORDS: &str = "everything is done";

/// What the server was told: the text of each result by its place in the conversation, and
/// whether two requests ever disagreed on one.
#[derive(Default)]
pub struct Heard {
    pub texts: Vec<String>,
    pub changed: Vec<String>,
}

/// What the commands of a task may do, and on which kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    pub access: &'static str,
    /// What the kernel lacks: see `Kernel::pretending`.
    pub lacks: &'static str,
}

/// Each is played by a task of its own.
pub const REACHES: [Reach; 5] = [
    Reach::at("workspace", ""),
    Reach::at("read", ""),
    // Protected files are compared, and not held.
    Reach::at("workspace", "no-namespaces"),
    // The first process of a command is rewake's own.
    Reach::at("workspace", "abi=4"),
    Reach::FULL,
];

impl Reach {
    pub const FULL: Reach = Reach::at("full", "");

    const fn at(access: &'static str, lacks: &'static str) -> Reach {
        Reach { access, lacks }
    }

    pub fn is_sandboxed(self) -> bool {
        self != Reach::FULL
    }

    /// Where effects can be written down that outlive the session.
    pub fn writes(self) -> bool {
        self.access != "read"
    }
}

/// What each command runs, with a number and a pause. It tries at its end what a sandbox does
/// not let it do: with another agent than the one that started it, when that was killed.
pub const STEP: &str = r#"
if [ "$REWAKE_SANDBOX" = read ]; then
    mkdir "$TMPDIR/effect-$1" || echo "ran twice"
else
    echo "effect $1" >> effects.txt
fi
sleep "$2"
echo "ran $1. access ${REWAKE_SANDBOX:-full}"
if cat "$HOME/outside" > /dev/null 2>&1; then echo outside is open; else echo outside is closed; fi
"#;

/// One call of the task.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    Plan(usize),
    Bash(usize),
    Write(usize),
    Read(usize),
    Edit(usize),
    Grep(usize),
}

/// The calls of each turn: every effect class, alone and several in one answer.
pub fn script() -> Vec<Vec<Step>> {
    use Step::{Bash, Edit, Grep, Plan, Read, Write};
    let round = |n: usize| {
        let bash = |k: usize| Bash(n * 10 + k);
        vec![
            vec![Plan(n)],
            vec![bash(0)],
            vec![Write(n), bash(1)],
            vec![Read(n), Grep(n)],
            vec![Edit(n)],
            // With access read they run at the same time.
            vec![bash(2), bash(3), bash(4), bash(5), Read(n)],
        ]
    };
    (0..ROUNDS).flat_map(round).collect()
}

impl Step {
    fn add_to(self, says: Says, reach: Reach) -> Says {
        match self {
            Step::Plan(n) => says.and_call(
                "plan",
                json!({"steps": [
                    {"text": format!("round {n}"), "state": "current"},
                    {"text": "the rest", "state": "left"},
                ]}),
            ),
            Step::Bash(n) => {
                let pause = n % 4;
                let command = format!("sh step.sh {n} 0.0{pause}");
                says.and_call("bash", json!({"command": command, "access": reach.access}))
            }
            Step::Write(n) => says.and_call(
                "write",
                json!({
                    "path": format!("file-{n}.txt"),
                    "content": format!("round {n}\ncount: before\n"),
                }),
            ),
            Step::Read(n) => says.and_call("read", json!({"path": format!("file-{n}.txt")})),
            Step::Edit(n) => says.and_call(
                "edit",
                json!({
                    "path": format!("file-{n}.txt"),
                    "edits": [{"old": "count: before", "new": "count: after"}],
                }),
            ),
            Step::Grep(n) => says.and_call("grep", json!({"pattern": format!("round {n}")})),
        }
    }

    /// What the true result says.
    pub fn wanted(self) -> String {
        match self {
            Step::Plan(_) => "1 in_progress".to_string(),
            Step::Bash(n) => format!("ran {n}."),
            Step::Read(n) => format!("round {n}"),
            Step::Write(n) | Step::Edit(n) | Step::Grep(n) => format!("file-{n}.txt"),
        }
    }
}

pub fn serve(heard: Arc<Mutex<Heard>>, reach: Reach) -> Server {
    let turns = script();
    let options = Options {
        keep_bodies: false,
        ..Options::default()
    };
    Server::start_with(options, move |seen: &Seen| {
        remember(&heard, seen);
        let says = match turns.get(seen.turn) {
            None => Says::text(FINAL_WORDS),
            Some(calls) => {
                let says = Says::text(format!("turn {}", seen.turn)).thinking("what is next");
                calls
                    .iter()
                    .fold(says, |says, call| call.add_to(says, reach))
            }
        };
        Answer::Slow {
            says,
            chunk_bytes: 400,
            delay_ms: 3,
        }
    })
}

/// A result, once sent, is sent again word for word.
fn remember(heard: &Mutex<Heard>, seen: &Seen) {
    let mut heard = heard.lock().unwrap();
    for (place, (id, text)) in seen.results.iter().enumerate() {
        match heard.texts.get(place) {
            None => heard.texts.push(text.clone()),
            Some(before) if before == text => {}
            Some(before) => {
                let change = format!("result {place} ({id}) was {before:?}, is {text:?}");
                heard.changed.push(change);
            }
        }
    }
}
