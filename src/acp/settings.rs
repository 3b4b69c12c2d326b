//! The mode, the model and the effort of a session, as the client shows and sets them.

use serde_json::{Map, Value, json};

use super::wire::{INVALID_PARAMS, NO_KEY, RpcError};
use crate::core::choice::Effort;
use crate::core::entry::{Choice, Mode};
use crate::core::state::State;
use crate::model::Figures;
use crate::session::{AppContext, SettingsChange};

pub(super) const MODE: &str = "mode";
const MODEL: &str = "model";
const EFFORT: &str = "effort";

/// Maximum number of models that are offered.
const MODELS_MAX: usize = 100;

/// The settings of a session that the client can change, and what it may choose.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    pub mode: Mode,
    model: String,
    effort: Effort,
    /// `bypassPermissions` can be chosen.
    is_yolo: bool,
    /// Models that can be used: `provider/model`.
    models: Vec<String>,
}

impl Settings {
    pub(super) fn new(ctx: &AppContext, state: &State, is_yolo: bool) -> Settings {
        let models = ctx.models();
        let names = Figures::new(ctx.config()).names().into_iter();
        let usable = names.filter(|name| models.check(name).is_ok());
        Settings {
            mode: state.mode,
            model: state.model.clone(),
            effort: state.effort,
            is_yolo,
            models: usable.take(MODELS_MAX).collect(),
        }
    }

    /// Returns the settings after a change.
    pub(super) fn after(&self, state: &State) -> Settings {
        Settings {
            mode: state.mode,
            model: state.model.clone(),
            effort: state.effort,
            ..self.clone()
        }
    }

    /// Returns the settings after a choice that is not recorded yet.
    pub(super) fn with(&self, choice: &Choice) -> Settings {
        Settings {
            mode: choice.mode.unwrap_or(self.mode),
            model: choice.model.clone().unwrap_or_else(|| self.model.clone()),
            effort: match choice.model {
                Some(_) => choice.effort.unwrap_or_default(),
                None => choice.effort.unwrap_or(self.effort),
            },
            ..self.clone()
        }
    }

    fn offered_modes(&self) -> impl Iterator<Item = Mode> {
        let is_yolo = self.is_yolo;
        let all = Mode::ALL.into_iter();
        all.filter(move |mode| is_yolo || *mode != Mode::BypassPermissions)
    }

    /// Returns the `modes` of an opened session.
    pub(super) fn modes(&self) -> Value {
        let modes = self.offered_modes().map(|mode| {
            let description = mode_description(mode);
            json!({ "id": mode.name(), "name": mode_name(mode), "description": description })
        });
        json!({
            "currentModeId": self.mode.name(), "availableModes": modes.collect::<Vec<_>>(),
        })
    }

    /// Returns the `configOptions` of a session.
    pub(super) fn options(&self) -> Value {
        let modes = self.offered_modes();
        let modes = modes.map(|mode| json!({ "value": mode.name(), "name": mode_name(mode) }));
        let is_new = !self.models.contains(&self.model);
        let models = is_new.then_some(&self.model).into_iter();
        let models = models.chain(&self.models);
        let models = models.map(|model| json!({ "value": model, "name": model }));
        let efforts = Effort::ALL.into_iter();
        let efforts = efforts.map(|e| json!({ "value": e.name(), "name": e.name() }));
        let option = |id: &str, name: &str, category: &str, now: &str, all: Vec<Value>| {
            json!({
                "id": id, "name": name, "category": category, "type": "select",
                "currentValue": now, "options": all,
            })
        };
        json!([
            option(MODE, "Mode", "mode", self.mode.name(), modes.collect()),
            option(MODEL, "Model", "model", &self.model, models.collect()),
            option(
                EFFORT,
                "Effort",
                "thought_level",
                self.effort.name(),
                efforts.collect()
            ),
        ])
    }

    /// Returns the choice of an option.
    ///
    /// # Errors
    /// The option or its value is unknown or not offered, or the model cannot be used.
    pub(super) fn choose(
        &self,
        ctx: &AppContext,
        option: &str,
        value: &str,
    ) -> Result<Choice, RpcError> {
        let given = Map::from_iter([(option.to_string(), value.into())]);
        let change = SettingsChange::parse(given, &[MODE, MODEL, EFFORT])?;
        if change.mode == Some(Mode::BypassPermissions) && !self.is_yolo {
            return Err(RpcError::new(
                INVALID_PARAMS,
                "bypassPermissions is offered only by rewake acp --yolo",
            ));
        }
        if let Some(model) = &change.model {
            ctx.models().check(model).map_err(|error| RpcError {
                code: if lacks_key(ctx, model) {
                    NO_KEY
                } else {
                    INVALID_PARAMS
                },
                ..RpcError::from(error)
            })?;
        }
        Ok(change.choice())
    }
}

/// Returns whether the key for a model is missing.
pub(super) fn lacks_key(ctx: &AppContext, model: &str) -> bool {
    let provider = crate::model::split_name(model).map(|(provider, _)| provider);
    let provider = provider.and_then(|name| ctx.config().provider(name).ok());
    provider.is_some_and(|provider| provider.key(&ctx.env).is_err())
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Default => "Default",
        Mode::AcceptEdits => "Accept edits",
        Mode::Plan => "Plan",
        Mode::BypassPermissions => "Bypass permissions",
    }
}

fn mode_description(mode: Mode) -> &'static str {
    match mode {
        Mode::Default => "Asks before it changes files and runs commands",
        Mode::AcceptEdits => "Changes files of the workspace without asking",
        Mode::Plan => "Changes nothing",
        Mode::BypassPermissions => {
            "No approvals and no sandbox: all your files, keys and the network"
        }
    }
}
