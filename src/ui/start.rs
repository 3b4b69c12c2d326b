//! The start of the screen: the session to open, the offers, and the providers to check without a
//! model.

use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::app::{App, Begin, LaunchInfo, Phase, TypeAheadGuard};
use super::keys::Keymap;
use super::overlay::{FirstRun, Provider};
use super::{Wake, style};
use crate::config;
use crate::config::{EditorMode, KeyedProvider, Project};
use crate::core::text::count;
use crate::model::Figures;
use crate::model::discover::{self, LocalServer};
use crate::session::{AppContext, SessionError, SessionSelector, now_ms, sandbox};

/// Options of the command line for the screen.
#[derive(Debug, Clone, Default)]
pub struct Start {
    pub which: Option<SessionSelector>,
    /// `-r` without an id: the history is opened.
    pub pick: bool,
    /// The picked session is forked.
    pub fork: bool,
    /// Dismissed sessions are offered too.
    pub all: bool,
    /// The prompt that is sent as soon as a session is open.
    pub prompt: Option<String>,
    /// Images of the prompt.
    pub images: Vec<PathBuf>,
    /// Line mode: lines are printed, and nothing is drawn.
    pub plain: bool,
    /// The terminal's own screen is used, not its second one.
    pub no_alt_screen: bool,
    /// The mouse is left to the terminal.
    pub no_mouse: bool,
    /// Time after which the work is stopped and the screen is left.
    pub timeout: Option<Duration>,
    /// The new sessions are purged afterwards.
    pub is_ephemeral: bool,
}

/// Makes the screen before anything is looked up.
pub(super) fn app(ctx: &AppContext) -> App {
    let palette = style::palette(ctx, None).unwrap_or_else(|_| style::usual(ctx));
    let launch = LaunchInfo {
        folder: ctx.here.folder.to_string_lossy().into_owned(),
        workspace: ctx.workspace(),
        home: ctx.env.home().map(|h| h.to_string_lossy().into_owned()),
    };
    let mut app = App::new(launch, palette, Figures::new(ctx.config()), now_ms());
    app.look.use_background(style::ground(ctx));
    app.look.is_ascii = style::is_ascii(ctx);
    app.look.zone = jiff::tz::TimeZone::system();
    app.attention.config = ctx.config().notify.clone();
    app.prompts.quiet = TypeAheadGuard::new(Duration::from_millis(ctx.config().ui.quiet_ms));
    let warnings = ctx.loaded.warnings.iter();
    app.warned.extend(warnings.map(ToString::to_string));
    app.warned.extend(style::warnings(ctx));
    app.input.composer.keys.map = Keymap::of(ctx.config());
    let is_vim = ctx.config().editor.mode == EditorMode::Vim;
    app.input.composer.set_vim(is_vim);
    app.session.phase = Phase::Starting;
    app
}

/// Returns the start: the session that a person named, or else the offers of unfinished work, or
/// else a new session. Reads the store and files, and asks servers: not for the thread that draws.
pub fn begin(ctx: &AppContext, start: Start) -> Result<Begin, SessionError> {
    let Start {
        which,
        pick,
        fork,
        all,
        prompt,
        ..
    } = start;
    let then = match which {
        Some(which) => Begin::Open { which, prompt },
        None if pick => Begin::History { fork, prompt },
        None => {
            let offers = ctx.session_list().offers(&ctx.open_store()?, all)?;
            match (offers.is_empty(), no_model(ctx)) {
                (false, _) => Begin::Offers { offers, prompt },
                (true, Some(why)) => {
                    // Without a configured model, the list of choices is explanation enough.
                    let why = ctx.config().model.as_ref().map(|_| why);
                    let first = FirstRun::new(why.unwrap_or_default(), providers(ctx));
                    Begin::FirstRun { first, prompt }
                }
                (true, None) => Begin::Open {
                    which: SessionSelector::New,
                    prompt,
                },
            }
        }
    };
    Ok(match asks_for_trust(ctx) {
        true => Begin::Trust {
            project: Box::new(Project {
                has_no_sandbox: !sandbox::given(ctx).available,
                ..ctx.loaded.project.clone()
            }),
            then: Box::new(then),
        },
        false => then,
    })
}

