//! How the screen begins: which session, what is offered, and what is looked for when there is
//! no model.

use std::sync::mpsc::Sender;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::app::{App, Begin, LaunchInfo, Phase, Quiet};
use super::overlay::{FirstRun, Provider};
use super::theme::Theme;
use super::{Wake, style};
use crate::config;
use crate::model::{Figures, Models};
use crate::session::{AppContext, SessionError, VERSION, Which, now_ms};

/// What the command line asks of the screen.
#[derive(Debug, Clone, Default)]
pub struct Start {
    pub which: Option<Which>,
    /// `-r` without an id: the history is opened.
    pub pick: bool,
    pub prompt: Option<String>,
    pub no_alt_screen: bool,
}

/// The screen before anything is looked up.
pub(super) fn app(ctx: &AppContext) -> App {
    let (theme, trouble) = match style::theme(ctx, None) {
        Ok(theme) => (theme, None),
        Err(why) => (
            Theme::named("dark").unwrap_or_else(|_| Theme::plain()),
            Some(why),
        ),
    };
    let launch = LaunchInfo {
        folder: ctx.here.folder.to_string_lossy().into_owned(),
        workspace: ctx.workspace(),
        home: ctx.env.home().map(|h| h.to_string_lossy().into_owned()),
        version: VERSION,
    };
    let mut app = App::new(launch, theme, Figures::new(ctx.config()), now_ms());
    app.quiet = Quiet::new(Duration::from_millis(ctx.config().ui.quiet_ms));
    app.theme_name = ctx.config().theme.clone();
    let warnings = ctx.loaded.warnings.iter();
    app.warned.extend(warnings.map(ToString::to_string));
    app.warned.extend(trouble);
    app.phase = Phase::Starting;
    app
}

/// A person who names a session gets it; else unfinished work is offered before anything new.
/// Reads the store and files, and asks servers: not for the thread that draws.
pub fn begin(ctx: &AppContext, start: Start) -> Result<Begin, SessionError> {
    let Start {
        which,
        pick,
        prompt,
        ..
    } = start;
    let then = match which {
        Some(which) => Begin::Open { which, prompt },
        None if pick => Begin::History,
        None => {
            let offers = ctx.offers(&ctx.open_store()?)?;
            match (offers.is_empty(), no_model(ctx)) {
                (false, _) => Begin::Offers { offers, prompt },
                (true, Some(why)) => Begin::FirstRun(FirstRun::new(why, providers(ctx))),
                (true, None) => Begin::Open {
                    which: Which::New,
                    prompt,
                },
            }
        }
    };
    Ok(match asks_for_trust(ctx) {
        true => Begin::Trust {
            project: Box::new(ctx.loaded.project.clone()),
            then: Box::new(then),
        },
        false => then,
    })
}

/// Why no model can be asked.
fn no_model(ctx: &AppContext) -> Option<String> {
    let name = match ctx.config().model_name(&ctx.env) {
        Ok(name) => name.to_string(),
        Err(e) => return Some(e.to_string()),
    };
    let models = Models::new(ctx.config().clone(), ctx.env.clone());
    models.check(&name).err().map(|e| e.to_string())
}

/// A config of the folder's own that is not used as a whole, and nobody declined.
fn asks_for_trust(ctx: &AppContext) -> bool {
    let declined = config::trust::was_declined(&ctx.paths, &ctx.here.root);
    ctx.loaded.project.needs_trust() && matches!(declined, Ok(false))
}

/// What was looked for, and what of it can be used.
fn providers(ctx: &AppContext) -> Vec<Provider> {
    let mut providers: Vec<Provider> = ["anthropic", "openai", "gemini", "openrouter"]
        .into_iter()
        .map(|name| keyed(ctx, name))
        .collect();
    providers.push(local(ctx, "ollama", "http://127.0.0.1:11434", "/api/tags"));
    providers.push(local(ctx, "llama.cpp", LLAMA_CPP, "/v1/models"));
    providers
}

fn keyed(ctx: &AppContext, name: &str) -> Provider {
    let env = format!("{}_API_KEY", name.to_uppercase());
    let key = ctx
        .config()
        .provider(name)
        .and_then(|provider| provider.key(&ctx.env));
    let is_ready = matches!(key, Ok(Some(_)));
    let default = config::default_model(name);
    Provider {
        name: name.to_string(),
        found: match is_ready {
            true => "a key is there".to_string(),
            false => format!("no key: {env} is not set"),
        },
        is_ready: is_ready && default.is_some(),
        models: default.into_iter().collect(),
        hint: format!("export {env}=…"),
    }
}

/// Where llama.cpp's server listens unless told otherwise.
pub(super) const LLAMA_CPP: &str = "http://127.0.0.1:8080/v1";

/// A server on this machine, asked for its models. It is there at once or not at all.
fn local(ctx: &AppContext, name: &str, usual: &str, path: &str) -> Provider {
    let named = match name {
        "ollama" => ctx.config().provider("ollama").ok().map(|p| p.base_url),
        _ => None,
    };
    let base = named.unwrap_or_else(|| usual.to_string());
    let base = base
        .trim_end_matches('/')
        .trim_end_matches("/v1")
        .to_string();
    let models = probe(&base, path);
    let prefix = if name == "ollama" {
        "ollama"
    } else {
        "llamacpp"
    };
    let hint = match name {
        "ollama" => "ollama serve, then ollama pull a model that can call tools".to_string(),
        _ => "llama-server --jinja -m MODEL.gguf".to_string(),
    };
    match models {
        None => Provider {
            name: name.to_string(),
            found: format!("no server at {base}"),
            is_ready: false,
            models: Vec::new(),
            hint,
        },
        Some(models) => Provider {
            name: name.to_string(),
            found: format!("a server at {base} with {} models", models.len()),
            is_ready: !models.is_empty(),
            models: models.iter().map(|m| format!("{prefix}/{m}")).collect(),
            hint,
        },
    }
}

/// One small request over plain HTTP/1.0 with a short patience: the first screen must not wait.
fn probe(base: &str, path: &str) -> Option<Vec<String>> {
    use std::io::{Read, Write};
    use std::net::{TcpStream, ToSocketAddrs};
    const PATIENCE: Duration = Duration::from_millis(300);
    const MAX_BYTES: u64 = 1 << 20;
    let host = base.strip_prefix("http://")?;
    let host = host.split('/').next()?;
    let address = match host.contains(':') {
        true => host.to_string(),
        false => format!("{host}:80"),
    };
    let address = address.to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.take(MAX_BYTES).read_to_end(&mut answer).ok()?;
    let text = String::from_utf8_lossy(&answer);
    let (_, body) = text.split_once("\r\n\r\n")?;
    let value: serde_json::Value = serde_json::from_str(body).ok()?;
    let list = value
        .get("models")
        .or_else(|| value.get("data"))?
        .as_array()?;
    let name = |model: &serde_json::Value| {
        let name = model.get("name").or_else(|| model.get("id"))?;
        Some(name.as_str()?.to_string())
    };
    Some(list.iter().filter_map(name).take(20).collect())
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
