//! The settings as the screen shows them, and requests to the thread of the settings.

use std::sync::Arc;

use ratatui::text::{Line, Span};

use super::replacement::item;
use super::settings::Ask;
use super::{Effects, permissions};
use crate::config::ProjectTrust;
use crate::core::choice::Effort;
use crate::core::entry::{Choice, Mode};
use crate::core::signal::Signal;
use crate::core::text::count;
use crate::engine::Command;
use crate::model::Figures;
use crate::session::{AppContext, VERSION, short_id};
use crate::ui::app::{App, Msg, Phase};
use crate::ui::commands::on_screen;
use crate::ui::keys::Keymap;
use crate::ui::overlay::{For, Picker, PickerItem};
use crate::ui::transcript::Tone;
use crate::ui::{Wake, style};

impl Effects {
    /// Uses these settings from now on.
    pub(crate) fn use_settings(&mut self, ctx: Arc<AppContext>, app: &mut App) {
        app.attention.config = ctx.config().notify.clone();
        app.input.composer.keys.map = Keymap::of(ctx.config());
        self.ctx = ctx;
        self.rules_are_due = true;
        self.settle_settings(app);
    }

    /// Sends the current rules to the open session. The settings thread finds out who changed the
    /// config as calls and commands end.
    pub(crate) fn settle_settings(&mut self, app: &App) {
        // While one is being opened its folder is not known.
        let is_open = matches!(app.session.phase, Phase::Working { .. } | Phase::Resting(_));
        if self.rules_are_due && is_open {
            self.rules_are_due = false;
            self.settings.ask(Ask::Rules {
                engine: app.session.engine,
                folder: app.session.now.folder.clone(),
            });
        }
        self.settings.ask(Ask::Settle);
    }

    /// Uses a model if it is usable. The check may read a key from a file or run a script.
    pub(super) fn use_model(&self, choice: Choice, goes_on: bool, engine: u64) {
        let ctx = Arc::clone(&self.ctx);
        let sender = self.to_screen.clone();
        let send = move |wake| drop(sender.send(wake));
        let notify = |text| Wake::Msg(Msg::Notice(Tone::Warn, text));
        self.aside(move || {
            let models = ctx.models();
            match models.check(choice.model.as_deref().unwrap_or_default()) {
                Ok(warnings) => {
                    warnings.into_iter().map(notify).for_each(&send);
                    let signals = [Signal::Choose(choice), Signal::GoOn];
                    let signals = signals.into_iter().take(1 + usize::from(goes_on));
                    signals.for_each(|signal| {
                        let command = Command::Signal(signal);
                        send(Wake::ForEngine { engine, command });
                    });
                }
                Err(e) => {
                    let hint = e.hint().map(|h| format!("; {}", on_screen(h)));
                    let hint = hint.unwrap_or_default();
                    send(notify(format!("{e}{hint}")));
                }
            }
            None::<Wake>
        });
    }

    /// Lists the models that can be used: known models of providers with a key, and those of the
    /// config. `current`: the model of the session, which is selected.
    pub(super) fn models(&self, words: String, current: String) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let figures = Figures::new(ctx.config());
            let models = ctx.models();
            let names = figures.names();
            let items = names
                .into_iter()
                .filter(|name| models.check(name).is_ok())
                .map(|name| item(&figures, name));
            let mut picker = Picker::new(For::Model, "model", items.collect());
            let efforts: Vec<&str> = Effort::ALL.iter().map(|effort| effort.name()).collect();
            picker.note = Some(format!(
                "or type provider/model, or an effort ({})",
                efforts.join(", ")
            ));
            if let Some(at) = picker.items.iter().position(|item| item.value == current) {
                let detail = &mut picker.items[at].detail;
                *detail = format!("current · {detail}");
                picker.at = if words.is_empty() { at } else { 0 };
            }
            picker.typed = words;
            picker.free = true;
            Some(Msg::Pick(picker))
        });
    }

    pub(super) fn themes(&self) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let item = |name: String| PickerItem {
                label: name.clone(),
                value: name,
                detail: String::new(),
            };
            let items = style::names(&ctx).into_iter().map(item).collect();
            Some(Msg::Pick(Picker::new(For::Theme, "theme", items)))
        });
    }

    pub(super) fn permissions(&self, app: &App) {
        let items = permissions::items(&self.ctx, &app.session.now.session_rules);
        let rules = count(items.len(), "rule");
        let mut picker = Picker::new(For::Rule, &format!("permissions: {rules}"), items);
        let mode = app.session.now.mode;
        picker.note = Some(format!(
            "Enter removes a rule · {}: {}",
            mode.name(),
            explain(mode)
        ));
        self.send(Msg::Pick(picker));
    }

    pub(super) fn status(&self, app: &App) {
        let ctx = &self.ctx;
        let id = app.session.id.as_deref().unwrap_or("none");
        let trusted = match ctx.loaded.project.standing {
            ProjectTrust::Trusted => "trusted",
            ProjectTrust::Untrusted => "not trusted",
            ProjectTrust::Changed(_) => "to be trusted again",
        };
        let rows = [
            ("rewake", VERSION.to_string()),
            ("session", id.to_string()),
            (
                "title",
                app.session
                    .now
                    .title
                    .clone()
                    .unwrap_or_else(|| "none yet".into()),
            ),
            ("model", app.session.now.model.clone()),
            (
                "summaries by",
                ctx.config()
                    .summary_model
                    .clone()
                    .unwrap_or_else(|| "the same model".into()),
            ),
            ("mode", app.session.now.mode.name().to_string()),
            (
                "folder",
                format!("{} ({trusted})", ctx.here.folder.display()),
            ),
            ("workspace", ctx.here.root.display().to_string()),
            ("config", ctx.paths.config_file().display().to_string()),
            ("data", ctx.paths.data_dir.display().to_string()),
            ("logs", ctx.paths.state_dir.display().to_string()),
            ("to resume later", format!("rewake -r {}", short_id(id))),
        ];
        let theme = &app.look.theme;
        let lines = rows.into_iter().map(|(name, what)| {
            let what = crate::ui::text::clean_line(&what).into_owned();
            Line::from(vec![
                Span::styled(format!("{name:<16}"), theme.dim),
                Span::styled(what, theme.text),
            ])
        });
        self.send(Msg::Show("status".into(), lines.collect()));
    }
}

fn explain(mode: Mode) -> &'static str {
    match mode {
        Mode::Default => "reading is free; changes and commands ask",
        Mode::AcceptEdits => "files of the workspace may be changed; commands ask",
        Mode::Plan => "read only; nothing may be changed",
        Mode::BypassPermissions => {
            "no approvals, commands run WITHOUT the sandbox; deny rules still apply"
        }
    }
}
