//! The means of a world to give tasks to subagents.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::PrepareError;
use crate::core::entry::CallId;
use crate::core::settings::Pricing;
use crate::core::state::State;
use crate::tools::TaskOrder;

/// Makes the session of a task durable, or finds the one of an earlier attempt for this call.
/// Returns its ID.
pub type BeginTask = Box<dyn Fn(&TaskOrder, CallId, &State) -> Result<String, PrepareError>>;

/// Cleans up after the subagent of this session, such as its worktree, and returns a message on the
/// result. The flag says whether a command that it started still runs.
pub type EndTask = Box<dyn Fn(&str, bool) -> Option<String>>;

/// The means of a session to give tasks.
pub struct Tasks {
    pub begin: BeginTask,
    pub end: EndTask,
    /// The price of a request to a model.
    pub price: Pricing,
    /// The command line settings of this start.
    pub settings: String,
    /// Time limit in milliseconds for a subagent's work on one call, over all its starts.
    pub limit_ms: u64,
    /// The subagents in the background by the run that their call recorded: the current run, and
    /// the work done before it.
    pub runs: RefCell<BTreeMap<String, BackgroundRun>>,
    /// Those that have ended, which is not reported yet.
    pub ended: RefCell<BTreeSet<String>>,
}

/// The latest start of a subagent in the background.
#[derive(Debug, Clone)]
pub struct BackgroundRun {
    pub(super) run: String,
    /// Number of answers and results in its log at that time.
    pub(super) done: u64,
    /// Number of consecutive starts that added none.
    pub(super) in_vain: u32,
}
