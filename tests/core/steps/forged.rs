//! Logs that anybody may have written, of sessions that move here: each field of each kind of entry
//! has a forged value, and nothing but the conversation may depend on it.
//!
//! A new kind of entry, guard, fact or note without an example fails a test.

use std::collections::{BTreeMap, BTreeSet};

use rewake::core::seen::SeenPart;
use rewake::core::state::ForeignLog;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

/// A value that no entry of this machine has.
const FORGED: &str = "/forged/by/a/stranger";

/// The parts of a state that are the conversation, or count it. All others are as if the session had
/// begun here.
const CONVERSATION: [&str; 48] = [
    "next_seq",
    "taken_up",
    "version",
    "model",
    "effort",
    "temperature",
    "layers",
    "context",
    "preface",
    "calls",
    "owed",
    "halted",
    "paused",
    "run_limits",
    "worked_ms",
    "last_ms",
    "turns",
    "asked_by_model",
    "nonsense",
    "cut_answer",
    "tasks_begun",
    "wakes",
    "plan",
    "plan_at",
    "usage",
    "summarising",
    "spent",
    "replies",
    "cut_answers",
    "finished",
    "continuations",
    "name",
    "made_title",
    "was_titled",
    "first_words",
    "limits",
    "guesses",
    "refused_images",
    "request_forms",
    "ratios",
    "learned",
    "counts",
    "ledger",
    "words",
    "said",
    "freed",
    "recall_due",
    "unanswered",
];

fn moved() -> Entry {
    Entry::Moved {
        from: "first".into(),
        until: String::new(),
        host: "second".into(),
        os: "linux".into(),
        boot: "b".into(),
        mode: Mode::Default,
        folder: Some("/clone".into()),
    }
}

fn text(text: &str) -> String {
    text.to_string()
}

fn blob() -> BlobRef {
    BlobRef {
        hash: "b".repeat(64),
        bytes: 3,
    }
}

fn output() -> Output {
    Output {
        text: text("out"),
        blob: Some(blob()),
        images: vec![image()],
    }
}

fn image() -> Image {
    Image {
        media_type: text("image/png"),
        blob: blob(),
    }
}

fn spent() -> Vec<Spent> {
    let usage = Usage {
        input: 1,
        ..Usage::default()
    };
    vec![Spent {
        model: text("a/b"),
        usage,
    }]
}

fn failure() -> Failure {
    Failure {
        class: FailureClass::Network,
        message: text("no"),
        hint: Some(text("try")),
    }
}

