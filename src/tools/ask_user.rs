//! `ask_user`: questions of the model to the person. They are forms, as those of servers.
//!
//! Each question has two fields: the options (`q1`), and the person's own words (`q1_other`). So
//! free text is always possible, and every way to fill in a form works for it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::schema::{array, boolean, object, string};
use super::shown::Verb;
use super::tool::{Group, Tool};
use super::work::Work;
use crate::core::form::{Choice, Field, FieldKind, FormAnswer, RequestedAnswer, ServerQuestion};
use crate::core::permission::Permission;
use crate::core::text;

const MAX_QUESTIONS: usize = 4;
const MAX_OPTIONS: usize = 6;
const MAX_QUESTION_CHARS: usize = 1_000;
const MAX_HEADER_CHARS: usize = 60;
const MAX_LABEL_CHARS: usize = 200;
const MAX_DESCRIPTION_CHARS: usize = 500;
const MAX_OWN_WORDS_CHARS: u64 = 10_000;

/// The name of the tool. It is also the key of the only question of a call.
const ASK_USER: &str = "ask_user";

/// The result when the person declined or closed the question.
const NOT_ANSWERED: &str = "the user did not answer: take the likely reading and say which";

/// The title of the field for the person's own words.
pub const OWN_WORDS_TITLE: &str = "In your own words";
/// Stands before the person's own words, beside options.
const OWN_WORDS: &str = "in their own words: ";

/// The result for a question that the person skipped, when another one has an answer.
const SKIPPED: &str = "not answered";

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    questions: Vec<Question>,
}

#[derive(Serialize, Deserialize)]
struct Question {
    question: String,
    #[serde(default)]
    header: String,
    #[serde(default)]
    multiple: bool,
    #[serde(default)]
    options: Vec<Answer>,
}

#[derive(Serialize, Deserialize)]
struct Answer {
    #[serde(default)]
    label: String,
    #[serde(default)]
    description: String,
}

impl Tool for Args {
    const NAME: &'static str = ASK_USER;
    const TEXT: &'static str = include_str!("../../assets/tools/ask_user.md");
    const VERB: Verb = Verb::Ask;
    const GROUP: Group = Group::Attended;

    fn schema() -> Value {
        let option = object(json!({"label": string(), "description": string()}), &[]);
        let question = json!({
            "question": string(),
            "header": string(),
            "multiple": boolean(),
            "options": array(option),
        });
        let question = object(question, &["question"]);
        object(json!({"questions": array(question)}), &["questions"])
    }

    fn check(&self) -> Result<(), String> {
        let count = self.questions.len();
        if !(1..=MAX_QUESTIONS).contains(&count) {
            return Err(format!(
                "`questions` has {count} questions, but 1 to {MAX_QUESTIONS} can be asked"
            ));
        }
        self.questions.iter().try_for_each(Question::check)
    }

    fn subject(&self) -> String {
        let first = self.questions.first();
        first.map_or_else(String::new, |first| first.question.clone())
    }

    fn permission(&self) -> Permission {
        Permission::None
    }

    fn work(self) -> Work {
        Work::Ask(Box::new(self.form()))
    }
}

impl Question {
    fn check(&self) -> Result<(), String> {
        check_text("question", &self.question, MAX_QUESTION_CHARS)?;
        if self.question.trim().is_empty() {
            return Err("`question` is empty".to_string());
        }
        check_text("header", &self.header, MAX_HEADER_CHARS)?;
        if self.options.len() > MAX_OPTIONS {
            return Err(format!(
                "`options` has {} options, but at most {MAX_OPTIONS} can be shown",
                self.options.len()
            ));
        }
        let mut labels = BTreeSet::new();
        for option in &self.options {
            check_text("label", &option.label, MAX_LABEL_CHARS)?;
            check_text("description", &option.description, MAX_DESCRIPTION_CHARS)?;
            let label = option.label.trim();
            if label.is_empty() {
                return Err("`label` is empty".to_string());
            }
            if !labels.insert(label.to_lowercase()) {
                return Err(format!("two options have the label {label:?}"));
            }
        }
        Ok(())
    }

