//! A log, written down entry by entry as a test speaks of it. What could not follow in a real
//! log fails the test.

use rewake::core::access::Access;
use rewake::core::entry::Choice;
use rewake::core::entry::{
    About, Block, By, CallId, ChildRun, Entry, Fact, Failure, FailureClass, Guard, Mode, Outcome,
    Output, Plan, PlanStep, PromptPrefix, Record, Seq, StepState, StopReason, SummaryBy, Usage,
    Verdict, Via,
};
use rewake::core::state::State;
use serde_json::{Value, json};

/// 21 November 2026, 12:00 UTC.
pub const NOON_MS: i64 = 1_795_262_400_000;

pub const FOLDER: &str = "/home/ann/parser";

/// The entries of a session, each a second after the one before.
#[derive(Clone)]
pub struct Log {
    pub state: State,
    pub records: Vec<Record>,
    later_ms: i64,
}

impl Default for Log {
    fn default() -> Log {
        let mut log = Log {
            state: State::new(rewake::tools::describe),
            records: Vec::new(),
            later_ms: 0,
        };
        log.push(Entry::Opened {
            folder: FOLDER.into(),
            version: "0.1.0".into(),
            model: "anthropic/claude-sonnet-4-5".into(),
            mode: Mode::Default,
            layers: PromptPrefix {
                system: "s".repeat(6_000),
                tools: Vec::new(),
                instructions: String::new(),
            },
            imported: None,
        });
        log
    }
}

/// A part of an answer.
pub fn text(text: &str) -> Block {
    Block::text(text)
}

pub fn thinking(text: &str) -> Block {
    Block::Thinking {
        text: text.into(),
        sealed: None,
    }
}

pub fn call(name: &str, arguments: Value) -> Block {
    Block::call(name, arguments.to_string())
}

pub fn bash(command: &str) -> Block {
    call("bash", json!({ "command": command }))
}

pub fn write(path: &str, content: &str) -> Block {
    call("write", json!({ "path": path, "content": content }))
}

pub fn edit(path: &str, old: &str, new: &str) -> Block {
    call(
        "edit",
        json!({ "path": path, "edits": [{ "old": old, "new": new }] }),
    )
}

pub fn steps(steps: &[(&str, StepState)]) -> Value {
    let step = |(text, state): &(&str, StepState)| json!({ "text": text, "state": state });
    json!({ "steps": steps.iter().map(step).collect::<Vec<_>>() })
}

impl Log {
    #[track_caller]
    pub fn push(&mut self, entry: Entry) -> &Record {
        let seq = self.state.next_seq();
        let record = Record {
            seq,
            at_ms: NOON_MS + i64::try_from(seq).unwrap() * 1_000 + self.later_ms,
            entry,
        };
        if let Err(illegal) = self.state.fold(&record) {
            panic!("no such log: {illegal}");
        }
        self.records.push(record);
        self.records.last().unwrap()
    }

    /// When the last entry was recorded.
    /// So much time goes by before the next entry.
    pub fn waits(&mut self, ms: i64) {
        self.later_ms += ms;
    }

    pub fn now_ms(&self) -> i64 {
        self.records.last().map_or(NOON_MS, |r| r.at_ms)
    }

    pub fn last_seq(&self) -> Seq {
        self.state.next_seq() - 1
    }
}

/// What may stand in a log, in the words of a test.
pub mod entry {
    use super::*;

    pub fn said(text: &str) -> Entry {
        Entry::Said {
            text: text.into(),
            images: Vec::new(),
            via: Via::Prompt,
            command: None,
            origin: None,
        }
    }

    pub fn replied(blocks: Vec<Block>) -> Entry {
        let calls = blocks.iter().any(|b| matches!(b, Block::Call { .. }));
        Entry::Replied {
            blocks,
            usage: Usage {
                input: 1_200,
                cached: 3_000,
                cache_written: 0,
                output: 150,
                billed_nanos: None,
            },
            stop: if calls {
                StopReason::ToolUse
            } else {
                StopReason::EndTurn
            },
            model: "anthropic/claude-sonnet-4-5".into(),
            took_ms: 900,
            asked_bytes: 12_000,
            source_usage: None,
        }
    }

    pub fn allowed(call: CallId) -> Entry {
        Entry::Decided {
            at: None,
            call,
            verdict: Verdict::Allow,
            by: By::Person,
            access: None,
            rule: None,
            origin: None,
        }
    }

    pub fn started_with(call: CallId, access: Access) -> Entry {
        match started(call) {
            Entry::Started { call, guard, .. } => Entry::Started {
                call,
                guard,
                access: Some(access),
            },
            other => other,
        }
    }

    pub fn started(call: CallId) -> Entry {
        let guard = Guard::Supervised {
            run: format!("run-{call}"),
            boot: "boot".into(),
            background: false,
        };
        Entry::Started {
            call,
            guard,
            access: None,
        }
    }

