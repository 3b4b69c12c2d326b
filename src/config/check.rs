//! Checks of values beyond their types. An error names the place of the value.

use std::ops::RangeInclusive;
use std::path::Path;

use super::http::{is_header, is_http_url};
use super::mcp::{self, check::MAX_SERVERS};
use super::origin::dotted;
use super::{Config, ConfigError, ModelFigures, ModelName, Origins, ProviderEntry};
use crate::core::policy::Rule;

type Checked = Result<(), ConfigError>;

const DAY_SECS: u64 = 86_400;
const DAY_MS: u64 = DAY_SECS * 1_000;
const MIB: u64 = 1024 * 1024;

/// Maximum number of checks, of bytes of one, and of seconds that one may take.
const MAX_CHECKS: usize = 50;
const MAX_CHECK_BYTES: usize = 4_096;
const MAX_CHECK_SEC: u64 = 600;

pub(super) fn check(config: &Config, origins: &Origins) -> Checked {
    numbers(config, origins)?;
    names(config, origins)?;
    rules(config, origins)?;
    for (name, entry) in &config.providers {
        provider(config, name, entry, origins)?;
    }
    for (name, figures) in &config.models {
        model(name, figures, origins)?;
    }
    web(config, origins)?;
    checks(config, origins)?;
    servers(config, origins)
}

fn web(config: &Config, origins: &Origins) -> Checked {
    let is_place = |place: &String| {
        let port = place.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        port.is_some_and(|(host, port)| !host.contains('/') && port.parse::<u16>().is_ok())
    };
    if let Some(place) = config.web.private.iter().find(|place| !is_place(place)) {
        return Err(wrong(
            origins,
            "web.private",
            format!("has {place:?}, and must have HOST:PORT, as in \"docs.internal:443\""),
        ));
    }
    match config.web.search_url.as_deref() {
        Some(url) if !is_http_url(url) => Err(wrong(
            origins,
            "web.search_url",
            "must be the address of a search page, as in \"http://127.0.0.1:8888/search\"",
        )),
        Some(_) | None => Ok(()),
    }
}

fn checks(config: &Config, origins: &Origins) -> Checked {
    if config.check.len() > MAX_CHECKS {
        let more = format!("has {} checks, more than {MAX_CHECKS}", config.check.len());
        return Err(wrong(origins, "check", more));
    }
    for (place, check) in config.check.iter().enumerate() {
        let key = format!("check[{place}]");
        let glob = globset::Glob::new(&check.files);
        let limit = 1..=MAX_CHECK_SEC;
        let fault = match glob {
            _ if check.command.trim().is_empty() => "has no command".to_string(),
            _ if check.command.len() > MAX_CHECK_BYTES || check.files.len() > MAX_CHECK_BYTES => {
                format!("is longer than {MAX_CHECK_BYTES} bytes")
            }
            _ if check.files.is_empty() => "has no files".to_string(),
            Err(error) => format!(
                "has files = {:?}, which is no glob: {}",
                check.files,
                error.kind()
            ),
            Ok(_) if !limit.contains(&check.timeout_sec) => format!(
                "has timeout_sec = {}, and must have 1 to {MAX_CHECK_SEC}",
                check.timeout_sec
            ),
            Ok(_) => continue,
        };
        return Err(wrong(origins, &key, fault));
    }
    Ok(())
}

fn servers(config: &Config, origins: &Origins) -> Checked {
    let many = config.mcp_servers.len();
    if many > MAX_SERVERS {
        return Err(wrong(
            origins,
            "mcp_servers",
            format!("has {many} servers, more than {MAX_SERVERS}"),
        ));
    }
    for (name, server) in &config.mcp_servers {
        if let Some(fault) = mcp::check::fault(name, server) {
            let start = ["mcp_servers", name].into_iter();
            let key: Vec<&str> = start.chain(fault.key.iter().map(String::as_str)).collect();
            let error = wrong(origins, &dotted(&key), fault.why);
            return Err(match fault.hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            });
        }
    }
    Ok(())
}

