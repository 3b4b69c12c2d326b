//! The files of a shared session as git knows them, for the pushes that carry them.
//!
//! Git runs only where [`is_plain`] has checked that it runs no program of the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::AppContext;
use super::git::{git, run, run_with};
use super::git_worktree::commit_of;
use crate::config::Env;
use crate::core::tree::PathBytes;
use crate::shared::files::Files;
use crate::shared::sent_files::{GitFiles, SentFiles};
use crate::workspace::is_plain;

/// Time limit of a git command: the session waits for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum size of a list of files.
const MAX_LIST: u64 = 128 << 20;

/// Returns the files of a session for its pushes. `last`: the JSON of its last files. `None`: it works
/// in no git repository, or that has no commit.
pub(super) fn files(ctx: &AppContext, last: Option<&str>) -> Option<SentFiles> {
    let (env, root) = (&ctx.env, &ctx.here.root);
    if !ctx.here.is_git || is_plain(&root.to_string_lossy()).is_err() {
        return None;
    }
    let last = last.and_then(|json| Files::read(json).ok());
    let last = last.filter(|last| Path::new(&last.root) == root);
    let base = last
        .and_then(|last| commit_of(env, root, &last.base))
        .or_else(|| commit_of(env, root, "HEAD"))?;
    let mut repository = Repository {
        env: env.clone(),
        root: root.clone(),
        base,
        of_base: None,
        too_large: None,
    };
    let max_bytes = ctx.config().files.max_file_bytes;
    let ask = move |sent: Option<(&str, &str)>, most| repository.look(sent, most);
    Some(SentFiles::new(root.clone(), max_bytes, Box::new(ask)))
}

/// A path of a commit: its mode and its object.
pub(super) type GitEntry = (String, String);

/// Mode of a submodule.
pub(super) const SUBMODULE: &str = "160000";

struct Repository {
    env: Env,
    root: PathBuf,
    base: String,
    /// The paths of `base`.
    of_base: Option<BTreeMap<PathBytes, GitEntry>>,
    /// The last commit whose bundle is too large.
    too_large: Option<String>,
}

impl Repository {
    fn look(&mut self, sent: Option<(&str, &str)>, most: u64) -> Result<GitFiles, String> {
        is_plain(&self.root.to_string_lossy())?;
        let mut head = commit_of(&self.env, &self.root, "HEAD").ok_or("HEAD names no commit")?;
        if head != self.base {
            // After a reset or another checkout, an earlier commit is what both have.
            let base = run(self.git()?.args(["merge-base", &self.base, &head]))?;
            let base = base.trim().to_string();
            if base != self.base {
                (self.base, self.of_base) = (base, None);
            }
        }
        let mut bundle = None;
        let is_sent = sent == Some((&self.base, &head));
        if head != self.base && !is_sent {
            if self.too_large.as_ref() != Some(&head) {
                bundle = self.bundle(&head, most)?;
            }
            if bundle.is_none() {
                // The branch has the files without the commits.
                tracing::warn!(head, "the commits of the session are too large to be sent");
                self.too_large = Some(std::mem::replace(&mut head, self.base.clone()));
            }
        }
        let (mut changed, mut deleted) = (BTreeSet::new(), BTreeSet::new());
        self.changes(&self.base, &mut changed, &mut deleted)?;
        if head != self.base {
            self.changes(&head, &mut BTreeSet::new(), &mut deleted)?;
        }
        let of_base = match self.of_base.take() {
            Some(known) => known,
            None => entries(&self.env, &self.root, &self.base)?,
        };
        let submodules = of_base.iter().filter(|(_, (mode, _))| mode == SUBMODULE);
        let found = GitFiles {
            base: self.base.clone(),
            head,
            bundle,
            submodules: submodules.map(|(path, _)| path.clone()).collect(),
            unchanged: of_base
                .keys()
                .filter(|path| !changed.contains(*path))
                .cloned()
                .collect(),
            deleted,
        };
        self.of_base = Some(of_base);
        Ok(found)
    }

    fn git(&self) -> Result<std::process::Command, String> {
        git(&self.env, &self.root)
    }

    /// Returns a git bundle of the commits after `base`. `None`: it is too large.
    fn bundle(&self, head: &str, most: u64) -> Result<Option<Vec<u8>>, String> {
        let range = format!("{}..HEAD", self.base);
        let mut command = self.git()?;
        command.args(["bundle", "create", "-", &range]);
        let bundle = run_with(&mut command, most + 1, Stdio::null(), PATIENCE)?;
        if bundle.len() as u64 > most {
            return Ok(None);
        }
        // Somebody else may move HEAD meanwhile.
        let named = format!("\n{head} HEAD\n");
        match bundle.windows(named.len()).any(|at| at == named.as_bytes()) {
            true => Ok(Some(bundle)),
            false => Err("HEAD moved".to_string()),
        }
    }

    /// Adds the paths of the work tree that differ from a commit.
    fn changes(
        &self,
        commit: &str,
        changed: &mut BTreeSet<PathBytes>,
        deleted: &mut BTreeSet<PathBytes>,
    ) -> Result<(), String> {
        let mut command = self.git()?;
        command.args(["diff", "--name-status", "-z", "--no-renames", "--no-color"]);
        command.args(["--no-ext-diff", "--no-textconv", "--ignore-submodules=all"]);
        let list = run_with(
            command.args([commit, "--"]),
            MAX_LIST,
            Stdio::null(),
            PATIENCE,
        )?;
        if list.len() as u64 == MAX_LIST {
            return Err("too many files changed".to_string());
        }
        let mut parts = list.split(|byte| *byte == 0);
        while let (Some(status), Some(path)) = (parts.next(), parts.next()) {
            if status == b"D" {
                deleted.insert(path.to_vec());
            }
            changed.insert(path.to_vec());
        }
        Ok(())
    }
}

/// Returns the paths of a commit.
///
/// # Errors
/// The error of git.
pub(super) fn entries(
    env: &Env,
    root: &Path,
    commit: &str,
) -> Result<BTreeMap<PathBytes, GitEntry>, String> {
    let mut command = git(env, root)?;
    command.args(["ls-tree", "-r", "-z", "--full-tree", commit]);
    let list = run_with(&mut command, MAX_LIST, Stdio::null(), PATIENCE)?;
    if list.len() as u64 == MAX_LIST {
        return Err("the commit has too many files".to_string());
    }
    let entry = |line: &[u8]| {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let said = std::str::from_utf8(&line[..tab]).ok()?;
        let mut words = said.split(' ');
        let (mode, _, object) = (words.next()?, words.next()?, words.next()?);
        Some((
            line[tab + 1..].to_vec(),
            (mode.to_string(), object.to_string()),
        ))
    };
    Ok(list.split(|byte| *byte == 0).filter_map(entry).collect())
}
