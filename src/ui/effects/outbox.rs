//! Messages on their way to the engine. A separate thread first reads their images from the disk
//! and expands custom commands, which may take time. Later messages wait for earlier ones.
//!
//! Invariant: messages arrive in the order in which they were sent. A stop or a decision waits for
//! nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};

use tokio::sync::mpsc::UnboundedSender;

use super::images;
use crate::core::entry::{Image, SaveReason, Via};
use crate::core::signal::Signal;
use crate::engine::Command;
use crate::session::{AppContext, CommandLine, ExpandedWords, NotSaid};
use crate::store::{Message, blob_ref};
use crate::ui::app::{Msg, OutgoingMessage};
use crate::ui::live::EngineHandle;
use crate::ui::transcript::Tone;
use crate::ui::{Wake, commands};
use crate::world::ServerRequest;

/// The way to the engine of one session.
pub(super) struct Outbox {
    engine: UnboundedSender<Command>,
    to_screen: Sender<Wake>,
    /// The channel to the thread, which is started for the first message that needs it.
    queue: Option<Sender<Outgoing>>,
    /// Number of messages that the thread has and has not passed on.
    waiting: Arc<AtomicUsize>,
}

pub(super) enum Outgoing {
    Words(OutgoingMessage, Via),
    /// A message that may mention resources of servers.
    Named(OutgoingMessage, Via, Arc<AppContext>),
    /// A custom command, whose text is read from its file.
    Custom(CommandLine, Via, Arc<AppContext>),
    Command(Command),
}

impl Outbox {
    pub(super) fn new(engine: UnboundedSender<Command>, to_screen: Sender<Wake>) -> Outbox {
        Outbox {
            engine,
            to_screen,
            queue: None,
            waiting: Arc::default(),
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }

    pub(super) fn say(&mut self, words: OutgoingMessage, via: Via) {
        let needs_disk = !words.images.is_empty() || !words.looks.is_empty();
        if needs_disk || !self.is_idle() {
            return self.push(Outgoing::Words(words, via));
        }
        self.pass(Command::Say {
            message: Message::new(words.text, via),
            blobs: Vec::new(),
        });
    }

    pub(super) fn send(&mut self, command: Command) {
        match command {
            _ if self.is_idle() => self.pass(command),
            Command::Decide { .. }
            | Command::Answer { .. }
            | Command::SetPermissionCheck(_)
            | Command::AskServer(_) => {
                self.pass(command);
            }
            // A stop ends the current work, and also messages that were sent before it and have not
            // arrived.
            Command::Signal(Signal::Stop { .. }) => {
                self.pass(Command::STOP);
                self.push(Outgoing::Command(Command::STOP));
            }
            command => self.push(Outgoing::Command(command)),
        }
    }

    /// Leaves when all messages have arrived.
    pub(super) fn leave(&mut self, live: &EngineHandle, reason: SaveReason) {
        if self.is_idle() {
            live.leave(reason)
        } else {
            live.mark_leaving();
            self.push(Outgoing::Command(Command::Leave(reason)));
        }
    }

    /// Sends a command. An engine that has ended receives nothing; its end was sent to the screen.
    fn pass(&self, command: Command) {
        let _ = self.engine.send(command);
    }

    pub(super) fn push(&mut self, outgoing: Outgoing) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let queue = match &self.queue {
            Some(queue) => queue,
            None => {
                let queue = self.start();
                self.queue.insert(queue)
            }
        };
        if queue.send(outgoing).is_err() {
            self.waiting.store(0, Ordering::SeqCst);
            self.queue = None;
            notify(
                &self.to_screen,
                "your message was not sent: the engine has ended",
            );
        }
    }