fn rules(config: &Config, origins: &Origins) -> Checked {
    let permissions = &config.permissions;
    let lists = [
        ("allow", &permissions.allow),
        ("ask", &permissions.ask),
        ("deny", &permissions.deny),
    ];
    for (name, list) in lists {
        for (place, text) in list.iter().enumerate() {
            let origin = origins.of(&format!("permissions.{name}[{place}]"));
            Rule::parse(text)
                .map_err(|why| ConfigError::new(format!("permissions.{name}: {why}")).at(origin))?;
        }
    }
    Ok(())
}

fn wrong(origins: &Origins, key: &str, what: impl AsRef<str>) -> ConfigError {
    let (origin, what) = (origins.of_table(key), what.as_ref());
    ConfigError::new(format!("{origin}: {key} {what}"))
}

fn within(origins: &Origins, key: &str, value: Option<u64>, range: RangeInclusive<u64>) -> Checked {
    match value {
        Some(value) if !range.contains(&value) => Err(wrong(
            origins,
            key,
            format!(
                "is {value}, and must be from {} to {}",
                range.start(),
                range.end()
            ),
        )),
        _ => Ok(()),
    }
}

fn numbers(config: &Config, origins: &Origins) -> Checked {
    let tokens = 1..=10_000_000;
    let Config {
        context,
        shell,
        retry,
        files,
        ..
    } = config;
    let table = [
        (
            "checkpoint_interval_sec",
            Some(config.checkpoint_interval_sec),
            1..=DAY_SECS,
        ),
        (
            "max_output_tokens",
            config.max_output_tokens,
            tokens.clone(),
        ),
        ("max_turns", config.max_turns, 1..=1_000_000),
        (
            "thinking_budget_tokens",
            config.thinking_budget_tokens,
            1_024..=1_000_000,
        ),
        (
            "inline_max_bytes",
            Some(config.inline_max_bytes),
            1_024..=MIB,
        ),
        (
            "agents.max_turns",
            Some(config.agents.max_turns),
            1..=10_000,
        ),
        ("agents.max_sec", Some(config.agents.max_sec), 1..=604_800),
        (
            "agents.max_tokens",
            config.agents.max_tokens,
            1_000..=1_000_000_000,
        ),
        ("context.keep", Some(context.keep), 10..=15),
        (
            "context.max_messages",
            Some(context.max_messages),
            20..=10_000,
        ),
        (
            "context.max_tokens",
            Some(context.max_tokens),
            4_000..=10_000_000,
        ),
        ("context.idle_sec", Some(context.idle_sec), 1..=604_800),
        (
            "context.summary_max_tokens",
            Some(context.summary_max_tokens),
            50..=10_000,
        ),
        (
            "notify.after_sec",
            Some(config.notify.after_sec),
            0..=86_400,
        ),
        ("ui.quiet_ms", Some(config.ui.quiet_ms), 0..=5_000),
        ("shell.timeout_ms", Some(shell.timeout_ms), 1_000..=DAY_MS),
        (
            "shell.output_cap_bytes",
            Some(shell.output_cap_bytes),
            64 * 1024..=1024 * MIB,
        ),
        (
            "instructions.max_bytes",
            Some(config.instructions.max_bytes),
            0..=MIB,
        ),
        ("retry.tries", Some(retry.tries), 1..=100),
        ("retry.base_ms", Some(retry.base_ms), 1..=600_000),
        (
            "retry.cap_ms",
            Some(retry.cap_ms),
            retry.base_ms.min(3_600_000)..=3_600_000,
        ),
        ("retry.max_wait_ms", Some(retry.max_wait_ms), 0..=DAY_MS),
        (
            "store.journal_sync_ms",
            Some(config.store.journal_sync_ms),
            100..=60_000,
        ),
        ("files.max_files", Some(files.max_files), 0..=10_000_000),
        (
            "files.max_file_bytes",
            Some(files.max_file_bytes),
            0..=64 * MIB,
        ),
        (
            "files.max_bytes",
            Some(files.max_bytes),
            0..=1024 * 1024 * MIB,
        ),
        ("files.keep_sec", Some(files.keep_sec), 0..=8_640_000_000),
        ("files.wait_ms", Some(files.wait_ms), 0..=DAY_MS),
    ];
    table
        .into_iter()
        .try_for_each(|(key, value, range)| within(origins, key, value, range))
}