    /// A person says yes, this once.
    pub fn decided(call: CallId) -> Entry {
        Entry::Decided {
            at: None,
            call,
            verdict: Verdict::Allow,
            by: By::Person,
            rule: None,
            access: None,
            origin: None,
        }
    }

    pub fn checked(call: CallId, path: &str) -> Entry {
        let guard = Guard::Checked {
            path: path.into(),
            before: Some("a".repeat(64)),
            after: "b".repeat(64),
        };
        Entry::Started {
            call,
            guard,
            access: None,
        }
    }

    pub fn finished(call: CallId, outcome: Outcome, fact: Option<Fact>) -> Entry {
        Entry::Finished {
            call,
            outcome,
            fact,
            tree: None,
        }
    }

    pub fn done(call: CallId, output: &str) -> Entry {
        finished(call, Outcome::done(output), None)
    }

    /// A command that ended.
    pub fn ran(call: CallId, exit_code: i32, output: &str) -> Entry {
        let outcome = match exit_code {
            0 => Outcome::done(output),
            _ => Outcome::error(output),
        };
        let fact = Fact::Ran {
            exit_code: Some(exit_code),
            took_ms: 4_200,
            refused: false,
        };
        finished(call, outcome, Some(fact))
    }

    pub fn interrupted(call: CallId, output: &str, why: &str) -> Entry {
        let outcome = Outcome::Interrupted {
            output: Output::text(output),
            why: why.into(),
        };
        finished(call, outcome, None)
    }

    pub fn denied(call: CallId, reason: &str) -> Entry {
        let reason = reason.into();
        finished(call, Outcome::Denied { reason }, None)
    }

    pub fn planned(call: CallId, steps: &[(&str, StepState)]) -> Entry {
        let step = |(text, state): &(&str, StepState)| PlanStep {
            text: text.to_string(),
            state: *state,
        };
        let plan = Plan {
            steps: steps.iter().map(step).collect(),
            goals: vec!["no rule of the grammar is lost".into()],
        };
        finished(
            call,
            Outcome::done("the plan is kept"),
            Some(Fact::Planned { plan }),
        )
    }

    pub fn in_background(call: CallId, id: &str, command: &str) -> Entry {
        let fact = Fact::Background {
            id: id.into(),
            run: format!("run-{id}"),
            command: command.into(),
            child: None,
        };
        finished(
            call,
            Outcome::done(format!("{id} runs in the background")),
            Some(fact),
        )
    }

    pub fn task_started(call: CallId) -> Entry {
        Entry::Started {
            call,
            guard: Guard::Child {
                session: "child".into(),
                run: format!("run-{call}"),
                boot: "boot".into(),
                background: false,
                done: 0,
                in_vain: 0,
                before: Vec::new(),
                worked_ms: 0,
            },
            access: None,
        }
    }

    pub fn task_in_background(call: CallId, id: &str, prompt: &str) -> Entry {
        let fact = Fact::Background {
            id: id.into(),
            run: format!("run-{id}"),
            command: format!("task: {prompt}"),
            child: Some(ChildRun {
                session: format!("child-{id}"),
                before: Vec::new(),
                worked_ms: 0,
            }),
        };
        finished(
            call,
            Outcome::done(format!("task {id} is at work in the background")),
            Some(fact),
        )
    }

    pub fn background_ended(id: &str, exit_code: i32) -> Entry {
        Entry::Noted {
            text: format!("the background command {id} ended: exit code {exit_code}"),
            about: Some(About::BackgroundEnded {
                id: id.into(),
                exit_code: Some(exit_code),
                spent: Vec::new(),
                asks_model: false,
            }),
        }
    }

    pub fn failed(message: &str, hint: &str) -> Entry {
        Entry::Failed {
            error: Failure {
                class: FailureClass::Auth,
                message: message.into(),
                hint: Some(hint.into()),
            },
            draft: None,
        }
    }

    pub fn stopped(draft: &str) -> Entry {
        Entry::Stopped {
            draft: Some(draft.into()),
            origin: None,
        }
    }

    pub fn resumed(found: &str, draft: Option<&str>) -> Entry {
        Entry::Resumed {
            by: By::Person,
            found: found.into(),
            draft: draft.map(str::to_string),
            unrecorded: false,
            at_work: false,
        }
    }

    pub fn noted(text: &str) -> Entry {
        Entry::Noted {
            text: text.into(),
            about: None,
        }
    }

    pub fn closed(first: Seq, last: Seq) -> Entry {
        Entry::Compacted {
            window: 1,
            first,
            last,
            summary: "They began to mend the parser.".into(),
            by: SummaryBy::Digest,
            spent: Vec::new(),
            preface: None,
        }
    }

    pub fn continued() -> Entry {
        Entry::Continued {
            note: "Task: mend the parser.".into(),
            by: SummaryBy::Model,
            spent: Vec::new(),
            story: None,
        }
    }

    pub fn chose(mode: Mode) -> Entry {
        Entry::Chose(Choice::of_mode(mode))
    }
}