fn write() -> Block {
    Block::call("write", r#"{"path":"a","content":"x"}"#)
}

fn task() -> Block {
    Block::call("task", r#"{"description":"d","prompt":"p"}"#)
}

fn ended(call: CallId, fact: Fact) -> Entry {
    Entry::Finished {
        call,
        outcome: Outcome::Done { output: output() },
        fact: Some(fact),
        tree: Some(text("tree")),
    }
}

fn of_file() -> Guard {
    Guard::Checked {
        path: text("/w/a"),
        before: Some("0".repeat(64)),
        after: "1".repeat(64),
    }
}

fn of_command(background: bool) -> Guard {
    Guard::Supervised {
        run: text("run"),
        boot: text("boot"),
        background,
    }
}

fn of_child() -> Guard {
    Guard::Child {
        session: text("session"),
        run: text("run"),
        boot: text("boot"),
        background: true,
        done: 1,
        in_vain: 1,
        before: spent(),
        worked_ms: 1,
    }
}

fn of_server() -> Guard {
    Guard::Served {
        server: text("far"),
        run: text("run"),
        boot: text("boot"),
        request: text("1"),
        repeatable: true,
    }
}

fn question() -> ServerQuestion {
    ServerQuestion {
        server: text("far"),
        key: text("server/7"),
        message: text("who?"),
        wanted: RequestedAnswer::Form { fields: vec![] },
    }
}

fn in_background() -> Fact {
    Fact::Background {
        id: text("bg_2_0"),
        run: text("run"),
        command: text("sleep"),
        child: Some(ChildRun {
            session: text("session"),
            before: spent(),
            worked_ms: 1,
        }),
    }
}

fn hook_run(call: Option<CallId>) -> HookRun {
    HookRun {
        hook: text("hook"),
        call,
        run: text("run"),
        boot: text("boot"),
        is_of_user: true,
        may_fail: true,
        failed: Some(text("why")),
    }
}

fn hook_result() -> HookResult {
    HookResult {
        is_brief: true,
        hook: text("hook"),
        verdict: HookVerdict::Allow,
        reason: text("why"),
        exit: Some(0),
        took_ms: 1,
        input: Some(json!({ "command": "other" }).to_string()),
        context: Some(output()),
        message: Some(text("line")),
        stops: true,
        wrote: Some(HookWrote {
            path: text("/w/a"),
            hash: text("h"),
        }),
        is_of_user: true,
    }
}

fn noted_about(about: About) -> Entry {
    Entry::Noted {
        text: text("note"),
        about: Some(about),
    }
}

fn check_ended(ending: CheckEnding) -> Entry {
    noted_about(About::CheckEnded {
        entry: 5,
        check: text("lint"),
        ending,
        took_ms: 1,
    })
}

/// Logs after `opened`. The last entry of each is the example, the others make it legal.
fn logs() -> Vec<Vec<Entry>> {
    let asks = |blocks| vec![said("go"), replied(blocks)];
    let with = |mut log: Vec<Entry>, more: Vec<Entry>| {
        log.extend(more);
        log
    };
    let after = |blocks, more| with(asks(blocks), more);
    let first = id(2, 0);
    let begin = |guard| Entry::Started {
        call: first,
        guard,
        access: Some(Access::Full),
    };
    let run = |fact| {
        after(
            vec![bash("a")],
            vec![begin(of_command(true)), ended(first, fact)],
        )
    };
    let file = |fact| after(vec![write()], vec![begin(of_file()), ended(first, fact)]);
    let looked = |fact| after(vec![read("a")], vec![ended(first, fact)]);
    let memory = Memory {
        kind: MemoryKind::Semantic,
        topic: Some(text("topic")),
        text: text("text"),
    };
    let plan = Plan {
        steps: vec![PlanStep {
            text: text("step"),
            state: StepState::Current,
        }],
        goals: vec![text("goal")],
    };
    let checking = || {
        let wrote = Fact::Wrote {
            path: text("/w/a"),
            hash: text("h"),
        };
        let check = Entry::CheckStarted {
            check: text("lint"),
            of: 2,
            run: text("run"),
            boot: text("boot"),
            files: vec![text("a")],
        };
        with(file(wrote), vec![check])
    };
    let restoring = Entry::Restoring {
        before: text("tree"),
        target: text("other"),
        to: Some(1),
        whole: true,
        new_folder: true,
        kept: vec![UnrestoredPath {
            path: text("p"),
            why: KeptWhy::Yours,
        }],
        more_kept: 1,
    };
    let hooking = |event, of, call| Entry::Hooking {
        event,
        of,
        runs: vec![hook_run(call)],
    };
    let hooked = |event, of, call| Entry::Hooked {
        event,
        of,
        call,
        results: vec![hook_result()],
    };
    let server_asks = || {
        let asked = Entry::Asked {
            call: first,
            why: text("who?"),
            rule: None,
            access: None,
            at: None,
            form: Some(Box::new(question())),
        };
        after(vec![poke()], vec![begin(of_server()), asked])
    };
    let before = HookEvent::PreToolUse;
    let prompt = HookEvent::UserPromptSubmit;
    let compacted = Entry::Compacted {
        window: 1,
        first: 1,
        last: 2,
        summary: text("summary"),
        by: SummaryBy::Model,
        spent: spent(),
        preface: Some(text("preface")),
    };
    let structured = Entry::Chose(Choice {
        schema: Some(json!({ "type": "object" })),
        ..Choice::default()
    });
    let end = StopReason::EndTurn;
    let answered = |text: &str| match replied(vec![Block::text(text)]) {
        Entry::Replied {
            blocks,
            usage,
            model,
            took_ms,
            asked_bytes,
            source_usage,
            ..
        } => Entry::Replied {
            blocks,
            usage,
            stop: end,
            model,
            took_ms,
            asked_bytes,
            source_usage,
        },
        other => other,
    };
    let assignment = Assignment {
        parent: text("session"),
        call: first,
        agent: Some(text("agent")),
        instructions: text("obey"),
        tools: Some(vec![text("bash")]),
        rules: vec![text("Bash(*)")],
        branch: Some(text("branch")),
    };
    let layers = PromptPrefix {
        system: text("system"),
        tools: vec![],
        instructions: text("instructions"),
    };
    let choice = Choice {
        model: Some(text("a/b")),
        mode: Some(Mode::BypassPermissions),
        effort: Some(Effort::High),
        temperature: Some(0.5),
        fallback: Some(Box::new(FallbackModel {
            model: text("a/c"),
            error: failure(),
        })),
        without: Some(text("Bash(a)")),
        schema: Some(json!({ "type": "object" })),
        without_schema: true,
        limits: Some(RunLimits {
            answers: Some(7),
            usd: Some(1.0),
            tokens: Some(7),
        }),
        system_prompt: Some(text("obey")),
        folders: Some(vec![text("/elsewhere")]),
        origin: Some(text("cli")),
    };
    let mut logs = vec![
        vec![Entry::Assigned(assignment)],
        vec![Entry::Rendered {
            version: text("9"),
            layers,
        }],
        vec![Entry::Said {
            text: text("go"),
            images: vec![image()],
            via: Via::Prompt,
            command: Some(UsedCommand {
                name: text("name"),
                arguments: text("arguments"),
                model: Some(text("a/b")),
            }),
            origin: Some(text("cli")),
        }],
        asks(vec![
            Block::Text {
                text: text("I look"),
                signature: Some(text("s")),
            },
            Block::Thinking {
                text: text("hm"),
                sealed: Some(json!("sealed")),
            },
            Block::Call {
                name: text("bash"),
                arguments: json!({ "command": "a" }).to_string(),
                provider_id: Some(text("1")),
                signature: Some(text("s")),
            },
        ]),
        after(
            vec![bash("a")],
            vec![Entry::Asked {
                call: first,
                why: text("why"),
                rule: Some(text("Bash(a)")),
                access: Some(Access::Full),
                at: Some(text("/w/a")),
                form: None,
            }],
        ),
        server_asks(),
        with(
            server_asks(),
            vec![Entry::Answered {
                call: first,
                asked: 4,
                key: text("server/7"),
                answer: FormAnswer::Accept {
                    values: Default::default(),
                },
                by: By::Person,
                origin: Some(text("cli")),
            }],
        ),
        after(
            vec![bash("a")],
            vec![Entry::Decided {
                call: first,
                verdict: Verdict::Allow,
                by: By::Person,
                access: Some(Access::Full),
                at: Some(text("/w/a")),
                rule: Some(text("Bash(a)")),
                origin: Some(text("cli")),
            }],
        ),
        after(vec![write()], vec![begin(of_file())]),
        after(vec![bash("a")], vec![begin(of_command(false))]),
        after(vec![task()], vec![begin(of_child())]),
        after(vec![poke()], vec![begin(of_server())]),
        after(vec![poke()], vec![begin(Guard::Opaque)]),
        file(Fact::Wrote {
            path: text("/w/a"),
            hash: text("h"),
        }),
        looked(Fact::Seen {
            path: text("/w/a"),
            hash: text("h"),
            part: SeenPart::new(vec![(1, 3)], 9, true),
        }),
        run(Fact::Ran {
            exit_code: Some(1),
            took_ms: 1,
            refused: true,
        }),
        run(in_background()),
        looked(Fact::Task {
            session: text("session"),
            spent: spent(),
        }),
        looked(Fact::Planned { plan }),
        looked(Fact::Remembered { memory }),
        looked(Fact::Waited {
            searched: BTreeMap::from([(text("bg_2_0"), 1)]),
        }),
        looked(Fact::Recalled),
        vec![
            said("go"),
            Entry::Stopped {
                draft: Some(text("I was")),
                origin: Some(text("cli")),
            },
        ],
        vec![Entry::Paused {
            origin: Some(text("cli")),
        }],
        vec![
            Entry::Paused { origin: None },
            Entry::Lifted {
                origin: Some(text("cli")),
            },
        ],
        vec![
            said("go"),
            Entry::Failed {
                error: failure(),
                draft: Some(text("I was")),
            },
        ],
        with(
            run(in_background()),
            vec![noted_about(About::BackgroundEnded {
                id: text("bg_2_0"),
                exit_code: Some(0),
                spent: spent(),
                asks_model: true,
            })],
        ),
        with(
            run(in_background()),
            vec![noted_about(About::StillRunning {
                ids: vec![text("bg_2_0")],
            })],
        ),
        vec![
            Entry::UserCommand {
                command: text("make"),
                guard: of_command(false),
            },
            noted_about(About::UserCommandEnded {
                entry: 1,
                exit_code: Some(0),
            }),
        ],
        with(
            checking(),
            vec![check_ended(CheckEnding::Exited {
                exit_code: 1,
                new_lines: 1,
                output: Some(blob()),
            })],
        ),
        vec![noted_about(About::Instructions)],
        vec![noted_about(About::Recalled)],
        vec![noted_about(About::Mode {
            mode: Mode::Plan,
            is_attended: true,
        })],
        vec![noted_about(About::FilesChanged {
            paths: vec![text("/w/a")],
            more: 1,
        })],
        vec![said("a"), answered("b"), said("c"), compacted],
        vec![
            said("a"),
            Entry::Continued {
                note: text("go on"),
                by: SummaryBy::Model,
                spent: spent(),
                story: Some(text("story")),
            },
        ],
        with(
            looked(Fact::Recalled),
            vec![Entry::Freed {
                results: vec![FreedResult {
                    at: 3,
                    line: text("line"),
                    call: text("read a"),
                }],
            }],
        ),
        vec![Entry::Saved {
            reason: SaveReason::Files,
            tree: Some(text("tree")),
            why: Some(text("why")),
            clock: None,
        }],
        vec![restoring.clone()],
        vec![
            restoring,
            Entry::Restored {
                tree: Some(text("other")),
                new_folder: true,
                written: 1,
                removed: 1,
                paths: vec![text("p")],
                kept: vec![UnrestoredPath {
                    path: text("p"),
                    why: KeptWhy::Yours,
                }],
                more_kept: 1,
                why: Some(text("why")),
            },
        ],
        vec![Entry::Forked {
            from: ForkPoint {
                session: text("session"),
                seq: 0,
            },
            folder: Some(text("/elsewhere")),
            from_replica: Some(ReplicaOrigin {
                agent: Some(text("agent")),
            }),
        }],
        vec![Entry::Moved {
            from: text("zero"),
            until: text("now"),
            host: text("first"),
            os: text("linux"),
            boot: text("boot"),
            mode: Mode::BypassPermissions,
            folder: Some(text("/elsewhere")),
        }],
        vec![Entry::Relocated {
            from: text("/w"),
            folder: text("/elsewhere"),
            from_root: text("/w"),
            root: text("/elsewhere"),
            by: RecognisedBy::Files,
        }],
        vec![
            structured,
            said("go"),
            answered("[]"),
            Entry::Checked {
                answer: 3,
                unfit: Some(Unfit {
                    path: text("/n"),
                    why: text("why"),
                }),
                told: Some(text("again")),
            },
        ],
        vec![Entry::Chose(choice)],
        vec![Entry::UserCommand {
            command: text("make"),
            guard: of_command(false),
        }],
        checking(),
        after(vec![bash("a")], vec![hooking(before, 2, Some(first))]),
        after(
            vec![bash("a")],
            vec![
                hooking(before, 2, Some(first)),
                hooked(before, 3, Some(first)),
            ],
        ),
        vec![
            said("go"),
            hooking(prompt, 1, None),
            hooked(prompt, 2, None),
        ],
        vec![Entry::Named {
            title: text("name"),
        }],
        vec![Entry::Titled {
            title: Some(text("title")),
            spent: spent(),
        }],
        vec![Entry::Dismissed],
        vec![Entry::Billed {
            model: text("a/b"),
            usage: Usage::default(),
        }],
        vec![Entry::Learned(Learned {
            model: text("a/b"),
            limit: 4_096,
            tokens: Some(1),
            bytes: 1,
            silently: true,
            images: Some(Refusal {
                why: text("why"),
                every: true,
            }),
            ..Learned::default()
        })],
        vec![
            said("go"),
            Entry::Learned(Learned {
                model: text("a/b"),
                limit: 4_096,
                form: Some(Box::new(LearnedForm {
                    forms: vec![RequestForm::OneCall, RequestForm::Digest],
                    since: vec![1, 1],
                    why: text("why"),
                    digest: Some(text("digest")),
                    before: 1,
                })),
                ..Learned::default()
            }),
        ],
        vec![
            said("go"),
            Entry::Resumed {
                by: By::Start,
                found: text("found"),
                draft: Some(text("I was")),
                unrecorded: true,
                at_work: true,
            },
        ],
    ];
    for ending in [
        CheckEnding::TimedOut { in_a_row: 3 },
        CheckEnding::Stopped,
        CheckEnding::Failed { why: text("why") },
    ] {
        logs.push(with(checking(), vec![check_ended(ending)]));
    }
    logs
}

/// The name of each variant of a tagged type, as its reader lists them.
fn variants<T: DeserializeOwned>(tag: &str) -> BTreeSet<String> {
    let Err(error) = serde_json::from_value::<T>(json!({ tag: "none of them" })) else {
        panic!("{tag} takes anything");
    };
    let names = error.to_string();
    let (_, names) = names.split_once("expected").expect("a list of names");
    let names = names.split('`').skip(1).step_by(2);
    names.map(str::to_string).collect()
}

/// Every value below a key, at any depth.
fn values(value: &Value, key: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            let its = fields.get(key).and_then(Value::as_str);
            found.extend(its.map(str::to_string));
            fields.values().for_each(|value| values(value, key, found));
        }
        Value::Array(items) => items.iter().for_each(|value| values(value, key, found)),
        _ => {}
    }
}

