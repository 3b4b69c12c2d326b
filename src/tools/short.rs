//! The tools for a small window: of each description the first line, of each schema what
//! a call is seldom made without. What is left out is understood all the same.
//!
//! Invariant: every line of `assets/tools` that comes first says on its own what the tool does.

use serde_json::Value;

use super::specs;
use crate::core::entry::ToolSpec;

/// Properties that a call can do without.
const LEFT_OUT: [&str; 9] = [
    "context",
    "files_only",
    "goals",
    "ignore_case",
    "kinds",
    "scope",
    "session",
    "timeout_ms",
    "topic",
];

/// In the order of [`mod@specs`].
pub fn short_specs() -> Vec<ToolSpec> {
    specs().into_iter().map(short).collect()
}

fn short(mut spec: ToolSpec) -> ToolSpec {
    let line = spec.description.lines().next().unwrap_or_default();
    spec.description = line.to_string();
    let required = spec.schema["required"].clone();
    let is_required = |name: &str| {
        required
            .as_array()
            .is_some_and(|r| r.contains(&name.into()))
    };
    if let Some(Value::Object(properties)) = spec.schema.get_mut("properties") {
        properties.retain(|name, _| is_required(name) || !LEFT_OUT.contains(&name.as_str()));
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_there_in_a_line_with_all_that_it_requires() {
        let (short, long) = (short_specs(), specs());
        assert_eq!(short.len(), long.len());
        for (short, long) in short.iter().zip(&long) {
            assert_eq!(short.name, long.name);
            assert!(!short.description.is_empty() && !short.description.contains('\n'));
            assert!(short.description.len() <= 140, "{}", short.name);
            assert_eq!(short.schema["required"], long.schema["required"]);
            let properties = short.schema["properties"].as_object().unwrap();
            for name in long.schema["required"].as_array().unwrap() {
                assert!(properties.contains_key(name.as_str().unwrap()));
            }
        }
        let of = |name: &str| short.iter().find(|s| s.name == name).unwrap();
        assert_eq!(of("grep").schema["properties"].get("context"), None);
        assert_eq!(of("bash").description.matches('`').count(), 2);
    }

    #[test]
    fn system_prompt_and_tools_take_less_than_a_third_of_the_smallest_window() {
        let system = include_str!("../../assets/prompts/system_short.md");
        let tools = serde_json::to_string(&short_specs()).unwrap();
        // 1,200 tokens of 4 bytes, with 250 bytes for what the system prompt says of the place.
        let bytes = system.len() + tools.len() + 250;
        assert!(bytes <= 4_800, "{} + {}", system.len(), tools.len());
    }
}
