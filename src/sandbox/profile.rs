//! The profile of a command: its permissions as plain data, computed by one function from the level
//! and the folders.
//!
//! Computing it reads the file system only to resolve links and to see which paths exist. A profile
//! is stored with the run of its command: it names variables and never contains their values.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::kernel::Kernel;
use super::paths::{
    below, below_link, existing, is_below_any, may_be_read, real_parent, without_nested,
};
use super::protected::{Remembered, modules_of};
use super::repository::Repository;
use super::toolchains::{OffLimits, Toolchains};
use super::{environment, path_bytes, places};
use crate::core::access::Access;
use crate::core::policy::OBEYED;
use crate::workspace::{git_settings_of_user, obeyed_by_git};

/// Maximum number of entries of one folder that are granted one by one around a hidden one.
pub(super) const MAX_SIBLINGS: usize = 500;

/// The input for a profile. All paths are absolute.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The level that the profile is for.
    pub access: Access,
    /// The root of the workspace.
    pub workspace: &'a Path,
    /// The git folders of the workspace, if it is a repository.
    pub repository: Option<Repository>,
    /// Folders with objects elsewhere that git reads, as they were before the first command.
    pub objects: &'a [ResolvedFolder],
    /// The user's home folder, if it is known.
    pub home: Option<&'a Path>,
    /// Folders with programs that the environment names.
    pub toolchains: &'a Toolchains,
    /// Additional folders from `[sandbox] read` and `write`.
    pub more_read: &'a [PathBuf],
    pub more_write: &'a [PathBuf],
    /// Variables from `shell.pass_env`, which are passed on although they look secret.
    pub pass_env: &'a [String],
    /// Files that a rule denies to read.
    pub denied: &'a [PathBuf],
    /// rewake's own folders, which no command reads.
    pub private: &'a [PathBuf],
    /// Files of trusted hooks, which a command may not change.
    pub held: &'a [PathBuf],
    /// Paths in `private` that may be read: the run's script, outputs of this session.
    pub shown: &'a [PathBuf],
    /// The session's temporary folder. It must exist.
    pub tmp: &'a Path,
    /// rewake's folder for the caches of this project. It must exist for level `workspace`.
    pub caches: &'a Path,
    /// Folder for changes of protected files. No command may be able to write there.
    pub quarantine: &'a Path,
    /// The features of this machine's kernel.
    pub kernel: Kernel,
    /// The memory of the workspace that the profiles of a session share; empty at first.
    pub remembered: &'a Remembered,
}

impl Request<'_> {
    /// Returns the folders that a command may read because `PATH` names them, and for no other
    /// reason.
    pub fn readable_on_path(&self) -> Vec<PathBuf> {
        self.toolchains.readable_on_path(&self.off_limits())
    }

    /// Returns the repository, unless commands would then write to a home folder or a secret.
    fn repository(&self) -> Option<&Repository> {
        let repository = self.repository.as_ref()?;
        let folder = &repository.common_dir;
        (folder.starts_with(self.workspace) || self.is_harmless(folder)).then_some(repository)
    }

    /// Returns the folders with objects that are still the same and may be read.
    fn objects(&self) -> Vec<ResolvedFolder> {
        let mut objects = self.objects.to_vec();
        objects.retain(|objects| {
            ResolvedFolder::of(&objects.path).as_ref() == Some(objects)
                && self.is_harmless(&objects.path)
                && !is_below_any(&objects.path, &self.off_limits().not_in)
        });
        objects
    }

    /// Returns whether a folder outside of the workspace has no home, no own folder and no secret in
    /// it, and is in no secret.
    fn is_harmless(&self, folder: &Path) -> bool {
        let has_secrets = |home| places::holds_secrets(folder, home);
        !self.off_limits().is_below(folder) && !self.home.is_some_and(has_secrets)
    }

    fn off_limits(&self) -> OffLimits {
        let home = |names: &[&str]| self.home.map(below(names)).unwrap_or_default();
        let system = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let own = [self.tmp, self.caches, self.quarantine].map(Path::to_path_buf);
        let own = [self.private, &own].concat();
        let git = self.repository.iter();
        let git = git.flat_map(|git| [git.git_dir.clone(), git.common_dir.clone()]);
        let shared = [self.workspace.to_path_buf(), places::SHARED_MEMORY.into()];
        let written = git.chain(shared).chain(self.more_write.iter().cloned());
        OffLimits {
            listed: existing(
                system(&places::SYSTEM)
                    .into_iter()
                    .chain(home(&places::HOME)),
            ),
            not_above: existing(own.iter().cloned().chain(self.home.map(PathBuf::from))),
            not_in: existing(
                [
                    system(&places::SYSTEM_SECRETS),
                    home(&places::SECRETS),
                    own.clone(),
                ]
                .concat(),
            ),
            writable: existing(written.chain(home(&places::SHARED_CACHES)).chain(own)),
        }
    }
}

