//! The question of a server to a person during a call, and the answer. Its JSON is part of the log:
//! it only grows.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::text;

const LINE_CHARS: usize = 240;
const CHOICES_CHARS: usize = 1000;

/// A question of a server during a call of one of its tools. All its texts are bounded and have no
/// control characters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerQuestion {
    /// The name of the server in the config. Empty: the model asks.
    pub server: String,
    /// A key that is the same for the same question, also when another process finds it.
    pub key: String,
    /// The server's text.
    pub message: String,
    pub wanted: RequestedAnswer,
}

/// The kind of answer that the server wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "wanted", rename_all = "snake_case")]
pub enum RequestedAnswer {
    Form {
        fields: Vec<Field>,
    },
    /// An address that the person may open after consent. rewake never opens it without that.
    Visit {
        url: String,
    },
}

/// A value that the form asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Field {
    pub name: String,
    /// The label that a person reads instead of the name; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_required: bool,
    #[serde(flatten)]
    pub kind: FieldKind,
    /// A default that fits `kind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FieldKind {
    Text {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min_chars: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_chars: Option<u64>,
        /// `email`, `uri`, `date`, `date-time`, or what else the server names.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        format: Option<String>,
    },
    Number {
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_integer: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<f64>,
    },
    YesNo,
    /// One of these.
    OneOf {
        choices: Vec<Choice>,
    },
    /// Some of these.
    SomeOf {
        choices: Vec<Choice>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<u64>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The value for the server.
    pub value: String,
    /// The text for a person.
    pub label: String,
}

/// The answer to a server's question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum FormAnswer {
    Accept {
        /// The values by the names of the fields; empty for a visit.
        #[serde(default)]
        values: Map<String, Value>,
    },
    Decline,
    /// The person closed the question without an answer.
    Cancel,
}

impl FormAnswer {
    /// Returns whether it is accepted without any answer to the model's questions. Those have no
    /// defaults, so nobody answered them.
    fn is_blank(&self, question: &ServerQuestion) -> bool {
        let says = |value: &Value| match value {
            Value::String(text) => !text.trim().is_empty(),
            Value::Array(some) => !some.is_empty(),
            _ => true,
        };
        let FormAnswer::Accept { values } = self else {
            return false;
        };
        question.is_of_model() && !values.values().any(says)
    }

    /// Returns the answer, or a refusal if no question of the model is answered.
    pub fn or_decline(self, question: &ServerQuestion) -> FormAnswer {
        if self.is_blank(question) {
            FormAnswer::Decline
        } else {
            self
        }
    }
}

/// Maximum number of questions during one call; further ones are declined.
pub const MAX_QUESTIONS: usize = 32;

impl ServerQuestion {
    /// Returns the fields of the form. A visit has none.
    pub fn fields(&self) -> &[Field] {
        match &self.wanted {
            RequestedAnswer::Form { fields } => fields,
            RequestedAnswer::Visit { .. } => &[],
        }
    }

    /// Returns whether the model asks, and not a server.
    pub fn is_of_model(&self) -> bool {
        self.server.is_empty()
    }

    /// Returns the name of the server, or `the agent`.
    pub fn asker(&self) -> &str {
        if self.is_of_model() {
            "the agent"
        } else {
            &self.server
        }
    }

    /// Returns the subject of a sentence: `the server NAME`, or `the agent`.
    pub fn the_asker(&self) -> String {
        if self.is_of_model() {
            self.asker().to_string()
        } else {
            format!("the server {}", self.server)
        }
    }

    /// Returns the server's text in one line.
    pub fn line(&self) -> String {
        let said = text::one_line(&self.message, LINE_CHARS);
        match (said.is_empty(), &self.wanted) {
            (false, _) => said,
            (true, RequestedAnswer::Form { .. }) => "(a form without a word)".to_string(),
            (true, RequestedAnswer::Visit { .. }) => "(a visit, without a word)".to_string(),
        }
    }
}

/// Checks whether the question accepts an answer. A missing field has its default.
///
/// # Errors
/// Returns the mismatch in words for the person who answers.
pub fn check(question: &ServerQuestion, answer: &FormAnswer) -> Result<(), String> {
    let FormAnswer::Accept { values } = answer else {
        return Ok(());
    };
    let fields = question.fields();
    let known = |name: &String| fields.iter().any(|field| field.name == *name);
    if let Some(name) = values.keys().find(|name| !known(name)) {
        let name = text::one_line(name, LINE_CHARS);
        return Err(format!("the question has no field {name:?}"));
    }
    for field in fields {
        match values.get(&field.name) {
            Some(value) if fits(&field.kind, value) => {}
            Some(_) => {
                let takes = takes(&field.kind);
                return Err(format!("the field {:?} takes {takes}", field.name));
            }
            None if field.is_required && field.default.is_none() => {
                return Err(format!("the field {:?} is required", field.name));
            }
            None => {}
        }
    }
    if answer.is_blank(question) {
        return Err("it answers no question; answer one, or decline".to_string());
    }
    Ok(())
}

