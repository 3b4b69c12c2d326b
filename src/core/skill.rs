//! The Agent Skills format (<https://agentskills.io/specification>): a `SKILL.md` whose front
//! matter has a name and a description, followed by the instructions.
//!
//! Invariant: [`parse`] accepts everything that [`render`] writes.

use super::front_matter::{FENCE, front_matter, in_a_line, pairs};
use super::text::one_line;

pub const FILE: &str = "SKILL.md";
/// Folder of the skills, from the root of the workspace.
pub const FOLDER: &str = ".rewake/skills";

const MAX_NAME_CHARS: usize = 64;
const MAX_DESCRIPTION_CHARS: usize = 1_024;
const MAX_BODY_BYTES: usize = 64 * 1024;

/// The name and the description of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// One line, in which invisible characters are marked. So is the description, since both may
    /// come from a stranger.
    pub name: String,
    pub description: String,
}

/// Returns the path of its file, from the root of the workspace. `name` must be checked.
pub fn path(name: &str) -> String {
    format!("{FOLDER}/{name}/{FILE}")
}

/// Checks a skill before it is written. The error is in words the model can act on.
pub fn check(name: &str, description: &str, body: &str) -> Result<(), String> {
    let chars = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let length = name.chars().count();
    if !(1..=MAX_NAME_CHARS).contains(&length) || !name.chars().all(chars) {
        return Err(format!(
            "`name` must have 1 to {MAX_NAME_CHARS} lower case letters, digits and hyphens"
        ));
    }
    if name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        return Err("`name` has a hyphen at an end, or two in a row".to_string());
    }
    let length = description.trim().chars().count();
    if !(1..=MAX_DESCRIPTION_CHARS).contains(&length) {
        return Err(format!(
            "`description` has {length} characters, and must have 1 to {MAX_DESCRIPTION_CHARS}"
        ));
    }
    if body.trim().is_empty() {
        return Err("`body` is empty".to_string());
    }
    if body.len() > MAX_BODY_BYTES {
        return Err(format!(
            "`body` has {} bytes, and may have {MAX_BODY_BYTES}",
            body.len()
        ));
    }
    Ok(())
}

/// Renders the whole file.
pub fn render(name: &str, description: &str, body: &str) -> String {
    // A JSON string is a valid YAML string.
    let description = serde_json::Value::from(in_a_line(description));
    let body = body.trim();
    format!("{FENCE}\nname: {name}\ndescription: {description}\n{FENCE}\n\n{body}\n")
}

/// Parses the heading of a `SKILL.md`.
///
/// # Errors
/// Returns a message about the first problem in the front matter.
pub fn parse(text: &str) -> Result<Heading, String> {
    let mut name = None;
    let mut description = None;
    for (key, value) in pairs(front_matter(text)?.0) {
        match key {
            "name" if name.is_none() => name = Some(value.text().map_err(of_key(key))?),
            "description" if description.is_none() => {
                description = Some(value.text().map_err(of_key(key))?);
            }
            _ => {}
        }
    }
    Ok(Heading {
        name: checked_text(name, "name", MAX_NAME_CHARS)?,
        description: checked_text(description, "description", MAX_DESCRIPTION_CHARS)?,
    })
}

fn of_key(key: &str) -> impl Fn(String) -> String {
    move |why| format!("the value of `{key}` {why}")
}

