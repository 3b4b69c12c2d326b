//! What the screen changes of the settings, and what it says of them.

use crate::core::text::count;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::text::{Line, Span};

use super::changes::Moment;
use super::show::plain_lines;
use super::{Effects, some_run};
use crate::config::write::Change;
use crate::config::{self, ConfigError, Content, Loaded, Origin, Paths, Standing};
use crate::core::entry::Mode;
use crate::engine::Command;
use crate::model::discover::LLAMA_CPP;
use crate::model::{Figures, Models};
use crate::session::{AppContext, VERSION, short_id};
use crate::ui::app::{App, Msg};
use crate::ui::overlay::{For, Picker, PickerItem};
use crate::ui::style;
use crate::ui::transcript::Tone;

/// While commands of other sessions run, whose end nobody tells, the files are looked at so often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Effects {
    /// "Always": in the user's own config, where only a person writes. It holds at once, also
    /// when the rest of the file is not taken over.
    pub(super) fn allow_always(&mut self, rule: &str, app: &App) {
        let rules = |ctx: &AppContext| ctx.config().permissions.allow.clone();
        if let Err(e) = self.change_config(|paths| config::write::allow(paths, rule)) {
            return self.notify(Tone::Bad, e.to_string());
        }
        self.reload(app);
        if !rules(&self.ctx).iter().any(|known| known == rule) {
            let origin = Origin::Flag("granted on the screen".to_string());
            self.apply(self.ctx.loaded.allowing(rule, origin), app);
        }
        self.notify(Tone::Calm, format!("{rule} is allowed from now on"));
    }

    /// Changes the user's own file at a person's word, which is not taken for the session's.
    fn change_config(
        &mut self,
        write: impl FnOnce(&Paths) -> Result<Change, ConfigError>,
    ) -> Result<(), ConfigError> {
        self.look_at_config();
        let change = write(&self.ctx.paths)?;
        let now = self.moment();
        let file = self.ctx.paths.config_file();
        self.changes.wrote(&file, &change, now);
        Ok(())
    }

    /// A file of the config may have changed: whose change it is is known best at once.
    pub fn look_at_config(&mut self) {
        let from = self.moment();
        let found = self.ctx.loaded.files_now();
        let to = self.moment();
        self.changes.look(from, &found, to);
        self.looked = Instant::now();
    }

    /// When a call or a command has come to its end: what was changed until now is the session's.
    pub fn settle_config(&mut self) {
        let now = self.acting.moment(false);
        let again = self.changes.was_acting() && self.looked.elapsed() >= LOOK_AGAIN;
        if self.changes.is_due(now) || (again && !now.is_acting) {
            self.look_at_config();
            self.report_changes_of_session();
        }
    }

    /// With what runs for sessions that are not open here.
    fn moment(&self) -> Moment {
        self.acting.moment(some_run(self.runs.as_ref()))
    }

    fn report_changes_of_session(&mut self) {
        for file in self.changes.unreported() {
            let text = format!(
                "{} was changed while a call or a command of the session was in progress, and is not \
                 used: /reload reads it, and so does the next start",
                file.display()
            );
            self.notify(Tone::Warn, text);
        }
    }

    fn load(&self) -> Result<Loaded, ConfigError> {
        let ctx = &self.ctx;
        config::load(&ctx.env, &ctx.paths, &ctx.here.root, &ctx.flags)
    }

    /// The config was changed: what can be changed while a session is open is, if a person did.
    pub fn reload(&mut self, app: &App) {
        let from = self.moment();
        let loaded = self.load();
        // What is taken over is what was looked at: both are what this reading found.
        let found = match &loaded {
            Ok(loaded) => loaded.files.clone(),
            Err(_) => self.ctx.loaded.files_now(),
        };
        let to = self.moment();
        self.changes.look(from, &found, to);
        self.looked = Instant::now();
        self.report_changes_of_session();
        if self.changes.changed_by_session().next().is_some() {
            return;
        }
        let was_undone = self.changes.was_undone();
        if !self.take_over(loaded, app) && was_undone {
            self.notify(Tone::Calm, "the config is again what is in use");
        }
    }

    /// A person wants it read, whoever changed it.
    pub(super) fn take_over_config(&mut self, app: &App) {
        let loaded = self.load();
        if !self.take_over(loaded, app) {
            self.notify(Tone::Calm, "the config says what it said");
        }
    }

    /// False when nothing is to be said.
    fn take_over(&mut self, loaded: Result<Loaded, ConfigError>, app: &App) -> bool {
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(e) => {
                let hint = e.hint().map(|h| format!("\nhint: {h}")).unwrap_or_default();
                let text = format!("the config was changed, and is not used: {e}{hint}");
                self.notify(Tone::Bad, text);
                return true;
            }
        };
        self.changes.took_over(&loaded.files);
        if loaded.is_as(&self.ctx.loaded) {
            return false;
        }
        for warning in &loaded.warnings {
            if !self.ctx.loaded.warnings.contains(warning) {
                self.notify(Tone::Warn, warning.to_string());
            }
        }
        self.apply(loaded, app);
        let text = "the config was read again; rules and colours hold now, the rest from the next session on";
        self.notify(Tone::Calm, text);
        true
    }

    fn apply(&mut self, loaded: Loaded, app: &App) {
        let again = Arc::new(self.ctx.with(loaded));
        match again.permission_check_of(&app.now.folder) {
            Ok(check) => self.engine(Command::SetPermissionCheck(check)),
            Err(e) => self.notify(Tone::Bad, e.to_string()),
        }
        match style::theme(&again, None) {
            Ok(theme) => self.send(Msg::Restyled(Box::new(theme))),
            Err(e) => self.notify(Tone::Bad, e),
        }
        self.ctx = again;
    }

    pub(super) fn theme(&mut self, name: &str, app: &mut App) {
        match style::theme(&self.ctx, Some(name)) {
            Ok(theme) => {
                app.theme_name = name.to_string();
                self.send(Msg::Restyled(Box::new(theme)));
                let set = |paths: &Paths| config::write::set(paths, "theme", name);
                if let Err(e) = self.change_config(set) {
                    self.notify(Tone::Warn, e.to_string());
                }
            }
            Err(e) => self.notify(Tone::Bad, e),
        }
    }

    /// On the first screen: kept as the user's model, and begun with.
    pub(super) fn choose_model(&mut self, model: String, app: &mut App) {
        let provider = model.split('/').next().unwrap_or_default();
        let named = match self.ctx.config().provider(provider) {
            Ok(_) => Ok(()),
            // It was found by its port: from now on it is known by its name.
            Err(_) => {
                self.change_config(|paths| config::write::local_server(paths, provider, LLAMA_CPP))
            }
        };
        let set = |paths: &Paths| config::write::set(paths, "model", &model);
        if let Err(e) = named.and_then(|()| self.change_config(set)) {
            return self.notify(Tone::Bad, e.to_string());
        }
        self.reload(app);
        let which = crate::session::Which::New;
        self.open(which, false, app);
    }

    /// With the content that the person was shown. If the file is another one by now, it is
    /// not used, and reading it says so.
    pub(super) fn trust(&mut self, content: &Content, app: &mut App) {
        let ctx = &self.ctx;
        match config::trust::trust(&ctx.paths, &ctx.here.root, content) {
            Ok(_) => {
                // Answered: what was to be said of it is so no longer.
                let said = ctx.loaded.warnings.iter().map(ToString::to_string);
                let said: Vec<String> = said.collect();
                app.warned.retain(|warning| !said.contains(warning));
                self.reload(app);
                self.notify(
                    Tone::Calm,
                    "this folder is trusted with this content; rewake trust --remove takes it back",
                );
            }
            Err(e) => self.notify(Tone::Bad, e.to_string()),
        }
    }

    pub(super) fn distrust(&self) {
        let ctx = &self.ctx;
        if let Err(e) = config::trust::decline(&ctx.paths, &ctx.here.root) {
            self.notify(Tone::Warn, e.to_string());
        }
    }

    /// Only a model that could be asked.
    pub(super) fn use_model(&mut self, model: String) {
        let models = Models::new(self.ctx.config().clone(), self.ctx.env.clone());
        match models.check(&model) {
            Ok(warnings) => {
                for warning in warnings {
                    self.notify(Tone::Warn, warning);
                }
                self.engine(Command::Choose {
                    model: Some(model),
                    mode: None,
                });
            }
            Err(e) => {
                let hint = e.hint().map(|h| format!("; {h}")).unwrap_or_default();
                self.notify(Tone::Warn, format!("{e}{hint}"));
            }
        }
    }

    /// What could be asked: known models of providers with a key, and those of the config.
    pub(super) fn models(&self) {
        let config = self.ctx.config();
        let figures = Figures::new(config);
        let models = Models::new(config.clone(), self.ctx.env.clone());
        let names = figures.names();
        let items = names
            .into_iter()
            .filter(|name| models.check(name).is_ok())
            .map(|name| {
                let info = figures.of(&name);
                PickerItem {
                    detail: format!("{} tokens", info.context_window),
                    label: name.clone(),
                    value: name,
                }
            });
        let mut picker = Picker::new(For::Model, "model", items.collect());
        picker.note = Some("or type provider/model".into());
        picker.free = true;
        self.send(Msg::Pick(picker));
    }

    pub(super) fn themes(&self) {
        let item = |name: String| PickerItem {
            label: name.clone(),
            value: name,
            detail: String::new(),
        };
        let items = style::names(&self.ctx).into_iter().map(item).collect();
        self.send(Msg::Pick(Picker::new(For::Theme, "theme", items)));
    }

    pub(super) fn permissions(&self, app: &App) {
        let theme = &app.theme;
        let permissions = &self.ctx.config().permissions;
        let mut lines = vec![
            Line::from(vec![
                Span::styled("mode  ", theme.dim),
                Span::styled(app.now.mode.name(), theme.accent),
                Span::styled("   Shift+Tab: the next one", theme.dim),
            ]),
            Line::default(),
        ];
        for mode in Mode::ALL {
            lines.push(Line::styled(
                format!("{:<18} {}", mode.name(), explain(mode)),
                theme.text,
            ));
        }
        for (name, rules) in [
            ("allow", &permissions.allow),
            ("ask", &permissions.ask),
            ("deny", &permissions.deny),
        ] {
            lines.push(Line::default());
            lines.push(Line::styled(
                format!("{name}: {}", count(rules.len(), "rule")),
                theme.heading,
            ));
            lines.extend(plain_lines(&rules.join("\n")));
        }
        let file = self.ctx.paths.config_file();
        lines.push(Line::default());
        lines.push(Line::styled(
            format!("they stand in {}", file.display()),
            theme.dim,
        ));
        self.send(Msg::Show("permissions".into(), lines));
    }

    pub(super) fn status(&self, app: &App) {
        let ctx = &self.ctx;
        let id = app.id.as_deref().unwrap_or("none");
        let trusted = match ctx.loaded.project.standing {
            Standing::Trusted => "trusted",
            Standing::Untrusted => "not trusted",
            Standing::Changed(_) | Standing::Unbound => "to be trusted again",
        };
        let rows = [
            ("rewake", VERSION.to_string()),
            ("session", id.to_string()),
            (
                "title",
                app.now.title.clone().unwrap_or_else(|| "none yet".into()),
            ),
            ("model", app.now.model.clone()),
            (
                "summaries by",
                ctx.config()
                    .summary_model
                    .clone()
                    .unwrap_or_else(|| "the same model".into()),
            ),
            ("mode", app.now.mode.name().to_string()),
            (
                "folder",
                format!("{} ({trusted})", ctx.here.folder.display()),
            ),
            ("workspace", ctx.here.root.display().to_string()),
            ("config", ctx.paths.config_file().display().to_string()),
            ("data", ctx.paths.data_dir.display().to_string()),
            ("logs", ctx.paths.state_dir.display().to_string()),
            ("to go on later", format!("rewake -r {}", short_id(id))),
        ];
        let theme = &app.theme;
        let lines = rows.into_iter().map(|(name, what)| {
            let what = crate::ui::text::clean_line(&what).into_owned();
            Line::from(vec![
                Span::styled(format!("{name:<15}"), theme.dim),
                Span::styled(what, theme.text),
            ])
        });
        self.send(Msg::Show("status".into(), lines.collect()));
    }
}

fn explain(mode: Mode) -> &'static str {
    match mode {
        Mode::Default => "looking is free; changes and commands ask",
        Mode::AcceptEdits => "files of the workspace may be changed; commands ask",
        Mode::Plan => "only looking; nothing may be changed",
        Mode::BypassPermissions => "nothing asks; deny rules hold",
    }
}
