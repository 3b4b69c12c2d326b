//! The branch `rewake/ID` of a clone, with the commits and the files of a shared session.
//!
//! Only git writes, and only objects and two references: the branch, and `refs/rewake/ID`, by which a
//! later fetch knows that nobody else changed the branch. The work tree and its index stay.
//!
//! Invariant: what comes from the database is hostile. Commits pass git's checks before a reference
//! leads to them, and no path of a tree is opened.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::git::{self, MAX_SAID, PATIENCE, input, run, run_with};
use super::git_settings::git_without_programs;
use super::git_worktree::{commit_of, listed, tip};
use super::shared_files::{GitEntry, SUBMODULE, entries};
use crate::config::Env;
use crate::core::file_name::path_text;
use crate::core::tree::{Change, Delta, Item, PathBytes};
use crate::shared::files::{COMMITS, Files, file_name};

/// Settings for objects of somebody else.
const STRICT: [&str; 10] = [
    "-c",
    "core.protectHFS=true",
    "-c",
    "core.protectNTFS=true",
    "-c",
    "transfer.fsckObjects=true",
    "-c",
    "core.splitIndex=false",
    "-c",
    "gc.auto=0",
];
/// Maximum size of the list of what a bundle has, bytes.
const MAX_HEADER: u64 = 1 << 20;
/// Maximum size of a list of objects, bytes.
const MAX_OBJECTS: u64 = 128 << 20;
/// Who commits the files, unless git has a name and an address.
const IDENTITY: (&str, &str) = ("rewake", "rewake@localhost");

/// Why no branch was made or moved.
#[derive(Debug, thiserror::Error)]
pub enum NotFetched {
    #[error("{} is in no git repository", .0.display())]
    NoRepository(PathBuf),
    #[error("this clone has no commit {0}, where the session began")]
    NoBase(String),
    #[error("the branch {branch} {why}")]
    Branch { branch: String, why: String },
    /// The commits or files of the session are not valid.
    #[error("session {session}: {why}")]
    Refused { session: String, why: String },
    #[error("the branch cannot be made: {0}")]
    Git(String),
}

impl NotFetched {
    /// Returns advice for the user.
    pub fn hint(&self) -> &'static str {
        match self {
            NotFetched::NoRepository(_) => "run it in a clone of the repository, or give -C DIR",
            NotFetched::NoBase(_) => {
                "get it from the remote first: git fetch --all; a push by its author may be missing"
            }
            NotFetched::Branch { .. } => "rename or remove the branch, or switch to another one",
            NotFetched::Refused { .. } => {
                "its rows in the database are damaged, or another program wrote them"
            }
            NotFetched::Git(_) => "nothing was changed",
        }
    }
}

/// A branch after a fetch.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FetchedBranch {
    pub branch: String,
    pub commit: String,
    /// Number of commits of the session.
    pub commits: u64,
    /// Number of files that differ from its last commit.
    pub files: u64,
    pub is_changed: bool,
}

/// A clone that gets the branch of a session.
pub struct SharedBranch<'a> {
    env: &'a Env,
    root: &'a Path,
    session: &'a str,
    files: &'a Files,
    branch: String,
    /// The commit of the branch.
    old: Option<String>,
}

