//! What the user and the program's start have set, as `next` needs it.

use std::sync::Arc;

use super::budget::Budget;
use super::entry::Usage;
use super::permission::Permission;
use super::policy::{Judgement, Sandbox};
use super::state::State;
use super::window::Windows;

/// Decides by the rules whether a call that needs this is allowed, denied or asked about, and
/// how far a command may reach.
pub type PermissionCheck = Arc<dyn Fn(&Permission, &State) -> Judgement + Send + Sync>;

/// Why a tool of a server, given by its full name, cannot be called at all: told to the model before
/// anybody is asked.
pub type ServedCheck = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// What the user and the program's start have set.
pub struct Policy {
    /// The rules, as this start has them.
    pub permission_check: PermissionCheck,
    /// The servers' tools, as this start knows them.
    pub served_check: ServedCheck,
    /// A person is there to be asked.
    pub interactive: bool,
    /// The sandbox of commands, as the model is told of it.
    pub sandbox: Sandbox,
    /// Answers for one message of the user, or for one start.
    pub max_turns: Option<u32>,
    /// The context window of the session's model, with what was learnt of it.
    pub budget: Budgeting,
    /// When the context is compacted, from the config.
    pub windows: Windows,
    /// US dollars for one request of a model. `None`: its price is not known.
    pub price: Pricing,
}

/// What a request of `provider/model` cost.
pub type Pricing = Arc<dyn Fn(&str, &Usage) -> Option<f64> + Send + Sync>;

/// What a model has room for, with what the session learnt of its limit (tokens) and of its
/// bytes per token.
pub type Budgeting = Arc<dyn Fn(&str, Option<u64>, Option<f64>) -> Budget + Send + Sync>;

impl Policy {
    /// The budget of a model, with the limit and the ratio that this session learnt of it.
    /// `model` is `provider/model`.
    pub fn budget_of(&self, state: &State, model: &str) -> Budget {
        let limit = state.limits.get(model).copied();
        let ratio = state.ratios.get(model).copied();
        (self.budget)(model, limit, ratio)
    }
}