/// The part of the network that a command can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing, not even loopback.
    None,
    /// A separate network namespace with loopback only.
    Private,
    /// Everything that the machine can reach.
    Open,
}

/// A folder that was resolved once and must be the same one when it is opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedFolder {
    pub path: PathBuf,
    /// The number of the device, as `stat` gives it.
    pub device: u64,
    /// The number of the file on the device.
    pub inode: u64,
}

impl ResolvedFolder {
    /// Returns the folder at this path, which has no links. `None`: there is none.
    pub fn of(path: &Path) -> Option<ResolvedFolder> {
        let found = std::fs::symlink_metadata(path).ok()?;
        Some(ResolvedFolder {
            path: path.to_path_buf(),
            device: found.dev(),
            inode: found.ino(),
        })
    }
}

/// Limits of a command. The kernel enforces the size of a file, and the number of processes if a
/// namespace has a separate limit. Otherwise the keeper checks from time to time and ends the
/// command, which cannot be exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Maximum size of one file that the command writes.
    pub file_bytes: u64,
    /// Maximum number of processes that are alive at once. The kernel counts threads too.
    pub processes: u32,
    /// Maximum size of the temporary folder.
    pub tmp_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            file_bytes: 16 * 1024 * 1024 * 1024,
            processes: processes(),
            tmp_bytes: 4 * 1024 * 1024 * 1024,
        }
    }
}

/// Returns the default limit of processes: build tools start threads and processes for each
/// processor.
fn processes() -> u32 {
    const FOR_EACH: usize = 250;
    const LEAST: usize = 1_000;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from((processors * FOR_EACH).max(LEAST)).unwrap_or(u32::MAX)
}

/// A scan for protected files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedScan {
    /// The workspace, or another writable folder.
    pub workspace: PathBuf,
    /// Whether nothing was skipped because the folder is large.
    pub whole: bool,
    /// The same for the folders in it that tools fill.
    #[serde(default)]
    pub filled_whole: bool,
    /// The folders where git keeps repositories, submodules and worktrees.
    #[serde(default, with = "path_bytes")]
    pub git: Vec<PathBuf>,
    /// The paths in them that the settings include and that do not exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "path_bytes")]
    pub included: Vec<PathBuf>,
}

/// The permissions of one command, computed for this machine. The keeper applies them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The level of the profile.
    pub access: Access,
    /// The kernel of the profile.
    pub kernel: Kernel,
    pub network: Network,
    /// Paths that are readable and executable, with everything below. They contain no links.
    #[serde(with = "path_bytes")]
    pub read: Vec<PathBuf>,
    /// Paths that are readable and writable, with everything below.
    #[serde(with = "path_bytes")]
    pub write: Vec<PathBuf>,
    /// Single files that may be read and written: devices.
    pub devices: Vec<PathBuf>,
    /// The folders of `read` and `write` that a repository could replace with others.
    pub pinned: Vec<ResolvedFolder>,
    /// Paths below `read` or `write` that are not readable.
    #[serde(with = "path_bytes")]
    pub hidden: Vec<PathBuf>,
    /// Paths below `write` that are not writable. Mounts protect those that exist, if mounting
    /// works.
    #[serde(with = "path_bytes")]
    pub protected: Vec<PathBuf>,
    /// The scan for protected files, which is repeated when the command ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked: Option<ProtectedScan>,
    /// The same for the folders of `[sandbox] write`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looked_further: Vec<ProtectedScan>,
    /// rewake's own folders and key files, whose permission bits are restored afterwards.
    #[serde(default, with = "path_bytes")]
    pub modes: Vec<PathBuf>,
    /// The temporary folder of the session's commands with this access.
    pub tmp: PathBuf,
    /// The `$TMPDIR` of this command alone: a folder in `tmp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_tmp: Option<PathBuf>,
    /// Folder for changes of protected files.
    pub quarantine: PathBuf,
    /// Names of variables that are passed on although they look secret.
    pub pass_env: Vec<String>,
    /// Variables that are set: paths and switches, never secrets.
    pub set_env: Vec<(String, String)>,
    pub limits: Limits,
    /// The parts of the profile that this kernel cannot enforce, in words for a person.
    pub gaps: Vec<String>,
}

