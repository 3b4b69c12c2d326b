//! The assembly of an open session with its world, its rules and its settings.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::context::{self, Gauging, KnownWindows};
use super::layers::Renderer;
use super::relocation::note_place;
use super::{
    AppContext, Log, Opened, Session, SessionError, VERSION, checks, hooks, now_ms, permissions,
    sandbox, served, telemetry, tmp, unseen_by_commands,
};
use crate::config::{Config, Origin, worktree_at};
use crate::core::background::BackgroundMode;
use crate::core::choice::Effort;
use crate::core::entry::{Choice, Guard};
use crate::core::settings::{Policy, Pricing};
use crate::core::signal::Signal;
use crate::core::state::{OpenCall, State};
use crate::engine::{BEGINS_WITHIN, Settings};
use crate::model::{Figures, Models, retirement};
use crate::net::page::Web;
use crate::sandbox::remove_left_placeholders;
use crate::tools::{Limits, ToolContext};
use crate::world::confine::Confine;
use crate::world::machine::{Machine, Shell};

impl AppContext {
    pub(super) fn assemble(
        &self,
        opened: Opened,
        interactive: bool,
    ) -> Result<Session, SessionError> {
        let Opened {
            log,
            lock,
            mut found,
            as_new,
            recent,
            spent,
            mut warnings,
            catalogue,
        } = opened;
        note_place(self);
        let state = &log.state;
        let id = log.head.session().to_string();
        let config = self.config();
        let folder = PathBuf::from(&state.folder);
        let runs = self.runs()?;
        let added = self.given.added(Some(state));
        let found_hooks = hooks::hooks(self, &folder)?;
        let hook_files = found_hooks.protected_files(&self.here.root);
        let (permission_check, hidden) = permissions::permission_check(
            self,
            &folder,
            &hook_files,
            runs.clone(),
            catalogue.clone(),
        )?;
        warnings.extend(permissions::notices(self, &hidden, state.mode));
        let ctx = ToolContext {
            folder,
            root: self.here.root.clone(),
            home: self.env.home().map(PathBuf::from),
            inline_max_bytes: usize::try_from(config.inline_max_bytes).unwrap_or(usize::MAX),
            hidden: Arc::clone(&hidden),
            judged: None,
            limits: Limits::default(),
            catalogue: catalogue.clone(),
        };
        let mut sandbox = sandbox::confine(self, &id, hidden, hook_files);
        if let Some(confine) = &mut sandbox {
            // Read only: protected files are looked for in the workspace alone.
            confine
                .more_read
                .extend(added.folders.iter().map(PathBuf::from));
        }
        warnings.extend(catalogue.notes().iter().cloned());
        let shared = log.shared.as_ref();
        let lease_file = shared.and_then(|writer| writer.lease_file.clone());
        // The result of a call that runs is read also after its definition was removed.
        let is_open =
            |open: &OpenCall| !open.finished && matches!(open.guard, Some(Guard::Served { .. }));
        let access = if catalogue.is_empty() && !state.calls.iter().any(is_open) {
            None
        } else {
            let lease_file = lease_file.clone();
            Some(self.server_access(&catalogue, &id, sandbox.as_ref(), lease_file)?)
        };
        remove_left_placeholders(&self.paths.data_dir);
        tmp::sweep(&sandbox::tmp_root(self), &self.paths.data_dir, &runs);
        let tmp = tmp::SessionTmp {
            folder: sandbox.as_ref().map(Confine::tmp_folder),
            session: id.clone(),
            runs: runs.clone(),
        };
        let telemetry = telemetry::telemetry(self, &log, &mut warnings);
        let mut env_remove = unseen_by_commands(config, &self.env);
        if worktree_at(&self.paths.data_dir, &self.here.root).is_some() {
            env_remove.extend(super::git::variables_of_repository(&self.env));
        }
        let shell = Shell {
            path: config.shell.program(&self.env),
            timeout_ms: config.shell.timeout_ms,
            output_cap_bytes: config.shell.output_cap_bytes,
            env_remove,
            sandbox,
            lease_file,
            trace: telemetry.as_ref().map(|(_, trace)| *trace),
        };
        let machine_hooks =
            hooks::machine_hooks(self, &id, &state.folder, &shell, found_hooks, &mut warnings)?;
        let chosen = self.choices(state, as_new)?;
        let asked = self.models();
        let model = match &chosen {
            Some(Choice {
                model: Some(model), ..
            }) => model.clone(),
            _ => sent_model(&log, &asked).unwrap_or_else(|| state.model.clone()),
        };
        if let (
            Some(found),
            Some(Choice {
                mode: Some(mode), ..
            }),
        ) = (&mut found, &chosen)
        {
            found.mode = *mode;
        }
        warnings.extend(asked.check(&model)?);
        self.given.check_price(config, &model)?;
        let fallbacks = fallbacks(config, &asked, &mut warnings);
        let mode_is_chosen = matches!(&chosen, Some(Choice { mode: Some(_), .. }));
        // A screen always shows the mode.
        if !interactive && state.mode != config.permission_mode && !mode_is_chosen {
            warnings.push(format!(
                "this session continues in mode {}; --permission-mode changes it",
                state.mode.name()
            ));
        }
        let mut world = Machine::new(
            ctx,
            shell,
            runs,
            asked,
            id.clone(),
            self.paths.data_dir.clone(),
        );
        if let Some(access) = access {
            world.use_servers(access);
        }
        world.use_hooks(machine_hooks);
        if config.web.enabled {
            let search_url = config.web.search_url.clone();
            world.use_web(Web::new(config.web.private.clone()), search_url);
        }
        self.start_file_snapshots(&mut world, &mut warnings);
        if state.assignment.is_none() {
            world.allow_tasks(self.tasks(&id));
        }
        let mut models = vec![model.as_str(), state.model.as_str(), state.own_model()];
        models.extend(fallbacks.iter().map(String::as_str));
        models.extend(config.summary_model.as_deref());
        let today = retirement::date_at(now_ms());
        let figures = Figures::new(config);
        let end_of = |model: &str| figures.of(model).ends;
        warnings.extend(retirement::warnings(end_of, &models, today));
        let known = KnownWindows::read(self, &log.store, &models)?;
        warnings.extend(known.warning(&model));
        let policy = Policy {
            permission_check,
            served_check: served::served_check(catalogue.clone()),
            interactive,
            background: BackgroundMode::Leave,
            sandbox: super::sandbox::given(self),
            checks: checks::checks(self, &mut warnings),
            max_turns: config
                .max_turns
                .map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
            loop_guard: config.loop_guard,
            budget: known.clone().budgeting(),
            windows: context::windows(config),
            price: pricing(Figures::new(config)),
        };
        let is_added = added.is_of(state);
        let renderer = Renderer::new(self, interactive, catalogue);
        let mut renderer = renderer.with_added(added);
        if let Some(assignment) = &state.assignment {
            renderer = renderer.for_task(assignment, state.mode);
        }
        let budget = policy.budget_of(state, &model);
        let renewed = (state.version != VERSION || state.has_moved || !is_added)
            .then(|| renderer.render(&budget, now_ms()).0);
        let settings = Settings {
            policy,
            begins_within: BEGINS_WITHIN,
            checkpoint_interval: Duration::from_secs(config.checkpoint_interval_sec),
            summarising: context::summarising(config, fallbacks.clone(), interactive),
            render: Box::new(move |budget| renderer.render(budget, now_ms()).0),
            renewed: renewed.map(|layers| (VERSION.to_string(), layers)),
            chosen,
            fallbacks,
        };
        let world = Rc::new(world);
        Ok(Session {
            id,
            lock,
            tmp,
            log,
            world,
            settings,
            gauging: Gauging {
                known,
                windows: context::windows(config),
            },
            figures: Figures::new(config),
            found,
            recent,
            spent,
            warnings,
            telemetry: telemetry.map(|(job, _)| job),
        })
    }

