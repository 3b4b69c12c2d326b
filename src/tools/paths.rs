//! Resolution of the paths that models write to files.
//!
//! One rule applies to every tool, to the facts in the log and to policy: `~` is the home folder,
//! relative paths start in the session's folder, `..` is removed by name (as a person reads it, not
//! through links), and then symbolic links are followed. So a file has one path however it is
//! named, and a write through a link changes the file that the link leads to.
//!
//! Invariant: hard links are not resolved; two names of one file are two files here.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use similar::TextDiff;

use super::limit::Limits;
use crate::core::file_name::{named_path, path_text};
use crate::core::policy::Rules;
use crate::core::rule::Bases;
use crate::mcp::catalogue::SessionCatalogue;
use crate::workspace::handle::Folder;

/// The context in which tools run: folder, workspace root, limits.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The absolute folder in which relative paths start.
    pub folder: PathBuf,
    /// The absolute root of the workspace, in which skills are stored.
    pub root: PathBuf,
    /// The folder that `~` names, when it is known.
    pub home: Option<PathBuf>,
    /// Size above which an output is paged or cut.
    pub inline_max_bytes: usize,
    pub hidden: Arc<Hidden>,
    /// The file on which policy decided for the current call. The call acts on this file only, even
    /// if its path leads elsewhere by now. `None`: the path of the call is followed.
    pub judged: Option<PathBuf>,
    /// The limits of a call.
    pub limits: Limits,
    /// The servers of the session.
    pub catalogue: SessionCatalogue,
}

/// The files that the user's rules hide from tools that walk through folders. Policy sees only the
/// folder that such a call names.
#[derive(Debug, Default)]
pub struct Hidden {
    pub rules: Rules,
    pub bases: Bases,
    /// Folders with the keys of model providers.
    pub keys: Vec<PathBuf>,
}

impl Hidden {
    /// Returns whether a rule denies reading this path, or whether the path contains keys.
    pub fn hides(&self, path: &Path) -> bool {
        self.keys.iter().any(|folder| path.starts_with(folder))
            || self.rules.hide(&path.to_string_lossy(), &self.bases)
    }
}

/// Maximum number of links in a path, as in the kernel.
const MAX_LINKS: u8 = 40;
const MAX_PATH_BYTES: usize = 4_096;
/// Maximum number of names in a folder that are compared with a missing one.
const MAX_NAMES: usize = 2_000;
const MAX_NEAR_NAMES: usize = 3;

/// Returns the name of a file in facts and guards. It does not depend on how a call names the file.
pub fn path_key(path: &str, ctx: &ToolContext) -> String {
    match resolve(path, ctx).or_else(|_| absolute(path, ctx)) {
        Ok(resolved) => resolved.to_string_lossy().into_owned(),
        Err(_) => path.to_string(),
    }
}

/// Returns the file to which the kernel resolves an absolute path: links are followed one by one,
/// and `..` starts where they lead. Parts that do not exist stay as they are written.
pub fn real_path(path: &str) -> String {
    match follow(Path::new(path)) {
        Ok(real) => real.to_string_lossy().into_owned(),
        Err(_) => path.to_string(),
    }
}

/// Returns the absolute path of a path that is relative to the workspace's root.
pub(super) fn in_workspace(path: &str, ctx: &ToolContext) -> Result<String, String> {
    let path = ctx.root.join(path);
    let text = path.to_str().map(str::to_string);
    text.ok_or_else(|| format!("{path:?} is not UTF-8"))
}

/// Returns the file that the path means, with links followed. The file need not exist.
pub(super) fn resolve(path: &str, ctx: &ToolContext) -> Result<PathBuf, String> {
    if let Some(judged) = &ctx.judged {
        return Ok(judged.clone());
    }
    let lexical = absolute(path, ctx)?;
    follow(&lexical).map_err(|e| format!("cannot look at {path}: {e}"))
}

/// Returns a path for display on one line, relative if it is in `folder`, whose links are already followed.
pub(super) fn shown(path: &Path, folder: &Path) -> String {
    let short = match path.strip_prefix(folder) {
        Ok(rest) if rest.as_os_str().is_empty() => Path::new("."),
        Ok(rest) => rest,
        Err(_) => path,
    };
    path_text(short.as_os_str().as_bytes())
}

