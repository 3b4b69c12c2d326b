//! The hooks of a session, from the files of this folder.

use std::path::{Path, PathBuf};

use super::{AppContext, SessionError, permissions, sandbox};
use crate::config::foreign_guards::{self, ForeignFile, translate};
use crate::config::mcp::FoundServers;
use crate::config::{ConfigError, Env, Paths, trust};
use crate::mcp::catalogue::SessionCatalogue;
use crate::workspace::hooks::{Hook, HookPlaces, HookState, Hooks, find_hooks};
use crate::world::confine::Confine;
use crate::world::machine::Shell;
use crate::world::{HookSetup, MachineHooks};

/// Folder of a session's temporary folder for hooks. Commands in the sandbox cannot write there.
const FOLDER: &str = "hooks";

/// Calls `act` with the places where the hooks of a folder are. `root` is the root of the workspace,
/// or of the project of a worktree.
pub fn with_hook_places<T>(
    env: &Env,
    paths: &Paths,
    root: &Path,
    folder: &Path,
    act: impl FnOnce(HookPlaces<'_>) -> T,
) -> T {
    let search_path = env.var_os("PATH");
    let search_path: Vec<PathBuf> =
        search_path.map_or_else(Vec::new, |path| std::env::split_paths(path).collect());
    act(HookPlaces {
        paths,
        root,
        folder,
        home: env.home(),
        search_path: &search_path,
    })
}

/// Returns the hooks of a folder, those that do not run included.
///
/// # Errors
/// The user's own file, or the file with the trust, cannot be used.
pub fn hooks(ctx: &AppContext, folder: &Path) -> Result<Hooks, ConfigError> {
    hook_places(ctx, folder, find_hooks)
}

/// Calls `act` with the places where the hooks of a folder are.
pub fn hook_places<T>(ctx: &AppContext, folder: &Path, act: impl FnOnce(HookPlaces<'_>) -> T) -> T {
    with_hook_places(&ctx.env, &ctx.paths, &hook_root(ctx), folder, act)
}

/// Returns the files of other agents whose hooks or rules are not in force, and about which the
/// user wants a line at each start.
///
/// # Errors
/// The file with the trust cannot be read.
pub fn guards_not_in_force(
    ctx: &AppContext,
    hooks: &Hooks,
) -> Result<Vec<ForeignFile>, ConfigError> {
    let mut found = foreign_guards::find(&hook_root(ctx), ctx.env.home());
    if found.is_empty() {
        return Ok(found);
    }
    let dismissed = trust::dismissed(&ctx.paths)?;
    found.retain(|file| {
        let path = file.path.to_string_lossy();
        let is_dismissed =
            !file.hash.is_empty() && dismissed.get(path.as_ref()) == Some(&file.hash);
        !is_dismissed && !is_in_force(ctx, file, hooks)
    });
    Ok(found)
}

/// Returns whether all hooks and rules of a file apply here.
fn is_in_force(ctx: &AppContext, file: &ForeignFile, hooks: &Hooks) -> bool {
    let own = hooks.hooks.iter().filter(|hook| hook.file == file.path);
    let used = own
        .filter(|hook| hook.state != HookState::Untrusted && !hook.is_lost)
        .count();
    let config = &ctx.config().permissions;
    let has = |rules: &[String], known: &[String]| {
        rules.iter().all(|rule| {
            translate(file.agent, rule, file.anchor()).is_ok_and(|rule| known.contains(&rule))
        })
    };
    file.fault.is_none()
        && used >= file.hooks
        && has(&file.deny, &config.deny)
        && has(&file.ask, &config.ask)
}

/// Returns the folder whose hooks apply: for a worktree, its project.
pub(crate) fn hook_root(ctx: &AppContext) -> PathBuf {
    ctx.project().unwrap_or_else(|| ctx.here.root.clone())
}

/// Returns the files of the workspace that hooks name. Nobody changes them without a question.
pub(super) fn files_of_hooks(ctx: &AppContext) -> Vec<PathBuf> {
    // If they cannot be read, no session starts.
    let found = hooks(ctx, &ctx.here.folder).unwrap_or_default();
    found.protected_files(&ctx.here.root)
}

/// Creates the hooks of a session, also if none is found: an earlier start may have started some.
pub(super) fn machine_hooks(
    ctx: &AppContext,
    session: &str,
    cwd: &str,
    shell: &Shell,
    found: Hooks,
    warnings: &mut Vec<String>,
) -> Result<MachineHooks, SessionError> {
    let foreign = guards_not_in_force(ctx, &found)?;
    warnings.extend(foreign.iter().map(ForeignFile::line));
    warnings.extend(found.warnings);
    let (path, env_remove) = (shell.path.clone(), shell.env_remove.clone());
    let cwd = Path::new(cwd);
    Ok(MachineHooks::new(HookSetup {
        lease_file: shell.lease_file.clone(),
        sandbox: shell.sandbox.clone(),
        ..hook_setup(ctx, session, cwd, path, env_remove, found.hooks)?
    }))
}

/// Returns the sandbox for what runs outside of a session. `None`: there is none.
pub(super) fn confine(ctx: &AppContext, session: &str) -> Result<Option<Confine>, SessionError> {
    let no_servers = SessionCatalogue::unknown(FoundServers::default());
    let root = &ctx.here.root;
    let (_, hidden) = permissions::permission_check(ctx, root, &[], ctx.runs()?, no_servers)?;
    let held = files_of_hooks(ctx);
    Ok(sandbox::confine(ctx, session, hidden, held))
}

/// Creates hooks that run once, outside of any session.
///
/// # Errors
/// The folder of the runs is not known.
pub fn hooks_to_test(
    ctx: &AppContext,
    session: &str,
    hooks: Vec<Hook>,
) -> Result<MachineHooks, SessionError> {
    let config = ctx.config();
    let shell = config.shell.program(&ctx.env);
    let env_remove = super::unseen_by_commands(config, &ctx.env);
    let setup = hook_setup(ctx, session, &ctx.here.folder, shell, env_remove, hooks)?;
    Ok(MachineHooks::new(HookSetup {
        sandbox: confine(ctx, session)?,
        ..setup
    }))
}

fn hook_setup(
    ctx: &AppContext,
    session: &str,
    cwd: &Path,
    shell: PathBuf,
    env_remove: Vec<String>,
    hooks: Vec<Hook>,
) -> Result<HookSetup, SessionError> {
    Ok(HookSetup {
        hooks,
        project: hook_root(ctx),
        cwd: cwd.to_path_buf(),
        folder: sandbox::tmp_root(ctx).join(session).join(FOLDER),
        session: session.to_string(),
        runs: ctx.runs()?,
        shell,
        env_remove,
        lease_file: None,
        sandbox: None,
    })
}
