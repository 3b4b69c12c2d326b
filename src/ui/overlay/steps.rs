//! The questions of the model as steps. Each has its options, the person's own words and skipping
//! as rows. With several questions the last step confirms.

use crate::core::form::{FieldKind, RequestedAnswer, ServerQuestion};

/// The questions, and which of them has the keys.
#[derive(Debug)]
pub struct Steps {
    pub questions: Vec<Step>,
    /// Index of the question; their number for the last step.
    pub at: usize,
}

/// A question, and the indices of its fields.
#[derive(Debug)]
pub struct Step {
    pub main: usize,
    /// The field for own words.
    pub own: usize,
    /// The number of options.
    pub options: usize,
    /// Several options may be chosen.
    pub several: bool,
    /// The row that was chosen last: an option, own words, or skipping.
    pub row: Option<usize>,
}

impl Step {
    /// Returns the row of own words.
    pub fn own_row(&self) -> usize {
        self.options
    }

    /// Returns the row that skips the question.
    pub fn skip_row(&self) -> usize {
        self.options + 1
    }

    pub fn is_skipped(&self) -> bool {
        self.row == Some(self.skip_row())
    }

    pub(super) fn is_own(&self) -> bool {
        self.row == Some(self.own_row())
    }
}

impl Steps {
    /// Returns the steps of a question of the model. `None`: a server asks.
    pub(super) fn of(question: &ServerQuestion) -> Option<Steps> {
        let RequestedAnswer::Form { fields } = &question.wanted else {
            return None;
        };
        let mut questions = Vec::new();
        for (main, field) in fields.iter().enumerate() {
            if field.name.contains('_') {
                continue;
            }
            let own = format!("{}_other", field.name);
            let own = fields.iter().position(|field| field.name == own);
            let (options, several) = match &field.kind {
                FieldKind::OneOf { choices } => (choices.len(), false),
                FieldKind::SomeOf { choices, .. } => (choices.len(), true),
                _ => (0, false),
            };
            questions.push(Step {
                main,
                own: own.unwrap_or(main),
                options,
                several,
                row: (options == 0).then_some(0),
            });
        }
        let steps = Steps { questions, at: 0 };
        (question.is_of_model() && !steps.questions.is_empty()).then_some(steps)
    }

    /// Returns the question that has the keys. `None`: the last step.
    pub fn now(&self) -> Option<&Step> {
        self.questions.get(self.at)
    }

    pub(super) fn has_confirmation(&self) -> bool {
        self.questions.len() > 1
    }
}