/// The pointers to all texts and numbers of a value.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                leaves(value, &format!("{at}/{}", key.replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (n, value) in items.iter().enumerate() {
                leaves(value, &format!("{at}/{n}"), found);
            }
        }
        Value::String(_) | Value::Number(_) => found.push(at.to_string()),
        Value::Null | Value::Bool(_) => {}
    }
}

/// The fields of a state, as text.
fn fields(state: &State) -> BTreeMap<String, String> {
    let all = format!("{state:#?}");
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    let mut open = String::new();
    for line in all.lines().skip(1) {
        let name = line
            .strip_prefix("    ")
            .filter(|l| l.starts_with(char::is_alphabetic));
        if let Some((name, _)) = name.and_then(|line| line.split_once(": ")) {
            open = name.to_string();
        }
        let field = fields.entry(open.clone()).or_default();
        field.push_str(line);
        field.push('\n');
    }
    fields
}

/// What a log makes of a session that moves: the parts that are no conversation. `None`: the log is
/// refused.
fn left(entries: &[Entry]) -> Option<(State, BTreeMap<String, String>)> {
    let all = entries.iter().cloned().chain([moved()]);
    let records = all.enumerate().map(|(seq, entry)| Record {
        seq: seq as u64,
        at_ms: seq as i64,
        entry,
    });
    let records: Vec<Record> = records.collect();
    let mut state = State::of(rewake::tools::describe, &records).ok()?;
    // They are the conversation, and long.
    let context = std::mem::take(&mut state.context);
    let calls = std::mem::take(&mut state.calls);
    let mut fields = fields(&state);
    (state.context, state.calls) = (context, calls);
    fields.retain(|name, _| !CONVERSATION.contains(&name.as_str()));
    Some((state, fields))
}