/// The variables that name the folder for temporary files.
const TMP_VARIABLES: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// Variable with the beginning of the names of zsh's temporary files, which ignores the others: it
/// needs them for here-documents and for `=(…)`.
const TMP_PREFIX: &str = "TMPPREFIX";

/// Returns the variables that lead temporary files to this folder.
fn tmp_variables(folder: &Path) -> Vec<(String, String)> {
    let set = |name: &str, path: &Path| (name.to_string(), path.to_string_lossy().into_owned());
    let mut all = TMP_VARIABLES.map(|name| set(name, folder)).to_vec();
    all.push(set(TMP_PREFIX, &folder.join("zsh")));
    all
}

/// The reason why a sandbox is not possible: the command must not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unsupported {
    pub why: String,
    pub hint: String,
}

fn unsupported<T>(why: String, hint: &str) -> Result<T, Unsupported> {
    Err(Unsupported {
        why,
        hint: hint.to_string(),
    })
}

impl Profile {
    /// Computes the profile of a level below `full`.
    pub fn new(request: &Request) -> Result<Profile, Unsupported> {
        let kernel = request.kernel;
        if request.access == Access::Full {
            return unsupported(
                "level full has no sandbox".to_string(),
                "run the command without a profile",
            );
        }
        if !kernel.can_sandbox() && cfg!(target_os = "linux") {
            return unsupported(
                "this system has no sandbox for commands".to_string(),
                "`rewake doctor` says what the kernel lacks",
            );
        }
        let workspace = real(request.workspace, "the workspace")?;
        let tmp = own(request.tmp, "the temporary folder")?;
        let home = request.home.and_then(|home| home.canonicalize().ok());
        let writes = request.access >= Access::Workspace;
        let holds_home = home
            .as_ref()
            .is_some_and(|home| home.starts_with(&workspace));
        if holds_home && writes {
            return unsupported(
                format!(
                    "the workspace {} holds your home folder, and level {} would let a command \
                     write to all of it",
                    workspace.display(),
                    request.access
                ),
                "work in a folder below it",
            );
        }
        let mut profile = Profile {
            access: request.access,
            kernel,
            network: network(request.access, kernel),
            read: Vec::new(),
            write: vec![tmp.clone()],
            devices: existing(places::DEVICES.iter().map(PathBuf::from)),
            pinned: ResolvedFolder::of(&workspace).into_iter().collect(),
            hidden: Vec::new(),
            protected: Vec::new(),
            looked: None,
            looked_further: Vec::new(),
            modes: Vec::new(),
            tmp: tmp.clone(),
            private_tmp: None,
            quarantine: request.quarantine.to_path_buf(),
            pass_env: request.pass_env.to_vec(),
            set_env: Vec::new(),
            limits: Limits::default(),
            gaps: Vec::new(),
        };
        // Where mounts work, each command has its own.
        let shared = existing([PathBuf::from(places::SHARED_MEMORY)]).into_iter();
        let is_own = |real: &Path| kernel.mounts && real == Path::new(places::SHARED_MEMORY);
        profile
            .write
            .extend(shared.filter(|real| writes || is_own(real)));
        let toolchains = request.toolchains.readable(&request.off_limits());
        profile.readable(request, &workspace, home.as_deref(), &toolchains);
        if writes {
            profile.writable(request, &workspace, home.as_deref())?;
            // A command that only reads cannot change the modes.
            profile.modes = request.private.to_vec();
        }
        profile.hide(request, home.as_deref(), &toolchains);
        if is_below_any(&workspace, &profile.hidden) {
            return unsupported(
                format!(
                    "the workspace {} is or lies in a secret folder or one of rewake's own",
                    workspace.display()
                ),
                "start rewake in another folder",
            );
        }
        if is_below_any(&tmp, &profile.hidden) {
            return unsupported(
                format!(
                    "the temporary folder {} lies where commands may not look",
                    tmp.display()
                ),
                "work in another folder, or set TMPDIR to a folder outside of the workspace",
            );
        }
        profile.environment(request, &tmp)?;
        profile.name_gaps(request);
        Ok(profile)
    }

