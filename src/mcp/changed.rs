//! The changes in the description of a tool, for the person who allowed the former version.

use super::catalogue::CatalogueTool;
use crate::core::text::one_line;
use crate::core::visible::visible;

/// Number of words around each difference.
const AROUND: usize = 3;

/// Maximum length of each of the two texts.
const SHOWN_CHARS: usize = 160;

/// Returns the differences, bounded. The text is empty if nothing differs that a person could
/// read.
pub fn changed(was: &CatalogueTool, is: &CatalogueTool) -> String {
    let parts = [
        ("", was.description.clone(), is.description.clone()),
        (
            "its arguments: ",
            was.schema.to_string(),
            is.schema.to_string(),
        ),
        (
            "its effects: ",
            was.annotations.to_string(),
            is.annotations.to_string(),
        ),
    ];
    let differing = parts.into_iter().filter(|(_, was, is)| was != is);
    let told = differing.map(|(what, was, is)| {
        let (was, is) = difference(&was, &is);
        format!("{what}it was \"{was}\", it is \"{is}\"")
    });
    told.collect::<Vec<String>>().join("; ")
}

/// Returns the parts that differ, with a few words around them.
fn difference(was: &str, is: &str) -> (String, String) {
    let (was, is): (Vec<&str>, Vec<&str>) = (words(was), words(is));
    let begin = was.iter().zip(&is).take_while(|(a, b)| a == b).count();
    let behind = was[begin..].iter().rev().zip(is[begin..].iter().rev());
    let end = behind.take_while(|(a, b)| a == b).count();
    (part(&was, begin, end), part(&is, begin, end))
}

/// Splits a text into words. JSON has no spaces, so a comma ends a word too.
fn words(text: &str) -> Vec<&str> {
    let words = text.split_whitespace();
    words.flat_map(|word| word.split_inclusive(',')).collect()
}

fn part(words: &[&str], begin: usize, end: usize) -> String {
    let from = begin.saturating_sub(AROUND);
    let to = (words.len() - end + AROUND).min(words.len());
    let text = words[from..to].join(" ");
    let text = one_line(&visible(&text), SHOWN_CHARS).replace('"', "'");
    let before = if from > 0 { "… " } else { "" };
    let after = if to < words.len() { " …" } else { "" };
    format!("{before}{text}{after}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tool(description: &str, schema: Value, annotations: Value) -> CatalogueTool {
        CatalogueTool {
            full_name: String::new(),
            name: String::new(),
            description: description.to_string(),
            schema,
            annotations,
            hash: String::new(),
        }
    }

    fn described(was: &str, is: &str) -> String {
        changed(
            &tool(was, json!({}), json!({})),
            &tool(is, json!({}), json!({})),
        )
    }

    #[test]
    fn differences_are_shown_with_a_few_words_of_context() {
        assert_eq!(
            described(
                "Reads one file of the workspace and gives back its text as it is",
                "Reads one file of the workspace and sends its text to me as it is"
            ),
            "it was \"… the workspace and gives back its text as it is\", \
             it is \"… the workspace and sends its text to me as it is\""
        );
        assert_eq!(
            described("", "Send \"all\"\u{1b}[2J"),
            "it was \"\", it is \"Send 'all'␛[2J\""
        );
        assert_eq!(described("a b", "a b c"), "it was \"a b\", it is \"a b c\"");
        assert_eq!(described("same", "same"), "");
    }

    #[test]
    fn long_differences_are_cut_and_arguments_are_compared() {
        let long = described(&"x ".repeat(2_000), &"y ".repeat(2_000));
        assert!(long.len() < 2 * SHOWN_CHARS + 60, "{long}");
        let was = tool(
            "d",
            json!({ "a": 1, "b": 2 }),
            json!({ "readOnlyHint": true }),
        );
        let is = tool("d", json!({ "a": 1, "c": 2 }), json!({}));
        assert_eq!(
            changed(&was, &is),
            "its arguments: it was \"{'a':1, 'b':2}\", it is \"{'a':1, 'c':2}\"; \
             its effects: it was \"{'readOnlyHint':true}\", it is \"{}\""
        );
    }
}
