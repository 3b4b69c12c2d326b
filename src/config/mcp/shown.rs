//! The text of a definition that a person reads before trusting it.

use super::expand::variables;
use super::{McpServer, bare_url};

/// Returns the command line or the address, followed by everything else that decides what runs
/// with what access. `Debug` makes control characters and characters without a width visible.
/// Values of headers are left out, except for the variables they use.
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

/// Returns the command or the URL of a server, on one line.
pub fn start(server: &McpServer) -> String {
    match (&server.command, &server.url) {
        (Some(command), _) => {
            let words = std::iter::once(command).chain(&server.args);
            words.map(|text| word(text)).collect::<Vec<_>>().join(" ")
        }
        (None, Some(url)) => {
            let bare = plain(&bare_url(url));
            // The hidden part of the address may use variables.
            let names = variables(url).into_iter();
            let hidden = names.map(|name| format!("${{{name}}}"));
            let hidden: Vec<String> = hidden.filter(|name| !bare.contains(name)).collect();
            if hidden.is_empty() {
                bare
            } else {
                format!("{bare} {}", hidden.join(" "))
            }
        }
        (None, None) => String::new(),
    }
}

/// Returns the variables of a hidden value.
fn asked(value: &str) -> String {
    let names = variables(value).into_iter();
    let names: Vec<String> = names.map(|name| format!("${{{name}}}")).collect();
    if names.is_empty() {
        "…".to_string()
    } else {
        format!("… {}", names.join(" "))
    }
}

/// Returns the word as a shell accepts it if it is simple, else in quotes.
fn word(text: &str) -> String {
    let is_simple = |b: u8| b.is_ascii_alphanumeric() || b"-_./:@%+=,${}".contains(&b);
    if !text.is_empty() && text.bytes().all(is_simple) {
        text.to_string()
    } else {
        format!("{text:?}")
    }
}

/// Returns the `Debug` form without its quotes.
fn plain(text: &str) -> String {
    let quoted = format!("{text:?}");
    quoted[1..quoted.len() - 1].to_string()
}