/// Checks that nothing follows from a log here but its conversation.
#[track_caller]
fn assert_nothing_left(entries: &[Entry], new: &BTreeMap<String, String>, what: &str) -> bool {
    let Some((state, fields)) = left(entries) else {
        return false;
    };
    assert_eq!(&fields, new, "{what}");
    assert_eq!(state.folder, "/clone", "{what}");
    for open in state.calls.iter().filter(|open| !open.finished) {
        let granted = (
            &open.asked,
            &open.decided,
            open.allowed_access,
            &open.asked_about,
        );
        assert_eq!(granted, (&None, &None, None, &None), "{what}");
        assert!(open.server_question.is_none() && open.answers.is_empty());
        assert_eq!(open.started_access, None, "{what}");
        match &open.guard {
            // It has its result without a look at anything.
            Some(guard) => {
                assert_eq!(guard, &Guard::Opaque, "{what}");
                assert!(open.lost.is_some(), "{what}");
            }
            None => assert!(open.lost.is_none(), "{what}"),
        }
    }
    for interactive in [true, false] {
        let step = next(&state, &policy(interactive), &nothing_else(&state));
        let is_own = match &step {
            Step::Settle(call) => state.call(*call).is_some_and(|open| open.lost.is_some()),
            Step::Restore
            | Step::RunHooks { .. }
            | Step::RunCheck(_)
            | Step::StartCheck { .. }
            | Step::ReportEnd(_)
            | Step::ReportUserEnd(_)
            | Step::Remind(_)
            | Step::CheckAnswer(_) => false,
            _ => true,
        };
        assert!(is_own, "{what}: {step:?}");
    }
    true
}

