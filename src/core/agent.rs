//! Agents from files. A Markdown file describes the purpose of a subagent and gives its
//! instructions.
//!
//! Deliberately absent: reading files.

use super::custom::check_name;
use super::front_matter::{front_matter, in_a_line, pairs};
use super::text::one_line;

/// Maximum size of an agent file, in bytes.
pub const MAX_FILE_BYTES: u64 = 64 * 1024;

const MAX_DESCRIPTION_CHARS: usize = 300;
const MAX_TOOLS: usize = 64;

/// A parsed agent file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentFile {
    pub name: String,
    /// One line, in which invisible characters are marked.
    pub description: String,
    /// Names of the only tools that the agent has, in lower case. `None`: all but `task`.
    pub tools: Option<Vec<String>>,
    /// The model as the file names it. A name without a `/` is not a model name of rewake.
    pub model: Option<String>,
    /// Instructions for the model.
    pub body: String,
}

/// Tool names in the agent files of other programs, with the name of the same tool here.
const ALIASES: [(&str, &str); 3] = [("multiedit", "edit"), ("ls", "glob"), ("todowrite", "plan")];

/// Parses an agent file. `stem` is the file's name without `.md`.
///
/// # Errors
/// Returns a message that describes the first problem in the file.
pub fn parse(text: &str, stem: &str) -> Result<AgentFile, String> {
    let (front, body) = front_matter(text)?;
    let mut agent = AgentFile {
        name: stem.to_string(),
        body: body.trim().to_string(),
        ..AgentFile::default()
    };
    for (key, value) in pairs(front) {
        let of_key = |why: String| format!("the value of `{key}` {why}");
        if !["name", "description", "tools", "model"].contains(&key) {
            continue;
        }
        let value = in_a_line(&value.text_or_list().map_err(of_key)?);
        match key {
            "name" => agent.name = value,
            "description" => agent.description = one_line(&value, MAX_DESCRIPTION_CHARS),
            "tools" => agent.tools = tools(&value),
            _ => agent.model = Some(value).filter(|model| !model.is_empty()),
        }
    }
    check_name(&agent.name)?;
    match (agent.description.is_empty(), agent.body.is_empty()) {
        (true, _) => Err("it has no `description`".to_string()),
        (_, true) => Err("it says nothing".to_string()),
        (false, false) => Ok(agent),
    }
}

/// Parses a list such as `Read, Grep` or `[read, grep]`. Returns `None` for all tools: an empty
/// list or one with a star.
fn tools(text: &str) -> Option<Vec<String>> {
    let names = text.trim_matches(['[', ']']).split([',', ' ']);
    let names = names.map(|name| name.trim().trim_matches(['"', '\'']).to_ascii_lowercase());
    let named: Vec<String> = names
        .filter(|name| !name.is_empty())
        .map(|name| {
            let alias = ALIASES.iter().find(|(other, _)| *other == name);
            alias.map_or(name, |(_, own)| own.to_string())
        })
        .take(MAX_TOOLS)
        .collect();
    let is_all = named.is_empty() || named.iter().any(|name| name == "*");
    (!is_all).then_some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_the_agent_is() {
        let text = "---\nname: reviewer\ndescription: Reviews changes\ntools: Read, Grep, LS\n\
                    model: a/b\ncolor: red\n---\n\nYou review.\n";
        let want = AgentFile {
            name: "reviewer".into(),
            description: "Reviews changes".into(),
            tools: Some(vec!["read".into(), "grep".into(), "glob".into()]),
            model: Some("a/b".into()),
            body: "You review.".into(),
        };
        assert_eq!(parse(text, "file"), Ok(want));
        let plain = parse("---\ndescription: x\ntools: \"*\"\n---\nDo.", "by-file").unwrap();
        assert_eq!((plain.name.as_str(), plain.tools), ("by-file", None));
    }

    #[test]
    fn a_bad_file_says_what_is_wrong() {
        for (text, stem, why) in [
            ("You review.", "a", "it does not begin with a line `---`"),
            ("---\nname: a\n---\nx", "a", "it has no `description`"),
            ("---\ndescription: a\n---\n \n", "a", "it says nothing"),
            (
                "---\ndescription: a\n",
                "a",
                "its front matter has no closing line `---`",
            ),
        ] {
            assert_eq!(parse(text, stem).unwrap_err(), why, "{text:?}");
        }
        assert!(parse("---\ndescription: a\nname: a b\n---\nx", "a").is_err());
        assert!(parse("---\ndescription: a\n---\nx", "a/b").is_err());
    }
}