fn names(config: &Config, origins: &Origins) -> Checked {
    let one = |key: &str, model: &Option<String>| model.clone().map(|m| (key.to_string(), m));
    let fallbacks = config.fallback_model.iter().enumerate();
    let fallbacks = fallbacks.map(|(place, m)| (format!("fallback_model[{place}]"), m.clone()));
    let named = one("model", &config.model)
        .into_iter()
        .chain(one("summary_model", &config.summary_model))
        .chain(fallbacks);
    for (key, model) in named {
        let name = ModelName::parse(&model).and_then(|name| config.provider(&name.provider));
        if let Err(e) = name {
            return Err(e.at(origins.of(&key)));
        }
    }
    let many = config.fallback_model.len() as u64;
    within(origins, "fallback_model", Some(many), 0..=8)
        .map_err(|_| wrong(origins, "fallback_model", "has more than 8 models"))?;
    temperature(config.temperature, "temperature", origins)?;
    let files = &config.instructions;
    for (key, names) in [
        ("instructions.files", &files.files),
        ("instructions.fallback", &files.fallback),
    ] {
        if let Some(name) = names.iter().find(|name| !is_file_name(name)) {
            return Err(wrong(
                origins,
                key,
                format!("holds {name:?}, which is not a file name"),
            ));
        }
        within(origins, key, Some(names.len() as u64), 0..=16)
            .map_err(|_| wrong(origins, key, "has more than 16 names"))?;
    }
    match &config.shell.path {
        Some(path) if !path.is_file() => Err(wrong(
            origins,
            "shell.path",
            format!("is {}, and there is no such file", path.display()),
        )),
        _ => Ok(()),
    }
}

/// Returns whether `name` is a file name without a folder, so that it cannot leave the folder it
/// is searched in.
fn is_file_name(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|n| n == name)
}

fn provider(config: &Config, name: &str, entry: &ProviderEntry, origins: &Origins) -> Checked {
    let key = |part: &str| dotted(&["providers", name, part]);
    if let Err(e) = config.provider(name) {
        return Err(e.at(origins.of_table(&dotted(&["providers", name]))));
    }
    if name.is_empty() || name.contains('/') {
        return Err(wrong(
            origins,
            &dotted(&["providers", name]),
            "is not a provider name: it is empty or has a slash",
        ));
    }
    if let Some(url) = &entry.base_url
        && !is_http_url(url)
    {
        return Err(wrong(
            origins,
            &key("base_url"),
            "is not an http:// or https:// address",
        )
        .with_hint("for example http://127.0.0.1:8080/v1"));
    }
    let is_version = |text: &String| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
        text.len() <= 64 && text.bytes().all(fits)
    };
    if !entry.api_version.iter().all(is_version) {
        return Err(wrong(
            origins,
            &key("api_version"),
            "is not a version such as \"2024-10-21\" or \"v1\"",
        ));
    }
    // An empty name means that the server requires no key.
    let variable = |name: &String| !name.contains(['=', '\0', ' ']);
    if !entry.api_key_env.iter().all(variable) {
        return Err(wrong(
            origins,
            &key("api_key_env"),
            "is not the name of a variable",
        )
        .with_hint("the key itself goes into the variable, or into api_key_file"));
    }
    for (header, value) in &entry.headers {
        if !is_header(header, value) {
            return Err(wrong(
                origins,
                &dotted(&["providers", name, "headers", header]),
                "is not a valid header",
            ));
        }
    }
    for (name, value, most) in [
        ("idle_timeout_ms", entry.idle_timeout_ms, 3_600_000),
        ("progress_timeout_ms", entry.progress_timeout_ms, DAY_MS),
        ("answer_timeout_ms", entry.answer_timeout_ms, DAY_MS),
    ] {
        within(origins, &key(name), value, 1_000..=most)?;
    }
    Ok(())
}

fn temperature(value: Option<f64>, key: &str, origins: &Origins) -> Checked {
    match value {
        Some(value) if !(0.0..=2.0).contains(&value) => Err(wrong(
            origins,
            key,
            format!("is {value}, and must be from 0 to 2"),
        )),
        _ => Ok(()),
    }
}