fn imported() -> Entry {
    match opened() {
        Entry::Opened {
            version,
            model,
            layers,
            ..
        } => Entry::Opened {
            folder: text("/elsewhere"),
            version,
            model,
            mode: Mode::BypassPermissions,
            layers,
            imported: Some(Box::new(ImportSource {
                agent: text("agent"),
                agent_version: Some(text("1")),
                id: text("session"),
            })),
        },
        other => other,
    }
}

#[test]
fn each_kind_has_an_example() {
    let mut logs = logs();
    logs.push(vec![imported()]);
    let all = serde_json::to_value(&logs).unwrap();
    let lacks = |of: BTreeSet<String>, key: &str| {
        let mut found = BTreeSet::new();
        values(&all, key, &mut found);
        of.difference(&found).cloned().collect::<Vec<_>>()
    };
    assert_eq!(lacks(variants::<Entry>("kind"), "kind"), [""; 0]);
    assert_eq!(lacks(variants::<Fact>("fact"), "fact"), [""; 0]);
    assert_eq!(lacks(variants::<CheckEnding>("how"), "how"), [""; 0]);
    // These two have nothing to forge.
    assert_eq!(lacks(variants::<Guard>("class"), "class"), ["asks"]);
    let about = lacks(variants::<About>("about"), "about");
    assert_eq!(about, ["answer_cut", "repeats"]);
}