/// Describes the values that a field accepts, for a person.
pub fn takes(kind: &FieldKind) -> String {
    let between = |min: Option<String>, max: Option<String>| match (min, max) {
        (Some(min), Some(max)) => format!(" from {min} to {max}"),
        (Some(min), None) => format!(" from {min}"),
        (None, Some(max)) => format!(" up to {max}"),
        (None, None) => String::new(),
    };
    let of = |choices: &[Choice]| {
        let values: Vec<String> = choices.iter().map(|c| format!("{:?}", c.value)).collect();
        text::one_line(&values.join(", "), CHOICES_CHARS)
    };
    let count = |n: &Option<u64>| n.map(|n| n.to_string());
    match kind {
        FieldKind::Text {
            min_chars: None,
            max_chars: None,
            format,
        } => match format {
            Some(format) => format!("text ({format})"),
            None => "text".to_string(),
        },
        FieldKind::Text {
            min_chars,
            max_chars,
            ..
        } => format!(
            "text{} characters",
            between(count(min_chars), count(max_chars))
        ),
        FieldKind::Number {
            is_integer,
            min,
            max,
        } => {
            let what = if *is_integer {
                "a whole number"
            } else {
                "a number"
            };
            let bound = |n: &Option<f64>| n.map(|n| n.to_string());
            format!("{what}{}", between(bound(min), bound(max)))
        }
        FieldKind::YesNo => "true or false".to_string(),
        FieldKind::OneOf { choices } => format!("one of {}", of(choices)),
        FieldKind::SomeOf { choices, min, max } => {
            let many = between(count(min), count(max));
            format!("a list{many} of {}", of(choices))
        }
    }
}

/// Returns whether the field accepts a value.
pub fn fits(kind: &FieldKind, value: &Value) -> bool {
    match kind {
        FieldKind::Text {
            min_chars,
            max_chars,
            ..
        } => value.as_str().is_some_and(|text| {
            let chars = text.chars().count() as u64;
            min_chars.is_none_or(|min| chars >= min) && max_chars.is_none_or(|max| chars <= max)
        }),
        FieldKind::Number {
            is_integer,
            min,
            max,
        } => value.as_f64().is_some_and(|number| {
            let is_right = !is_integer || number.fract() == 0.0;
            is_right && min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max)
        }),
        FieldKind::YesNo => value.is_boolean(),
        FieldKind::OneOf { choices } => is_one(choices, value),
        FieldKind::SomeOf { choices, min, max } => value.as_array().is_some_and(|some| {
            let count = some.len() as u64;
            some.iter().all(|value| is_one(choices, value))
                && min.is_none_or(|min| count >= min)
                && max.is_none_or(|max| count <= max)
        }),
    }
}

/// Parses the text that a person typed for a field. A choice may be typed as it is shown. For a
/// list, the text is one value. Returns `None` if the field does not accept it.
pub fn read_value(kind: &FieldKind, text: &str) -> Option<Value> {
    let chosen = |choices: &[Choice]| {
        let by_value = choices.iter().find(|choice| choice.value == text);
        let choice = by_value.or_else(|| choices.iter().find(|choice| choice.label == text))?;
        Some(Value::from(choice.value.clone()))
    };
    let value = match kind {
        FieldKind::Text { .. } => Value::from(text),
        FieldKind::Number { .. } => {
            let text = text.trim();
            let whole = text.parse::<i64>().map(Value::from);
            whole
                .or_else(|_| text.parse::<f64>().map(Value::from))
                .ok()?
        }
        FieldKind::YesNo => match text.trim().to_lowercase().as_str() {
            "true" | "yes" | "y" => Value::from(true),
            "false" | "no" | "n" => Value::from(false),
            _ => return None,
        },
        FieldKind::OneOf { choices } => chosen(choices)?,
        // The number of values is checked when all are entered.
        FieldKind::SomeOf { choices, .. } => return Some(Value::Array(vec![chosen(choices)?])),
    };
    Some(value).filter(|value| fits(kind, value))
}

