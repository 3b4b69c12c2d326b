//! `rewake answer`: answers the question of a server during a call.

use std::io::Read;

use clap::Args;
use serde_json::{Map, Value};

use super::steer::{ORIGIN, open_store, report_delivery};
use crate::core::entry::{CallId, Seq};
use crate::core::form::{self, Field, FormAnswer, ServerQuestion};
use crate::report::{CliError, note};
use crate::session::{AppContext, QuestionChoice};

/// Maximum size of a form on stdin.
const STDIN_MAX_BYTES: u64 = 1024 * 1024;

/// Answer a question of an MCP server
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct AnswerArgs {
    /// Session ID or its beginning (@here: newest session of this folder)
    pub id: String,
    /// Call to answer, as `rewake approvals` shows it (if there are several)
    #[arg(value_name = "CALL")]
    pub call: Option<CallId>,
    /// Answer only this question: `asked` in `rewake approvals --json`
    #[arg(long, value_name = "ENTRY")]
    pub asked: Option<Seq>,
    /// Set a field (repeatable, also for each value of a list)
    #[arg(long, value_name = "NAME=VALUE")]
    pub value: Vec<String>,
    /// Read the fields from stdin as a JSON object
    #[arg(long, conflicts_with = "value")]
    pub json: bool,
    /// Accept with defaults for missing fields, or allow the address
    #[arg(long, conflicts_with_all = ["decline", "cancel"])]
    pub accept: bool,
    /// Decline
    #[arg(long, conflicts_with_all = ["value", "json", "cancel"])]
    pub decline: bool,
    /// Close the question without an answer
    #[arg(long, conflicts_with_all = ["value", "json"])]
    pub cancel: bool,
}

pub(super) fn run(ctx: &AppContext, args: &AnswerArgs) -> Result<u8, CliError> {
    let mut store = open_store(ctx)?;
    args.check()?;
    let info = ctx.steering().find_session(&store, &args.id)?;
    let read = |question: &ServerQuestion| args.read(question);
    let (question, receipt) =
        ctx.steering()
            .answer_form_with(&mut store, &info, args.meant(), read, ORIGIN)?;
    note(&format!("{}: {}", args.done(), question.asked.why));
    Ok(report_delivery(&info, receipt.sending))
}

impl AnswerArgs {
    /// Returns the action as a word for the user.
    fn done(&self) -> &'static str {
        match (self.decline, self.cancel) {
            (true, _) => "declined",
            (_, true) => "closed",
            _ => "answered",
        }
    }

    fn meant(&self) -> QuestionChoice {
        QuestionChoice {
            call: self.call,
            asked: self.asked,
        }
    }

    /// Checks that there is an answer.
    fn check(&self) -> Result<(), CliError> {
        let says = self.accept || self.decline || self.cancel || self.json;
        match says || !self.value.is_empty() {
            true => Ok(()),
            false => Err(CliError::usage("there is no answer").with_hint(
                "--value NAME=VALUE for each field, --accept, --decline or --cancel; rewake approvals shows the fields",
            )),
        }
    }

    /// Reads the answer to a question.
    ///
    /// # Errors
    /// Returns a text that names the value that the question does not accept.
    fn read(&self, question: &ServerQuestion) -> Result<FormAnswer, String> {
        match (self.decline, self.cancel) {
            (true, _) => Ok(FormAnswer::Decline),
            (_, true) => Ok(FormAnswer::Cancel),
            _ if self.json => stdin().map(|values| FormAnswer::Accept { values }),
            _ => typed(question, &self.value).map(|values| FormAnswer::Accept { values }),
        }
    }
}

fn stdin() -> Result<Map<String, Value>, String> {
    let mut text = String::new();
    let mut stdin = std::io::stdin().lock().take(STDIN_MAX_BYTES);
    stdin
        .read_to_string(&mut text)
        .map_err(|e| format!("stdin cannot be read: {e}"))?;
    match serde_json::from_str(&text) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(_) => Err("stdin has no JSON object".to_string()),
        Err(e) => Err(format!("stdin has no JSON: {e}")),
    }
}

/// Converts the typed values to the types of the fields.
fn typed(question: &ServerQuestion, typed: &[String]) -> Result<Map<String, Value>, String> {
    let fields = question.fields();
    let mut values = Map::new();
    for pair in typed {
        let (name, text) = pair
            .split_once('=')
            .ok_or_else(|| format!("{pair:?} is no NAME=VALUE"))?;
        let field = fields
            .iter()
            .find(|field| field.name == name)
            .ok_or_else(|| format!("the question has no field {name:?}"))?;
        add(&mut values, field, text)?;
    }
    Ok(values)
}

fn add(values: &mut Map<String, Value>, field: &Field, text: &str) -> Result<(), String> {
    let value = form::read_value(&field.kind, text).ok_or_else(|| {
        format!(
            "the field {:?} takes {}",
            field.name,
            form::takes(&field.kind)
        )
    })?;
    match (values.get_mut(&field.name), value) {
        (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
        (Some(_), _) => return Err(format!("the field {:?} has two values", field.name)),
        (None, value) => drop(values.insert(field.name.clone(), value)),
    }
    Ok(())
}
