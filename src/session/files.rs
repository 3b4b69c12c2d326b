//! The choice of files for snapshots, and the warnings about it at the start.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{AppContext, sandbox};
use crate::config::{FilesConfig, FilesInTime, FilesWatch};
use crate::workspace::files::{Coverage, Unwatched, guard, max_watches};
use crate::world::Keeping;
use crate::world::machine::Machine;

impl AppContext {
    /// Makes the machine take snapshots of the workspace, as the config says. A failure is only a
    /// warning, since the conversation does not depend on it.
    pub(super) fn start_file_snapshots(&self, world: &mut Machine, warnings: &mut Vec<String>) {
        match self.keeping() {
            Ok(Some(keeping)) => {
                if let Some(why) = keeping.only_written.as_ref().filter(|why| !why.is_empty()) {
                    // The sandbox would let a command write to the whole home folder.
                    let sandbox = sandbox::given(self);
                    let commands = if sandbox.available && !sandbox.workspace {
                        ", and no command in the sandbox can write here"
                    } else {
                        ""
                    };
                    warnings.push(format!(
                        "{why}: only files that rewake edits can be restored{commands}; rewake -C FOLDER starts in a project"
                    ));
                }
                if let Err(error) = world.start_snapshots(keeping) {
                    warnings.push(format!("files cannot be restored: {error}"));
                }
            }
            Ok(None) => {}
            Err(why) => warnings.push(format!("files cannot be restored: {why}")),
        }
    }

    /// Returns the settings for snapshots. `None`: they are off.
    ///
    /// # Errors
    /// The error in the globs of the config.
    pub fn keeping(&self) -> Result<Option<Keeping>, String> {
        let files: &FilesConfig = &self.config().files;
        let only_written = match files.snapshots {
            FilesInTime::Off => return Ok(None),
            FilesInTime::Tools => Some(String::new()),
            FilesInTime::On => {
                let home = self.env.home().map(PathBuf::from);
                let home = home.map(|home| home.canonicalize().unwrap_or(home));
                guard::unfit(&self.here.root, home.as_deref()).map(str::to_string)
            }
        };
        let own = [
            &self.paths.config_dir,
            &self.paths.data_dir,
            &self.paths.state_dir,
        ];
        let own = own.map(|path: &PathBuf| sandbox::real(path)).to_vec();
        let root = self.here.root.clone();
        let coverage = Coverage::new(root, own, &files.include, &files.exclude);
        let mut coverage = coverage.map_err(|e| e.to_string())?;
        coverage.max_files = files.max_files;
        coverage.max_file_bytes = files.max_file_bytes;
        Ok(Some(Keeping {
            coverage,
            only_written,
            wait: Duration::from_millis(files.wait_ms),
            max_bytes: files.max_bytes,
            data_dir: self.paths.data_dir.clone(),
            watch: watch(&self.here.root, files.watch),
        }))
    }
}

/// Returns the maximum number of folders to watch with inotify.
///
/// # Errors
/// [`Unwatched`].
pub fn watch(root: &Path, wanted: FilesWatch) -> Result<usize, Unwatched> {
    match wanted {
        FilesWatch::Off => Err(Unwatched::Off),
        FilesWatch::Auto if cfg!(not(target_os = "linux")) => Err(Unwatched::System),
        FilesWatch::Auto if !guard::reports_changes(root) => Err(Unwatched::FileSystem),
        FilesWatch::Auto => Ok(max_watches()),
    }
}
