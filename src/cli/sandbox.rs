//! `rewake sandbox`: runs one command in the sandbox for commands of the model. Exit code and
//! standard streams are those of the command.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use signal_hook::consts::signal;

use super::values;
use crate::command::own_exe;
use crate::config::ConfigError;
use crate::core::access::Access;
use crate::core::text::count;
use crate::report::CliError;
use crate::sandbox::{
    Family, Kernel, Modes, Profile, Remembered, Repository, Request, ResolvedFolder, Toolchains,
    Watched, adopt_orphans, child, give_back_limit,
};
use crate::session::AppContext;
use crate::workspace::handle::Folder;

/// Maximum number of named processes that could not be ended.
const MAX_SURVIVORS: usize = 20;

/// Time for a command to clean up after a signal that ends this process.
const CLEANS_UP_WITHIN: Duration = Duration::from_secs(5);

/// Exit codes of a shell above this number mean that a signal ended the command.
const BY_SIGNAL: i32 = 128;

/// Run a command in the sandbox
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct SandboxArgs {
    /// Set the access of the command
    #[arg(long, value_name = "LEVEL", default_value = "workspace", value_parser = values::access())]
    access: Access,
    /// Act as if the kernel lacked something: abi=N, no-namespaces, no-network, no-pid
    #[arg(long, value_name = "WHAT", hide = true, default_value = "")]
    pretend: String,
    /// Program and arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

pub(super) fn run(ctx: &AppContext, wanted: &SandboxArgs) -> Result<u8, CliError> {
    let Some((program, args)) = wanted.command.split_first() else {
        return Err(ConfigError::new("there is no command to run").into());
    };
    let program = found(ctx, Path::new(program))?;
    if wanted.access == Access::Full {
        let mut command = child(&program);
        command.args(args).current_dir(&ctx.here.folder);
        return Ok(exit_code(command.status().map_err(cannot(&program))?));
    }
    let exe = own_exe().map_err(cannot(&program))?;
    let profile = profile(ctx, wanted, &exe)?;
    for gap in &profile.gaps {
        tell(&format!("note: {gap}"));
    }
    // A command with write access there could replace the folders in its path.
    let tmp_parent = Folder::open(profile.tmp.parent().unwrap_or(&profile.tmp));
    let watched = Watched::look(&profile);
    let modes = Modes::look(&profile.modes);
    adopt_orphans();
    let signals = Signals::catch().map_err(cannot(&program))?;
    let mut starting = crate::sandbox::command(&profile, &exe, &program, args.iter().cloned())
        .map_err(cannot(&program))?;
    give_back_limit(&mut starting.command);
    starting.command.current_dir(&ctx.here.folder);
    let mut child = starting.command.spawn().map_err(cannot(&program))?;
    drop(starting.command);
    if let Some(why) = starting.report.failure() {
        let _ = child.wait();
        return Err(ConfigError::new(why).into());
    }
    let status = signals.wait_for(&mut child).map_err(cannot(&program))?;
    if let Some(family) = Family::of(child.id(), &profile, starting.placeholders) {
        let found = family.end();
        let ended = (found.ended + starting.left.count()) as u64;
        if ended > 0 {
            tell(&format!(
                "note: {} that it left running ended with it",
                count(ended, "process")
            ));
        }
        if !found.survivors.is_empty() {
            let pids = found.survivors.iter().take(MAX_SURVIVORS);
            let pids: Vec<String> = pids.map(|pid| pid.as_raw_nonzero().to_string()).collect();
            tell(&format!(
                "note: {} that it left running could not be ended: {}",
                count(found.survivors.len() as u64, "process"),
                pids.join(", ")
            ));
        }
    }
    for change in modes.restore() {
        let path = change.path.display();
        tell(&match change.restored {
            true => format!("note: the permissions of {path} were changed; they are as they were"),
            false => format!("note: the permissions of {path} were changed"),
        });
    }
    for change in watched.compare() {
        let path = change.path.display();
        tell(&match change.moved_to {
            Some(to) => format!(
                "note: {path} is protected; the change is in {}",
                to.display()
            ),
            None => format!("note: {path} is protected and was changed"),
        });
    }
    if let (Ok(parent), Some(name)) = (tmp_parent, profile.tmp.file_name()) {
        let _ = parent.remove_all(name);
    }
    Ok(exit_code(status))
}

/// Signals that would end this process. From a terminal they go to the whole group, so the command
/// may handle them. If this process ended first, the kernel would end the command.
struct Signals {
    /// SIGTERM or SIGHUP, once received.
    ends: Arc<AtomicUsize>,
    /// Readable after one of those, or after the end of a child.
    wake: UnixStream,
}

impl Signals {
    fn catch() -> io::Result<Signals> {
        let (wake, waker) = UnixStream::pair()?;
        let ends = Arc::new(AtomicUsize::new(0));
        for signal in [signal::SIGTERM, signal::SIGHUP] {
            let number = usize::try_from(signal).unwrap_or_default();
            // The number is stored before the stream becomes readable: actions run in this order.
            signal_hook::flag::register_usize(signal, Arc::clone(&ends), number)?;
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        signal_hook::low_level::pipe::register(signal::SIGCHLD, waker)?;
        // The command decides how to handle these.
        let unread = Arc::new(AtomicUsize::new(0));
        for signal in [signal::SIGINT, signal::SIGQUIT] {
            signal_hook::flag::register_usize(signal, Arc::clone(&unread), 1)?;
        }
        Ok(Signals { ends, wake })
    }

    /// Waits for the end of the command. After SIGTERM or SIGHUP, if the command does not end in
    /// time, this process ends with that signal.
    fn wait_for(mut self, child: &mut Child) -> io::Result<ExitStatus> {
        let mut until = None;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            let signal = self.ends.load(Ordering::Relaxed);
            let left = (signal != 0).then(|| {
                let until = until.get_or_insert_with(|| Instant::now() + CLEANS_UP_WITHIN);
                until.saturating_duration_since(Instant::now())
            });
            if left.is_some_and(|left| left.is_zero()) {
                let signal = i32::try_from(signal).unwrap_or(signal::SIGTERM);
                signal_hook::low_level::emulate_default_handler(signal)?;
            }
            // The loop above checks the timeout.
            self.wake.set_read_timeout(left)?;
            let _ = self.wake.read(&mut [0; 64]);
        }
    }
}

fn profile(ctx: &AppContext, wanted: &SandboxArgs, exe: &Path) -> Result<Profile, CliError> {
    let kernel = Kernel::probe(exe)
        .and_then(|kernel| kernel.pretending(&wanted.pretend))
        .map_err(ConfigError::new)?;
    let config = ctx.config();
    let paths = &ctx.paths;
    let folder = |path: PathBuf| {
        std::fs::create_dir_all(&path)
            .map_err(|e| ConfigError::new(format!("cannot make {}: {e}", path.display())))
            .map(|()| path)
    };
    let tmp = tempfile::Builder::new()
        .prefix("rewake-")
        .tempdir()
        .map_err(|e| ConfigError::new(format!("cannot make a temporary folder: {e}")))?
        .keep();
    let project = blake3::hash(ctx.here.root.as_os_str().as_encoded_bytes()).to_hex();
    let caches = folder(
        paths
            .data_dir
            .join("caches")
            .join(&project[..16])
            .join(wanted.access.name()),
    )?;
    let quarantine = paths.data_dir.join("quarantine");
    let private = [&paths.config_dir, &paths.data_dir, &paths.state_dir].map(PathBuf::clone);
    let repository = Repository::of(&ctx.here.root);
    let objects = repository
        .iter()
        .flat_map(|git| git.objects_elsewhere([], None));
    let objects: Vec<_> = objects
        .filter_map(|path| ResolvedFolder::of(&path))
        .collect();
    let request = Request {
        access: wanted.access,
        workspace: &ctx.here.root,
        repository,
        objects: &objects,
        home: ctx.env.home(),
        toolchains: &Toolchains::of(&ctx.env),
        more_read: &config.sandbox.read,
        more_write: &config.sandbox.write,
        pass_env: &config.shell.pass_env,
        denied: &config.key_files(paths.keys_dir()),
        private: &private,
        shown: &[],
        tmp: &tmp,
        caches: &caches,
        quarantine: &quarantine,
        kernel,
        held: &[],
        remembered: &Remembered::default(),
    };
    let mut profile = Profile::new(&request)
        .map_err(|e| ConfigError::new(e.why).with_hint(e.hint))
        .inspect_err(|_| drop(std::fs::remove_dir(&tmp)))?;
    if !profile.modes.is_empty() {
        profile.modes.extend(config.key_files(paths.keys_dir()));
    }
    Ok(profile)
}

/// Finds the program like a shell: a name without a slash is searched in `PATH`.
fn found(ctx: &AppContext, program: &Path) -> Result<PathBuf, ConfigError> {
    if program.components().count() > 1 || program.is_absolute() {
        return Ok(ctx.here.folder.join(program));
    }
    let path = ctx.env.var_os("PATH").unwrap_or_default();
    std::env::split_paths(path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            ConfigError::new(format!("cannot find the program {}", program.display()))
                .with_hint("name it by its path")
        })
}

fn cannot(program: &Path) -> impl Fn(std::io::Error) -> CliError {
    move |e| ConfigError::new(format!("cannot run {}: {e}", program.display())).into()
}

fn exit_code(status: std::process::ExitStatus) -> u8 {
    let code = status
        .code()
        .or(status.signal().map(|signal| BY_SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn tell(text: &str) {
    crate::report::note(text);
}
