//! Names of tools on the wire. Models invent tools, and a provider refuses every request with an
//! invalid name as long as that call is in the history.

use std::borrow::Cow;

/// Length of a tool name that every provider accepts.
const MAX_LEN: usize = 64;

/// Returns the name of a call in a form that every provider accepts. A valid name stays unchanged.
pub(super) fn tool_name(name: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
    if name.starts_with(begins) && name.len() <= MAX_LEN && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let mut out = String::from(if name.starts_with(begins) { "" } else { "_" });
    out.extend(
        name.chars()
            .map(|c| if fits(c) { c } else { '_' })
            .take(MAX_LEN - out.len()),
    );
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::tool_name;

    #[test]
    fn an_invented_name_cannot_spoil_a_request() {
        assert_eq!(tool_name("mcp__git__log-1"), "mcp__git__log-1");
        assert_eq!(tool_name("functions.read file"), "functions_read_file");
        assert_eq!(tool_name(""), "_");
        assert_eq!(tool_name("1ü"), "_1_");
        assert_eq!(tool_name(&"x".repeat(99)).len(), 64);
    }
}