    fn readable(
        &mut self,
        request: &Request,
        workspace: &Path,
        home: Option<&Path>,
        toolchains: &[PathBuf],
    ) {
        let system = places::SYSTEM.iter().map(PathBuf::from);
        let leaves = home.into_iter().flat_map(below(&places::HOME));
        let more = request.more_read.iter().chain(request.shown).cloned();
        let mut git = request.objects();
        if let Some(repository) = request.repository() {
            let both = [&repository.git_dir, &repository.common_dir];
            git.extend(both.into_iter().filter_map(|path| ResolvedFolder::of(path)));
        }
        let all = system.chain(leaves).chain(more);
        let all = all.chain(git.iter().map(|folder| folder.path.clone()));
        self.pinned.extend(git.iter().cloned());
        let mut read = existing(all);
        read.extend_from_slice(toolchains);
        read.push(workspace.to_path_buf());
        self.read = without_nested(read);
    }

    fn writable(
        &mut self,
        request: &Request,
        workspace: &Path,
        home: Option<&Path>,
    ) -> Result<(), Unsupported> {
        self.write.push(workspace.to_path_buf());
        if let Some(repository) = request.repository() {
            self.write.push(repository.git_dir.clone());
            // The whole folder, since git locks `packed-refs` here to remove any name.
            self.write.push(repository.common_dir.clone());
        }
        let mut more = existing(request.more_write.iter().cloned());
        // A folder that contains the home folder, or the whole system, would make the sandbox
        // useless.
        more.retain(|path| !home.is_some_and(|home| home.starts_with(path)));
        self.write.extend(more.iter().cloned());
        if request.access >= Access::Network {
            let caches = home.into_iter().flat_map(below(&places::SHARED_CACHES));
            self.write.extend(existing(caches));
        }
        self.write = without_nested(std::mem::take(&mut self.write));
        let git = request.repository().map(|git| git.common_dir.as_path());
        let roots = [Some(workspace), git];
        let is_root = |path: &PathBuf| roots.iter().flatten().any(|root| path.starts_with(root));
        let is_further = |path: &PathBuf| path.is_dir() && !is_root(path);
        more.retain(is_further);
        self.protect(request, workspace, &without_nested(more), home)
    }

    /// Protects files of the workspace and of further writable folders.
    fn protect(
        &mut self,
        request: &Request,
        workspace: &Path,
        further: &[PathBuf],
        home: Option<&Path>,
    ) -> Result<(), Unsupported> {
        let git = request.repository().into_iter().flat_map(|repository| {
            // In a linked worktree these lie outside of the workspace.
            let mut own = modules_of(&repository.common_dir);
            own.extend(modules_of(&repository.git_dir));
            own.extend([repository.git_dir.clone(), repository.common_dir.clone()]);
            own
        });
        let mut protected: BTreeSet<PathBuf> = BTreeSet::new();
        let scan = self.scan(request, workspace, home, git.collect(), &mut protected)?;
        self.looked = Some(scan);
        for folder in further {
            let scan = self.scan(request, folder, home, Vec::new(), &mut protected)?;
            self.looked_further.push(scan);
        }
        // The names of the workspace's own path are the user's choice.
        protected.retain(|path| !workspace.starts_with(path));
        protected.extend(request.held.iter().filter(|path| path.exists()).cloned());
        let repository = request.repository().into_iter();
        protected.extend(repository.flat_map(Repository::of_others));
        for private in request.private.iter().filter_map(|p| p.canonicalize().ok()) {
            protected.insert(private);
        }
        // An additional writable folder may contain parts of the home folder.
        let secrets = home.into_iter().flat_map(below(&places::SECRETS));
        protected.extend(secrets);
        let write = &self.write;
        protected.retain(|path| is_below_any(path, write));
        let kept = |path: &PathBuf| path != &self.tmp && path != request.caches;
        self.protected = protected.into_iter().filter(kept).collect();
        Ok(())
    }