/// Returns the path of a call for display on one line.
pub(super) fn named(path: &str) -> String {
    path_text(&named_path(path))
}

pub(super) fn real_folder(ctx: &ToolContext) -> PathBuf {
    ctx.folder
        .canonicalize()
        .unwrap_or_else(|_| ctx.folder.clone())
}

fn absolute(path: &str, ctx: &ToolContext) -> Result<PathBuf, String> {
    if path.is_empty() {
        return Err("the path is empty".to_string());
    }
    if named_path(path).contains(&0) {
        return Err(format!("the path {path:?} has a NUL byte"));
    }
    if path.len() > MAX_PATH_BYTES {
        return Err(format!("the path has over {MAX_PATH_BYTES} bytes"));
    }
    let of_home = path
        .strip_prefix('~')
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let expanded = match (of_home, &ctx.home) {
        (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
        (Some(_), None) => {
            return Err(format!(
                "cannot expand {path}: the home folder is not known\nhint: give an absolute path"
            ));
        }
        (None, _) => PathBuf::from(OsString::from_vec(named_path(path).into_owned())),
    };
    Ok(clean(&ctx.folder.join(expanded)))
}

/// Checks that the session's folders above a file still exist. A write would create them again, with
/// nothing else in them.
pub(super) fn workspace_exists(path: &Path, ctx: &ToolContext) -> Result<(), String> {
    for folder in [&ctx.root, &ctx.folder] {
        let real = follow(folder).unwrap_or_else(|_| folder.clone());
        if path.starts_with(&real) {
            is_there(&real)?;
        }
    }
    Ok(())
}

/// Checks that a folder of the session was not removed.
pub(crate) fn is_there(folder: &Path) -> Result<(), String> {
    if folder.is_dir() {
        return Ok(());
    }
    let shown = path_text(folder.as_os_str().as_bytes());
    Err(format!(
        "the session's folder {shown} was removed\nhint: the user can continue in another folder \
         with `rewake -C DIR -r ID`"
    ))
}

/// Removes `.` and `..` by name.
pub(super) fn clean(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                cleaned.pop();
            }
            part => cleaned.push(part),
        }
    }
    cleaned
}

/// Follows the links of the deepest part that exists. The rest stays as it is written.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..=MAX_LINKS {
        let (real, rest) = existing(&path)?;
        let mut parts = rest.components();
        let Some(first) = parts.next() else {
            return Ok(real);
        };
        let Ok(target) = real.join(first).read_link() else {
            return Ok(real.join(rest));
        };
        // A link to a file that does not exist yet.
        path = clean(&real.join(target)).join(parts.as_path());
    }
    Err(io::Error::other("too many symbolic links"))
}

