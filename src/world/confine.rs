//! The sandbox of one command of a session: the profile for its access, which its keeper applies.
//! If the profile cannot be made, that is an error, and the command does not run.

use std::collections::VecDeque;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::command::NOT_HELD;
use crate::config::{key_with_other_name, make_private_folder};
use crate::core::access::Access;
use crate::sandbox::{
    Folders, Kernel, Profile, Remembered, Repository, Request, ResolvedFolder, Toolchains,
};
use crate::tools::Hidden;

/// Maximum number of entries of the workspace that are checked for files that the rules hide.
const MAX_LOOKED_AT: usize = 50_000;
const MAX_HIDDEN: usize = 200;

/// The input for the profiles of a session.
#[derive(Debug, Clone)]
pub struct Confine {
    pub kernel: Kernel,
    /// The root of the workspace.
    pub workspace: PathBuf,
    /// Its repository, as it was when the session was opened. Its files may all have changed since.
    pub repository: Option<Repository>,
    /// Folders with objects elsewhere, as they were then.
    pub objects: Vec<ResolvedFolder>,
    pub home: Option<PathBuf>,
    pub toolchains: Toolchains,
    pub more_read: Vec<PathBuf>,
    pub more_write: Vec<PathBuf>,
    pub pass_env: Vec<String>,
    /// rewake's own folders.
    pub private: Vec<PathBuf>,
    /// Files of trusted hooks.
    pub held: Vec<PathBuf>,
    /// The temporary folder of the session; `None` for one in the system's.
    pub tmp: Option<PathBuf>,
    pub session: String,
    /// The folder for the caches of this project.
    pub caches: PathBuf,
    pub quarantine: PathBuf,
    /// Files and folders with keys of model providers.
    pub key_files: Vec<PathBuf>,
    /// The rules that forbid reading files.
    pub hidden: Arc<Hidden>,
    /// The memory of the workspace since the last command.
    pub remembered: Arc<Remembered>,
    /// The memory of the files that the rules guard.
    pub guarded: Arc<Mutex<Option<Folders>>>,
}