    fn label(&self) -> &str {
        match self.header.trim() {
            "" => self.question.trim(),
            header => header,
        }
    }

    /// Returns the fields for the options and for the person's own words.
    fn fields(&self, number: usize, is_only: bool) -> Vec<Field> {
        let name = format!("q{number}");
        let field = |name: String, title: &str, description: &str, kind| Field {
            name,
            title: title.to_string(),
            description: description.to_string(),
            is_required: false,
            kind,
            default: None,
        };
        // The text of the only question is the text of the form.
        let description = if is_only { "" } else { self.question.trim() };
        let own_words = FieldKind::Text {
            min_chars: None,
            max_chars: Some(MAX_OWN_WORDS_CHARS),
            format: None,
        };
        let title = self.label();
        if self.options.is_empty() {
            return vec![field(name, title, description, own_words)];
        }
        let choices = self.options.iter().map(Answer::choice).collect();
        let kind = match self.multiple {
            true => FieldKind::SomeOf {
                choices,
                min: None,
                max: None,
            },
            false => FieldKind::OneOf { choices },
        };
        let other = format!("{name}_other");
        vec![
            field(name, title, description, kind),
            field(other, OWN_WORDS_TITLE, "", own_words),
        ]
    }
}

impl Answer {
    fn choice(&self) -> Choice {
        let (label, description) = (self.label.trim(), self.description.trim());
        Choice {
            value: label.to_string(),
            label: match description {
                "" => label.to_string(),
                description => format!("{label}: {description}"),
            },
        }
    }
}

impl Args {
    /// Returns the form that the person sees.
    fn form(&self) -> ServerQuestion {
        let is_only = self.questions.len() == 1;
        let questions = self.questions.iter().zip(1..);
        let texts = questions.clone().map(|(question, number)| match is_only {
            true => question.question.trim().to_string(),
            false => format!("{number}. {}", question.question.trim()),
        });
        let texts: Vec<String> = texts.collect();
        let fields = questions.flat_map(|(question, number)| question.fields(number, is_only));
        ServerQuestion {
            server: String::new(),
            key: ASK_USER.to_string(),
            message: texts.join("\n"),
            wanted: RequestedAnswer::Form {
                fields: fields.collect(),
            },
        }
    }
}

fn check_text(name: &str, given: &str, most: usize) -> Result<(), String> {
    let chars = given.chars().count();
    if chars > most {
        return Err(format!(
            "`{name}` has {chars} characters, but at most {most} are shown"
        ));
    }
    if given.chars().any(|c| c.is_control() && c != '\n') {
        return Err(format!("`{name}` has control characters"));
    }
    Ok(())
}

/// Returns the answer for the model, a line for each question.
pub fn answer_for_model(question: &ServerQuestion, answer: &FormAnswer) -> String {
    let (FormAnswer::Accept { values }, RequestedAnswer::Form { fields }) =
        (answer, &question.wanted)
    else {
        return NOT_ANSWERED.to_string();
    };
    let asked = fields.iter().filter(|field| !field.name.contains('_'));
    let answers = asked.map(|field| (field, given(&field.name, values)));
    let answers: Vec<(&Field, Vec<String>)> = answers.collect();
    if answers.iter().all(|(_, given)| given.is_empty()) {
        return NOT_ANSWERED.to_string();
    }
    let line = |(field, given): &(&Field, Vec<String>)| {
        let title = text::one_line(&field.title, MAX_QUESTION_CHARS);
        match &given[..] {
            [] => format!("{title}: {SKIPPED}"),
            given => format!("{title}: {}", given.join("; ")),
        }
    };
    let lines: Vec<String> = answers.iter().map(line).collect();
    lines.join("\n")
}

