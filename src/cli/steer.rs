//! `rewake send`, `stop`, `pause`, `unblock`, `set`, `approvals`, `allow`, `deny`, `answer`: a session is steered from
//! another process, whether somebody works in it or not.

use std::io::Read;
use std::time::Duration;

use super::answer::AnswerArgs;
use super::run::STDIN_MAX_BYTES;
use super::steer_args::{SendArgs, SetArgs, Steer};
use crate::core::entry::{By, CallId, Image, Verdict, Via};
use crate::core::form::{ServerQuestion, Wanted, takes};
use crate::core::policy::Sandbox;
use crate::core::visible::visible;
use crate::headless::{self, Ask, Format, Task};
use crate::report::{Trouble, exit, is_written, note, raw};
use crate::session::{
    AppContext, Order, Question, Sending, SessionError, SteerError, Which, ago, now_ms, read_image,
    sandbox, short_id,
};
use crate::store::{Message, SessionInfo, Store, StoreError, blob_ref};
use crate::ui::call_in_words;

/// Who signals of these subcommands come from, as entries say it.
const ORIGIN: &str = "cli";

/// How often it is looked for new questions.
const LOOK: Duration = Duration::from_millis(200);

impl From<SteerError> for Trouble {
    fn from(error: SteerError) -> Trouble {
        match error {
            SteerError::Session(error) => error.into(),
            SteerError::Refused { what, hint, .. } => {
                Trouble::new(exit::USAGE, what).with_hint(hint)
            }
        }
    }
}

pub(super) fn run(ctx: &AppContext, steer: Steer) -> Result<u8, Trouble> {
    if let Steer::Asks { watch, json } = steer {
        return asks(ctx, watch, json);
    }
    ctx.may_steer()?;
    let mut store = super::open_store(ctx)?;
    match steer {
        Steer::Send(args) => send(ctx, store, args),
        Steer::Stop { id } => order(ctx, &mut store, &id, Order::Stop),
        Steer::Pause { id } => order(ctx, &mut store, &id, Order::Pause),
        Steer::Go { id } => order(ctx, &mut store, &id, Order::GoOn),
        Steer::Set(args) => set(ctx, &mut store, &args),
        Steer::Answer { id, call, verdict } => answer(ctx, &mut store, &id, call, verdict),
        Steer::AnswerServer(args) => answer_server(ctx, &mut store, &args),
        Steer::Asks { .. } => Ok(exit::DONE),
    }
}

fn send(ctx: &AppContext, mut store: Store, args: SendArgs) -> Result<u8, Trouble> {
    let info = ctx.meant(&store, &args.id)?;
    let text = text(&args.text)?;
    let (mut images, mut blobs) = (Vec::new(), Vec::new());
    for path in &args.image {
        let (media_type, bytes) = read_image(path).map_err(|why| Trouble::new(exit::USAGE, why))?;
        images.push(Image {
            media_type: media_type.to_string(),
            blob: blob_ref(&bytes),
        });
        blobs.push(bytes);
    }
    let message = Message {
        text,
        images,
        via: Via::Signal,
        command: None,
        origin: None,
    };
    let sending = ctx
        .send(&mut store, &info.id, message, &blobs, ORIGIN)?
        .sending;
    drop(store);
    match (sending, args.start) {
        (Sending::Kept, true) => start(ctx, &info),
        _ => Ok(said(&info, sending)),
    }
}

/// Goes on with a session in which nobody works. Who was quicker has the words.
fn start(ctx: &AppContext, info: &SessionInfo) -> Result<u8, Trouble> {
    let which = Which::Named {
        id: info.id.clone(),
        fork: false,
    };
    let session = match ctx.open(&which, false) {
        Ok(session) => session,
        Err(SessionError::Store(StoreError::Held { .. })) => {
            return Ok(said(info, Sending::Heard));
        }
        Err(error) => return Err(error.into()),
    };
    let task = Task {
        prompt: None,
        command: None,
        named: None,
        format: Format::Text,
        by: By::Person,
        schema: None,
        ask: Ask::Deny,
    };
    Ok(headless::run(ctx, session, task))
}

/// The words of the arguments, with `-` for what stdin has.
fn text(words: &[String]) -> Result<String, Trouble> {
    let mut parts = Vec::new();
    for word in words {
        match word.as_str() {
            "-" => parts.push(stdin()?),
            word => parts.push(word.to_string()),
        }
    }
    Ok(parts.join("\n\n"))
}

