//! The name of a server's tool for the model: `mcp__server__tool`.
//!
//! Providers accept letters, digits, `_` and `-`, at most 64. A name that had to be changed ends
//! with a hash of the original, so two tools never get the same name.

use std::collections::BTreeSet;

const MAX: usize = 64;
const HASH_CHARS: usize = 8;

/// Maximum length of the server's part, which is in every name of its tools.
const SERVER_MAX: usize = 24;

pub fn tool_name(server: &str, tool: &str) -> String {
    let mut name = format!("mcp__{}__{}", server_part(server), plain(tool));
    let is_changed = plain(tool) != tool || name.len() > MAX || tool.is_empty();
    if is_changed {
        name.truncate(MAX - HASH_CHARS - 1);
        name.push('_');
        name.push_str(&hash(&format!("{server}\0{tool}")));
    }
    name
}

/// Returns the name of a tool if another tool already has its usual name.
pub fn tool_name_apart(server: &str, tool: &str) -> String {
    let mut name = format!("mcp__{}__{}", server_part(server), plain(tool));
    name.truncate(MAX - HASH_CHARS - 1);
    name.push('_');
    name.push_str(&hash(&format!("{server}\0{tool}\0apart")));
    name
}

/// Returns the tools of one server whose usual names are taken by earlier ones, with their new
/// names.
pub fn apart<'a>(server: &str, tools: impl Iterator<Item = &'a str>) -> Vec<(&'a str, String)> {
    let mut taken = BTreeSet::new();
    let met = tools.filter(|tool| !taken.insert(tool_name(server, tool)));
    met.map(|tool| (tool, tool_name_apart(server, tool)))
        .collect()
}

/// Returns the server's part in the full names of its tools.
pub fn server_part(server: &str) -> String {
    fitting(server, SERVER_MAX)
}

/// Converts a part of a full name. Two underscores separate the parts, so no part contains them.
fn fitting(part: &str, max: usize) -> String {
    let plain = plain(part);
    let has_separator = plain.contains("__") || plain.starts_with('_') || plain.ends_with('_');
    if plain == part && plain.len() <= max && !has_separator && !plain.is_empty() {
        return plain;
    }
    let mut short = plain.replace("__", "-").replace('_', "-");
    short.truncate(max - HASH_CHARS - 1);
    format!("{short}-{}", hash(part))
}

fn plain(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.chars()
        .map(|c| if allowed(c) { c } else { '_' })
        .collect()
}

fn hash(text: &str) -> String {
    let mut hex = blake3::hash(text.as_bytes()).to_hex().to_string();
    hex.truncate(HASH_CHARS);
    hex
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_that_fits_stays_as_it_is() {
        assert_eq!(tool_name("files", "read_file"), "mcp__files__read_file");
        assert_eq!(tool_name("a-b", "__x"), "mcp__a-b____x");
    }

    #[test]
    fn similar_names_get_distinct_full_names() {
        let long = "x".repeat(80);
        let pairs = [
            ("s", "a.b"),
            ("s", "a_b"),
            ("s", "a/b"),
            ("s", ""),
            ("s", "ä"),
            ("", "a"),
            ("a__b", "c"),
            ("a", "b__c"),
            ("a-b", "c"),
            ("s", long.as_str()),
            (long.as_str(), "s"),
            ("a_", "b"),
            ("a", "_b"),
        ];
        let names: BTreeSet<String> = pairs.iter().map(|(s, t)| tool_name(s, t)).collect();
        assert_eq!(names.len(), pairs.len(), "{names:?}");
    }

    #[test]
    fn a_name_that_is_taken_gets_another_that_fits_too() {
        let long = "x".repeat(80);
        for tool in ["a.b", "a", long.as_str()] {
            let apart = tool_name_apart("s", tool);
            assert_ne!(apart, tool_name("s", tool));
            assert_eq!(apart, tool_name_apart("s", tool));
            let named = tool_name("s", tool);
            let literal = named.strip_prefix("mcp__s__").unwrap();
            let met = super::apart("s", [tool, literal].into_iter());
            assert_eq!(met, [(literal, tool_name_apart("s", literal))]);
            assert!(
                apart.len() <= MAX && apart.starts_with("mcp__s__"),
                "{apart}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_name_is_one_that_providers_take(server in ".{0,100}", tool in ".{0,100}") {
            let name = tool_name(&server, &tool);
            prop_assert!(name.starts_with("mcp__") && name.len() <= MAX, "{}", name);
            prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
            prop_assert_eq!(&name, &tool_name(&server, &tool));
        }
    }
}
