//! The effects of the screen: they carry out intents and send the results as messages. Slow work
//! runs in threads.

mod changes;
mod clipboard;
mod diff;
mod editor;
mod engines;
mod files;
mod fork;
mod images;
mod kept_words;
mod keyboard;
mod last_here;
mod notify;
mod on_terminal;
mod outbox;
mod permissions;
mod prompts;
mod replacement;
mod rewind;
mod rules;
mod settings;
mod show;
mod status_command;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

use super::app::{App, Intent, LOOKING_FOR_SESSION, Msg, Phase};
use super::live::{LiveEvent, Open};
use super::terminal::Screen;
use super::text::with_hint;
use super::transcript::Tone;
use super::{OnLiveEvent, Wake, history, style};
use crate::command::Runs;
use crate::core::entry::SaveReason;
use crate::engine::Command;
use crate::net::browser;
use crate::session::{AppContext, RunningNotifiers, SessionSelector};
use changes::Acting;
use engines::Engines;
use keyboard::Keyboard;
use settings::{Ask, Settings};
use status_command::StatusCommand;

/// OSC 11 of xterm.
const ASK_BACKGROUND: &str = "\x1b]11;?\x1b\\";

/// Maximum size. Longer texts do not fit the clipboards of terminals.
const MAX_COPY_BYTES: usize = 100_000;

/// Carries out intents.
pub(crate) struct Effects {
    pub ctx: Arc<AppContext>,
    to_screen: Sender<Wake>,
    pub engines: Engines,
    pub keyboard: Keyboard,
    history: Option<history::HistoryWorker>,
    runs: Option<Runs>,
    acting: Arc<Acting>,
    settings: Settings,
    /// The session that is open has other rules than those in use.
    rules_are_due: bool,
    /// The output of running commands is being read.
    is_tailing: Arc<AtomicBool>,
    /// The custom commands are being listed.
    is_listing: Arc<AtomicBool>,
    /// The clipboard is being read.
    is_pasting: Arc<AtomicBool>,
    /// Number of running notification commands.
    calls: RunningNotifiers,
    /// Dismissed sessions are offered too.
    offers_all: bool,
    status_command: StatusCommand,
}

/// Whether the screen stays open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum After {
    GoOn,
    Quit,
    /// Leave, and show the demo.
    Demo,
}

impl Effects {
    pub(crate) fn new(ctx: Arc<AppContext>, to_screen: Sender<Wake>, is_lines: bool) -> Effects {
        let runs = ctx.runs().ok();
        let acting = Arc::new(Acting::default());
        let settings = Settings::start(Arc::clone(&ctx), Arc::clone(&acting), to_screen.clone());
        let keyboard = Keyboard::new(to_screen.clone(), is_lines, &ctx.env);
        Effects {
            ctx,
            engines: Engines::default(),
            keyboard,
            to_screen,
            history: None,
            runs,
            acting,
            settings,
            rules_are_due: false,
            is_tailing: Arc::default(),
            is_listing: Arc::default(),
            is_pasting: Arc::default(),
            calls: Arc::default(),
            offers_all: false,
            status_command: StatusCommand::default(),
        }
    }

    pub(crate) fn send(&self, msg: Msg) {
        let _ = self.to_screen.send(Wake::Msg(msg));
    }

    fn notify(&self, tone: Tone, text: impl Into<String>) {
        self.send(Msg::Notice(tone, text.into()));
    }