    /// Adds the protected paths of a writable folder, in which `git` has further git folders.
    fn scan(
        &mut self,
        request: &Request,
        root: &Path,
        home: Option<&Path>,
        mut git: Vec<PathBuf>,
        protected: &mut BTreeSet<PathBuf>,
    ) -> Result<ProtectedScan, Unsupported> {
        let names = OBEYED.iter().filter(|name| !name.contains('*'));
        let named = names.map(|name| root.join(name));
        protected
            .extend(named.flat_map(|path| [below_link(&path), Some(path)].into_iter().flatten()));
        let found = request.remembered.look_below(root, home);
        if found.too_many {
            return unsupported(
                format!(
                    "more is protected in {} than can be held while a command runs",
                    root.display()
                ),
                "remove what was made there by mistake",
            );
        }
        if found.cut_short {
            self.gaps.push(format!(
                "{} is large: not all of it was looked through for protected files",
                root.display()
            ));
        }
        git.extend(found.git);
        let mut scan = ProtectedScan {
            workspace: root.to_path_buf(),
            whole: !found.cut_short,
            filled_whole: !found.filled_cut_short,
            git: git.clone(),
            included: Vec::new(),
        };
        // Any folder with a `HEAD` may be a repository.
        let heads = found.protected.iter().filter(|path| {
            let name = path.file_name().unwrap_or_default();
            let objects = path.with_file_name("objects");
            name.eq_ignore_ascii_case("HEAD") && objects.symlink_metadata().is_ok()
        });
        git.extend(heads.filter_map(|head| Some(head.parent()?.to_path_buf())));
        protected.extend(found.protected);
        // Even if it does not exist yet: a command may create one.
        let own = root.join(".git");
        if own.is_file() {
            protected.insert(own.clone());
        }
        git.push(own);
        let of_user = home.map(git_settings_of_user).unwrap_or_default();
        for folder in git {
            protected.extend(places::PROTECTED_GIT.iter().map(|name| folder.join(name)));
            let top = match folder.parent() {
                Some(top) if folder.ends_with(".git") => top,
                _ => root,
            };
            let names = &places::PROTECTED_GIT;
            for path in obeyed_by_git(&folder, top, names, &of_user, home) {
                if path.starts_with(&folder) && path.symlink_metadata().is_err() {
                    scan.included.push(path.clone());
                }
                protected.insert(path);
            }
        }
        Ok(scan)
    }

    fn hide(&mut self, request: &Request, home: Option<&Path>, toolchains: &[PathBuf]) {
        let system = places::SYSTEM_SECRETS.iter().map(PathBuf::from);
        let secrets = home.into_iter().flat_map(below(&places::SECRETS));
        let own = request.denied.iter().chain(request.private).cloned();
        let named = request.toolchains.secrets(toolchains);
        let all = system.chain(secrets).chain(own).chain(named);
        // The path itself is hidden, and the target of a link, but no folder that holds one that
        // the command needs.
        let needed = |real: &PathBuf| {
            let mut roots = self.read.iter().chain(&self.write);
            roots.any(|root| root.starts_with(real))
        };
        let led_to = |path: &PathBuf| path.canonicalize().ok().filter(|real| !needed(real));
        let all: BTreeSet<PathBuf> = all
            .flat_map(|path| [led_to(&path), real_parent(&path)])
            .flatten()
            .collect();
        let mut hidden = Vec::new();
        for path in all {
            let is_granted = is_below_any(&path, &self.read) || is_below_any(&path, &self.write);
            let is_named = |list: &[PathBuf]| list.contains(&path);
            if is_granted && may_be_read(&path) && !is_named(request.shown) {
                hidden.push(path);
            }
        }
        self.hidden = without_nested(hidden);
    }

    /// Gives the command a separate `$TMPDIR`. Caches stay in the shared folder, so that the next
    /// command finds them.
    pub fn use_private_tmp(&mut self, folder: PathBuf) {
        // Later ones win.
        self.set_env.extend(tmp_variables(&folder));
        self.private_tmp = Some(folder);
    }

