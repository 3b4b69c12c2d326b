//! What a world needs to give tasks to sub-agents.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::Unready;
use crate::core::entry::CallId;
use crate::core::settings::Pricing;
use crate::core::state::State;
use crate::tools::TaskOrder;

/// Makes the session of a task durable, or finds the one that was made for this call: its id.
pub type BeginTask = Box<dyn Fn(&TaskOrder, CallId, &State) -> Result<String, Unready>>;

/// Ends what was made for the sub-agent of this session besides, when it is over, and says what became
/// of it. True: something that it began still runs.
pub type EndTask = Box<dyn Fn(&str, bool) -> Option<String>>;

/// What a session needs to give tasks.
pub struct Tasks {
    pub begin: BeginTask,
    pub end: EndTask,
    /// What a request of a model cost.
    pub price: Pricing,
    /// What the command line of this start said.
    pub settings: String,
    /// How long a sub-agent may work for one call, all its starts together.
    pub limit_ms: u64,
    /// Of each sub-agent in the background, by the run that its call recorded: the run it has now,
    /// and what it had done before that.
    pub runs: RefCell<BTreeMap<String, BackgroundRun>>,
    /// Those of the same that are at their end, which is not told yet.
    pub ended: RefCell<BTreeSet<String>>,
}

/// The newest start of a sub-agent in the background.
#[derive(Debug, Clone)]
pub struct BackgroundRun {
    pub(super) run: String,
    /// Answers and results in its log then.
    pub(super) done: u64,
    /// Starts in a row that added none.
    pub(super) in_vain: u32,
}
