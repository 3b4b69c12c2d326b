//! The end of a check in the log.

use serde::{Deserialize, Serialize};

use super::content::BlobRef;

/// How a check ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum CheckEnding {
    /// It ran to its end.
    Exited {
        exit_code: i32,
        /// Number of lines that the model did not know.
        #[serde(default)]
        new_lines: u64,
        /// The whole output, with which the next run is compared. `None`: it printed nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<BlobRef>,
    },
    /// It reached its time limit.
    TimedOut {
        /// Number of timeouts in a row, this one included.
        in_a_row: u32,
    },
    /// The user stopped it.
    Stopped,
    /// It did not start, or its result is not known.
    Failed { why: String },
}