fn checked_text(value: Option<String>, key: &str, max_chars: usize) -> Result<String, String> {
    let value = value.ok_or_else(|| format!("its front matter has no `{key}`"))?;
    let line = one_line(&in_a_line(&value), max_chars);
    if line.is_empty() {
        return Err(format!("`{key}` is empty"));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn heading(front: &str) -> Result<(String, String), String> {
        parse(&format!("---\n{front}\n---\nbody"))
            .map(|heading| (heading.name, heading.description))
    }

    #[test]
    fn front_matter_is_read_as_people_write_it() {
        for (front, description) in [
            ("name: a\ndescription: plain words", "plain words"),
            ("description: x: y # z\nname: a", "x: y"),
            (
                "name: a\ndescription: >\n  folded\n  lines\n\n  more",
                "folded lines more",
            ),
            (
                "name: a\ndescription: |-\n  kept\n  lines\nlicense: MIT",
                "kept lines",
            ),
            ("name: a\ndescription: 'it''s # quoted'", "it's # quoted"),
            (
                r#"name: "a"  # why
description: "a \"b\"\t\u00e9 \\ c""#,
                "a \"b\" é \\ c",
            ),
            ("name: a\ndescription: first\n  second", "first second"),
            (
                "# note\nmetadata:\n  name: no\n  description: no\nname: a\ndescription: yes",
                "yes",
            ),
            ("name: a\r\ndescription: windows\r", "windows"),
            (
                "name: a\ndescription: x\u{1b}[31m\u{202e}",
                "x␛[31m<U+202E>",
            ),
            ("name: a\ndescription: once\ndescription: twice", "once"),
        ] {
            assert_eq!(
                heading(front),
                Ok(("a".into(), description.into())),
                "{front}"
            );
        }
    }

    #[test]
    fn a_malformed_skill_is_refused_with_the_reason() {
        let why = |text: &str| parse(text).unwrap_err();
        assert!(why("# Title\n").contains("does not begin"));
        assert!(why("").contains("does not begin"));
        assert!(why("---\nname: a\n").contains("no closing line"));
        assert!(why("---\nname: a\n---\n").contains("no `description`"));
        assert!(why("---\ndescription: a\n---\n").contains("no `name`"));
        assert!(why("---\nname:\ndescription: a\n---\n").contains("`name` is empty"));
        assert!(why("---\nname: [a]\n---\n").contains("`name` is not a text"));
        assert!(why("---\nname: 'a\n---\n").contains("no closing quote"));
        assert!(why("---\nname: \"\\q\"\n---\n").contains("not known"));
        assert!(why("---\nname: \"\\ud800\"\n---\n").contains("not a character"));
    }

    #[test]
    fn a_heading_is_no_longer_than_it_may_be() {
        let (name, description) = heading(&format!(
            "name: {}\ndescription: {}",
            "n".repeat(999),
            "d".repeat(9_999)
        ))
        .unwrap();
        assert_eq!(
            (name.chars().count(), description.chars().count()),
            (64, 1_024)
        );
    }

    #[test]
    fn a_saved_skill_needs_a_valid_name_and_content() {
        assert_eq!(check("run-the-tests2", "How", "Do"), Ok(()));
        for name in [
            "",
            "A",
            "a b",
            "../x",
            "a/b",
            "-a",
            "a-",
            "a--b",
            "ä",
            &"a".repeat(65),
        ] {
            assert!(
                check(name, "How", "Do").unwrap_err().contains("`name`"),
                "{name}"
            );
        }
        for description in ["", " \n", &"d".repeat(1_025)] {
            assert!(
                check("a", description, "Do")
                    .unwrap_err()
                    .contains("`description`")
            );
        }
        assert!(check("a", "How", " ").is_err());
        assert!(check("a", "How", &"b".repeat(64 * 1024 + 1)).is_err());
    }

    proptest! {
        #[test]
        fn a_rendered_skill_is_parsed_back(description in "[\\PC\n\t\"\\\\#:']{1,80}", body in "\\PC{1,40}") {
            prop_assume!(!in_a_line(&description).is_empty());
            let heading = parse(&render("a-1", &description, &body)).unwrap();
            prop_assert_eq!(heading.name, "a-1");
            prop_assert_eq!(heading.description, one_line(&in_a_line(&description), 1_024));
        }

        #[test]
        fn no_text_is_too_odd_to_be_read(text in "(---\n)?[ \\PC\n:'\"|>-]{0,80}(\n---\n)?") {
            let _ = parse(&text);
        }
    }
}
