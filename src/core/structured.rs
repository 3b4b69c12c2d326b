//! Structured output: an answer that must be JSON of a schema, its status, and the count of
//! repairs.
//!
//! The schema comes with a [`Choice`](super::entry::Choice) and applies until an answer fits it, or
//! until another choice of the user removes it. The check of an answer happens outside, and
//! [`Entry::Checked`](super::entry::Entry::Checked) records its result.

use serde::de::IgnoredAny;
use serde_json::Value;

use super::entry::{Block, Seq, StopReason, Unfit};

/// Maximum number of repair requests for the answers to one message.
pub const MAX_REPAIRS: u32 = 3;

/// Status of the answer that must fit a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Structured {
    pub schema: Value,
    /// Number of repair requests since the user's last message.
    pub repairs: u32,
    pub standing: AnswerStatus,
}

/// Progress of the answer.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerStatus {
    /// The answer is pending.
    Owed,
    /// The answer at this entry was not checked yet.
    Unchecked(Seq),
    /// This JSON fits. It is as the model wrote it.
    Fits(String),
    /// The answer to the last repair request does not fit either.
    GivenUp(Unfit),
}

impl Structured {
    /// Starts with a schema that has no answer yet.
    pub fn new(schema: Value) -> Structured {
        Structured {
            schema,
            repairs: 0,
            standing: AnswerStatus::Owed,
        }
    }

    /// Returns whether another repair request is allowed.
    pub fn may_repair(&self) -> bool {
        self.repairs < MAX_REPAIRS
    }
}

/// Returns the JSON of an answer as the model wrote it: its whole text, else its last text block
/// (the others only describe it). A code fence around it is removed.
///
/// # Errors
/// Returns why the answer has no JSON, for the model and for a person.
pub fn json_of(blocks: &[Block], stop: StopReason) -> Result<String, String> {
    let texts: Vec<&str> = Block::texts(blocks).collect();
    let all = texts.concat();
    let last = texts.last().copied().unwrap_or_default();
    let all = unfenced(&all);
    match [all, unfenced(last)].into_iter().find(|t| is_json(t)) {
        Some(json) => Ok(json.to_string()),
        None => Err(why_none(all, stop)),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Returns the text inside of a code fence, if the fence is around the whole text.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = || {
        let (language, rest) = text.strip_prefix("```")?.split_once('\n')?;
        let inner = rest.strip_suffix("```")?;
        let is_word = language.trim().chars().all(char::is_alphanumeric);
        (is_word && !inner.contains("\n```")).then_some(inner)
    };
    // The closing fence is on a separate line.
    inner().map_or(text, str::trim)
}

fn why_none(text: &str, stop: StopReason) -> String {
    if stop == StopReason::MaxTokens {
        return "the answer was cut by the output limit before its end: it has to be shorter"
            .into();
    }
    let begins = text.find(['{', '[']);
    let words_before = begins.filter(|at| *at > 0 && !text.starts_with('"'));
    match serde_json::from_str::<IgnoredAny>(text) {
        _ if text.is_empty() => "the answer has no text".into(),
        Err(_) if words_before.is_some() => {
            "there is text before the JSON: the answer has to be the JSON alone".into()
        }
        Err(error)
            if error.is_syntax() && begins == Some(0) && error.to_string().contains("trailing") =>
        {
            "there is text after the JSON: the answer has to be the JSON alone".into()
        }
        Err(error) => format!("the answer is not JSON: {error}"),
        Ok(_) => "the answer is not JSON".into(),
    }
}

/// Returns the repair request for an answer that does not fit.
pub fn repair(unfit: &Unfit) -> String {
    format!(
        "Your answer does not fit the JSON Schema that it has to fit.\n\
         {unfit}\n\
         Give the whole answer again, as the JSON alone: no words before or behind it. Where you have a tool \
         for the answer, call it."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Result<String, String> {
        let blocks: Vec<Block> = texts.iter().map(|text| Block::text(*text)).collect();
        json_of(&blocks, StopReason::EndTurn)
    }

    #[test]
    fn the_json_of_an_answer_is_as_the_model_wrote_it() {
        for (texts, json) in [
            (&["{\"a\": 1.50}"][..], "{\"a\": 1.50}"),
            (&[" \n[1, 2]\n"], "[1, 2]"),
            (&["{\"a\":", " 1}"], "{\"a\": 1}"),
            (&["```json\n{\"a\": 1}\n```"], "{\"a\": 1}"),
            (&["```\n{}\n```\n"], "{}"),
            (&["Here it is.", "{\"a\": 1}"], "{\"a\": 1}"),
            (&["Here it is.", "```json\n{}\n```"], "{}"),
            (&["\"`[`\""], "\"`[`\""),
        ] {
            assert_eq!(of(texts).as_deref(), Ok(json), "{texts:?}");
        }
    }

    #[test]
    fn text_that_is_not_json_is_refused_with_a_reason() {
        for (texts, why) in [
            (&["Sure! {\"a\": 1}"][..], "before the JSON"),
            (&["{\"a\": 1} I hope that helps."], "after the JSON"),
            (
                &["```json\n{}\n```\nand\n```json\n{}\n```"],
                "before the JSON",
            ),
            (&["{\"a\": 1"], "not JSON: EOF"),
            (&["It is done."], "not JSON"),
            (&[], "no text"),
            (&["  "], "no text"),
        ] {
            let found = of(texts).unwrap_err();
            assert!(found.contains(why), "{texts:?}: {found}");
        }
        let cut = json_of(&[Block::text("{\"a\": ")], StopReason::MaxTokens).unwrap_err();
        assert!(cut.contains("output limit"), "{cut}");
    }
}