fn model(name: &str, figures: &ModelFigures, origins: &Origins) -> Checked {
    let key = |part: &str| dotted(&["models", name, part]);
    temperature(figures.temperature, &key("temperature"), origins)?;
    if let Err(e) = ModelName::parse(name) {
        return Err(e.at(origins.of_table(&dotted(&["models", name]))));
    }
    within(
        origins,
        &key("context_window"),
        figures.context_window,
        4_000..=100_000_000,
    )?;
    within(
        origins,
        &key("max_output"),
        figures.max_output,
        1..=10_000_000,
    )?;
    let prices = [
        ("input_price", figures.input_price),
        ("cached_price", figures.cached_price),
        ("cache_write_price", figures.cache_write_price),
        ("output_price", figures.output_price),
    ];
    for (part, price) in prices {
        if price.is_some_and(|p| !(0.0..=1_000_000.0).contains(&p)) {
            return Err(wrong(
                origins,
                &key(part),
                "must be from 0 to 1000000 dollars",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::testing::Fixture;

    #[test]
    fn values_out_of_bounds_are_named_with_their_line() {
        let table = [
            (
                "checkpoint_interval_sec = 0",
                "checkpoint_interval_sec is 0, and must be from 1 to 86400",
            ),
            (
                "context.keep = 20",
                "context.keep is 20, and must be from 10 to 15",
            ),
            (
                "ui.quiet_ms = 5001",
                "ui.quiet_ms is 5001, and must be from 0 to 5000",
            ),
            (
                "max_turns = 0",
                "max_turns is 0, and must be from 1 to 1000000",
            ),
            (
                "retry = { base_ms = 5000, cap_ms = 100 }",
                "retry.cap_ms is 100, and must be from 5000 to 3600000",
            ),
            (
                "model = \"gpt-5\"",
                "\"gpt-5\" does not name a model as provider/model",
            ),
            (
                "summary_model = \"antropic/x\"",
                "there is no provider named \"antropic\"",
            ),
            (
                "instructions.files = [\"../AGENTS.md\"]",
                "instructions.files holds \"../AGENTS.md\", which is not a file name",
            ),
            (
                "instructions.fallback = [\"..\"]",
                "instructions.fallback holds \"..\", which is not a file name",
            ),
            (
                "permissions.deny = [\"Bash\", \"Raed(x)\"]",
                "permissions.deny: rule \"Raed(x)\": there is no rule named \"Raed\"; the nearest is Read; there are Bash, Network, Full, Read, Edit, Write, Grep, Glob, Memory, History, WebFetch, WebSearch and mcp__SERVER__TOOL",
            ),
            (
                "shell.path = \"/nowhere/sh\"",
                "shell.path is /nowhere/sh, and there is no such file",
            ),
            (
                "providers.x.base_url = \"http://h\"",
                "provider \"x\" has no protocol",
            ),
            (
                "providers.openai.base_url = \"ftp://h\"",
                "providers.openai.base_url is not an http:// or https:// address",
            ),
            (
                "providers.openai.api_key_env = \"sk = 1\"",
                "providers.openai.api_key_env is not the name of a variable",
            ),
            (
                "providers.openai.headers.X = \"a\\nb\"",
                "providers.openai.headers.X is not a valid header",
            ),
            (
                "models.m.context_window = 8000",
                "\"m\" does not name a model as provider/model",
            ),
            (
                "models.\"a/b\".context_window = 3999",
                "models.\"a/b\".context_window is 3999, and must be from 4000 to 100000000",
            ),
            (
                "models.\"a/b\".input_price = -1",
                "models.\"a/b\".input_price must be from 0 to 1000000 dollars",
            ),
            (
                "models.\"a/b\".output_price = nan",
                "models.\"a/b\".output_price must be from 0 to 1000000 dollars",
            ),
        ];
        for (text, message) in table {
            let f = Fixture::new();
            f.user(&format!("# first line\n{text}\n"));
            let err = f.load(&[], &[]).unwrap_err().to_string();
            assert_eq!(f.short(&err), format!("config/config.toml:2: {message}"));
        }
    }

    #[test]
    fn a_flag_out_of_bounds_is_named_as_typed() {
        let f = Fixture::new();
        let err = f.load(&[], &["context.keep=99"]).unwrap_err().to_string();
        assert_eq!(
            err,
            "--set context.keep: context.keep is 99, and must be from 10 to 15"
        );
    }
}
