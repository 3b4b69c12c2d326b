//! `rewake hooks test`: runs the hooks that match an event, and shows what they answer. No call
//! follows. Hooks that are not trusted do not run.

use clap::Args;
use serde_json::{Value, json};

use crate::core::entry::{
    Block, CallId, Entry, HookEvent, HookVerdict, Mode, Outcome, PromptPrefix, Record, StopReason,
    Usage, Via,
};
use crate::core::hook::CallGuards;
use crate::core::state::State;
use crate::report::{CliError, exit, line, note};
use crate::session::hook_list::in_words;
use crate::session::{AppContext, hooks, now_ms};
use crate::store::new_id;
use crate::tools::{call_of_hook, describe};
use crate::workspace::hooks::HookState;
use crate::world::HookOccasion;

/// The arguments of `rewake hooks test`.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct TestArgs {
    /// Event, such as PreToolUse
    #[arg(value_name = "EVENT")]
    pub event: String,
    /// Tool of the call, such as Bash
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Arguments of the call as hooks read them, or the prompt
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(ctx: &AppContext, args: &TestArgs) -> Result<u8, CliError> {
    let event = HookEvent::ALL.into_iter().find(|e| e.name() == args.event);
    let Some(event) = event else {
        let names = HookEvent::ALL.map(HookEvent::name).join(", ");
        return Err(
            CliError::usage(format!("there is no event {:?}", args.event))
                .with_hint(format!("the events are {names}")),
        );
    };
    let (state, entry, call) = situation(ctx, event, args)?;
    let found = hooks::hooks(ctx, &ctx.here.folder)?;
    let untrusted = found
        .hooks
        .iter()
        .filter(|hook| hook.definition.event == event && hook.state == HookState::Untrusted);
    for hook in untrusted {
        note(&format!(
            "not run, because it is not trusted: {}",
            hook.name()
        ));
    }
    let hooks = hooks::hooks_to_test(ctx, &new_id(), found.hooks)?;
    let of = state.next_seq().saturating_sub(1);
    let occasion = HookOccasion {
        matched: match event {
            HookEvent::SessionStart => "startup",
            HookEvent::PreCompact => "manual",
            HookEvent::Notification => "permission_prompt",
            HookEvent::SessionEnd => "other",
            _ => "",
        },
        ..HookOccasion::of(event, of, &entry, call)
    };
    let runs = hooks.prepare_all(&occasion, &state);
    let described = call
        .and_then(|id| state.call(id))
        .map(|open| open.call.clone());
    let runtime = crate::net::runtime().map_err(|error| CliError::failed(error.to_string()))?;
    let end = runtime.block_on(hooks.run_alone(event, &runs, described.as_ref()));
    if args.json {
        line(&json!({ "event": event.name(), "results": end.results }).to_string());
        return Ok(exit::DONE);
    }
    for result in &end.results {
        line(&format!("{}: {}", result.hook, in_words(result)));
        if let Some(input) = &result.input {
            line(&format!("  changes the arguments to {input}"));
        }
        if let Some(context) = &result.context {
            line(&format!("  the model reads: {}", context.text));
        }
        if let Some(message) = &result.message {
            line(&format!("  message: {message}"));
        }
    }
    if end.results.is_empty() {
        note("no hook matches");
    }
    if event.is_guard() {
        let guards = CallGuards::of(end.results);
        line(&format!("verdict: {}", decided(&guards)));
    }
    Ok(exit::DONE)
}

fn decided(guards: &CallGuards) -> String {
    match guards.verdict() {
        (HookVerdict::None, _) => "none: the rules decide".to_string(),
        (HookVerdict::Allow, _) => "allow, as far as no rule denies or asks".to_string(),
        (HookVerdict::Ask | HookVerdict::Failed, why) => format!("ask: {why}"),
        (HookVerdict::Deny, why) => format!("deny: {why}"),
    }
}

/// Returns a session in which the event occurs: its state, the entry that the event follows, and
/// the call that it is about.
fn situation(
    ctx: &AppContext,
    event: HookEvent,
    args: &TestArgs,
) -> Result<(State, Entry, Option<CallId>), CliError> {
    let input: Value = match &args.input {
        Some(text) => serde_json::from_str(text)
            .map_err(|error| CliError::usage(format!("--input is not valid JSON: {error}")))?,
        None => json!({}),
    };
    let is_about_call = event.decides_about_call()
        || matches!(
            event,
            HookEvent::PostToolUse | HookEvent::PostToolUseFailure
        );
    if is_about_call != args.tool.is_some() {
        let name = event.name();
        return Err(CliError::usage(match is_about_call {
            true => format!("{name} is about a call: name its tool with --tool"),
            false => format!("{name} is about no call, so --tool has no meaning"),
        }));
    }
    let prompt = match (&input["prompt"], &input) {
        (Value::String(prompt), _) | (_, Value::String(prompt)) => prompt.clone(),
        _ => "a prompt".to_string(),
    };
    let mut entries = vec![
        Entry::Opened {
            folder: ctx.here.folder.to_string_lossy().into_owned(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            model: "test/model".to_string(),
            mode: Mode::Default,
            layers: PromptPrefix::default(),
            imported: None,
        },
        Entry::Said {
            text: prompt,
            images: Vec::new(),
            via: Via::Prompt,
            command: None,
            origin: None,
        },
    ];
    let call = args.tool.as_ref().map(|tool| {
        let (name, arguments) = call_of_hook(tool, &input);
        entries.push(replied(vec![Block::call(&name, &arguments)]));
        CallId { reply: 2, index: 0 }
    });
    if let Some(call) = call.filter(|_| !event.decides_about_call()) {
        entries.push(Entry::Finished {
            call,
            outcome: match event {
                HookEvent::PostToolUse => Outcome::done("done"),
                _ => Outcome::error("failed"),
            },
            fact: None,
            tree: None,
        });
    }
    if matches!(event, HookEvent::Stop | HookEvent::SubagentStop) {
        entries.push(replied(vec![Block::text("done")]));
    }
    let last = entries.last().cloned();
    let mut state = State::new(describe);
    for entry in entries {
        // The result of a call that never started is not legal in a log, and only shown to hooks.
        let record = Record {
            seq: state.next_seq(),
            at_ms: now_ms(),
            entry,
        };
        if let Err(illegal) = state.fold(&record)
            && !matches!(record.entry, Entry::Finished { .. })
        {
            return Err(CliError::failed(illegal.to_string()));
        }
    }
    if let Some(open) = call.and_then(|id| state.call(id))
        && let Err(why) = &open.call.described
    {
        return Err(CliError::usage(format!(
            "--input does not fit the tool: {why}"
        )));
    }
    match last {
        Some(last) => Ok((state, last, call)),
        None => Err(CliError::failed("there is no entry")),
    }
}

fn replied(blocks: Vec<Block>) -> Entry {
    Entry::Replied {
        blocks,
        usage: Usage::default(),
        stop: StopReason::EndTurn,
        model: "test/model".to_string(),
        took_ms: 0,
        asked_bytes: 0,
        source_usage: None,
    }
}
