//! `rewake approvals`: the open questions of all sessions, and how to answer them.

use std::time::Duration;

use clap::Args;

use crate::core::form::{RequestedAnswer, ServerQuestion, takes};
use crate::core::policy::Sandbox;
use crate::core::text::session_name;
use crate::core::visible::visible;
use crate::report::{CliError, exit, is_written, note, raw};
use crate::session::{AppContext, FoldCache, Question, ago, now_ms, sandbox, short_id};
use crate::ui::call_in_words;

/// Interval for checking for new questions.
const LOOK: Duration = Duration::from_millis(200);
#[cfg(feature = "fleet")]
const LOOK_SHARED: Duration = Duration::from_secs(1);

/// List open questions of all sessions and how to answer them
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct ApprovalsArgs {
    /// List those of the shared database
    #[cfg(feature = "fleet")]
    #[arg(long)]
    pub shared: bool,
    /// Keep running and print each new question
    #[arg(long)]
    pub watch: bool,
    /// Print a JSON array (with --watch: one JSON object a line)
    #[arg(long)]
    pub json: bool,
}

/// Prints the questions, oldest first.
pub(super) fn run(ctx: &AppContext, args: &ApprovalsArgs) -> Result<u8, CliError> {
    let store = super::open_store(ctx)?;
    let mut version = None;
    print_each(ctx, args, LOOK, || {
        let now = store.inbox().data_version()?;
        if version.replace(now) == Some(now) {
            return Ok(None);
        }
        let (questions, unread) = ctx.steering().questions(&store, &FoldCache::default())?;
        let unread = unread.iter().map(ToString::to_string).collect();
        Ok(Some((questions, unread)))
    })
}

/// Prints the questions in the shared database, oldest first.
#[cfg(feature = "fleet")]
pub(super) fn run_shared(ctx: &AppContext, args: &ApprovalsArgs) -> Result<u8, CliError> {
    print_each(ctx, args, LOOK_SHARED, || {
        let (questions, unread) = super::shared::questions(ctx)?;
        let unread = unread.into_iter().map(|error| error.message).collect();
        Ok(Some((questions, unread)))
    })
}

/// The open questions, and the errors of sessions that cannot be read.
type Found = (Vec<Question>, Vec<String>);

/// Prints each question once. `look` returns `None` if nothing changed.
fn print_each(
    ctx: &AppContext,
    args: &ApprovalsArgs,
    pause: Duration,
    mut look: impl FnMut() -> Result<Option<Found>, CliError>,
) -> Result<u8, CliError> {
    let (watch, json) = (args.watch, args.json);
    let mut known: Vec<(String, u64)> = Vec::new();
    loop {
        if let Some((questions, unread)) = look()? {
            for error in unread.iter().filter(|_| known.is_empty()) {
                note(&format!("a session cannot be read: {error}"));
            }
            let place = |q: &Question| (q.session.id.clone(), q.asked.seq);
            let new = questions.iter().filter(|q| !known.contains(&place(q)));
            let sandbox = sandbox::given(ctx);
            print(new, &sandbox, json && !watch, json);
            // The error is reported at the end of the program.
            if !is_written() {
                return Ok(exit::DONE);
            }
            known = questions.iter().map(place).collect();
        }
        if !watch {
            if known.is_empty() && !json {
                note("no open questions");
            }
            return Ok(exit::DONE);
        }
        std::thread::sleep(pause);
    }
}

fn print<'a>(
    questions: impl Iterator<Item = &'a Question>,
    sandbox: &Sandbox,
    as_list: bool,
    json: bool,
) {
    let print_line = |text: String| raw(format!("{text}\n").as_bytes());
    match (as_list, json) {
        (true, _) => {
            let all: Vec<_> = questions.map(|q| q.to_json(sandbox)).collect();
            print_line(serde_json::Value::Array(all).to_string());
        }
        (false, true) => questions
            .map(|question| question.to_json(sandbox))
            .for_each(|question| print_line(question.to_string())),
        (false, false) => questions
            .map(|question| in_words(question, sandbox))
            .for_each(print_line),
    }
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
    let live = match is_live {
        true => "",
        false => " · nobody works in it",
    };
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
