//! Facts learnt of the server of a model: its window, the length of answers, and the forms of the history that it takes.

use serde::{Deserialize, Serialize};

use super::{Refusal, Seq, is_false, is_zero};

/// The model's context window in tokens, learnt from an error of the provider, or from counts
/// that are lower than what was sent. Or another limit of the model, if a field below says so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learned {
    /// The model with this limit: `provider/model`.
    pub model: String,
    /// Tokens.
    pub limit: u64,
    /// Tokens that the provider counted in the request that was too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Approximate size of that request in bytes. 0: not known.
    #[serde(default)]
    pub bytes: u64,
    /// There was no error: the server truncated long requests without notice.
    #[serde(default, skip_serializing_if = "is_false")]
    pub silently: bool,
    /// A refusal of the sent images was learnt, not a window: `limit` is the window known
    /// before. From here on this model gets text instead of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Refusal>,
    /// Another form of the history was learnt, not a window: `limit` is the window known
    /// before. The requests to this model have it from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Box<LearnedForm>>,
    /// The length of answers was learnt, not a window: `limit` is the window known before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputLimit>,
    /// The server named no figure, and the request fits the window that it names elsewhere. The
    /// limit applies until a longer request succeeds, in this session only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub guess: bool,
}

/// The longest answer of a model, tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputLimit {
    pub tokens: u64,
    /// Thinking used up this length before a word, so it is raised. `None`: the server allows no
    /// more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised_from: Option<u64>,
}

/// The forms in which a server gets the history, since it refused another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedForm {
    /// All that apply from here on.
    pub forms: Vec<RequestForm>,
    /// From which entry on each applies. Missing ones: from this entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub since: Vec<Seq>,
    /// The server's words with the status, short. Empty: known before the first request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The text that replaces the entries before `before`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub before: Seq,
}

impl LearnedForm {
    /// Returns how the history is sent, to be read after "the history is sent".
    pub fn words(&self) -> String {
        let words: Vec<&str> = self.forms.iter().map(|form| form.words()).collect();
        match words[..] {
            [] => "as it is".to_string(),
            _ => words.join(" and "),
        }
    }
}

/// Another form of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestForm {
    /// Without encrypted reasoning, thinking and signatures of the answers so far.
    WithoutReasoning,
    /// Each answer has its reasoning as text, or says that it was not recorded.
    WithReasoning,
    /// Notes after results of calls are part of the last result, and messages follow a short answer.
    NotesInResults,
    /// Each answer has one call at most.
    OneCall,
    /// Without the images so far.
    WithoutImages,
    /// Calls and results are text.
    PlainText,
    /// A digest replaces all but the newest turn.
    Digest,
    /// A form of a later version.
    #[serde(other)]
    Unknown,
}

impl RequestForm {
    /// Returns how the history is sent, to be read after "the history is sent".
    pub fn words(self) -> &'static str {
        match self {
            RequestForm::WithoutReasoning => "without the reasoning of earlier answers",
            RequestForm::WithReasoning => "with the reasoning of each answer",
            RequestForm::NotesInResults => "with notes inside results",
            RequestForm::OneCall => "with one call in each answer",
            RequestForm::WithoutImages => "without the images so far",
            RequestForm::PlainText => "with calls and results as text",
            RequestForm::Digest => "as a digest with the newest turn",
            RequestForm::Unknown => "in a form of a newer version",
        }
    }

    /// Returns whether later sessions may begin with it: it is about what the server takes, not
    /// about what it has seen.
    pub fn is_for_later(self) -> bool {
        matches!(self, RequestForm::NotesInResults | RequestForm::OneCall)
    }
}