fn stdin() -> Result<String, Trouble> {
    let mut bytes = Vec::new();
    // One more than may be sent: that it is too long is said there.
    std::io::stdin()
        .lock()
        .take(STDIN_MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Trouble::new(exit::FAILED, format!("cannot read stdin: {e}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn order(ctx: &AppContext, store: &mut Store, id: &str, order: Order) -> Result<u8, Trouble> {
    let info = ctx.meant(store, id)?;
    let sending = ctx.steer(store, &info, order, ORIGIN)?.sending;
    Ok(said(&info, sending))
}

fn set(ctx: &AppContext, store: &mut Store, args: &SetArgs) -> Result<u8, Trouble> {
    let signals = args.signals();
    if signals.is_empty() {
        return Err(
            Trouble::new(exit::USAGE, "there is nothing to set").with_hint(
                "--model, --mode, --effort, --temperature, --turns, --usd or --no-limits says what",
            ),
        );
    }
    let info = ctx.meant(store, &args.id)?;
    let mut sending = Sending::Kept;
    for signal in signals {
        sending = ctx
            .steer(store, &info, Order::Signal(signal), ORIGIN)?
            .sending;
    }
    Ok(said(&info, sending))
}

fn answer(
    ctx: &AppContext,
    store: &mut Store,
    id: &str,
    call: Option<CallId>,
    verdict: Verdict,
) -> Result<u8, Trouble> {
    let info = ctx.meant(store, id)?;
    let what = match verdict {
        Verdict::Allow => "allowed",
        Verdict::Deny { .. } => "denied",
    };
    let (question, receipt) = ctx.answer(store, &info, call, verdict, ORIGIN)?;
    note(&format!("{what}: {}", question.call.in_one_line(200)));
    Ok(said(&info, receipt.sending))
}

fn answer_server(ctx: &AppContext, store: &mut Store, args: &AnswerArgs) -> Result<u8, Trouble> {
    args.check()?;
    let info = ctx.meant(store, &args.id)?;
    let read = |question: &ServerQuestion| args.read(question);
    let (question, receipt) = ctx.answer_form_with(store, &info, args.meant(), read, ORIGIN)?;
    note(&format!("{}: {}", args.done(), question.asked.why));
    Ok(said(&info, receipt.sending))
}

/// What a person is told of what was sent.
fn said(info: &SessionInfo, sending: Sending) -> u8 {
    let id = short_id(&info.id);
    note(&match sending {
        Sending::Heard => format!("sent to {id}"),
        Sending::Kept => format!(
            "kept for {id}: nobody works in it; rewake -r {id}, or rewake -p -r {id}, takes it up"
        ),
        Sending::NothingToDo => format!("nobody works in {id}: there is nothing to stop"),
        Sending::Done => format!("{id} is paused; rewake unblock {id} lifts that"),
    });
    exit::DONE
}

/// What is asked in all sessions, the oldest question first.
fn asks(ctx: &AppContext, watch: bool, json: bool) -> Result<u8, Trouble> {
    let store = super::open_store(ctx)?;
    let mut known: Vec<(String, u64)> = Vec::new();
    let mut version = None;
    loop {
        let now = store.data_version()?;
        if version.replace(now) != Some(now) {
            let (questions, unread) = ctx.questions(&store)?;
            for error in unread.iter().filter(|_| known.is_empty()) {
                note(&format!("a session cannot be read: {error}"));
            }
            let place = |q: &Question| (q.session.id.clone(), q.asked.seq);
            let new = questions.iter().filter(|q| !known.contains(&place(q)));
            let sandbox = sandbox::given(ctx);
            print(new, &sandbox, json && !watch, json);
            // What was not written fails at the end of the program.
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
        std::thread::sleep(LOOK);
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

/// All of it: what was not seen cannot be allowed.
fn in_words(question: &Question, sandbox: &Sandbox) -> String {
    let Question {
        session,
        call,
        asked,
        form,
        is_live,
    } = question;
    let id = short_id(&session.id);
    let title = session.title.as_deref().unwrap_or("untitled");
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

/// What a server asks: its words, and each field with what it takes.
fn form_in_words(question: &ServerQuestion) -> Vec<String> {
    let mut lines = vec![format!("  the server {} asks:", question.server)];
    let said = question.message.lines();
    lines.extend(said.map(|line| format!("  │ {line}")));
    match &question.wanted {
        Wanted::Visit { url } => lines.push(format!("  whether this address is visited: {url}")),
        Wanted::Form { fields } => lines.extend(fields.iter().map(|field| {
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