fn existing(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    for part in path.ancestors() {
        match part.canonicalize() {
            Ok(real) => {
                let rest = path.strip_prefix(part).unwrap_or(Path::new(""));
                return Ok((real, rest.to_path_buf()));
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Err(ErrorKind::NotFound.into())
}

/// Returns the error for a path that does not exist. It names the missing folder, or the similar
/// names in the file's folder.
pub(super) fn missing(path: &str, resolved: &Path) -> String {
    let Some(parent) = resolved.parent() else {
        return format!("{path} does not exist");
    };
    if !parent.is_dir() {
        let exists = parent.ancestors().find(|p| p.is_dir());
        let exists = exists.unwrap_or(Path::new("/")).display();
        return format!(
            "{path} does not exist, nor does its folder; the path exists up to {exists}"
        );
    }
    let near = near_names(parent, resolved.file_name().unwrap_or_default());
    if near.is_empty() {
        format!("{path} does not exist\nhint: glob finds files by name")
    } else {
        format!(
            "{path} does not exist\nhint: near names in that folder: {}",
            near.join(", ")
        )
    }
}

fn near_names(folder: &Path, wanted: &OsStr) -> Vec<String> {
    let wanted = wanted.to_string_lossy().to_lowercase();
    let Ok(entries) = Folder::open(folder).and_then(|f| f.names(Path::new(""))) else {
        return Vec::new();
    };
    let mut near: Vec<(f32, String)> = entries
        .take(MAX_NAMES)
        .filter_map(|entry| Some(path_text(entry.ok()?.file_name().to_bytes())))
        .map(|name| {
            let ratio = TextDiff::from_chars(wanted.as_str(), name.to_lowercase().as_str()).ratio();
            (ratio, name)
        })
        .filter(|(ratio, _)| *ratio >= 0.6)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    near.truncate(MAX_NEAR_NAMES);
    near.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::test_support::ResultRoom;
    use super::*;

    #[test]
    fn a_file_has_one_key_however_it_is_named() {
        let room = ResultRoom::new();
        let file = room.put("dir/file", "x");
        symlink("dir/file", room.path("link")).unwrap();
        symlink("dir", room.path("folder-link")).unwrap();
        let key = file.to_str().unwrap();
        for name in [
            "dir/file",
            "./dir/../dir/file",
            "link",
            "folder-link/file",
            key,
        ] {
            assert_eq!(room.key(name), key, "{name}");
        }
    }

    #[test]
    fn a_file_that_does_not_exist_yet_has_the_key_it_will_have() {
        let room = ResultRoom::new();
        room.put("dir/other", "x");
        symlink("dir", room.path("folder-link")).unwrap();
        symlink("dir/new", room.path("dangling")).unwrap();
        let want = room.path("dir/new").to_str().unwrap().to_string();
        for name in [
            "dir/new",
            "folder-link/new",
            "dangling",
            "missing/../dir/new",
        ] {
            assert_eq!(room.key(name), want, "{name}");
        }
        assert_eq!(
            room.key("no/such/folder"),
            room.path("no/such/folder").to_str().unwrap()
        );
    }

    #[test]
    fn home_is_where_the_place_says() {
        let mut room = ResultRoom::new();
        assert_eq!(room.key("~/x"), room.path("home/x").to_str().unwrap());
        assert_eq!(room.key("~x"), room.path("~x").to_str().unwrap());
        room.ctx.home = None;
        assert!(resolve("~/x", &room.ctx).unwrap_err().contains("hint"));
    }

    #[test]
    fn a_quoted_name_is_the_file_with_that_name() {
        let room = ResultRoom::new();
        let odd = room.ctx.folder.join(OsStr::from_bytes(b"caf\xe9.txt"));
        if std::fs::write(&odd, "x").is_err() {
            // macOS has no such names.
            return;
        }
        assert!(missing("cafe.txt", &room.path("cafe.txt")).ends_with("\"caf\\351.txt\""));
        assert_eq!(resolve("\"caf\\351.txt\"", &room.ctx).unwrap(), odd);
        assert_eq!(resolve("\"a\\nb\"", &room.ctx).unwrap(), room.path("a\nb"));
        // A file that has the quotes in its name is listed with more of them.
        let quoted = room.put("\"a\\nb\"", "x");
        assert_eq!(
            resolve(&shown(&quoted, &room.ctx.folder), &room.ctx).unwrap(),
            quoted
        );
        assert!(resolve("\"a\\000b\"", &room.ctx).is_err());
    }

    #[test]
    fn impossible_paths_are_refused_in_words() {
        let room = ResultRoom::new();
        symlink("loop-b", room.path("loop-a")).unwrap();
        symlink("loop-a", room.path("loop-b")).unwrap();
        let refused = |path: &str| resolve(path, &room.ctx).unwrap_err();
        assert!(refused("").contains("empty"));
        assert!(refused("a\0b").contains("NUL"));
        assert!(refused("loop-a").contains("cannot look at loop-a"));
        assert!(refused(&"long/".repeat(5_000)).contains("over 4096"));
        assert!(resolve(&"a/".repeat(2_000), &room.ctx).is_ok());
    }

    #[test]
    fn a_missing_file_names_what_is_near() {
        let room = ResultRoom::new();
        room.put("Parser.rs", "");
        room.put("lexer.rs", "");
        let said = missing("parse.rs", &room.path("parse.rs"));
        assert!(
            said.contains("Parser.rs") && !said.contains("lexer"),
            "{said}"
        );
        let said = missing("no/such/x", &room.path("no/such/x"));
        assert!(said.contains("exists up to"), "{said}");
    }
}
