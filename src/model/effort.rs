//! The reasoning effort of a model, in the terms of each protocol.
//!
//! Sources: OpenAI `reasoning_effort` and `reasoning.effort`; OpenRouter `reasoning`; Anthropic
//! `output_config.effort` with `thinking: {"type": "adaptive"}` from Claude 4.6 on, a budget of
//! tokens before; Gemini `thinkingLevel` from Gemini 3 on, `thinkingBudget` before; DeepSeek,
//! Moonshot and Z.ai `thinking: {"type": …}`.
//!
//! Invariant: without an effort nothing of this is sent.

use serde_json::{Map, Value, json};

use crate::config::EffortField;
use crate::core::choice::Effort;

/// Returns the thinking budget in tokens, for models with a budget.
fn budget(effort: Effort) -> Option<u64> {
    Some(match effort {
        Effort::Default | Effort::None => return None,
        Effort::Minimal => 1_024,
        Effort::Low => 4_096,
        Effort::Medium => 16_384,
        Effort::High => 24_576,
        Effort::Xhigh => 32_000,
        Effort::Max => 64_000,
    })
}

/// Returns OpenAI's name of the effort, or `None` for the default.
fn openai(effort: Effort) -> Option<&'static str> {
    match effort {
        Effort::Default => None,
        // OpenAI has no level above `xhigh`.
        Effort::Max => Some(Effort::Xhigh.name()),
        effort => Some(effort.name()),
    }
}

/// Returns the name and the value of the field in a Chat Completions request.
pub(super) fn chat(effort: Effort, field: EffortField) -> Option<(&'static str, Value)> {
    let word = openai(effort)?;
    Some(match field {
        EffortField::ReasoningEffort => ("reasoning_effort", word.into()),
        EffortField::Reasoning => ("reasoning", json!({ "effort": word })),
        EffortField::Thinking => {
            let kind = match effort {
                Effort::None => "disabled",
                _ => "enabled",
            };
            ("thinking", json!({ "type": kind }))
        }
    })
}

/// Returns `reasoning` for the Responses API.
pub(super) fn responses(effort: Effort) -> Option<Value> {
    Some(match openai(effort)? {
        "none" => json!({ "effort": "none" }),
        word => json!({ "effort": word, "summary": "auto" }),
    })
}

/// Form in which a request tells an Anthropic model how hard to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anthropic {
    /// `thinking.budget_tokens`
    Budget(u64),
    /// `output_config.effort`; the model decides how much it thinks.
    Effort(&'static str),
    Nothing,
}

pub(super) fn anthropic(effort: Effort, model: &str) -> Anthropic {
    let Some(tokens) = budget(effort) else {
        return Anthropic::Nothing;
    };
    let version = claude_version(model);
    if version < (4, 6) {
        return Anthropic::Budget(tokens);
    }
    Anthropic::Effort(match effort {
        Effort::Default | Effort::None | Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::Xhigh if version > (4, 6) => "xhigh",
        Effort::High | Effort::Xhigh => "high",
        Effort::Max => "max",
    })
}

/// Returns the version in a model's name: `claude-opus-4-6`, `claude-opus-4.6`,
/// `claude-3-7-sonnet-20250219`. A date does not count as a version.
pub(super) fn claude_version(model: &str) -> (u32, u32) {
    let mut numbers = model
        .split(['-', '.', '/', '@', ':'])
        .skip_while(|part| *part != "claude")
        .skip(1)
        .skip_while(|part| part.parse::<u32>().is_err())
        .map_while(|part| part.parse::<u32>().ok())
        .take_while(|number| *number < 100);
    let major = numbers.next().unwrap_or(0);
    (major, numbers.next().unwrap_or(0))
}

/// Returns `thinkingConfig` for Gemini.
pub(super) fn gemini(effort: Effort, model: &str) -> Option<Value> {
    if effort == Effort::Default {
        return None;
    }
    let model = model.trim_start_matches("models/");
    let is_old = ["gemini-1", "gemini-2"]
        .iter()
        .any(|old| model.starts_with(old));
    let is_pro = model.contains("-pro");
    if is_old {
        // The value is within the limits of all models with a budget. Pro always thinks.
        let tokens = match (budget(effort), is_pro) {
            (Some(tokens), _) => tokens.min(24_576),
            (None, true) => 128,
            (None, false) => 0,
        };
        return Some(json!({ "includeThoughts": tokens > 0, "thinkingBudget": tokens }));
    }
    // From Gemini 4 on, "low" is the lowest level.
    let has_minimal = !is_pro && model.starts_with("gemini-3");
    let level = match effort {
        Effort::Default | Effort::None | Effort::Minimal if has_minimal => "minimal",
        Effort::Default | Effort::None | Effort::Minimal | Effort::Low => "low",
        // The first Pro model of the family has only two levels.
        Effort::Medium if !model.starts_with("gemini-3-pro") => "medium",
        Effort::Medium | Effort::High | Effort::Xhigh | Effort::Max => "high",
    };
    Some(json!({ "includeThoughts": true, "thinkingLevel": level }))
}

