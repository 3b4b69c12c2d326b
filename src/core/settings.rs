//! Settings of the user and of the program's start, in the form that `next` needs.

use std::sync::Arc;

use super::background::BackgroundMode;
use super::budget::Budget;
use super::check::Check;
use super::entry::Usage;
use super::permission::Permission;
use super::policy::{Judgement, Rule, Sandbox};
use super::state::State;
use super::window::CompactionSettings;

/// Decides by the rules whether a call with this permission is allowed, denied or needs a question,
/// and which access a command gets. The rules at the end are further allow rules for this call.
pub type PermissionCheck = Arc<dyn Fn(&Permission, &State, &[Rule]) -> Judgement + Send + Sync>;

/// Returns why a server's tool, given by its full name, cannot be called at all. The model gets the
/// reason before anybody is asked.
pub type ServedCheck = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// Settings of the user and of the program's start.
pub struct Policy {
    /// The permission check of this start.
    pub permission_check: PermissionCheck,
    /// The servers' tools that this start knows.
    pub served_check: ServedCheck,
    /// A person is there to be asked.
    pub interactive: bool,
    /// Treatment of background work after the model ended its turn.
    pub background: BackgroundMode,
    /// The sandbox of commands, which the model's instructions describe.
    pub sandbox: Sandbox,
    /// The checks that may run: those of the user, and the trusted ones of the workspace.
    pub checks: Vec<Check>,
    /// Maximum number of answers for one message of the user, or for one start.
    pub max_turns: Option<u32>,
    /// A model that repeats itself is told so, and then stopped.
    pub loop_guard: bool,
    /// Returns the budget of a model, with the session's learnt values.
    pub budget: Budgeting,
    /// Settings of compaction, from the config.
    pub windows: CompactionSettings,
    /// Prices one request of a model in US dollars. `None`: its price is not known.
    pub price: Pricing,
}

/// Returns the cost of a request to `provider/model`.
pub type Pricing = Arc<dyn Fn(&str, &Usage) -> Option<f64> + Send + Sync>;

/// Returns the budget of a model. The arguments are the model, the limit (tokens) and the bytes per
/// token that the session learnt.
pub type Budgeting = Arc<dyn Fn(&str, Option<u64>, Option<f64>) -> Budget + Send + Sync>;

impl Policy {
    /// Returns the budget of a model, with the limit and the ratio that this session learnt.
    /// `model` is `provider/model`.
    pub fn budget_of(&self, state: &State, model: &str) -> Budget {
        let limit = state.limits.get(model).copied();
        let ratio = state.ratios.get(model).copied();
        let budget = (self.budget)(model, limit, ratio);
        state.outputs.applied(model, budget)
    }
}
