//! The sandbox of a session's commands: what this system gives, and what a profile is made from.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::AppContext;
use crate::command::own_exe;
use crate::config::{Env, SandboxUse};
use crate::core::policy::Sandbox;
use crate::sandbox::{Kernel, Toolchains};
use crate::tools::Hidden;
use crate::world::confine::Confine;

/// What this kernel has. A build for tests can be told by a variable to do with less, never with
/// more; a release does not know the variable.
///
/// # Errors
/// Why it cannot be asked, for a person. Then there is no sandbox.
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

/// Asked once: it does not change while a process lives. What cannot be asked has nothing.
fn kernel(ctx: &AppContext) -> Kernel {
    static KERNEL: OnceLock<Kernel> = OnceLock::new();
    *KERNEL.get_or_init(|| {
        ask_kernel(&ctx.env).unwrap_or_else(|why| {
            tracing::warn!(why, "no sandbox for commands");
            Kernel::default()
        })
    })
}

/// Asks the kernel on another thread, so that the answer is there when a session is opened: it
/// takes two starts of this program.
pub fn ask_kernel_beside(ctx: &AppContext) {
    if ctx.config().sandbox.enabled == SandboxUse::Never {
        return;
    }
    let ctx = ctx.clone();
    let beside = std::thread::Builder::new().name("kernel".to_string());
    // Without the thread it is asked when it is needed.
    drop(beside.spawn(move || kernel(&ctx)));
}

/// Whether commands below `full` run in a sandbox or not at all.
fn is_used(ctx: &AppContext) -> bool {
    match ctx.config().sandbox.enabled {
        SandboxUse::Never => false,
        SandboxUse::Always => true,
        SandboxUse::Auto => kernel(ctx).can_sandbox(),
    }
}

/// What the policy needs to know of it.
pub fn given(ctx: &AppContext) -> Sandbox {
    if !is_used(ctx) {
        return Sandbox::default();
    }
    let kernel = kernel(ctx);
    let unasked = kernel.unasked();
    let root = real(&ctx.here.root);
    // All of the home folder is no workspace that a command may write to.
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

/// None: no command runs in a sandbox.
pub(super) fn confine(ctx: &AppContext, session: &str, hidden: Arc<Hidden>) -> Option<Confine> {
    if !is_used(ctx) {
        return None;
    }
    let (config, paths) = (ctx.config(), &ctx.paths);
    let workspace = ctx.here.root.clone();
    // Worktrees of a project have its caches.
    let project = ctx.project().unwrap_or_else(|| workspace.clone());
    let project = blake3::hash(project.as_os_str().as_encoded_bytes()).to_hex();
    // A temporary folder inside a workspace that holds rewake's own folders would be hidden
    // with them.
    let tmp = match real(&paths.data_dir).starts_with(real(&workspace)) {
        true => None,
        false => Some(tmp_root(ctx).join(session)),
    };
    Some(Confine {
        kernel: kernel(ctx),
        workspace,
        home: ctx.env.home().map(PathBuf::from),
        toolchains: Toolchains::of(&ctx.env),
        more_read: config.sandbox.read.clone(),
        more_write: config.sandbox.write.clone(),
        pass_env: config.shell.pass_env.clone(),
        private: ctx.own_folders(),
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

/// Where the temporary folders of sessions are.
pub(super) fn tmp_root(ctx: &AppContext) -> PathBuf {
    ctx.paths.data_dir.join("tmp")
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}