    /// Returns the choices of this start. Its flags override what the session was using. In a
    /// session without a message, the config does so too.
    fn choices(&self, state: &State, as_new: bool) -> Result<Option<Choice>, SessionError> {
        let by_flag = |key: &str| as_new || matches!(self.loaded.origins.of(key), Origin::Flag(_));
        // The model of another agent's session has no provider here.
        let model = match by_flag("model") || !state.model.contains('/') {
            true => Some(self.config().model_name(&self.env)?.to_string()),
            false => None,
        };
        // Recording the model again resets the effort and the temperature that were chosen with it.
        let is_other = |m: &String| {
            let is_set = state.effort != Effort::Default || state.temperature.is_some();
            *m != state.model || (as_new && is_set)
        };
        let model = model.filter(is_other);
        let mode = Some(self.config().permission_mode)
            .filter(|mode| by_flag("permission_mode") && *mode != state.mode);
        // Values from the config are part of each request anyway, so only flags are recorded.
        let is_flag = |key: &str| matches!(self.loaded.origins.of(key), Origin::Flag(_));
        let is_new = model.is_some();
        let effort = self.config().effort.filter(|_| is_flag("effort"));
        let effort = effort.filter(|effort| is_new || *effort != state.effort);
        let temperature = self.config().temperature.filter(|_| is_flag("temperature"));
        let temperature = temperature.filter(|t| is_new || Some(*t) != state.temperature);
        let choice = Choice {
            model,
            mode,
            effort,
            temperature,
            ..self.given.choice(state)
        };
        Ok((!choice.is_empty()).then_some(choice))
    }
}

/// Returns the model of the newest pending signal whose model can be used. The first request goes
/// to that model. The session's own model may not be usable, which may be why the signal was sent.
fn sent_model(log: &Log, asked: &Models) -> Option<String> {
    let waiting = log.store.inbox().signals(log.head.session());
    let waiting = waiting.unwrap_or_default().into_iter().rev();
    waiting
        .filter_map(|sent| match sent.signal {
            Ok(Signal::Choose(choice)) => choice.model,
            _ => None,
        })
        .find(|model| asked.check(model).is_ok())
}

fn pricing(figures: Figures) -> Pricing {
    Arc::new(move |model, usage| figures.cost(model, usage))
}

/// Returns the fallback models that can be used. A model without its key must not fail the run.
fn fallbacks(config: &Config, asked: &Models, warnings: &mut Vec<String>) -> Vec<String> {
    let mut could_be_asked = |model: &&String| match asked.check(model) {
        Ok(said) => {
            // Another model may use the same key and give the same warning.
            let new = said.into_iter().filter(|text| !warnings.contains(text));
            let new: Vec<String> = new.collect();
            warnings.extend(new);
            true
        }
        Err(error) => {
            warnings.push(format!("fallback_model {model} is left out: {error}"));
            false
        }
    };
    let models = config.fallback_model.iter();
    models.filter(&mut could_be_asked).cloned().collect()
}