#[test]
fn no_forged_field_of_any_entry_has_an_effect_here() {
    let (_, new) = left(&[opened()]).unwrap();
    let mut forged = 0;
    let mut legal = 0;
    let logs = logs()
        .into_iter()
        .map(|log| std::iter::once(opened()).chain(log));
    let logs = logs.map(Iterator::collect).chain([vec![imported()]]);
    for log in logs {
        let log: Vec<Entry> = log;
        let kind = log.last().unwrap().kind();
        assert!(
            assert_nothing_left(&log, &new, kind),
            "{kind} cannot stand there"
        );
        // Each entry of the log, not only the last one.
        for place in 0..log.len() {
            let json = serde_json::to_value(&log[place]).unwrap();
            let mut pointers = Vec::new();
            leaves(&json, "", &mut pointers);
            for pointer in pointers {
                let values = [
                    json!(FORGED),
                    json!("../../forged"),
                    json!(0),
                    json!(3),
                    json!(u64::MAX),
                ];
                for value in values {
                    let mut other = json.clone();
                    *other.pointer_mut(&pointer).unwrap() = value;
                    let Ok(entry) = serde_json::from_value::<Entry>(other) else {
                        continue;
                    };
                    let mut log = log.clone();
                    log[place] = entry;
                    forged += 1;
                    let what = format!("{kind}, entry {place}, {pointer}");
                    legal += u64::from(assert_nothing_left(&log, &new, &what));
                }
            }
        }
    }
    assert!(legal > 1_000, "{legal} of {forged}");
}