impl<'a> SharedBranch<'a> {
    /// Checks that this folder is in a clone that can have the branch.
    ///
    /// # Errors
    /// It is not, or the branch is checked out.
    pub fn new(
        env: &'a Env,
        root: &'a Path,
        session: &'a str,
        files: &'a Files,
    ) -> Result<SharedBranch<'a>, NotFetched> {
        let is_repository = git::git(env, root)
            .and_then(|mut git| run(git.args(["rev-parse", "--git-dir"])))
            .is_ok();
        if !is_repository {
            return Err(NotFetched::NoRepository(root.to_path_buf()));
        }
        if commit_of(env, root, &files.base).is_none() {
            return Err(NotFetched::NoBase(files.base.clone()));
        }
        let branch = format!("rewake/{session}");
        let worktrees = listed(env, root).map_err(NotFetched::Git)?;
        let checked_out = worktrees
            .iter()
            .find(|worktree| worktree.branch.as_ref() == Some(&branch));
        if let Some(worktree) = checked_out {
            let why = format!("is checked out in {}", worktree.folder.display());
            return Err(NotFetched::Branch { branch, why });
        }
        Ok(SharedBranch {
            env,
            root,
            session,
            files,
            old: tip(env, root, &branch),
            branch,
        })
    }

    fn git(&self) -> Result<Command, NotFetched> {
        let command = git_without_programs(self.env, self.root, self.root);
        let mut command = command.map_err(NotFetched::Git)?;
        command.args(STRICT).env("GIT_NO_REPLACE_OBJECTS", "1");
        Ok(command)
    }

    fn run<const N: usize>(&self, args: [&str; N]) -> Result<String, NotFetched> {
        let said = run(self.git()?.args(args)).map_err(NotFetched::Git)?;
        Ok(said.trim().to_string())
    }

    fn refused(&self, why: impl Into<String>) -> NotFetched {
        NotFetched::Refused {
            session: self.session.to_string(),
            why: why.into(),
        }
    }

    /// Creates the branch, or moves it forward. `folder` has what the session's files were fetched
    /// into, `changes` are its paths.
    ///
    /// # Errors
    /// See [`NotFetched`]. The branch is as it was.
    pub fn update(
        &self,
        folder: &Path,
        changes: &Delta,
        title: &str,
    ) -> Result<FetchedBranch, NotFetched> {
        let Files { base, head, .. } = self.files;
        self.import(folder)?;
        let range = format!("{base}..{head}");
        let commits = self.run(["rev-list", "--count", &range])?;
        let (tree, files) = self.write_tree(folder, changes)?;
        let tree_of = |commit: &str| self.run(["rev-parse", &format!("{commit}^{{tree}}")]);
        let own = format!("refs/rewake/{}", self.session);
        let known = commit_of(self.env, self.root, &own);
        let after = match &self.old {
            Some(old) if !self.is_ancestor(old, head) => {
                if known.as_ref() != Some(old) {
                    return Err(NotFetched::Branch {
                        branch: self.branch.clone(),
                        why: "has other commits".to_string(),
                    });
                }
                match self.is_ancestor(head, old) {
                    true if tree_of(old)? == tree => old.clone(),
                    true => self.commit(&tree, &[old], title)?,
                    false => self.commit(&tree, &[old, head], title)?,
                }
            }
            _ if tree_of(head)? == tree => head.clone(),
            _ => self.commit(&tree, &[head], title)?,
        };
        let is_changed = self.old.as_ref() != Some(&after);
        if is_changed || known.as_ref() != Some(&after) {
            let none = "0".repeat(head.len());
            let move_to = |name: &str, old: &Option<String>| {
                let old = old.as_ref().unwrap_or(&none);
                format!("option no-deref\nupdate {name} {after} {old}\n")
            };
            let branch = format!("refs/heads/{}", self.branch);
            let moves = move_to(&branch, &self.old) + &move_to(&own, &known);
            let mut command = self.git()?;
            command.args(["update-ref", "-m", "rewake fetch", "--stdin"]);
            self.run_with(&mut command, moves.as_bytes(), MAX_SAID)?;
        }
        Ok(FetchedBranch {
            branch: self.branch.clone(),
            commit: after,
            commits: commits.parse().unwrap_or_default(),
            files,
            is_changed,
        })
    }

    /// Makes the files of a fresh clone those of the session: the branch is at its last commit, and
    /// other changes are not committed. The clone has nothing else.
    ///
    /// # Errors
    /// See [`NotFetched`].
    pub fn lay_out(&self, folder: &Path, changes: &Delta) -> Result<(), NotFetched> {
        self.import(folder)?;
        let (tree, _) = self.write_tree(folder, changes)?;
        let head = &self.files.head;
        let with_files = self.commit(&tree, &[head], "")?;
        let checkout = ["checkout", "-q", "--no-recurse-submodules"];
        let git = |args: &[&str]| {
            let mut command = self.git()?;
            run(command.args(args)).map_err(NotFetched::Git)
        };
        git(&[&checkout[..], &["--detach", &with_files]].concat())?;
        git(&["reset", "-q", "--mixed", head])?;
        git(&[&checkout[..], &["-B", &self.branch]].concat()).map(drop)
    }

    fn run_with(
        &self,
        command: &mut Command,
        bytes: &[u8],
        at_most: u64,
    ) -> Result<Vec<u8>, NotFetched> {
        input(bytes)
            .and_then(|input| run_with(command, at_most, input, PATIENCE))
            .map_err(NotFetched::Git)
    }

    fn is_ancestor(&self, commit: &str, of: &str) -> bool {
        let args = ["merge-base", "--is-ancestor", commit, of];
        self.run(args).is_ok()
    }

    /// Imports the objects of a git bundle, with git's checks. Its references are not used.
    fn import(&self, folder: &Path) -> Result<(), NotFetched> {
        if self.files.bundle.is_none() {
            return Ok(());
        }
        let bundle = &folder.join(COMMITS);
        let bad = |why: String| self.refused(format!("its commits: {why}"));
        let path = bundle.to_string_lossy();
        let said = |error: NotFetched| bad(error.to_string());
        self.run(["bundle", "verify", &path]).map_err(said)?;
        let pack = pack_of(bundle).map_err(|e| bad(e.to_string()))?;
        let mut command = self.git()?;
        command.args(["index-pack", "--stdin", "--fix-thin", "--strict"]);
        run_with(&mut command, MAX_SAID, Stdio::from(pack), PATIENCE).map_err(bad)?;
        let Files { base, head, .. } = self.files;
        if commit_of(self.env, self.root, head).as_ref() != Some(head) {
            return Err(bad(format!("commit {head} is missing")));
        }
        if !self.is_ancestor(base, head) {
            return Err(bad(format!("{head} does not follow {base}")));
        }
        let all = ["rev-list", "--objects", "--quiet", head, "--not", base];
        self.run(all).map(drop).map_err(said)
    }

    /// Writes the tree of the files. Returns its name, and the number of files that differ from the
    /// last commit.
    fn write_tree(&self, folder: &Path, changes: &Delta) -> Result<(String, u64), NotFetched> {
        let Files { base, head, .. } = self.files;
        let of = |commit: &str| entries(self.env, self.root, commit).map_err(NotFetched::Git);
        let of_head = of(head)?;
        let of_base = match base == head {
            true => of_head.clone(),
            false => of(base)?,
        };
        let written = self.write_contents(folder, changes)?;
        let mut wanted: BTreeMap<&PathBytes, Option<&GitEntry>> = BTreeMap::new();
        for (path, change) in &changes.0 {
            let entry = match change {
                Change::Put { entered: true, .. } => Some(of_base.get(path).ok_or_else(|| {
                    self.refused(format!("{} is not in its commit", path_text(path)))
                })?),
                Change::Put { .. } => match written.get(path) {
                    Some(entry) => Some(entry),
                    // Its content is not known, so that of the commit stays.
                    None => continue,
                },
                Change::Gone { left: false } => None,
                Change::Gone { left: true } => continue,
            };
            if of_head.get(path) != entry && !is_of_submodule(path, &of_head) {
                wanted.insert(path, entry);
            }
        }
        let none = ("0".to_string(), "0".repeat(head.len()));
        let mut list = Vec::new();
        for (path, entry) in &wanted {
            let (mode, object) = entry.unwrap_or(&none);
            list.extend_from_slice(format!("{mode} {object}\t").as_bytes());
            list.extend_from_slice(path);
            list.push(0);
        }
        let index = folder.join("index");
        let with_index = || {
            let mut command = self.git()?;
            command.env("GIT_INDEX_FILE", &index);
            Ok::<_, NotFetched>(command)
        };
        let said = |error: NotFetched| self.refused(format!("its files: {error}"));
        run(with_index()?.args(["read-tree", head])).map_err(NotFetched::Git)?;
        let mut command = with_index()?;
        command.args(["update-index", "-z", "--index-info"]);
        self.run_with(&mut command, &list, MAX_SAID).map_err(said)?;
        let tree =
            run(with_index()?.arg("write-tree")).map_err(|why| said(NotFetched::Git(why)))?;
        let tree = tree.trim().to_string();
        // Git leaves paths out that it takes for `.git`, and says nothing.
        let found = of(&tree)?;
        match wanted
            .iter()
            .find(|(path, entry)| found.get(**path) != **entry)
        {
            None => Ok((tree, wanted.len() as u64)),
            Some((path, _)) => {
                let path = path_text(path);
                Err(self.refused(format!("its files: git does not accept the path {path}")))
            }
        }
    }

    /// Writes the contents of files and links as objects. Returns their entries by path.
    fn write_contents(
        &self,
        folder: &Path,
        changes: &Delta,
    ) -> Result<BTreeMap<PathBytes, GitEntry>, NotFetched> {
        let failed = |e: std::io::Error| NotFetched::Git(e.to_string());
        let mut names: Vec<String> = Vec::new();
        let mut paths = Vec::new();
        for (path, change) in &changes.0 {
            let Change::Put {
                item,
                entered: false,
            } = change
            else {
                continue;
            };
            let (mode, name) = match item {
                Item::File { mode, hash, .. } if mode & 0o100 != 0 => ("100755", file_name(hash)),
                Item::File { hash, .. } => ("100644", file_name(hash)),
                Item::Link { target } => {
                    let name = blake3::hash(target).to_hex().to_string();
                    std::fs::write(folder.join(&name), target).map_err(failed)?;
                    ("120000", name)
                }
                Item::Marker { .. } => continue,
            };
            names.push(name);
            paths.push((path.clone(), mode));
        }
        // Names in the folder are relative, since its path may have any character.
        let repository = self.run(["rev-parse", "--absolute-git-dir"])?;
        let mut command = self.git()?;
        command.args(["hash-object", "-w", "--no-filters", "--stdin-paths"]);
        command.current_dir(folder).env("GIT_DIR", repository);
        let objects = self.run_with(&mut command, names.join("\n").as_bytes(), MAX_OBJECTS)?;
        let objects = String::from_utf8_lossy(&objects);
        let objects: Vec<&str> = objects.lines().collect();
        if objects.len() != paths.len() {
            return Err(NotFetched::Git("git did not write all files".to_string()));
        }
        let entry = |((path, mode), object): ((PathBytes, &str), &str)| {
            (path, (mode.to_string(), object.to_string()))
        };
        Ok(paths.into_iter().zip(objects).map(entry).collect())
    }

    fn commit(&self, tree: &str, parents: &[&str], title: &str) -> Result<String, NotFetched> {
        let mut command = self.git()?;
        let has = |name: &str| {
            self.run(["config", "--get", name])
                .is_ok_and(|value| !value.is_empty())
        };
        if !has("user.name") || !has("user.email") {
            for who in ["AUTHOR", "COMMITTER"] {
                command.env(format!("GIT_{who}_NAME"), IDENTITY.0);
                command.env(format!("GIT_{who}_EMAIL"), IDENTITY.1);
            }
        }
        command.args(["commit-tree", tree]);
        for parent in parents {
            command.args(["-p", parent]);
        }
        let message = format!("Files of session {}\n\n{title}\n", self.session);
        let said = self.run_with(&mut command, message.as_bytes(), MAX_SAID)?;
        Ok(String::from_utf8_lossy(&said).trim().to_string())
    }
}

/// Returns whether a path is below a submodule.
fn is_of_submodule(path: &[u8], of: &BTreeMap<PathBytes, GitEntry>) -> bool {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let mut folders = slashes.map(|(at, _)| &path[..at]);
    folders.any(|folder| of.get(folder).is_some_and(|(mode, _)| mode == SUBMODULE))
}

/// Returns a git bundle as a file at the place of its pack.
/// Source: <https://git-scm.com/docs/gitformat-bundle>.
fn pack_of(bundle: &Path) -> std::io::Result<File> {
    let mut file = File::open(bundle)?;
    let mut start = Vec::new();
    (&mut file).take(MAX_HEADER).read_to_end(&mut start)?;
    let end = start.windows(2).position(|two| two == b"\n\n");
    let known = [&b"# v2 git bundle\n"[..], b"# v3 git bundle\n"];
    match end.filter(|_| known.iter().any(|first| start.starts_with(first))) {
        Some(end) => {
            file.seek(SeekFrom::Start(end as u64 + 2))?;
            Ok(file)
        }
        None => Err(std::io::Error::other("they are no git bundle")),
    }
}
