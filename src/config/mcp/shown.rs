//! A definition as a person reads it before trusting it.

use super::expand::variables;
use super::{McpServer, bare_url};

/// The command line or the address, and below it what else decides what runs and what it gets. Debug
/// marks control characters and what has no width. Values of headers are left out, but for the
/// variables that they ask for.
pub(in crate::config) fn shown(server: &McpServer) -> String {
    let mut lines = vec![start(server)];
    if let Some(cwd) = &server.cwd {
        lines.push(format!("in {cwd:?}"));
    }
    for (name, value) in &server.env {
        lines.push(format!("env {} = {value:?}", word(name)));
    }
    for (name, value) in &server.headers {
        lines.push(format!("header {}: {}", word(name), asked(value)));
    }
    if let Some(name) = &server.bearer_token_env_var {
        lines.push(format!("sends the variable {} as a token", word(name)));
    }
    lines.join("\n  ")
}

/// What starts a server, on one line.
pub fn start(server: &McpServer) -> String {
    match (&server.command, &server.url) {
        (Some(command), _) => {
            let words = std::iter::once(command).chain(&server.args);
            words.map(|text| word(text)).collect::<Vec<_>>().join(" ")
        }
        (None, Some(url)) => {
            let bare = plain(&bare_url(url));
            // What is left out of the address may ask for variables.
            let names = variables(url).into_iter();
            let hidden = names.map(|name| format!("${{{name}}}"));
            let hidden: Vec<String> = hidden.filter(|name| !bare.contains(name)).collect();
            match hidden.is_empty() {
                true => bare,
                false => format!("{bare} {}", hidden.join(" ")),
            }
        }
        (None, None) => String::new(),
    }
}

/// The variables of a value that is not shown.
fn asked(value: &str) -> String {
    let names = variables(value).into_iter();
    let names: Vec<String> = names.map(|name| format!("${{{name}}}")).collect();
    match names.is_empty() {
        true => "…".to_string(),
        false => format!("… {}", names.join(" ")),
    }
}

/// As a shell would take it where it is simple, else in quotes.
fn word(text: &str) -> String {
    let is_simple = |b: u8| b.is_ascii_alphanumeric() || b"-_./:@%+=,${}".contains(&b);
    match !text.is_empty() && text.bytes().all(is_simple) {
        true => text.to_string(),
        false => format!("{text:?}"),
    }
}

/// Debug without its quotes.
fn plain(text: &str) -> String {
    let quoted = format!("{text:?}");
    quoted[1..quoted.len() - 1].to_string()
}