    /// Makes a program readable that a trusted definition names by its path, wherever it is.
    pub fn show_program(&mut self, program: &Path) {
        let real = program.is_absolute().then(|| program.canonicalize().ok());
        let is_program = |path: &PathBuf| {
            let found = path.metadata();
            found.is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
        };
        let is_hidden = |path: &PathBuf| is_below_any(path, &self.hidden);
        let shown = real
            .flatten()
            .filter(|path| is_program(path) && !is_hidden(path));
        self.read.extend(shown);
    }

    fn environment(&mut self, request: &Request, tmp: &Path) -> Result<(), Unsupported> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        self.set_env.extend(tmp_variables(tmp));
        let writes = request.access >= Access::Workspace;
        // If the workspace contains rewake's own folders, the folder for caches is hidden with
        // them.
        let mut caches = tmp.join("cache");
        if writes {
            let lasting = own(request.caches, "the folder for caches")?;
            if !self.hidden.iter().any(|hidden| lasting.starts_with(hidden)) {
                self.write.push(lasting.clone());
                caches = lasting;
            }
        }
        for (name, folder) in environment::CACHES {
            self.set_env
                .push((name.to_string(), text(&caches.join(folder))));
        }
        if !writes {
            // Keeps `git status` from writing its index.
            self.set_env
                .push(("GIT_OPTIONAL_LOCKS".to_string(), "0".to_string()));
        }
        self.set_env
            .push(("REWAKE_SANDBOX".to_string(), request.access.to_string()));
        Ok(())
    }

    fn name_gaps(&mut self, request: &Request) {
        let kernel = request.kernel;
        let mut gaps = Vec::new();
        if kernel.landlock < 3 {
            gaps.push("the kernel's Landlock is old; nothing runs without approval because of this sandbox");
        }
        if !self.protected.is_empty() && !kernel.mounts {
            gaps.push("protected files are not held: they are compared when the command has ended");
        }
        if request.access == Access::Workspace && self.network == Network::None {
            gaps.push("no loopback network: the kernel gives no network namespace");
        }
        if !kernel.scopes_signals() && !kernel.process_namespace {
            gaps.push("the command cannot send signals, also not to its own processes");
        }
        self.gaps.extend(gaps.into_iter().map(str::to_string));
    }

    /// Returns the scans of the workspace and of further folders.
    pub(super) fn scans(&self) -> impl Iterator<Item = &ProtectedScan> {
        self.looked.iter().chain(&self.looked_further)
    }

    /// Returns whether protected files are read-only while the command runs, and not only compared.
    pub fn is_held(&self) -> bool {
        self.kernel.mounts
    }

    /// Returns how many processes of rewake are between a stage and its command.
    pub(super) fn processes_between(&self) -> usize {
        match (self.kernel.gives_own_processes(), self.is_limited()) {
            (true, true) => 2,
            (true, false) => 1,
            (false, _) => 0,
        }
    }

    /// Returns whether the kernel ends the processes of a command with it, and with its keeper.
    pub fn is_contained(&self) -> bool {
        self.kernel.gives_own_processes()
    }

    /// Returns whether the kernel enforces the limit of processes.
    pub(super) fn is_limited(&self) -> bool {
        self.kernel.gives_own_processes() && self.kernel.process_limit
    }

    /// Returns whether a variable is removed from the command's environment.
    pub fn removes(&self, name: &str, value: &str) -> bool {
        environment::is_withheld(name, value, self.access)
            && !self.pass_env.iter().any(|pass| pass == name)
    }
}

fn network(access: Access, kernel: Kernel) -> Network {
    match access {
        Access::Read => Network::None,
        Access::Workspace if kernel.private_network => Network::Private,
        Access::Workspace => Network::None,
        Access::Network | Access::Full => Network::Open,
    }
}

fn real(path: &Path, what: &str) -> Result<PathBuf, Unsupported> {
    path.canonicalize().or_else(|e| {
        unsupported(
            format!("cannot find {what} {}: {e}", path.display()),
            "it has to exist before a command is put into a sandbox",
        )
    })
}

/// Returns a folder of rewake that a command may write to. It may not be a link: a command could
/// have chosen the target.
fn own(path: &Path, what: &str) -> Result<PathBuf, Unsupported> {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => unsupported(
            format!("{what} {} is a symbolic link", path.display()),
            "remove the link",
        ),
        Ok(_) | Err(_) => real(path, what),
    }
}