fn is_one(choices: &[Choice], value: &Value) -> bool {
    choices.iter().any(|choice| value == choice.value.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(name: &str, is_required: bool, kind: FieldKind) -> Field {
        Field {
            name: name.into(),
            title: String::new(),
            description: String::new(),
            is_required,
            kind,
            default: None,
        }
    }

    fn kinds() -> Vec<Field> {
        let choices = |values: [&str; 2]| {
            let choice = |value: &str| Choice {
                value: value.into(),
                label: value.to_uppercase(),
            };
            values.map(choice).to_vec()
        };
        let text = FieldKind::Text {
            min_chars: Some(2),
            max_chars: Some(4),
            format: None,
        };
        let number = FieldKind::Number {
            is_integer: true,
            min: Some(1.0),
            max: None,
        };
        let one = FieldKind::OneOf {
            choices: choices(["a", "b"]),
        };
        let some = FieldKind::SomeOf {
            choices: choices(["x", "y"]),
            min: Some(1),
            max: None,
        };
        vec![
            field("t", true, text),
            field("n", false, number),
            field("y", false, FieldKind::YesNo),
            field("o", false, one),
            field("s", false, some),
        ]
    }

    fn question() -> ServerQuestion {
        ServerQuestion {
            server: "s".into(),
            key: "k".into(),
            message: String::new(),
            wanted: RequestedAnswer::Form { fields: kinds() },
        }
    }

    fn checked(values: Value) -> Result<(), String> {
        let values = values.as_object().cloned().unwrap_or_default();
        check(&question(), &FormAnswer::Accept { values })
    }

    #[test]
    fn a_value_that_does_not_fit_its_field_is_named() {
        assert_eq!(checked(json!({ "t": "abc" })), Ok(()));
        let whole = json!({ "t": "abc", "n": 1, "y": false, "o": "b", "s": ["x", "y"] });
        assert_eq!(checked(whole), Ok(()));
        for (values, why) in [
            (json!({}), "\"t\" is required"),
            (
                json!({ "t": "a" }),
                "\"t\" takes text from 2 to 4 characters",
            ),
            (json!({ "t": "abc", "n": 0 }), "a whole number from 1"),
            (json!({ "t": "abc", "n": 1.5 }), "a whole number"),
            (json!({ "t": "abc", "y": "yes" }), "true or false"),
            (json!({ "t": "abc", "o": "c" }), "one of \"a\", \"b\""),
            (json!({ "t": "abc", "s": [] }), "a list from 1 of"),
            (json!({ "t": "abc", "z\u{1b}": 1 }), "no field"),
        ] {
            let said = checked(values).unwrap_err();
            assert!(said.contains(why), "{said}");
            assert!(!said.contains('\u{1b}'), "{said:?}");
        }
        assert_eq!(check(&question(), &FormAnswer::Decline), Ok(()));
        // Nobody answered, so nothing is recorded as answered.
        let of_model = ServerQuestion {
            server: String::new(),
            wanted: RequestedAnswer::Form {
                fields: kinds().split_off(3),
            },
            ..question()
        };
        for (values, is_answer) in [
            (json!({}), false),
            (json!({ "s": ["x"] }), true),
            (json!({ "o": "a" }), true),
        ] {
            let values = values.as_object().cloned().unwrap_or_default();
            let answer = FormAnswer::Accept { values };
            assert_eq!(check(&of_model, &answer).is_ok(), is_answer);
            let sent = answer.clone().or_decline(&of_model);
            assert_eq!(sent == answer, is_answer, "{sent:?}");
        }
        let visit = ServerQuestion {
            wanted: RequestedAnswer::Visit { url: "u".into() },
            ..question()
        };
        let values = json!({ "a": 1 }).as_object().cloned().unwrap_or_default();
        assert!(check(&visit, &FormAnswer::Accept { values }).is_err());
    }

    #[test]
    fn typed_text_becomes_a_value_or_is_rejected() {
        let fields = kinds();
        let read = |at: usize, text: &str| read_value(&fields[at].kind, text);
        assert_eq!(read(0, "abc"), Some(json!("abc")));
        assert_eq!(read(0, "abcde"), None);
        assert_eq!(read(1, " 7 "), Some(json!(7)));
        assert_eq!(read(1, "7.5"), None);
        assert_eq!(read(1, "NaN"), None);
        assert_eq!(read(2, "Yes"), Some(json!(true)));
        assert_eq!(read(2, "maybe"), None);
        assert_eq!(read(3, "B"), Some(json!("b")));
        assert_eq!(read(3, "c"), None);
        assert_eq!(read(4, "x"), Some(json!(["x"])));
    }

    /// A recorded answer is found by its question, which was stored meanwhile.
    #[test]
    fn a_question_is_the_same_when_it_was_stored() {
        for text in [
            "1.6481825940199157",
            "0.1",
            "2.2250738585072011e-308",
            "9007199254740993",
            "1e22",
        ] {
            let default: Value = serde_json::from_str(text).unwrap();
            let stored = default.to_string();
            let read: Value = serde_json::from_str(&stored).unwrap();
            assert_eq!(default, read, "{text}");
            let exact: f64 = text.parse().unwrap();
            assert_eq!(default.as_f64(), Some(exact), "{text}");
        }
    }
}