/// The same for one entry with very many forged values, and for very many entries.
#[test]
fn many_forged_fields_have_no_effect_here() {
    const MANY: usize = 100_000;
    let (_, new) = left(&[opened()]).unwrap();
    let names = || (0..MANY).map(|n| format!("{FORGED}/{n}"));
    let chose = Entry::Chose(Choice {
        folders: Some(names().collect()),
        ..Choice::default()
    });
    let runs = names().map(|run| HookRun {
        run,
        ..hook_run(None)
    });
    let hooking = Entry::Hooking {
        event: HookEvent::Stop,
        of: 1,
        runs: runs.collect(),
    };
    let check = Entry::Noted {
        text: String::new(),
        about: Some(About::FilesChanged {
            paths: names().collect(),
            more: 0,
        }),
    };
    let calls = replied(names().map(|path| read(&path)).collect());
    for entry in [chose, hooking, check, calls] {
        let log = [opened(), said("go"), entry];
        assert!(assert_nothing_left(&log, &new, log[2].kind()));
    }
    let commands = names().map(|run| Entry::UserCommand {
        command: text("make"),
        guard: Guard::Supervised {
            run,
            boot: text("b"),
            background: false,
        },
    });
    let log: Vec<Entry> = std::iter::once(opened()).chain(commands).collect();
    assert!(assert_nothing_left(&log, &new, "user_command"));
}

/// A hook of this machine judges a call again, and each call only once.
/// A hook may have changed the arguments of a call that it allowed. Those of the model are judged again.
#[test]
fn hooks_judge_again_in_another_folder() {
    for (by, is_judged) in [(RecognisedBy::Folder, true), (RecognisedBy::Files, false)] {
        let state = state([
            said("go"),
            replied(vec![bash("a"), bash("b")]),
            Entry::Hooking {
                event: HookEvent::PreToolUse,
                of: 2,
                runs: vec![hook_run(Some(id(2, 1)))],
            },
            Entry::Hooked {
                event: HookEvent::PreToolUse,
                of: 3,
                call: Some(id(2, 1)),
                results: vec![hook_result()],
            },
            Entry::Relocated {
                from: "/w".into(),
                folder: "/new".into(),
                from_root: "/w".into(),
                root: "/new".into(),
                by,
            },
        ]);
        let second = state.call(id(2, 1)).unwrap();
        assert_eq!(second.needs_judging(&state.hooks), !is_judged, "{by:?}");
    }
}

