//! A session of the version before: its prompt and its plan are those of that version.

use std::sync::{Arc, Mutex};

use rewake::core::entry::{
    Block, CallId, Entry, Fact, Mode, Outcome, Plan, PlanStep, PromptPrefix, StepState, StopReason,
    ToolSpec, Usage, Via,
};
use rewake::store::{Batch, NewSession, Store, new_id};
use serde_json::{Value, json};

use crate::cli::streamed;
use support::{Answer, Home, Protocol, Says, Seen, Server};

const MODEL: &str = "local/test-model";
const OLD_PROMPT: &str = "You are rewake.\n- For work of several steps, keep `plan` true.\n\n<environment>\nmode: default\nuser: cannot be asked\ncommands: sandboxed; unasked: access read (acceptEdits: workspace; bypassPermissions: full; plan: only read)\n</environment>";

fn old_tool() -> ToolSpec {
    let state = json!({"type": "string", "enum": ["done", "current", "left"]});
    let step = json!({
        "type": "object", "properties": {"text": {"type": "string"}, "state": state},
        "required": ["text", "state"],
    });
    ToolSpec {
        name: "plan".into(),
        description: "Keep the task list; each call replaces the whole.".into(),
        schema: json!({
            "type": "object", "properties": {"steps": {"type": "array", "items": step}},
            "required": ["steps"],
        }),
    }
}

/// As the version before wrote it: a plan with its names of the statuses.
fn old_session(home: &Home) -> String {
    let folder = home.workspace().canonicalize().unwrap();
    let folder = folder.to_str().unwrap().to_string();
    let new = NewSession {
        id: new_id(),
        workspace: folder.clone(),
        folder: folder.clone(),
    };
    let opened = Entry::Opened {
        folder,
        version: env!("CARGO_PKG_VERSION").into(),
        model: MODEL.into(),
        mode: Mode::Default,
        layers: PromptPrefix {
            system: OLD_PROMPT.into(),
            tools: vec![old_tool()],
            instructions: String::new(),
        },
        imported: None,
    };
    let said = Entry::Said {
        text: "mend the parser".into(),
        images: vec![],
        via: Via::Prompt,
        command: None,
        origin: None,
    };
    let replied = |blocks, stop| Entry::Replied {
        blocks,
        usage: Usage::default(),
        stop,
        model: MODEL.into(),
        took_ms: 1,
        asked_bytes: 100,
        source_usage: None,
    };
    let old_call = r#"{"steps":[{"text":"mend it","state":"current"}]}"#;
    let plan = Plan {
        steps: vec![PlanStep {
            text: "mend it".into(),
            state: StepState::Current,
        }],
        goals: vec![],
    };
    let entries = vec![
        said,
        replied(vec![Block::call("plan", old_call)], StopReason::ToolUse),
        Entry::Finished {
            call: CallId { reply: 2, index: 0 },
            outcome: Outcome::done("plan: 0 done, 1 current, 0 left"),
            fact: Some(Fact::Planned { plan }),
            tree: None,
        },
        replied(
            vec![Block::text("Half of it is done.")],
            StopReason::EndTurn,
        ),
    ];
    let mut store = Store::open(&home.rewake_home()).unwrap();
    let (mut head, _) = store.create(&new, 1_000, opened).unwrap();
    let batch = Batch {
        at_ms: 2_000,
        entries,
        ..Batch::default()
    };
    store.append(&mut head, &batch).unwrap();
    new.id
}

#[test]
fn a_session_of_the_version_before_continues_with_its_prompt_and_its_plan() {
    let steps = |state: &str| json!({"steps": [{"text": "mend it", "state": state}]});
    let requests = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&requests);
    let server = Server::start(move |seen: &Seen| {
        hears.lock().unwrap().push(Arc::clone(&seen.json));
        match seen.turn {
            // The old session has two answers.
            2 => Answer::from(Says::default().and_call("plan", steps("done"))),
            _ => Answer::from(Says::text("done")),
        }
    });
    let home = Home::with(&server, Protocol::Anthropic);
    let id = old_session(&home);
    let run = streamed(
        &home,
        &["-p", "-r", &id, "go on", "--permission-mode", "plan"],
    );
    let run = run.expect(0);
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 2);
    for body in requests.iter() {
        let system = body["system"].to_string();
        let old = json!(OLD_PROMPT).to_string();
        assert!(system.contains(old.trim_matches('"')), "{system}");
        let tools = body["tools"].as_array().unwrap();
        assert_eq!(tools.len(), 1);
        assert_eq!(tools[0]["input_schema"], old_tool().schema);
        let messages = body["messages"].to_string();
        // What was sent is sent again, and the mode is a note behind it.
        assert!(
            messages.contains("plan: 0 done, 1 current, 0 left"),
            "{messages}"
        );
        assert!(
            messages.contains("the mode is plan now\\nedits: are denied"),
            "{messages}"
        );
    }
    let rendered = run.events();
    assert!(rendered.iter().all(|e| e["type"] != "entry.rendered"));
    let planned: Vec<&Value> = rendered
        .iter()
        .filter(|e| e["fact"]["fact"] == "planned")
        .map(|e| &e["fact"]["plan"])
        .collect();
    assert_eq!(planned, [&steps("done")]);
    server.assert_no_violations();
}
