//! The answers of guards and the rules: which of them wins, in every combination.

use std::sync::Arc;

use rewake::core::access::Access;
use rewake::core::authorization::{Authorization, authorize, still_allowed};
use rewake::core::budget::Budget;
use rewake::core::entry::*;
use rewake::core::next::{Pending, Step, next, recall_point};
use rewake::core::policy::{Decision, Judgement, Rule};
use rewake::core::settings::Policy;
use rewake::core::state::State;
use rewake::session::context::windows;
use rewake::tools::describe;

/// What the rules say of the call: without a rule for it, they ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    Allow,
    Ask,
    Open,
    Deny,
}

fn policy(rules: Rules, interactive: bool) -> Policy {
    Policy {
        permission_check: Arc::new(move |_, _, granted| {
            let bash = Rule::parse("Bash").expect("it is there");
            let why = "the rules ask".to_string();
            Judgement {
                decision: match rules {
                    Rules::Allow => Decision::Allow,
                    Rules::Open if granted.contains(&bash) => Decision::Allow,
                    Rules::Ask | Rules::Open => Decision::Ask { why, rule: None },
                    Rules::Deny => Decision::Deny {
                        reason: "the rules deny".into(),
                    },
                },
                access: Some(Access::Workspace),
            }
        }),
        served_check: Arc::new(|_| Ok(())),
        interactive,
        background: Default::default(),
        sandbox: Default::default(),
        checks: Vec::new(),
        max_turns: None,
        loop_guard: true,
        budget: Arc::new(|_, _, _| Budget::new(100_000, 1_000, None)),
        windows: windows(&Default::default()),
        price: Arc::new(|_, _| None),
    }
}

const CALL: CallId = CallId { reply: 2, index: 0 };

fn run(name: &str) -> HookRun {
    HookRun {
        hook: name.into(),
        call: Some(CALL),
        run: name.into(),
        boot: "b".into(),
        is_of_user: false,
        may_fail: false,
        failed: None,
    }
}

