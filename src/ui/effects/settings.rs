//! The settings while the screen is open. A separate thread reads, writes and compares them, one
//! request after the other. It sends the settings in use to the screen ([`Wake::InUse`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use super::changes::{Acting, Moment, PendingChanges};
use super::replacement;
use crate::command::{RunInfo, RunState, Runs};
use crate::config::write::{SettingChange, WriteTarget};
use crate::config::{self, ConfigError, Content, Loaded, Origin, Paths};
use crate::core::offer::RuleOffer;
use crate::core::rule::{Rule, RuleScope};
use crate::core::text::count;
use crate::engine::Command;
use crate::model::offered::ModelList;
use crate::model::provider::Secret;
use crate::model::retirement::date_at;
use crate::model::{KeyTrial, split_name};
use crate::session::{AppContext, SessionSelector, now_ms};
use crate::ui::app::{Begin, Msg};
use crate::ui::overlay::{FirstRun, Provider};
use crate::ui::text::with_hint;
use crate::ui::transcript::Tone;
use crate::ui::{Wake, keys, style};

/// Interval between looks at the files while commands of other sessions run, whose end is not
/// reported.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Maximum number of models of a provider on the first screen.
const MAX_CHOICES: usize = 20;

/// A request to the thread of the settings.
pub(super) enum Ask {
    /// A file may have changed. An early look tells best who changed it.
    Look,
    /// A call or a command may have ended.
    Settle,
    Reload,
    /// Uses the config again, even if the session changed it.
    TakeOver,
    /// Adds a rule, for this project or everywhere.
    Allow(RuleScope, String),
    /// Removes a rule from a list (`allow`, `ask`, `deny`) of a file of the user.
    RemoveRule {
        scope: RuleScope,
        list: String,
        rule: String,
    },
    Theme(String),
    /// From the first screen. Opens a session unless another was opened since the one of this
    /// engine.
    ChooseModel {
        model: String,
        engine: u64,
    },
    /// A key that a person typed. From the first screen, a session with its model is opened.
    KeepKey {
        provider: String,
        key: Secret,
        model: Option<String>,
        engine: u64,
    },
    RemoveKey(String),
    Trust(Content),
    Distrust,
    /// Reports the rules for the session of this engine, which works in this folder.
    Rules {
        engine: u64,
        folder: String,
    },
}

/// The handle of the settings thread. The thread ends when this is dropped.
pub(super) struct Settings {
    asks: Sender<Ask>,
    waiting: Arc<AtomicUsize>,
    is_settling: Arc<AtomicBool>,
}

impl Settings {
    pub(super) fn start(
        ctx: Arc<AppContext>,
        acting: Arc<Acting>,
        to_screen: Sender<Wake>,
    ) -> Settings {
        // Unbounded: the thread that draws sends, and must not wait. A person asks for each change.
        let (asks, asked) = mpsc::channel();
        let runs = ctx.runs().ok();
        let changes =
            PendingChanges::new(&ctx.loaded.files, acting.moment(some_run(runs.as_ref())));
        let settings = Settings {
            asks,
            waiting: Arc::default(),
            is_settling: Arc::default(),
        };
        let work = SettingsJob {
            ctx,
            to_screen,
            runs,
            acting,
            changes,
            looked: Instant::now(),
            is_change_said: false,
            waiting: Arc::clone(&settings.waiting),
            is_settling: Arc::clone(&settings.is_settling),
        };
        let spawned = std::thread::Builder::new()
            .name("settings".into())
            .spawn(move || work.run(&asked));
        if let Err(error) = spawned {
            tracing::error!(%error, "the settings have no thread");
        }
        settings
    }