    fn start(&self) -> Sender<Outgoing> {
        // Unbounded: the thread that draws sends, and must not wait. A person typed each message, so
        // none is dropped.
        let (queue, outgoing) = mpsc::channel();
        let engine = self.engine.clone();
        let to_screen = self.to_screen.clone();
        let waiting = Arc::clone(&self.waiting);
        let work = move || {
            for next in outgoing {
                let command = match next {
                    Outgoing::Words(words, via) => Some(with_images(words, via, &to_screen)),
                    Outgoing::Named(words, via, ctx) => {
                        with_resources(words, via, &ctx, &engine, &to_screen)
                    }
                    Outgoing::Custom(typed, via, ctx)
                        if ctx.is_server_prompt(&typed, commands::is_own) =>
                    {
                        of_prompt(typed, via, &ctx, &engine, &to_screen)
                    }
                    Outgoing::Custom(typed, via, ctx) => of_command(typed, via, &ctx, &to_screen),
                    Outgoing::Command(command) => Some(command),
                };
                if let Some(command) = command {
                    let _ = engine.send(command);
                }
                waiting.fetch_sub(1, Ordering::SeqCst);
            }
        };
        let name = "outbox".to_string();
        if let Err(error) = std::thread::Builder::new().name(name).spawn(work) {
            tracing::error!(%error, "the outbox has no thread");
        }
        queue
    }
}

fn notify(to_screen: &Sender<Wake>, why: &str) {
    let _ = to_screen.send(Wake::Msg(Msg::Notice(Tone::Bad, why.to_string())));
}

/// Expands a prompt of a server. `None`: as for [`of_command`].
fn of_prompt(
    typed: CommandLine,
    via: Via,
    ctx: &AppContext,
    engine: &UnboundedSender<Command>,
    to_screen: &Sender<Wake>,
) -> Option<Command> {
    let ask = asks(engine);
    match wait_for_reply(ctx.defined_servers().expand_prompt(&typed, &ask)) {
        Ok(words) => Some(said(words, via)),
        Err(why) => {
            let _ = to_screen.send(Wake::Msg(Msg::NotSaid(typed, why)));
            None
        }
    }
}

/// Words with the resources that they mention, and their images. `None`: as for [`of_command`].
fn with_resources(
    words: OutgoingMessage,
    via: Via,
    ctx: &AppContext,
    engine: &UnboundedSender<Command>,
    to_screen: &Sender<Wake>,
) -> Option<Command> {
    let servers = ctx.defined_servers();
    let mentions = servers.mentioned_resources(words.seen());
    let ask = asks(engine);
    let put_in = wait_for_reply(servers.append_resources(&words.text, &mentions, &ask));
    let expanded = match put_in {
        Ok(expanded) => expanded,
        Err(why) => {
            let _ = to_screen.send(Wake::Msg(Msg::WordsNotSaid(words, why)));
            return None;
        }
    };
    let words = OutgoingMessage {
        text: expanded.text,
        ..words
    };
    let mut command = with_images(words, via, to_screen);
    if let Command::Say { message, blobs } = &mut command {
        message.images.extend(expanded.images);
        blobs.extend(expanded.blobs);
    }
    Some(command)
}

fn asks(engine: &UnboundedSender<Command>) -> impl Fn(ServerRequest) + use<> {
    let engine = engine.clone();
    // An engine that has ended drops the request, and the caller gets an error.
    move |request| drop(engine.send(Command::AskServer(request)))
}

/// Waits in this thread: the engine limits its requests, and always answers.
fn wait_for_reply(
    words: impl Future<Output = Result<ExpandedWords, NotSaid>>,
) -> Result<ExpandedWords, NotSaid> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    match runtime {
        Ok(runtime) => runtime.block_on(words),
        Err(error) => Err(NotSaid::Failed(
            format!("your message was not sent: {error}"),
            None,
        )),
    }
}

fn said(words: ExpandedWords, via: Via) -> Command {
    Command::Say {
        message: Message {
            images: words.images,
            command: words.command,
            ..Message::new(words.text, via)
        },
        blobs: words.blobs,
    }
}