/// Returns the reason why no model can be used.
fn no_model(ctx: &AppContext) -> Option<String> {
    let name = match ctx.config().model_name(&ctx.env) {
        Ok(name) => name.to_string(),
        Err(e) => return Some(e.to_string()),
    };
    ctx.models().check(&name).err().map(|e| e.to_string())
}

/// Returns whether to ask for trust: the folder has a config that is not fully used, and nobody
/// declined.
fn asks_for_trust(ctx: &AppContext) -> bool {
    let declined = config::trust::was_declined(&ctx.paths, &ctx.here.root);
    ctx.loaded.project.needs_trust() && matches!(declined, Ok(false))
}

/// Returns the providers that were looked for, and whether each can be used.
fn providers(ctx: &AppContext) -> Vec<Provider> {
    let known = config::keyed_providers();
    let mut providers: Vec<Provider> = known.map(|known| keyed(ctx, &known)).collect();
    let servers = discover::local_servers(ctx.config());
    providers.extend(servers.into_iter().map(local));
    providers
}

fn keyed(ctx: &AppContext, known: &KeyedProvider) -> Provider {
    let provider = ctx.config().provider(known.name);
    let key = provider.and_then(|provider| provider.key(&ctx.env));
    let has_key = matches!(key, Ok(Some(_)));
    let default = config::default_models(known.name).into_iter().next();
    let set: Vec<String> = known.variables.iter().map(|v| format!("{v}=…")).collect();
    let set = format!("export {}", set.join(" "));
    let named = format!("rewake -m {}/{}", known.name, known.model);
    let found = match (has_key, &default) {
        (true, Some(_)) => "a key is there".to_string(),
        (true, None) => "a key is there; name a model".to_string(),
        (false, _) => {
            let variable = known.variables.last().copied().unwrap_or_default();
            format!("or set {variable} before you start")
        }
    };
    let hint = match (has_key, &default) {
        (_, Some(_)) => set,
        (true, None) => named,
        (false, None) => format!("{set}, then {named}"),
    };
    Provider {
        name: known.name.to_string(),
        found,
        is_ready: has_key && default.is_some(),
        models: default.iter().cloned().collect(),
        with_key: with_key(ctx, known, default),
        hint,
        is_usual: known.is_usual || has_key,
    }
}

/// Returns the model to start with after the key of its provider was typed: the configured one, or
/// the usual one.
fn with_key(ctx: &AppContext, known: &KeyedProvider, default: Option<String>) -> Option<String> {
    let chosen = ctx.config().model.clone();
    let is_of_it = |model: &String| model.split('/').next() == Some(known.name);
    // A key alone does not help a provider that also lacks its address.
    let needs_key_alone = known.variables.len() == 1;
    chosen
        .filter(is_of_it)
        .or(default)
        .filter(|_| needs_key_alone)
}

/// Returns a provider for a server on this machine, from its answer.
fn local(server: LocalServer) -> Provider {
    let base = &server.base;
    let found = match &server.models {
        None => format!("no server at {base}"),
        Some(models) => format!("a server at {base} with {}", count(models.len(), "model")),
    };
    let models = server.models.unwrap_or_default();
    Provider {
        name: server.name.to_string(),
        found,
        is_ready: !models.is_empty(),
        models,
        hint: server.hint.to_string(),
        with_key: None,
        is_usual: true,
    }
}

/// Tells when a file of the config changes. `None` when that cannot be known: then a change
/// holds from the next start on.
pub(super) fn watch_config(ctx: &AppContext, wakes: Sender<Wake>) -> Option<RecommendedWatcher> {
    let own = ctx.paths.config_dir.clone();
    let project = ctx.here.root.join(".rewake");
    let is_config = |path: &std::path::Path| path.extension().is_some_and(|end| end == "toml");
    let on_change = move |event: notify::Result<notify::Event>| {
        if let Ok(event) = event
            && !event.kind.is_access()
            && event.paths.iter().any(|path| is_config(path))
        {
            let _ = wakes.send(Wake::Config);
        }
    };
    let mut watcher = notify::recommended_watcher(on_change)
        .inspect_err(|error| tracing::warn!(%error, "changes of the config are not seen"))
        .ok()?;
    for folder in [own, project] {
        if folder.is_dir() {
            let _ = watcher.watch(&folder, RecursiveMode::NonRecursive);
        }
    }
    Some(watcher)
}