    /// Sends a request. It never waits.
    pub(super) fn ask(&self, ask: Ask) {
        // One request of this kind is enough.
        if matches!(ask, Ask::Settle) && self.is_settling.swap(true, Ordering::SeqCst) {
            return;
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if self.asks.send(ask).is_err() {
            self.waiting.store(0, Ordering::SeqCst);
        }
    }

    /// Returns whether all requests are done.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }
}

/// The state of the settings thread.
struct SettingsJob {
    ctx: Arc<AppContext>,
    to_screen: Sender<Wake>,
    runs: Option<Runs>,
    acting: Arc<Acting>,
    changes: PendingChanges,
    /// When the files of the config were last looked at.
    looked: Instant,
    /// The change that is read now was made by rewake itself and was reported.
    is_change_said: bool,
    waiting: Arc<AtomicUsize>,
    is_settling: Arc<AtomicBool>,
}

/// Returns whether a command of any session runs, or is about to.
fn some_run(runs: Option<&Runs>) -> bool {
    let is_over = |info: &RunInfo| matches!(info.state, RunState::Ended(_));
    runs.is_some_and(|runs| !runs.list().iter().all(is_over))
}

impl SettingsJob {
    fn run(mut self, asked: &Receiver<Ask>) {
        while let Ok(ask) = asked.recv() {
            match ask {
                Ask::Look => self.check_config_file(),
                Ask::Settle => {
                    self.is_settling.store(false, Ordering::SeqCst);
                    self.settle_config();
                }
                Ask::Reload => self.reload(),
                Ask::TakeOver => self.take_over_config(),
                Ask::Allow(scope, rule) => self.allow_always(scope, &rule),
                Ask::RemoveRule { scope, list, rule } => self.remove_rule(scope, &list, &rule),
                Ask::Theme(name) => self.theme(&name),
                Ask::ChooseModel { model, engine } => self.choose_model(&model, engine),
                Ask::KeepKey {
                    provider,
                    key,
                    model,
                    engine,
                } => self.store_key(&provider, &key, model.as_deref(), engine),
                Ask::RemoveKey(provider) => self.remove_key(&provider),
                Ask::Trust(content) => self.trust(&content),
                Ask::Distrust => self.distrust(),
                Ask::Rules { engine, folder } => self.rules(engine, &folder),
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn send(&self, wake: impl Into<Wake>) {
        let _ = self.to_screen.send(wake.into());
    }

    fn notify(&self, tone: Tone, text: impl Into<String>) {
        self.send(Msg::Notice(tone, text.into()));
    }
}

impl SettingsJob {
    /// Adds the rules of an offer to a file of the user, where only a person writes. They apply at
    /// once, also when the other changes in the files do not.
    fn allow_always(&mut self, scope: RuleScope, offer: &str) {
        let rules: Vec<String> = match RuleOffer::parse(offer) {
            Ok(offer) => offer.rules().iter().map(Rule::to_string).collect(),
            Err(why) => return self.notify(Tone::Bad, why),
        };
        let target = self.target(scope);
        let write = |target: &WriteTarget| config::write::add_rules(target, "allow", &rules);
        if let Err(e) = self.change_file(&target, write) {
            return self.notify(Tone::Bad, e.to_string());
        }
        self.reload();
        for rule in &rules {
            if !self.ctx.config().permissions.allow.contains(rule) {
                let origin = Origin::Flag("granted on the screen".to_string());
                self.apply(self.ctx.loaded.allowing(rule, origin));
            }
        }
        let place = match scope {
            RuleScope::Everywhere => "everywhere",
            RuleScope::Project | RuleScope::Session => "in this project",
        };
        let (noun, it, removes) = match rules.len() {
            1 => ("rule", "It is", "it"),
            _ => ("rules", "They are", "them"),
        };
        // Several lines stay in the conversation: a new rule must not go unnoticed.
        self.notify(
            Tone::Calm,
            format!(
                "new permanent {noun}, {place}: {offer}\n{it} in {}. /permissions removes {removes}.",
                target.file.display()
            ),
        );
    }

    /// Returns the file in which rules of this scope are stored.
    fn target(&self, scope: RuleScope) -> WriteTarget {
        let ctx = &self.ctx;
        match scope {
            RuleScope::Everywhere => WriteTarget::config(&ctx.paths),
            RuleScope::Project | RuleScope::Session => {
                WriteTarget::project(&ctx.paths, &ctx.here.root)
            }
        }
    }

    /// Removes a rule from a file of the user, as a person asked.
    fn remove_rule(&mut self, scope: RuleScope, list: &str, rule: &str) {
        let target = self.target(scope);
        let removed = self.change_file(&target, |target| config::write::remove(target, list, rule));
        if let Err(e) = removed {
            return self.notify(Tone::Bad, e.to_string());
        }
        self.reload();
        let file = target.file.display();
        self.notify(
            Tone::Calm,
            format!("{rule} was removed from permissions.{list} in {file}"),
        );
    }

    /// Changes the user's own config, as a person asked.
    fn change_config(
        &mut self,
        write: impl FnOnce(&Paths) -> Result<SettingChange, ConfigError>,
    ) -> Result<(), ConfigError> {
        let target = WriteTarget::config(&self.ctx.paths);
        let paths = self.ctx.paths.clone();
        self.change_file(&target, |_| write(&paths))
    }

    /// Changes a file of the user, as a person asked. It does not count as the session's change.
    fn change_file(
        &mut self,
        target: &WriteTarget,
        write: impl FnOnce(&WriteTarget) -> Result<SettingChange, ConfigError>,
    ) -> Result<(), ConfigError> {
        self.check_config_file();
        let change = write(target)?;
        let now = self.moment();
        self.changes.wrote(&target.file, &change, now);
        Ok(())
    }

    /// Looks at a config file that may have changed. An early look tells best who changed it.
    fn check_config_file(&mut self) {
        let from = self.moment();
        let found = self.ctx.loaded.files_now();
        let to = self.moment();
        self.changes.look(from, &found, to);
        self.looked = Instant::now();
    }

    /// Handles the end of a call or a command: earlier changes are the session's.
    fn settle_config(&mut self) {
        let now = self.acting.moment(false);
        let again = self.changes.was_acting() && self.looked.elapsed() >= LOOK_AGAIN;
        if self.changes.is_due(now) || (again && !now.is_acting) {
            self.check_config_file();
            self.report_changes_of_session();
        }
    }

    /// Returns the current observation, including commands of sessions that are not open here.
    fn moment(&self) -> Moment {
        self.acting.moment(some_run(self.runs.as_ref()))
    }

    fn report_changes_of_session(&mut self) {
        for file in self.changes.unreported() {
            let text = format!(
                "{} was changed while a call or a command of the session was in progress, and is not \
                 used: /reload reads it, and so does the next start",
                file.display()
            );
            self.notify(Tone::Warn, text);
        }
    }

    fn load(&self) -> Result<Loaded, ConfigError> {
        let ctx = &self.ctx;
        config::load(&ctx.env, &ctx.paths, &ctx.here.root, &ctx.flags)
    }

    /// Reads a changed config. Applies what can change while a session is open, if a person changed
    /// it.
    fn reload(&mut self) {
        let from = self.moment();
        let loaded = self.load();
        // The applied content is exactly the compared content: both come from this reading.
        let found = match &loaded {
            Ok(loaded) => loaded.files.clone(),
            Err(_) => self.ctx.loaded.files_now(),
        };
        let to = self.moment();
        self.changes.look(from, &found, to);
        self.looked = Instant::now();
        self.report_changes_of_session();
        if self.changes.changed_by_session().next().is_some() {
            return;
        }
        let was_undone = self.changes.was_undone();
        if !self.take_over(loaded) && was_undone {
            self.notify(Tone::Calm, "the config is again the one in use");
        }
    }

    /// Uses the config again as a person asked, even if the session changed it.
    fn take_over_config(&mut self) {
        let loaded = self.load();
        if !self.take_over(loaded) {
            self.notify(Tone::Calm, "the config has not changed");
        }
    }

    /// Applies the config. Returns false when there is nothing to report.
    fn take_over(&mut self, loaded: Result<Loaded, ConfigError>) -> bool {
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(e) => {
                let text = format!("the config was changed, and is not used: {e}");
                self.notify(Tone::Bad, with_hint(text, e.hint()));
                return true;
            }
        };
        self.changes.took_over(&loaded.files);
        if loaded.is_as(&self.ctx.loaded) {
            return false;
        }
        for warning in &loaded.warnings {
            if !self.ctx.loaded.warnings.contains(warning) {
                self.notify(Tone::Warn, warning.to_string());
            }
        }
        for warning in keys::warnings(&loaded) {
            if !keys::warnings(&self.ctx.loaded).contains(&warning) {
                self.notify(Tone::Warn, warning);
            }
        }
        self.apply(loaded);
        let text = "the config was read again; rules, colours, keys and [notify] apply now, the rest from the next session on";
        if !self.is_change_said {
            self.notify(Tone::Calm, text);
        }
        true
    }

    fn apply(&mut self, loaded: Loaded) {
        self.ctx = Arc::new(self.ctx.with(loaded));
        self.send(Wake::InUse(Arc::clone(&self.ctx)));
        match style::palette(&self.ctx, None) {
            Ok(palette) => self.send(Msg::Restyled(Box::new(palette))),
            Err(e) => self.notify(Tone::Bad, e),
        }
    }

    /// Sends the current rules to the open session.
    fn rules(&self, engine: u64, folder: &str) {
        match self.ctx.permission_check_of(folder) {
            Ok(check) => self.send(Wake::ForEngine {
                engine,
                command: Command::SetPermissionCheck(check),
            }),
            Err(e) => self.notify(Tone::Bad, e.to_string()),
        }
    }

    fn theme(&mut self, name: &str) {
        match style::palette(&self.ctx, Some(name)) {
            Ok(palette) => {
                self.send(Msg::Restyled(Box::new(palette)));
                let set = |paths: &Paths| config::write::set(paths, "theme", name);
                if let Err(e) = self.change_config(set) {
                    self.notify(Tone::Warn, e.to_string());
                }
            }
            Err(e) => self.notify(Tone::Bad, e),
        }
    }

    /// Stores the model of the first screen as the user's model, and opens a session with it. If it
    /// is a usual model that its provider's list lacks, the list is offered instead.
    fn choose_model(&mut self, model: &str, engine: u64) {
        let provider = model.split('/').next().unwrap_or_default();
        match self.listed_model(provider, model) {
            Ok(model) => self.write_model(&model, engine),
            Err(first) => {
                let first = Begin::FirstRun {
                    first,
                    prompt: None,
                };
                self.send(Msg::Begin(Box::new(first)));
            }
        }
    }

    /// Stores a model as the user's model, and opens a session with it.
    fn write_model(&mut self, model: &str, engine: u64) {
        let set = |paths: &Paths| config::write::set(paths, "model", model);
        if let Err(e) = self.change_config(set) {
            return self.notify(Tone::Bad, e.to_string());
        }
        let file = self.ctx.paths.config_file();
        self.notify(
            Tone::Calm,
            format!("written to {}:\nmodel = {model:?}", file.display()),
        );
        // The change was just reported.
        self.is_change_said = true;
        self.reload();
        self.is_change_said = false;
        self.send(Wake::Found {
            engine,
            which: SessionSelector::New,
            take_over: false,
        });
    }

    /// Returns the model to write: this one, or if it is a usual one, the first usual one that its
    /// provider's list has. A model that somebody chose otherwise is not looked up.
    ///
    /// # Errors
    /// The list has none of them: the first screen with those that it has.
    fn listed_model(&self, provider: &str, model: &str) -> Result<String, FirstRun> {
        let usual = config::default_models(provider);
        let is_chosen = self.ctx.config().model.as_deref() == Some(model);
        if is_chosen || !usual.iter().any(|usual| usual == model) {
            return Ok(model.to_string());
        }
        let list = replacement::offered(&self.ctx, provider, None);
        let ModelList::Known(models) = &list else {
            return Ok(model.to_string());
        };
        let names: Vec<&str> = usual
            .iter()
            .filter_map(|m| Some(split_name(m)?.1))
            .collect();
        if let Some(found) = list.first_of(&names, date_at(now_ms())) {
            return Ok(format!("{provider}/{found}"));
        }
        let names = names.join(", ");
        let why = format!("no model is written: {provider} lists none of {names}; choose one");
        let mut found = replacement::listed(provider, &list);
        found.truncate(MAX_CHOICES);
        Err(FirstRun::new(
            why,
            vec![Provider {
                name: provider.to_string(),
                found: format!("{} in its list", count(models.len(), "model")),
                is_ready: true,
                models: found,
                hint: String::new(),
                with_key: None,
                is_usual: true,
            }],
        ))
    }

    /// Tries a key once, and stores it unless the provider refuses it.
    fn store_key(&mut self, provider: &str, key: &Secret, model: Option<&str>, engine: u64) {
        let ctx = Arc::clone(&self.ctx);
        self.notify(Tone::Calm, format!("trying the key for {provider} …"));
        let not_tried = match self.try_key(provider, key) {
            KeyTrial::Accepted => String::new(),
            KeyTrial::NotTried(why) => format!("\nit was not tried: {why}"),
            KeyTrial::Refused(why) => {
                return self.not_stored(format!("the key is not stored: {why}"), model.is_some());
            }
        };
        let file = match config::store_key(&ctx.paths, provider, key.expose()) {
            Ok(file) => file,
            Err(e) => {
                return self.not_stored(format!("{e}; nothing is changed"), model.is_some());
            }
        };
        let used = ctx
            .config()
            .provider(provider)
            .and_then(|p| p.key(&ctx.env));
        let text = match used {
            Ok(Some(key)) if !matches!(key.origin, Origin::Kept(_)) => format!(
                "the key for {provider} is stored, but {} takes precedence",
                key.origin
            ),
            _ => format!(
                "the key for {provider} is stored in {}; /key {provider} remove removes it{not_tried}",
                file.display()
            ),
        };
        // It replaces the hint that the key is tried.
        self.notify(Tone::Calm, format!("the key for {provider} is stored"));
        // As a hint it would disappear at the next one.
        match model {
            Some(model) => {
                let text = format!(
                    "written to {}:\nthe key for {provider} is stored; /key {provider} remove removes it{not_tried}",
                    file.display()
                );
                self.notify(Tone::Calm, text);
                // A provider that did not answer is not asked for its list too.
                if not_tried.is_empty() {
                    self.choose_model(model, engine);
                } else {
                    self.write_model(model, engine);
                }
            }
            None => self.notify(Tone::Calm, text),
        }
    }

    fn try_key(&self, provider: &str, key: &Secret) -> KeyTrial {
        let tried = super::block_on(self.ctx.models().try_key(provider, key.clone()));
        tried.unwrap_or_else(|error| KeyTrial::NotTried(error.to_string()))
    }

    /// Reports a key that was not stored. The first screen returns with the reason, because it
    /// covers the notices.
    fn not_stored(&self, why: String, is_first_screen: bool) {
        self.notify(Tone::Calm, "the key is not stored");
        if !is_first_screen {
            return self.notify(Tone::Bad, why);
        }
        match crate::ui::begin(&self.ctx, crate::ui::Start::default()) {
            Ok(mut begin) => {
                match &mut begin {
                    Begin::FirstRun { first, .. } => first.why = why,
                    _ => self.notify(Tone::Bad, why),
                }
                self.send(Msg::Begin(Box::new(begin)));
            }
            Err(e) => self.notify(Tone::Bad, format!("{why}\n{e}")),
        }
    }

    fn remove_key(&self, provider: &str) {
        match config::remove_key(&self.ctx.paths, provider) {
            Ok(true) => self.notify(Tone::Calm, format!("the key for {provider} was removed")),
            Ok(false) => self.notify(Tone::Calm, format!("no key for {provider} was stored")),
            Err(e) => self.notify(Tone::Bad, e.to_string()),
        }
    }

    /// Stores trust in exactly the content that the person was shown. If the file has changed
    /// since, it is not used, and reading it reports this. Then the start continues.
    fn trust(&mut self, content: &Content) {
        let ctx = Arc::clone(&self.ctx);
        match config::trust::trust(&ctx.paths, &ctx.here.root, content) {
            Ok(_) => {
                // The question was answered, so its warnings no longer apply.
                let said = ctx.loaded.warnings.iter().map(ToString::to_string);
                self.send(Msg::NoLonger(said.collect()));
                self.reload();
                self.notify(
                    Tone::Calm,
                    "this folder is trusted with this content; rewake trust --remove undoes it",
                );
            }
            Err(e) => self.notify(Tone::Bad, e.to_string()),
        }
        self.send(Msg::TrustSettled);
    }

    fn distrust(&self) {
        let ctx = &self.ctx;
        if let Err(e) = config::trust::decline(&ctx.paths, &ctx.here.root) {
            self.notify(Tone::Warn, e.to_string());
        }
        self.send(Msg::TrustSettled);
    }
}
