//! `rewake approvals`: the open questions of all sessions, and how to answer them.

use std::time::Duration;

use clap::Args;

use super::shared::{SharedCommand, SharedFlag};
use crate::core::form::{RequestedAnswer, ServerQuestion, takes};
use crate::core::policy::Sandbox;
use crate::core::text::session_name;
use crate::core::visible::visible;
use crate::report::{CliError, exit, is_written, note, raw};
use crate::session::{
    AppContext, FoldCache, Question, SessionError, ago, now_ms, remote, sandbox, short_id,
};
use crate::ui::call_in_words;

/// Interval for checking for new questions.
const LOOK: Duration = Duration::from_millis(200);
const LOOK_SHARED: Duration = Duration::from_secs(1);

/// List open questions of all sessions and how to answer them
#[derive(Debug, Clone, PartialEq, Args)]
#[command(shared_flag("List those of the shared database", &[]))]
pub(crate) struct ApprovalsArgs {
    #[command(flatten)]
    pub shared: SharedFlag,
    /// Keep running and print each new question
    #[arg(long)]
    pub watch: bool,
    /// Print a JSON array (with --watch: one JSON object a line)
    #[arg(long)]
    pub json: bool,
}

/// Prints the questions, oldest first.
pub(super) fn run(ctx: &AppContext, args: &ApprovalsArgs) -> Result<u8, CliError> {
    if args.shared.is_given() {
        return print_each(ctx, args, LOOK_SHARED, |give| {
            remote::each_questions(ctx, give)?;
            Ok(true)
        });
    }
    let store = super::open_store(ctx)?;
    let mut version = None;
    print_each(ctx, args, LOOK, |give| {
        let now = store.inbox().data_version()?;
        if version.replace(now) == Some(now) {
            return Ok(false);
        }
        let (questions, unread) = ctx.steering().questions(&store, &FoldCache::default())?;
        unread.into_iter().for_each(|error| give(Err(error)));
        give(Ok(questions));
        Ok(true)
    })
}

/// Takes the open questions of some sessions, or the error of one that cannot be read.
type Give<'a> = &'a mut dyn FnMut(Result<Vec<Question>, SessionError>);

/// Prints each question once. `look` returns false if nothing changed.
fn print_each(
    ctx: &AppContext,
    args: &ApprovalsArgs,
    pause: Duration,
    mut look: impl FnMut(Give<'_>) -> Result<bool, CliError>,
) -> Result<u8, CliError> {
    let as_list = args.json && !args.watch;
    let sandbox = sandbox::given(ctx);
    let mut known: Vec<(String, u64)> = Vec::new();
    loop {
        let mut found = Vec::new();
        let is_new = look(&mut |questions| match questions {
            Ok(questions) => questions.iter().for_each(|question| {
                let place = (question.session.id.clone(), question.asked.seq);
                if !known.contains(&place) {
                    print(question, &sandbox, args, found.is_empty());
                }
                found.push(place);
            }),
            Err(error) if known.is_empty() => {
                note(&format!("a session cannot be read: {error}"));
            }
            Err(_) => {}
        })?;
        if is_new {
            if as_list {
                raw(if found.is_empty() { b"[]\n" } else { b"]\n" });
            }
            // The error is reported at the end of the program.
            if !is_written() {
                return Ok(exit::DONE);
            }
            known = found;
        }
        if !args.watch {
            if known.is_empty() && !args.json {
                note("no open questions");
            }
            return Ok(exit::DONE);
        }
        std::thread::sleep(pause);
    }
}

fn print(question: &Question, sandbox: &Sandbox, args: &ApprovalsArgs, is_first: bool) {
    let text = match args.json {
        true => question.to_json(sandbox).to_string(),
        false => in_words(question, sandbox),
    };
    let (begin, end) = match (args.json && !args.watch, is_first) {
        (false, _) => ("", "\n"),
        (true, true) => ("[", ""),
        (true, false) => (",", ""),
    };
    raw(format!("{begin}{text}{end}").as_bytes());
}

/// Returns the complete text of a question: a person must see everything before allowing it.
fn in_words(question: &Question, sandbox: &Sandbox) -> String {
    let Question {
        session,
        call,
        asked,
        form,
        is_live,
    } = question;
    let id = short_id(&session.id);
    let title = session_name(session.title.as_deref());
    let live = if *is_live { "" } else { " · not running" };
    let mut lines = vec![format!(
        "{id} asks about call {}, {} ago · {title} · {}{live}",
        call.id,
        ago(now_ms() - asked.at_ms),
        session.folder,
    )];
    lines.extend(
        call_in_words(call)
            .into_iter()
            .map(|line| format!("  {line}")),
    );
    if let Some(form) = form {
        lines.extend(form_in_words(form));
        lines.push(format!(
            "  rewake answer {id} {call} --value NAME=VALUE … (or --accept)  ·  --decline  ·  --cancel",
            call = call.id
        ));
        return visible(&lines.join("\n")).into_owned();
    }
    lines.push(format!("  why it asks: {}", asked.why));
    if let Some(access) = asked.access {
        let told = sandbox.describe(access);
        lines.push(format!("  {}", told.named(told.long)));
    }
    if let Some(at) = &asked.at {
        lines.push(format!("  leads to {at}"));
    }
    lines.push(format!(
        "  rewake allow {id} {call}  ·  rewake deny {id} {call} \"why\"",
        call = call.id
    ));
    visible(&lines.join("\n")).into_owned()
}

/// Returns the question of a server as lines: its text, and each field with the values it accepts.
fn form_in_words(question: &ServerQuestion) -> Vec<String> {
    let mut lines = vec![format!("  {} asks:", question.the_asker())];
    let said = question.message.lines();
    lines.extend(said.map(|line| format!("  │ {line}")));
    match &question.wanted {
        RequestedAnswer::Visit { url } => {
            lines.push(format!("  whether this address is visited: {url}"))
        }
        RequestedAnswer::Form { fields } => lines.extend(fields.iter().map(|field| {
            let required = if field.is_required { ", required" } else { "" };
            let default = field.default.as_ref();
            let default = default.map_or(String::new(), |value| format!(", else {value}"));
            let words = [field.title.as_str(), field.description.as_str()];
            let words: Vec<&str> = words.into_iter().filter(|w| !w.is_empty()).collect();
            let words = match words.is_empty() {
                true => String::new(),
                false => format!(" · {}", words.join(": ").replace('\n', " ")),
            };
            let takes = takes(&field.kind);
            format!("  {}: {takes}{required}{default}{words}", field.name)
        })),
    }
    lines
}
