//! `elicitation/create`: conversion of the server's request to a question, and of an answer to the
//! server's form.
//!
//! Invariant: nothing that looks like a password is asked for on behalf of a server.

use std::collections::HashSet;

use reqwest::Url;
use serde_json::{Map, Value, json};

use super::clean;
use super::elicit::Elicitation;
use crate::core::form::{Choice, Field, FieldKind, FormAnswer, RequestedAnswer, fits};
use crate::net::address::is_loopback;

const MESSAGE_MAX_BYTES: usize = 4096;
const NAME_MAX_BYTES: usize = 200;
const DESCRIPTION_MAX_BYTES: usize = 1024;
const URL_MAX_BYTES: usize = 4096;
const FIELDS_MAX: usize = 32;
const CHOICES_MAX: usize = 128;

/// Words that identify a field for a secret. A form with such a field is declined.
#[rustfmt::skip]
const SECRET: [&str; 14] = [
    "password", "passwd", "passphrase", "passcode", "secret", "apikey", "accesstoken", "authtoken", "refreshtoken",
    "bearertoken", "privatekey", "credential", "creditcard", "cvv",
];

/// Reads the question of a server. Returns `None` if it must be declined without asking anybody,
/// because it is not allowed or cannot be understood.
pub fn read(key: String, params: &Value) -> Option<Elicitation> {
    let wanted = match params["mode"].as_str().unwrap_or("form") {
        "form" => RequestedAnswer::Form {
            fields: fields(&params["requestedSchema"])?,
        },
        "url" => RequestedAnswer::Visit {
            url: address(params["url"].as_str()?)?,
        },
        _ => return None,
    };
    Some(Elicitation {
        key,
        message: clean(
            params["message"].as_str().unwrap_or_default(),
            MESSAGE_MAX_BYTES,
        ),
        wanted,
    })
}

/// Returns the answer for the server. It contains only requested fields. Fields that were left out
/// get their defaults.
pub fn answer(question: Option<&Elicitation>, answer: FormAnswer) -> Value {
    let mut values = match answer {
        FormAnswer::Decline => return json!({ "action": "decline" }),
        FormAnswer::Cancel => return json!({ "action": "cancel" }),
        FormAnswer::Accept { values } => values,
    };
    let fields = match question.map(|question| &question.wanted) {
        Some(RequestedAnswer::Form { fields }) => fields,
        Some(RequestedAnswer::Visit { .. }) => return json!({ "action": "accept" }),
        None => return json!({ "action": "decline" }),
    };
    let mut content = Map::new();
    for field in fields {
        let value = values.remove(&field.name).or_else(|| field.default.clone());
        match value.filter(|value| fits(&field.kind, value)) {
            Some(value) => drop(content.insert(field.name.clone(), value)),
            // An incomplete form is not sent as if it were complete.
            None if field.is_required => return json!({ "action": "cancel" }),
            None => {}
        }
    }
    json!({ "action": "accept", "content": content })
}

fn address(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let may_be = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
    let is_plain = url.username().is_empty() && url.password().is_none();
    (may_be && is_plain && text.len() <= URL_MAX_BYTES).then(|| url.to_string())
}

fn fields(schema: &Value) -> Option<Vec<Field>> {
    let properties = schema["properties"].as_object()?;
    if properties.len() > FIELDS_MAX {
        return None;
    }
    let required: HashSet<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let fields = properties.iter().map(|(name, schema)| {
        let is_required = required.contains(name.as_str());
        field(name, schema, is_required)
    });
    fields.collect()
}

fn field(name: &str, schema: &Value, is_required: bool) -> Option<Field> {
    let text = |name: &str, max| clean(schema[name].as_str().unwrap_or_default(), max);
    let title = text("title", NAME_MAX_BYTES).replace('\n', " ");
    let description = text("description", DESCRIPTION_MAX_BYTES);
    let format = schema["format"].as_str().unwrap_or_default();
    if [name, &title, &description, format]
        .into_iter()
        .any(looks_secret)
    {
        return None;
    }
    // A name that differs from its visible form could mislead the person.
    if name.is_empty() || name.len() > NAME_MAX_BYTES || clean(name, NAME_MAX_BYTES) != name {
        return None;
    }
    let kind = kind(schema)?;
    let default = Some(schema["default"].clone()).filter(|default| fits(&kind, default));
    Some(Field {
        name: name.to_string(),
        title,
        description,
        is_required,
        kind,
        default,
    })
}

fn kind(schema: &Value) -> Option<FieldKind> {
    let kind = match schema["type"].as_str()? {
        "string" if schema["enum"].is_array() => FieldKind::OneOf {
            choices: named(&schema["enum"], &schema["enumNames"])?,
        },
        "string" if schema["oneOf"].is_array() => FieldKind::OneOf {
            choices: titled(&schema["oneOf"])?,
        },
        "string" => FieldKind::Text {
            min_chars: schema["minLength"].as_u64(),
            max_chars: schema["maxLength"].as_u64(),
            format: schema["format"]
                .as_str()
                .map(|format| clean(format, NAME_MAX_BYTES)),
        },
        number @ ("number" | "integer") => FieldKind::Number {
            is_integer: number == "integer",
            min: schema["minimum"].as_f64(),
            max: schema["maximum"].as_f64(),
        },
        "boolean" => FieldKind::YesNo,
        "array" => FieldKind::SomeOf {
            choices: match &schema["items"]["enum"] {
                Value::Null => titled(&schema["items"]["anyOf"])?,
                values => named(values, &Value::Null)?,
            },
            min: schema["minItems"].as_u64(),
            max: schema["maxItems"].as_u64(),
        },
        _ => return None,
    };
    Some(kind)
}