/// Returns the values of a question: the chosen options, and the person's own words.
fn given(name: &str, values: &Map<String, Value>) -> Vec<String> {
    let texts = |value: &Value| match value {
        Value::Array(some) => some
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_string)
            .collect(),
        value => value
            .as_str()
            .map(str::to_string)
            .into_iter()
            .collect::<Vec<_>>(),
    };
    let of = |name: &str| {
        let texts = values.get(name).map(texts).unwrap_or_default();
        let said = texts.into_iter().filter(|text| !text.trim().is_empty());
        said.collect::<Vec<_>>().join(", ")
    };
    let chosen = Some(of(name)).filter(|chosen| !chosen.is_empty());
    let own = Some(of(&format!("{name}_other"))).filter(|own| !own.is_empty());
    let own = own.map(|own| format!("{OWN_WORDS}{own}"));
    chosen.into_iter().chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::describe;

    fn args(questions: Value) -> Args {
        serde_json::from_value(json!({ "questions": questions })).unwrap()
    }

    fn database() -> Value {
        json!({"question": "Which database?", "header": "Database", "options": [
            {"label": "SQLite", "description": "one file"}, {"label": "PostgreSQL"}]})
    }

    #[test]
    fn a_question_becomes_a_form_with_room_for_own_words() {
        let form = args(json!([database()])).form();
        assert_eq!(form.message, "Which database?");
        let RequestedAnswer::Form { fields } = &form.wanted else {
            panic!("{form:?}");
        };
        let names: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["q1", "q1_other"]);
        let FieldKind::OneOf { choices } = &fields[0].kind else {
            panic!("{fields:?}");
        };
        assert_eq!(choices[0].label, "SQLite: one file");
        let answer = |values: Value| {
            let values = values.as_object().cloned().unwrap();
            answer_for_model(&form, &FormAnswer::Accept { values })
        };
        assert_eq!(answer(json!({"q1": "SQLite"})), "Database: SQLite");
        assert_eq!(
            answer(json!({"q1": "SQLite", "q1_other": "for now"})),
            "Database: SQLite; in their own words: for now"
        );
        assert_eq!(answer(json!({})), NOT_ANSWERED);
        assert_eq!(answer_for_model(&form, &FormAnswer::Decline), NOT_ANSWERED);
    }

    /// Every request of an attended session pays for it: 135 tokens of 4 bytes.
    #[test]
    fn the_tool_is_short() {
        let specs = serde_json::to_string(&crate::tools::attended_specs()).unwrap();
        assert!(specs.len() <= 540, "{}", specs.len());
    }

    #[test]
    fn several_questions_are_numbered_and_free_text_needs_no_options() {
        let form = args(json!([database(), {"question": "Which port?"}])).form();
        assert_eq!(form.message, "1. Which database?\n2. Which port?");
        let values = json!({"q1": "SQLite", "q2": "8080"});
        let values = values.as_object().cloned().unwrap();
        assert_eq!(
            answer_for_model(&form, &FormAnswer::Accept { values }),
            "Database: SQLite\nWhich port?: 8080"
        );
        let values = json!({"q2": "8080"}).as_object().cloned().unwrap();
        assert_eq!(
            answer_for_model(&form, &FormAnswer::Accept { values }),
            "Database: not answered\nWhich port?: 8080"
        );
    }

    #[test]
    fn what_cannot_be_shown_is_an_error_for_the_model() {
        let error = |questions: Value| {
            let arguments = json!({ "questions": questions }).to_string();
            describe("ask_user", &arguments).unwrap_err()
        };
        let many = vec![json!({"question": "?"}); 9];
        assert!(error(json!([])).contains("0 questions"));
        assert!(error(Value::Array(many)).contains("9 questions"));
        let options = |labels: &[&str]| {
            let all: Vec<Value> = labels.iter().map(|label| json!({"label": label})).collect();
            json!([{"question": "?", "options": all}])
        };
        assert!(error(options(&["a", "A"])).contains("two options"));
        assert!(error(options(&["a\u{7}"])).contains("control characters"));
        assert!(error(options(&[""])).contains("empty"));
        assert!(error(options(&["1", "2", "3", "4", "5", "6", "7"])).contains("7 options"));
        let long = json!([{"question": "a".repeat(1_000_000)}]);
        assert!(error(long).contains("1000000 characters"));
    }
}