impl Confine {
    /// Computes the profile of a call. `private_tmp` is the name of the call's own folder in the
    /// shared one for temporary files. `None`: the call uses the shared one.
    pub fn profile_of_call(
        &self,
        access: Access,
        shown: &[PathBuf],
        private_tmp: Option<&str>,
    ) -> Result<Box<Profile>, String> {
        let mut profile = self.profile(access, shown)?;
        if let Some(name) = private_tmp {
            let folder = profile.tmp.join(name);
            // Earlier commands could write here, so what exists is left as it is.
            match DirBuilder::new().mode(0o700).create(&folder) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(cannot(&folder, &e)),
                Ok(()) | Err(_) => profile.use_private_tmp(folder),
            }
        }
        Ok(profile)
    }

    /// Computes the profile for an access. `shown` are files of rewake that the command may read.
    pub fn profile(&self, access: Access, shown: &[PathBuf]) -> Result<Box<Profile>, String> {
        let mut keys = self.hidden.keys.iter();
        if let Some(key) = keys.find_map(|folder| key_with_other_name(folder)) {
            return Err(with_other_name(&key));
        }
        // Each level has its own folder, so that no higher level runs a file that a command of a
        // lower one left.
        let tmp = self.make_tmp()?.join(access.name());
        make_private(&tmp)?;
        let caches = self.caches.join(access.name());
        make_private(&caches)?;
        let (rules, bases) = (&self.hidden.rules, &self.hidden.bases);
        let mut objects = self.objects.clone();
        objects.retain(|objects| !rules.guard(&objects.path.to_string_lossy(), bases));
        let mut request = Request {
            access,
            workspace: &self.workspace,
            repository: self.repository(),
            objects: &objects,
            home: self.home.as_deref(),
            toolchains: &self.toolchains,
            more_read: &self.more_read,
            more_write: &self.more_write,
            pass_env: &self.pass_env,
            denied: &[],
            private: &self.private,
            held: &self.held,
            shown,
            tmp: &tmp,
            caches: &caches,
            quarantine: &self.quarantine,
            kernel: self.kernel,
            remembered: &self.remembered,
        };
        let (mut denied, all) = self.denied(|| request.readable_on_path());
        denied.extend(self.denied_through_links());
        denied.extend(self.key_files.iter().cloned());
        request.denied = &denied;
        let mut profile = Profile::new(&request).map_err(|e| format!("{}; {}", e.why, e.hint))?;
        if !profile.modes.is_empty() {
            profile.modes.extend(self.key_files.iter().cloned());
        }
        if !all {
            profile.gaps.push(format!(
                "{NOT_HELD}not every file that a rule keeps from being read is hidden from commands: \
                 at most {MAX_HIDDEN} are, among the first {MAX_LOOKED_AT} files"
            ));
        }
        Ok(Box::new(profile))
    }

    /// Returns the repository of the workspace: the one that says so, that did when the session was
    /// opened, or that is in a folder of the config.
    fn repository(&self) -> Option<Repository> {
        let named = Repository::named_by(&self.workspace);
        let known = named.filter(|named| self.repository.as_ref() == Some(named));
        known.or_else(|| Repository::usable(&self.workspace, &self.more_write))
    }

    /// Returns the path of the temporary folder, which may not exist.
    pub fn tmp_folder(&self) -> PathBuf {
        self.tmp.clone().unwrap_or_else(|| {
            let uid = rustix::process::getuid().as_raw();
            std::env::temp_dir().join(format!("rewake-{uid}-{}", self.session))
        })
    }

    /// Creates the temporary folder and returns its path.
    pub(super) fn make_tmp(&self) -> Result<PathBuf, String> {
        let tmp = self.tmp_folder();
        make_private(&tmp)?;
        if self.tmp.is_some() {
            return Ok(tmp);
        }
        let uid = rustix::process::getuid().as_raw();
        // Everybody may create files in the parent folder, so this one must be ours.
        let found = std::fs::symlink_metadata(&tmp).map_err(|e| cannot(&tmp, &e))?;
        match found.is_dir() && found.uid() == uid && found.mode() & 0o077 == 0 {
            true => Ok(tmp),
            false => Err(format!("{} belongs to somebody else", tmp.display())),
        }
    }

    /// Returns the paths that a rule names and to which a link leads: the scan follows none.
    fn denied_through_links(&self) -> Vec<PathBuf> {
        let rules = &self.hidden.rules;
        let guards = rules.deny.iter().chain(&rules.ask);
        let guards = guards.filter(|rule| rule.is_about_reading());
        let named = guards.flat_map(|rule| rule.plain_paths(&self.hidden.bases));
        let named = named.map(PathBuf::from);
        let is_led = |path: &PathBuf| path.canonicalize().is_ok_and(|real| real != *path);
        named.filter(is_led).collect()
    }

    /// Returns the files that a rule denies to read or asks about, because a command cannot ask.
    /// They are in the workspace, in further folders of the config, or in `on_path`. False: there
    /// are more.
    fn denied(&self, on_path: impl FnOnce() -> Vec<PathBuf>) -> (Vec<PathBuf>, bool) {
        let rules = &self.hidden.rules;
        let mut guards = rules.deny.iter().chain(&rules.ask);
        if !guards.any(|rule| rule.is_about_reading() && rule.is_about_paths()) {
            return (Vec::new(), true);
        }
        let mut held = self.guarded.lock().unwrap_or_else(PoisonError::into_inner);
        let folders = held.get_or_insert_with(|| guarded_folders(Arc::clone(&self.hidden)));
        let further = self.more_read.iter().chain(&self.more_write);
        let on_path = on_path();
        let begin = std::iter::once(&self.workspace)
            .chain(further)
            .chain(&on_path);
        folders.begin();
        let found = denied_below(begin.cloned().collect(), folders);
        folders.end();
        found
    }
}

/// Returns a memory of the files that the rules of the session guard.
fn guarded_folders(hidden: Arc<Hidden>) -> Folders {
    Folders::new(move |path, _| hidden.rules.guard(&path.to_string_lossy(), &hidden.bases))
}

fn denied_below(mut folders: VecDeque<PathBuf>, remembered: &mut Folders) -> (Vec<PathBuf>, bool) {
    let mut found = Vec::new();
    let mut looked_at = 0;
    while let Some(folder) = folders.pop_front() {
        let listing = remembered.list(&folder);
        looked_at += listing.entries;
        found.extend(
            listing
                .marked
                .iter()
                .map(|marked| folder.join(&marked.name)),
        );
        if looked_at > MAX_LOOKED_AT || found.len() > MAX_HIDDEN {
            found.truncate(MAX_HIDDEN);
            return (found, false);
        }
        folders.extend(listing.folders.iter().map(|name| folder.join(name)));
    }
    (found, true)
}

/// Returns the error for a key file with another name: the sandbox hides files by path, and not all
/// paths of this one are known.
fn with_other_name(key: &Path) -> String {
    let path = key.display();
    format!(
        "a command could read your key {path} under another name: it has a hard link; \
         find ~ -samefile {path} shows it, and `rewake key` writes a new file"
    )
}

fn make_private(folder: &Path) -> Result<(), String> {
    make_private_folder(folder).map_err(|e| cannot(folder, &e))
}

fn cannot(folder: &Path, error: &std::io::Error) -> String {
    format!("cannot make {}: {error}", folder.display())
}