fn choice(value: &Value, label: Option<&str>) -> Option<Choice> {
    let value = value
        .as_str()
        .filter(|value| value.len() <= NAME_MAX_BYTES)?;
    let label = clean(label.unwrap_or(value), NAME_MAX_BYTES).replace('\n', " ");
    Some(Choice {
        value: value.to_string(),
        label,
    })
}

fn named(values: &Value, labels: &Value) -> Option<Vec<Choice>> {
    let values = values
        .as_array()
        .filter(|values| values.len() <= CHOICES_MAX)?;
    let each = values.iter().enumerate();
    each.map(|(at, value)| choice(value, labels[at].as_str()))
        .collect()
}

fn titled(choices: &Value) -> Option<Vec<Choice>> {
    let choices = choices.as_array().filter(|all| all.len() <= CHOICES_MAX)?;
    let each = choices.iter();
    each.map(|one| choice(&one["const"], one["title"].as_str()))
        .collect()
}

fn looks_secret(text: &str) -> bool {
    let plain: String = text
        .chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect();
    SECRET.iter().any(|word| plain.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: Value, required: Value) -> Option<Elicitation> {
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        read(
            "k".into(),
            &json!({ "message": "m\u{1b}[2J", "requestedSchema": schema }),
        )
    }

    fn accepted(question: &Elicitation, values: Value) -> Value {
        let values = values.as_object().unwrap().clone();
        answer(Some(question), FormAnswer::Accept { values })
    }

    #[test]
    fn each_kind_of_field_is_understood_and_defaults_are_given() {
        let question = form(
            json!({
                "name": { "type": "string", "default": "Ann", "minLength": 2 },
                "age": { "type": "integer", "default": 30, "minimum": 18 },
                "score": { "type": "number", "default": 95.5 },
                "plan": { "type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"], "default": "b" },
                "color": { "type": "string", "oneOf": [{ "const": "#f00", "title": "Red" }] },
                "tags": { "type": "array", "items": { "type": "string", "enum": ["x", "y"] }, "maxItems": 1 },
                "sure": { "type": "boolean", "default": true },
            }),
            json!(["name"]),
        )
        .unwrap();
        assert_eq!(question.message, "m[2J");
        assert_eq!(
            accepted(&question, json!({})),
            json!({ "action": "accept", "content": {
                "name": "Ann", "age": 30, "score": 95.5, "plan": "b", "sure": true } })
        );
        let all = json!({ "name": "Bob", "age": 18, "color": "#f00", "tags": ["x"], "other": 1 });
        let content = &accepted(&question, all)["content"];
        assert_eq!(content["color"], "#f00");
        assert!(content.get("other").is_none());
        let wrong = json!({ "age": 3, "plan": "c", "tags": ["x", "y"], "sure": "yes" });
        assert_eq!(
            accepted(&question, wrong)["content"],
            json!({ "name": "Ann", "score": 95.5 })
        );
        assert_eq!(
            accepted(&question, json!({ "name": "x" }))["action"],
            "cancel"
        );
    }

    #[test]
    fn nobody_is_asked_for_a_password() {
        for (name, schema) in [
            ("password", json!({ "type": "string" })),
            (
                "value",
                json!({ "type": "string", "title": "Your API key" }),
            ),
            (
                "value",
                json!({ "type": "string", "description": "Paste the private-key here" }),
            ),
            ("value", json!({ "type": "string", "format": "password" })),
            ("Access Token", json!({ "type": "string" })),
        ] {
            assert_eq!(form(json!({ name: schema }), json!([])), None, "{name}");
        }
        assert!(form(json!({ "user": { "type": "string" } }), json!([])).is_some());
    }

    #[test]
    fn a_schema_that_is_not_a_flat_form_is_declined() {
        for schema in [
            json!({ "type": "object" }),
            json!({ "type": "array", "items": { "type": "object" } }),
            json!({}),
        ] {
            assert_eq!(form(json!({ "a": schema }), json!([])), None);
        }
        let many: Map<String, Value> = (0..100)
            .map(|n| (format!("f{n}"), json!({ "type": "boolean" })))
            .collect();
        assert_eq!(form(Value::Object(many), json!([])), None);
        assert_eq!(read("k".into(), &json!({})), None);
        assert_eq!(
            answer(None, FormAnswer::Accept { values: Map::new() })["action"],
            "decline"
        );
    }

    #[test]
    fn only_an_address_that_may_be_opened_is_shown() {
        let visit = |url: &str| {
            read(
                "k".into(),
                &json!({ "mode": "url", "url": url, "message": "m" }),
            )
        };
        let question = visit("https://a.b/c").unwrap();
        assert_eq!(
            accepted(&question, json!({ "a": 1 })),
            json!({ "action": "accept" })
        );
        assert!(visit("http://localhost:1/x").is_some());
        for bad in [
            "http://a.b",
            "javascript:alert(1)",
            "file:///etc",
            "https://u:p@a.b",
            "x",
        ] {
            assert_eq!(visit(bad), None, "{bad}");
        }
    }
}