/// Expands a custom command. `None`: it is not sent, and the screen shows the reason.
fn of_command(
    typed: CommandLine,
    via: Via,
    ctx: &AppContext,
    to_screen: &Sender<Wake>,
) -> Option<Command> {
    let expanded = match ctx.expand(&typed, commands::is_own) {
        Ok(expanded) => expanded,
        Err(why) => {
            let _ = to_screen.send(Wake::Msg(Msg::NotSaid(typed, why)));
            return None;
        }
    };
    for note in expanded.notes {
        let _ = to_screen.send(Wake::Msg(Msg::Notice(Tone::Warn, note)));
    }
    let message = Message {
        command: Some(expanded.command),
        ..Message::new(expanded.text, via)
    };
    let blobs = Vec::new();
    Some(Command::Say { message, blobs })
}

fn with_images(words: OutgoingMessage, via: Via, to_screen: &Sender<Wake>) -> Command {
    let OutgoingMessage {
        mut text,
        shown: _,
        images: mut paths,
        looks,
        command: _,
    } = words;
    for look in looks {
        if let Some(found) = images::found(&look.ways) {
            look.put_in(found, &mut text, &mut paths);
        }
    }
    let mut images = Vec::new();
    let mut blobs = Vec::new();
    for path in &paths {
        match images::read(path) {
            Ok((media_type, bytes)) => {
                images.push(Image {
                    media_type: media_type.to_string(),
                    blob: blob_ref(&bytes),
                });
                blobs.push(bytes);
            }
            Err(why) => notify(to_screen, &why),
        }
    }
    let message = Message {
        images,
        ..Message::new(text, via)
    };
    Command::Say { message, blobs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::composer::ImageCandidate;
    use std::path::PathBuf;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    fn outbox() -> (Outbox, UnboundedReceiver<Command>) {
        let (engine, commands) = unbounded_channel();
        (Outbox::new(engine, mpsc::channel().0), commands)
    }

    fn words(text: &str, ways: Vec<Vec<PathBuf>>) -> OutgoingMessage {
        let look = |ways| ImageCandidate {
            text: "./a.png".into(),
            ways,
        };
        OutgoingMessage {
            shown: String::new(),
            text: text.into(),
            images: Vec::new(),
            looks: Some(ways)
                .filter(|w| !w.is_empty())
                .map(look)
                .into_iter()
                .collect(),
            command: None,
        }
    }

    fn next(commands: &mut UnboundedReceiver<Command>) -> String {
        match commands.blocking_recv() {
            Some(Command::Say { message, blobs }) => {
                format!("{} +{}/{}", message.text, message.images.len(), blobs.len())
            }
            Some(Command::Signal(Signal::Stop { .. })) => "a stop".into(),
            Some(Command::KeepInput(text)) => format!("the draft {text:?}"),
            _ => "something else".into(),
        }
    }

    #[test]
    fn messages_arrive_in_order_with_their_images() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        std::fs::write(&path, support::PNG).unwrap();
        let (mut outbox, mut commands) = outbox();
        outbox.say(words("see ./a.png", vec![vec![path]]), Via::Prompt);
        outbox.say(
            words("and ./a.png", vec![vec!["/gone.png".into()]]),
            Via::Prompt,
        );
        outbox.say(words("then this", Vec::new()), Via::Prompt);
        outbox.send(Command::KeepInput(String::new()));
        assert_eq!(next(&mut commands), "see [Image #1 a.png] +1/1");
        assert_eq!(next(&mut commands), "and ./a.png +0/0");
        assert_eq!(next(&mut commands), "then this +0/0");
        assert_eq!(next(&mut commands), "the draft \"\"");
    }

    #[test]
    fn a_stop_waits_for_nothing_and_holds_for_what_waits() {
        let (mut outbox, mut commands) = outbox();
        // As while an image is being read.
        outbox.waiting.fetch_add(1, Ordering::SeqCst);
        outbox.say(words("then this", Vec::new()), Via::Prompt);
        outbox.send(Command::STOP);
        let got: Vec<String> = (0..3).map(|_| next(&mut commands)).collect();
        let mut sorted = got.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, ["a stop", "a stop", "then this +0/0"]);
        assert_eq!(got[2], "a stop", "what waited is not stopped");
    }
}