/// A session with one command and guards with these verdicts. `None`: they have not ended.
fn state(verdicts: &[HookVerdict], have_ended: bool) -> State {
    let mut entries = vec![
        Entry::Opened {
            folder: "/w".into(),
            version: "0".into(),
            model: "s/m".into(),
            mode: Mode::BypassPermissions,
            layers: PromptPrefix {
                tools: vec![ToolSpec {
                    name: "bash".into(),
                    description: String::new(),
                    schema: serde_json::json!({}),
                }],
                ..PromptPrefix::default()
            },
            imported: None,
        },
        Entry::Said {
            text: "go".into(),
            images: vec![],
            via: Via::Prompt,
            command: None,
            origin: None,
        },
        Entry::Replied {
            blocks: vec![Block::call("bash", r#"{"command":"make"}"#)],
            usage: Usage::default(),
            stop: StopReason::ToolUse,
            model: "s/m".into(),
            took_ms: 0,
            asked_bytes: 0,
            source_usage: None,
        },
        Entry::Hooking {
            event: HookEvent::PreToolUse,
            of: 2,
            runs: verdicts.iter().map(|_| run("guard")).collect(),
        },
    ];
    if have_ended {
        entries.push(Entry::Hooked {
            event: HookEvent::PreToolUse,
            of: 3,
            call: Some(CALL),
            results: verdicts
                .iter()
                .map(|verdict| HookResult {
                    is_brief: true,
                    hook: "guard".into(),
                    verdict: *verdict,
                    reason: "the hook".into(),
                    is_of_user: true,
                    ..HookResult::default()
                })
                .collect(),
        });
    }
    let mut state = State::new(describe);
    for entry in entries {
        let seq = state.next_seq();
        state
            .fold(&Record {
                seq,
                at_ms: 0,
                entry,
            })
            .expect("it is there");
    }
    state
}

#[derive(Debug, PartialEq, Eq)]
enum Decided {
    Runs,
    Asks,
    Denied,
}

fn decided(state: &State, policy: &Policy) -> Decided {
    match authorize(state, policy, state.call(CALL).expect("it is there")) {
        Authorization::Run { .. } => Decided::Runs,
        Authorization::Ask { .. } => Decided::Asks,
        Authorization::Close(Outcome::Denied { .. }) => Decided::Denied,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_strictest_of_hooks_and_rules_wins() {
    use Decided::{Asks, Denied, Runs};
    use HookVerdict as V;
    let verdicts = [V::None, V::Allow, V::Ask, V::Failed, V::Deny];
    // By verdict: what the rules allow, ask about, leave open and deny.
    let table = [
        [Runs, Asks, Asks, Denied],
        [Runs, Asks, Runs, Denied],
        [Asks, Asks, Asks, Denied],
        [Asks, Asks, Asks, Denied],
        [Denied, Denied, Denied, Denied],
    ];
    for (verdict, row) in verdicts.iter().zip(table) {
        for (rules, want) in [Rules::Allow, Rules::Ask, Rules::Open, Rules::Deny]
            .iter()
            .zip(row)
        {
            let state = state(&[*verdict], true);
            let got = decided(&state, &policy(*rules, true));
            assert_eq!(got, want, "{verdict:?} {rules:?}");
            // Nobody is there to be asked.
            let alone = decided(&state, &policy(*rules, false));
            let want = if want == Asks { Denied } else { want };
            assert_eq!(alone, want, "{verdict:?} {rules:?}");
        }
    }
    for first in verdicts {
        for second in verdicts {
            let both = decided(&state(&[first, second], true), &policy(Rules::Open, true));
            let strictest = decided(
                &state(&[first.max(second)], true),
                &policy(Rules::Open, true),
            );
            assert_eq!(both, strictest, "{first:?} {second:?}");
        }
    }
}

#[test]
fn a_call_waits_for_its_guards_whatever_a_person_says() {
    let state = state(&[HookVerdict::Allow], false);
    let policy = policy(Rules::Allow, true);
    let open = state.call(CALL).expect("it is there");
    assert_eq!(authorize(&state, &policy, open), Authorization::AwaitHooks);
    let step = next(&state, &policy, &Pending::default());
    assert_eq!(
        step,
        Step::RunHooks {
            hooking: 3,
            calls: vec![Some(CALL)]
        }
    );
    let decided = Entry::Decided {
        call: CALL,
        verdict: Verdict::Allow,
        by: By::Person,
        access: None,
        at: None,
        rule: None,
        origin: None,
    };
    let started = Entry::Started {
        call: CALL,
        guard: Guard::Supervised {
            run: "r".into(),
            boot: "b".into(),
            background: false,
        },
        access: None,
    };
    for entry in [decided, started] {
        let why = state.check(&entry).expect_err("refused").why;
        assert!(why.contains("hooks of call 2.0 have not ended"), "{why}");
    }
}

/// A person's yes counts after a guard's question, and never against its no.
#[test]
fn a_person_answers_the_question_of_a_guard() {
    for (verdict, want) in [
        (HookVerdict::Failed, Decided::Runs),
        (HookVerdict::Ask, Decided::Runs),
        (HookVerdict::Deny, Decided::Denied),
    ] {
        let mut state = state(&[verdict], true);
        let seq = state.next_seq();
        let entry = Entry::Decided {
            call: CALL,
            verdict: Verdict::Allow,
            by: By::Person,
            access: Some(Access::Workspace),
            at: None,
            rule: None,
            origin: None,
        };
        state
            .fold(&Record {
                seq,
                at_ms: 0,
                entry,
            })
            .expect("it is there");
        let policy = policy(Rules::Allow, true);
        assert_eq!(decided(&state, &policy), want, "{verdict:?}");
        if want == Decided::Runs {
            assert_eq!(
                still_allowed(&state, &policy, state.call(CALL).expect("it is there")),
                Ok(())
            );
        }
    }
}

/// A session in which these messages were said, each with a guard that has this verdict.
fn said(verdicts: &[HookVerdict]) -> Vec<Entry> {
    let mut entries = vec![Entry::Opened {
        folder: "/w".into(),
        version: "0".into(),
        model: "s/m".into(),
        mode: Mode::Default,
        layers: PromptPrefix::default(),
        imported: None,
    }];
    for verdict in verdicts {
        let of = entries.len() as Seq;
        entries.push(Entry::Said {
            text: format!("message {of}"),
            images: vec![],
            via: Via::Prompt,
            command: None,
            origin: None,
        });
        entries.push(Entry::Hooking {
            event: HookEvent::UserPromptSubmit,
            of,
            runs: vec![HookRun {
                call: None,
                ..run("guard")
            }],
        });
        entries.push(Entry::Hooked {
            event: HookEvent::UserPromptSubmit,
            of: of + 1,
            call: None,
            results: vec![HookResult {
                is_brief: true,
                hook: "guard".into(),
                verdict: *verdict,
                ..HookResult::default()
            }],
        });
        if *verdict == HookVerdict::Failed {
            entries.push(Entry::Failed {
                error: Failure {
                    class: FailureClass::Hook,
                    message: "the guard failed".into(),
                    hint: None,
                },
                draft: None,
            });
        }
    }
    entries
}

fn folded(entries: &[Entry]) -> State {
    let mut state = State::new(describe);
    for entry in entries {
        let seq = state.next_seq();
        let entry = entry.clone();
        state
            .fold(&Record {
                seq,
                at_ms: 0,
                entry,
            })
            .expect("it is there");
    }
    state
}

/// The messages that a request would have.
fn sent(state: &State) -> Vec<String> {
    let said = state
        .context
        .iter()
        .filter_map(|record| match &record.entry {
            Entry::Said { text, .. } => Some(text.clone()),
            _ => None,
        });
    said.collect()
}

#[test]
fn a_message_that_a_guard_did_not_let_pass_is_not_sent_with_the_next() {
    use HookVerdict::{Deny, Failed, None};
    for (verdicts, want) in [
        (&[None, None][..], &["message 1", "message 4"][..]),
        (&[Deny], &[]),
        (&[None, Deny], &["message 1"]),
        (&[Failed], &["message 1"]),
        (&[Failed, None], &["message 5"]),
    ] {
        let state = folded(&said(verdicts));
        assert_eq!(sent(&state), want, "{verdicts:?}");
        let pending = Pending {
            recalled: recall_point(&state),
            ..Pending::default()
        };
        let is_sent = next(&state, &policy(Rules::Allow, true), &pending);
        let waits = *verdicts == [Deny] || verdicts.last() == Some(&Failed);
        assert_eq!(is_sent != Step::CallModel, waits, "{verdicts:?}");
    }
    // A person says so: then it goes out.
    let resumed = |by| Entry::Resumed {
        by,
        found: String::new(),
        draft: Option::None,
        unrecorded: false,
        at_work: false,
    };
    for (by, is_halted) in [(By::Start, true), (By::Person, false)] {
        let state = folded(&[said(&[Failed]), vec![resumed(by)]].concat());
        assert_eq!(state.halted.is_some(), is_halted, "{by:?}");
        assert_eq!(sent(&state), ["message 1"]);
    }
}

#[test]
fn a_start_that_only_runs_its_hooks_makes_no_progress() {
    let mut entries = said(&[HookVerdict::None]);
    for _ in 0..3 {
        let of = entries.len() as Seq;
        entries.push(Entry::Resumed {
            by: By::Start,
            found: String::new(),
            draft: None,
            unrecorded: false,
            at_work: false,
        });
        entries.push(Entry::Hooking {
            event: HookEvent::SessionStart,
            of,
            runs: vec![HookRun {
                call: None,
                ..run("context")
            }],
        });
        entries.push(Entry::Hooked {
            event: HookEvent::SessionStart,
            of: of + 1,
            call: None,
            results: vec![HookResult::default()],
        });
    }
    assert_eq!(folded(&entries).restarts, 3);
}

/// A fork at a message begins without the guard's answer, and asks for it again.
#[test]
fn a_fork_has_its_messages_judged_again() {
    let forked = Entry::Forked {
        from: ForkPoint {
            session: "s".into(),
            seq: 2,
        },
        folder: None,
        from_replica: None,
    };
    let all = said(&[HookVerdict::Deny]);
    for length in [2, 3] {
        let state = folded(&[&all[..length], std::slice::from_ref(&forked)].concat());
        let unjudged: Vec<Seq> = state.unjudged_messages().map(|record| record.seq).collect();
        assert_eq!(unjudged, [1], "{length}");
    }
}