    pub(crate) fn perform(&mut self, intent: Intent, app: &mut App, screen: &mut Screen) -> After {
        match intent {
            Intent::Engine(command) => self.engines.send(command),
            Intent::Open { which, take_over } => self.open(which, take_over, app),
            Intent::ForkInto { id, at, folder } => self.fork_into(id, at, folder, app),
            Intent::Watch(id) => self.look_on(id, app),
            Intent::Look(look) => self.look(look),
            Intent::Commands => self.commands(),
            Intent::AskServer(server) => self.ask_server(server),
            Intent::Say(words) => self.say(words, app),
            Intent::OnTerminal { entry, command } => {
                self.on_terminal(entry, &command, app, screen);
            }
            Intent::Forget(place) => self.forget(place),
            Intent::KeepAside(session, draft) => {
                self.store_closed_draft(session, draft, app.session.engine)
            }
            Intent::Editor(text) => {
                self.editor(&text, app, screen);
                app.prompts.quiet.forget();
            }
            Intent::Copy(text) => self.copy(&text, screen),
            Intent::Dismiss(id) => self.dismiss(id),
            Intent::OpenInBrowser(url) => self.open_in_browser(&url),
            Intent::PasteImage => self.paste_image(),
            Intent::Details(offers) => self.details(offers),
            Intent::LookAgain(sessions) => self.look_again(sessions),
            Intent::Earlier(range) => self.earlier(range, app),
            Intent::ReadAsked(call, path) => self.read_asked(call, path),
            Intent::RemoveRule { scope, list, rule } => {
                self.settings.ask(Ask::RemoveRule { scope, list, rule });
            }
            Intent::AllowRule(scope, rule) => self.settings.ask(Ask::Allow(scope, rule)),
            Intent::History(ask) => self.history(ask),
            Intent::CallChanges { session, spans } => self.call_changes(session, spans),
            Intent::EditPlaces(edits) => self.edit_places(edits),
            Intent::Files => self.files(),
            Intent::Mcp => self.mcp(app),
            Intent::Hooks => self.hooks(),
            Intent::Ps => self.ps(),
            Intent::StopRun(run) => self.stop_run(&run),
            Intent::Tail(run) => self.tail(&run),
            Intent::Diff => self.diff(),
            Intent::PlanRewind(request) => self.plan_rewind(request, app),
            Intent::RewindCopy {
                origin,
                to,
                files,
                draft,
            } => self.rewind_copy(origin, to, files, draft, app),
            Intent::RewindDiff {
                rewinding,
                path,
                choice,
            } => self.rewind_diff(rewinding, path, choice),
            Intent::EditAt(path, line) => {
                self.edit_at(&path, line, screen);
                app.prompts.quiet.forget();
            }
            Intent::Doctor => self.doctor(),
            Intent::Memory(words) => self.memory(words),
            Intent::Skills => self.skills(),
            Intent::Permissions => self.permissions(app),
            Intent::Status => self.status(app),
            Intent::Sessions => self.sessions(app.session.id.clone()),
            Intent::Export { session, file } => self.export(session, file),
            Intent::Theme(name) => self.settings.ask(Ask::Theme(name)),
            Intent::Themes => self.themes(),
            Intent::Models(words) => self.models(words, app.session.now.model.clone()),
            Intent::UseModel { choice, goes_on } => {
                self.use_model(choice, goes_on, app.session.engine);
            }
            Intent::OfferModels { model, why } => self.offer_models(model, why),
            Intent::Offers => self.offers(),
            Intent::OfferHeld(id) => self.offer_held(id),
            Intent::ChooseModel(model) => self.settings.ask(Ask::ChooseModel {
                model,
                engine: app.session.engine,
            }),
            Intent::AskKey(provider) => self.ask_key(provider),
            Intent::KeepKey {
                provider,
                key,
                model,
            } => self.settings.ask(Ask::KeepKey {
                provider,
                key,
                model,
                engine: app.session.engine,
            }),
            Intent::RemoveKey(provider) => self.settings.ask(Ask::RemoveKey(provider)),
            Intent::Reload => self.settings.ask(Ask::TakeOver),
            Intent::Trust(content) => self.settings.ask(Ask::Trust(content)),
            Intent::Distrust => self.settings.ask(Ask::Distrust),
            Intent::Suspend => {
                self.suspend(screen);
                app.prompts.quiet.forget();
            }
            Intent::Call(call) => self.call_person(&call, screen),
            Intent::Redraw => screen.redraw(),
            Intent::AskBackground => self.ask_background(app, screen),
            Intent::Demo => return After::Demo,
            Intent::Quit => return After::Quit,
        }
        After::GoOn
    }

    /// Opens another session. The open one is left only after the other one was found.
    fn open(&mut self, which: SessionSelector, take_over: bool, app: &mut App) {
        let names_one = matches!(
            which,
            SessionSelector::Named { .. } | SessionSelector::ForkAt { .. }
        );
        if !names_one || !self.engines.is_live() {
            return self.switch(which, take_over, app);
        }
        app.hint = Some(LOOKING_FOR_SESSION.into());
        let (ctx, engine) = (Arc::clone(&self.ctx), app.session.engine);
        self.aside(move || {
            Some(match ctx.check_exists(&which) {
                Ok(()) => Wake::Found {
                    engine,
                    which,
                    take_over,
                },
                Err(error) => Wake::Msg(Msg::Notice(Tone::Warn, with_hint(&error, error.hint()))),
            })
        });
    }

    /// Opens the session that was found, unless another was opened in the meantime.
    pub(crate) fn found(
        &mut self,
        engine: u64,
        which: SessionSelector,
        take_over: bool,
        app: &mut App,
    ) {
        if engine == app.session.engine {
            self.switch(which, take_over, app);
        }
    }

    /// Leaves the session that is open and takes up another.
    fn switch(&mut self, which: SessionSelector, take_over: bool, app: &mut App) {
        let words = {
            let id = app.session.id.as_deref();
            app.input.take_along(id)
        };
        self.engines.send(Command::KeepInput(words));
        self.engines.leave(SaveReason::Exit);
        app.session.engine += 1;
        app.session.phase = Phase::Opening;
        let on_event = self.on_engine_event(app.session.engine);
        let open = Open {
            which,
            take_over,
            named: app.named,
        };
        let (ctx, to_screen) = (Arc::clone(&self.ctx), self.to_screen.clone());
        self.engines.start(ctx, open, on_event, to_screen);
    }

    fn look_on(&mut self, id: String, app: &mut App) {
        self.engines.leave(SaveReason::Exit);
        app.session.engine += 1;
        app.session.phase = Phase::Watching;
        let on_event = self.on_engine_event(app.session.engine);
        let (ctx, to_screen) = (Arc::clone(&self.ctx), self.to_screen.clone());
        self.engines.watch(ctx, id, on_event, to_screen);
    }