/// Adds a temperature to a body.
pub(super) fn put_temperature(body: &mut Map<String, Value>, temperature: Option<f64>) {
    if let Some(temperature) = temperature {
        body.insert("temperature".into(), temperature.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_has_its_own_words() {
        use EffortField::{Reasoning, ReasoningEffort, Thinking};
        let high = Effort::High;
        assert_eq!(chat(Effort::Default, ReasoningEffort), None);
        assert_eq!(
            chat(high, ReasoningEffort),
            Some(("reasoning_effort", "high".into()))
        );
        assert_eq!(
            chat(Effort::Max, Reasoning),
            Some(("reasoning", json!({ "effort": "xhigh" })))
        );
        assert_eq!(
            chat(high, Thinking),
            Some(("thinking", json!({ "type": "enabled" })))
        );
        assert_eq!(
            chat(Effort::None, Thinking),
            Some(("thinking", json!({ "type": "disabled" })))
        );
        assert_eq!(
            responses(high),
            Some(json!({ "effort": "high", "summary": "auto" }))
        );
        assert_eq!(responses(Effort::Default), None);
    }

    #[test]
    fn claude_takes_a_budget_or_an_effort() {
        let told = |effort, model| anthropic(effort, model);
        let old = [
            "claude-sonnet-4-5-20250929",
            "claude-opus-4-20250514",
            "claude-3-7-sonnet-20250219",
            "claude-3-7-sonnet-latest",
            "another",
        ];
        for model in old {
            assert_eq!(
                told(Effort::Low, model),
                Anthropic::Budget(4_096),
                "{model}"
            );
        }
        let new = [
            "claude-opus-4-6",
            "claude-sonnet-4.6",
            "claude-opus-5",
            "claude-haiku-5-5",
            "anthropic/claude-fable-5-1",
            "anthropic.claude-opus-4-6-v1:0",
        ];
        for model in new {
            assert_eq!(
                told(Effort::Medium, model),
                Anthropic::Effort("medium"),
                "{model}"
            );
        }
        assert_eq!(
            told(Effort::Xhigh, "claude-opus-4-6"),
            Anthropic::Effort("high")
        );
        assert_eq!(
            told(Effort::Xhigh, "claude-opus-4-7"),
            Anthropic::Effort("xhigh")
        );
        assert_eq!(
            told(Effort::Max, "claude-opus-4-6"),
            Anthropic::Effort("max")
        );
        assert_eq!(told(Effort::None, "claude-opus-4-6"), Anthropic::Nothing);
        assert_eq!(told(Effort::Default, "claude-opus-4-6"), Anthropic::Nothing);
    }

    #[test]
    fn gemini_takes_a_budget_or_a_level() {
        let budget = |effort, model| gemini(effort, model).unwrap()["thinkingBudget"].as_u64();
        assert_eq!(budget(Effort::Max, "gemini-2.5-flash"), Some(24_576));
        assert_eq!(budget(Effort::None, "gemini-2.5-flash"), Some(0));
        assert_eq!(budget(Effort::None, "gemini-2.5-pro"), Some(128));
        let level = |effort, model| gemini(effort, model).unwrap()["thinkingLevel"].clone();
        assert_eq!(level(Effort::Medium, "gemini-3.1-pro-preview"), "medium");
        assert_eq!(level(Effort::Medium, "gemini-3-pro-preview"), "high");
        assert_eq!(
            level(Effort::None, "models/gemini-3-flash-preview"),
            "minimal"
        );
        assert_eq!(level(Effort::None, "gemini-3-pro-preview"), "low");
        assert_eq!(level(Effort::Minimal, "gemini-4-hydrogen"), "low");
        assert_eq!(gemini(Effort::Default, "gemini-3-flash-preview"), None);
    }
}
