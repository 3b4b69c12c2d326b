//! The sandbox of a session's commands: the features of this system, and the input for a profile.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use uuid::Uuid;

use super::AppContext;
use crate::command::own_exe;
use crate::config::{Env, SandboxUse};
use crate::core::policy::Sandbox;
use crate::sandbox::{Kernel, Repository, ResolvedFolder, Toolchains};
use crate::tools::Hidden;
use crate::world::confine::Confine;

/// Returns the sandbox features of this kernel. In a debug build, a variable can disable features
/// for tests, and never add any. A release build ignores the variable.
///
/// # Errors
/// Why the kernel cannot be probed, for a person. Then no sandbox is available.
pub fn ask_kernel(env: &Env) -> Result<Kernel, String> {
    let exe = own_exe().map_err(|e| format!("cannot find this program's own file: {e}"))?;
    let kernel = Kernel::probe(&exe)?;
    if cfg!(debug_assertions)
        && let Some(less) = env.var("REWAKE_TEST_KERNEL")
    {
        return kernel.pretending(less);
    }
    Ok(kernel)
}

/// Returns the features, probed once per process, since they do not change. If probing fails, there
/// are none.
fn kernel(ctx: &AppContext) -> Kernel {
    static KERNEL: OnceLock<Kernel> = OnceLock::new();
    *KERNEL.get_or_init(|| {
        ask_kernel(&ctx.env).unwrap_or_else(|why| {
            tracing::warn!(why, "no sandbox for commands");
            Kernel::default()
        })
    })
}

/// Probes the kernel on another thread, so that the result is ready when a session is opened:
/// probing starts this program twice.
pub fn probe_kernel_in_background(ctx: &AppContext) {
    if ctx.config().sandbox.enabled == SandboxUse::Never {
        return;
    }
    let ctx = ctx.clone();
    let beside = std::thread::Builder::new().name("kernel".to_string());
    // Without the thread, the kernel is probed when the result is needed.
    drop(beside.spawn(move || kernel(&ctx)));
}

/// Returns whether commands below `full` run in a sandbox or not at all.
fn is_used(ctx: &AppContext) -> bool {
    match ctx.config().sandbox.enabled {
        SandboxUse::Never => false,
        SandboxUse::Always => true,
        SandboxUse::Auto => kernel(ctx).can_sandbox(),
    }
}

/// Returns the sandbox as the policy needs it.
pub fn given(ctx: &AppContext) -> Sandbox {
    if !is_used(ctx) {
        return Sandbox::default();
    }
    let kernel = kernel(ctx);
    let unasked = kernel.unasked();
    let root = real(&ctx.here.root);
    // Commands must not write to a workspace that contains the home folder.
    let holds_home = ctx
        .env
        .home()
        .is_some_and(|home| real(home).starts_with(&root));
    Sandbox {
        available: true,
        read: unasked.read,
        workspace: unasked.workspace && !holds_home,
        hides: kernel.mounts,
        protects: kernel.mounts,
        loopback: kernel.private_network,
    }
}

/// Returns the setting of this system that gives commands the rest of the sandbox.
pub(super) fn namespace_setting(ctx: &AppContext) -> Option<String> {
    crate::sandbox::namespace_setting(&kernel(ctx))
}

/// Returns the sandbox of a session's commands. `held` are files of trusted hooks. `None`: commands run without one.
pub(super) fn confine(
    ctx: &AppContext,
    session: &str,
    hidden: Arc<Hidden>,
    held: Vec<PathBuf>,
) -> Option<Confine> {
    if !is_used(ctx) {
        return None;
    }
    let (config, paths) = (ctx.config(), &ctx.paths);
    let workspace = ctx.here.root.clone();
    // Worktrees of a project share its caches.
    let project = ctx.project().unwrap_or_else(|| workspace.clone());
    let project = blake3::hash(project.as_os_str().as_encoded_bytes()).to_hex();
    // If the workspace contains rewake's own folders, a temporary folder there would be hidden with
    // them.
    let tmp =
        (!real(&paths.data_dir).starts_with(real(&workspace))).then(|| tmp_root(ctx).join(session));
    let named = ctx.env.var_os("GIT_ALTERNATE_OBJECT_DIRECTORIES");
    let named = std::env::split_paths(named.unwrap_or_default());
    let named: Vec<PathBuf> = named.map(|folder| ctx.env.cwd().join(folder)).collect();
    let repository = Repository::usable(&workspace, &config.sandbox.write);
    let objects = repository
        .as_ref()
        .map(|git| git.objects_elsewhere(named, beginning(session)));
    let objects = objects.unwrap_or_default().into_iter();
    let objects = objects
        .filter_map(|path| ResolvedFolder::of(&path))
        .collect();
    Some(Confine {
        kernel: kernel(ctx),
        workspace,
        repository,
        objects,
        home: ctx.env.home().map(PathBuf::from),
        toolchains: Toolchains::of(&ctx.env),
        more_read: config.sandbox.read.clone(),
        more_write: config.sandbox.write.clone(),
        pass_env: config.shell.pass_env.clone(),
        private: ctx.own_folders(),
        held,
        tmp,
        session: session.to_string(),
        caches: paths.data_dir.join("caches").join(&project[..16]),
        quarantine: paths.data_dir.join("quarantine"),
        key_files: config.key_files(paths.keys_dir()),
        hidden,
        remembered: Arc::default(),
        guarded: Arc::default(),
    })
}

/// Returns the time at which a session began, since 1970: its ID has it.
fn beginning(session: &str) -> Option<Duration> {
    let (seconds, nanoseconds) = Uuid::try_parse(session).ok()?.get_timestamp()?.to_unix();
    Some(Duration::new(seconds, nanoseconds))
}

/// Returns the folder of the sessions' temporary folders.
pub(super) fn tmp_root(ctx: &AppContext) -> PathBuf {
    ctx.paths.data_dir.join("tmp")
}

pub(super) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}