    fn on_engine_event(&self, engine: u64) -> OnLiveEvent {
        let sender = self.to_screen.clone();
        let acting = Arc::clone(&self.acting);
        let ctx = Arc::clone(&self.ctx);
        Arc::new(move |event| {
            acting.observe(&event);
            let opened = match &event {
                LiveEvent::Opened(opening) => Some((opening.id.clone(), opening.found.is_none())),
                _ => None,
            };
            let _ = sender.send(Wake::Msg(Msg::Engine(engine, event)));
            if let Some((id, is_new)) = opened {
                prompts::read(Arc::clone(&ctx), sender.clone());
                if is_new {
                    last_here::read(Arc::clone(&ctx), id, sender.clone());
                }
            }
        })
    }

    /// Returns whether all messages and actions are in the log and all changes are in the config.
    pub(crate) fn has_left(&self) -> bool {
        self.engines.have_left() && self.settings.is_idle()
    }

    /// Asks for a look at a config file that may have changed.
    pub(crate) fn check_config_file(&self) {
        self.settings.ask(Ask::Look);
    }

    /// Reads the config again: it changed and is not being written any more.
    pub(crate) fn reload(&self) {
        self.settings.ask(Ask::Reload);
    }

    /// Asks the terminal for the colour of its background. The answer arrives among the keys.
    pub(crate) fn ask_background(&self, app: &mut App, screen: &mut Screen) {
        if !style::may_ask(&self.ctx) {
            return;
        }
        match screen.write(ASK_BACKGROUND) {
            Ok(()) => app.look.asked_background(app.now_ms),
            Err(error) => tracing::warn!(%error, "the terminal was not asked for its background"),
        }
    }

    /// Sends a command to the engine of this number, if it is still the current one.
    pub(crate) fn for_engine(&mut self, engine: u64, command: Command, app: &App) {
        if engine == app.session.engine {
            self.engines.send(command);
        }
    }

    /// Asks for a key, but only for a known provider: the text after `/key` may be the key itself.
    fn ask_key(&self, provider: String) {
        let config = self.ctx.config();
        match config.provider_names().contains(provider.as_str()) {
            true => self.send(Msg::AskKey(provider)),
            false => self.notify(
                Tone::Warn,
                "/key takes the name of a provider, such as /key anthropic; the key is asked for then",
            ),
        }
    }

    fn copy(&self, text: &str, screen: &mut Screen) {
        if text.len() > MAX_COPY_BYTES {
            return self.notify(
                Tone::Warn,
                "too long for a terminal's clipboard; /export writes it to a file",
            );
        }
        match screen.copy(text) {
            Ok(()) => self.notify(Tone::Calm, "copied"),
            Err(e) => self.notify(Tone::Bad, format!("cannot copy: {e}")),
        }
    }

    /// Opens an address, as a person asked by a key.
    fn open_in_browser(&self, url: &str) {
        let opened = match reqwest::Url::parse(url) {
            Ok(url) => browser::open(&url).map_err(|error| error.to_string()),
            Err(why) => Err(why.to_string()),
        };
        match opened {
            Ok(()) => self.notify(Tone::Calm, "given to your browser"),
            Err(why) => {
                let why = format!("c copies the address: it was not opened, {why}");
                self.notify(Tone::Calm, why);
            }
        }
    }

    fn history(&mut self, ask: history::HistoryRequest) {
        let sender = self.to_screen.clone();
        let ctx = &self.ctx;
        let worker = self.history.get_or_insert_with(|| {
            let respond = move |response| drop(sender.send(Wake::Msg(Msg::History(response))));
            history::HistoryWorker::start(Arc::clone(ctx), Arc::new(respond))
        });
        worker.ask(ask);
    }

    /// Suspends the process until the shell continues it.
    fn suspend(&mut self, screen: &mut Screen) {
        let slept = self.keyboard.lend(screen, || {
            // The whole process stops; commands under supervisors continue.
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP)
        });
        if let Err(e) = slept {
            tracing::warn!(error = %e, "the terminal did not come back");
        }
    }
}

/// Waits for the end of a future on this thread, which does not draw. A name that is still being
/// looked up afterwards is not waited for: a name server that does not answer takes long.
fn block_on<T>(work: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = crate::net::runtime()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// As a name server that does not answer, which holds up the thread of a look-up.
    #[test]
    fn a_look_up_that_hangs_is_not_waited_for() {
        let (release, hangs) = channel::<()>();
        let (done, is_done) = channel();
        std::thread::spawn(move || {
            let tried = super::block_on(async {
                drop(tokio::task::spawn_blocking(move || hangs.recv()));
                tokio::task::yield_now().await;
            });
            let _ = done.send(tried.is_ok());
        });
        let limit = Duration::from_secs(60);
        assert!(is_done.recv_timeout(limit).is_ok_and(|is_ok| is_ok));
        drop(release);
    }
}