#[test]
fn calls_are_judged_again_by_hooks() {
    let log = vec![
        opened(),
        said("go"),
        replied(vec![bash("a"), bash("b"), bash("c")]),
        Entry::Hooking {
            event: HookEvent::PreToolUse,
            of: 2,
            runs: vec![hook_run(Some(id(2, 1)))],
        },
        Entry::Hooked {
            event: HookEvent::PreToolUse,
            of: 3,
            call: Some(id(2, 1)),
            results: vec![hook_result()],
        },
        started(id(2, 0), supervised()),
    ];
    let (mut state, _) = left(&log).unwrap();
    // Its arguments are those of the model, not those of the hook.
    assert_eq!(
        state.call(id(2, 1)).unwrap().call.arguments,
        r#"{"command":"b"}"#
    );
    let unjudged = |state: &State| {
        let calls = state.calls.iter();
        let unjudged = calls.filter(|open| open.needs_judging(&state.hooks));
        unjudged.map(|open| open.call.id).collect::<Vec<_>>()
    };
    assert_eq!(unjudged(&state), [id(2, 1), id(2, 2)]);
    let mut fold = |entry| {
        let seq = state.next_seq();
        let record = Record {
            seq,
            at_ms: 9,
            entry,
        };
        state.fold(&record).unwrap();
        (seq, unjudged(&state))
    };
    let event = HookEvent::PreToolUse;
    let (of, left) = fold(Entry::Hooking {
        event,
        of: 2,
        runs: vec![hook_run(Some(id(2, 1)))],
    });
    assert_eq!(left, [id(2, 2)]);
    let (_, left) = fold(Entry::Hooked {
        event,
        of,
        call: Some(id(2, 1)),
        results: vec![hook_result()],
    });
    assert_eq!(left, [id(2, 2)]);
}

/// A limit of rows stays: it can only make the session do less.
#[test]
fn limits_of_rows_can_only_lower() {
    let limits = RunLimits {
        answers: Some(3),
        usd: None,
        tokens: None,
    };
    let chose = Entry::Chose(Choice {
        limits: Some(limits),
        ..Choice::default()
    });
    let (state, _) = left(&[opened(), chose]).unwrap();
    assert_eq!(state.run_limits, limits);
}

/// What a log holds in memory is bounded, whatever its entries say of themselves.
#[test]
fn the_context_of_a_forged_log_is_bounded() {
    const LARGE: usize = 40 << 20;
    let fold = |entries: Vec<Entry>| {
        let mut log = ForeignLog::new(rewake::tools::describe);
        let mut records = super::log(entries).into_iter();
        let refused = records.find_map(|record| {
            let bytes = match record.entry {
                Entry::Said { .. } => LARGE,
                _ => 1,
            };
            log.fold(&record, bytes).err()
        });
        refused.map(|refused| (refused.seq, refused.why))
    };
    let (seq, why) = fold(vec![said("a"), said("b")]).unwrap();
    assert!(seq == 2 && why.contains("more than 64 MiB"), "{why}");
    // Entries that left the context do not count.
    let continued = Entry::Continued {
        note: text("go on"),
        by: SummaryBy::Digest,
        spent: vec![],
        story: None,
    };
    assert_eq!(fold(vec![said("a"), continued, said("b")]), None);
}

/// Names of models stay in the state when their entries have left the context.
#[test]
fn the_names_in_a_forged_log_are_bounded() {
    const LARGE: usize = 40 << 20;
    let continued = || Entry::Continued {
        note: text("go on"),
        by: SummaryBy::Digest,
        spent: vec![],
        story: None,
    };
    let learned = |model: String| {
        Entry::Learned(Learned {
            model,
            limit: 1_000,
            ..Learned::default()
        })
    };
    let fold = |models: Vec<String>| {
        let mut log = ForeignLog::new(rewake::tools::describe);
        let entries = models.into_iter().map(learned);
        let entries = entries.flat_map(|entry| [entry, continued()]);
        let mut records = super::log([said("a")].into_iter().chain(entries)).into_iter();
        let refused = records.find_map(|record| {
            let bytes = serde_json::to_string(&record.entry).unwrap().len();
            log.fold(&record, bytes).err()
        });
        refused.map(|refused| refused.why)
    };
    assert_eq!(fold(vec!["a".repeat(LARGE)]), None);
    let why = fold(vec!["a".repeat(LARGE), "b".repeat(LARGE)]).unwrap();
    assert!(why.contains("more than 64 MiB"), "{why}");
    assert_eq!(fold(vec!["a/b".repeat(100); 20]), None);
}
