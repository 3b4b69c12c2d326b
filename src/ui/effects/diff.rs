//! The changes of the working tree since its last commit, for the review; and the editor at a line
//! of them.
//!
//! Invariant: git runs only where no setting of the repository makes it run another program.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Effects;
use super::editor::editor_command;
use crate::config::Env;
use crate::core::text::{one_line, size_text};
use crate::sandbox::child;
use crate::session::looking_git;
use crate::ui::app::Msg;
use crate::ui::changes::{ChangeLine, FileChange, Side, parse};
use crate::ui::overlay::Review;
use crate::ui::terminal::{Screen, with_restored_modes};
use crate::ui::transcript::Tone;
use crate::workspace::is_plain;

/// Maximum size of git's output.
const MAX_BYTES: u64 = 16 << 20;

/// Limits for files that git does not know yet: their number, and the size of each.
const MAX_NEW_FILES: usize = 500;
const MAX_NEW_BYTES: u64 = 1 << 20;

/// The tree without a file, for a repository without a commit.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

const DIFF: [&str; 8] = [
    "diff",
    "--ignore-submodules=dirty",
    "--submodule=short",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
];

impl Effects {
    pub(super) fn diff(&self) {
        let root = self.ctx.here.root.clone();
        let env = self.ctx.env.clone();
        self.aside(move || {
            Some(match changes(&root, &env) {
                Ok((files, _)) if files.is_empty() => Msg::Notice(
                    Tone::Calm,
                    "no file of the repository is changed".to_string(),
                ),
                Ok((files, warning)) => Msg::Review(Review::new(files), warning),
                Err(why) => Msg::Notice(Tone::Warn, why),
            })
        });
    }

    /// Opens the person's editor at this line of a file.
    pub(super) fn edit_at(&mut self, path: &str, line: usize, screen: &mut Screen) {
        let file = self.ctx.here.root.join(path);
        let env = &self.ctx.env;
        let command = editor_command(|name| env.var(name).map(str::to_string));
        let edited = self.keyboard.lend(screen, || {
            with_restored_modes(|| open_at(&command, &file, line))
        });
        match edited {
            Ok(Ok(())) => {}
            Ok(Err(why)) => self.notify(Tone::Bad, why),
            Err(e) => self.notify(Tone::Bad, format!("the terminal did not come back: {e}")),
        }
    }
}

fn open_at(command: &[String], file: &Path, line: usize) -> Result<(), String> {
    let name = command.first().map_or("vi", String::as_str);
    let program = name.rsplit('/').next().unwrap_or(name);
    let mut process = child(name);
    process.args(command.iter().skip(1));
    match program {
        "code" | "codium" | "cursor" | "windsurf" => {
            process.arg("-g").arg(format!("{}:{line}", file.display()));
        }
        "hx" | "helix" | "subl" | "zed" => {
            process.arg(format!("{}:{line}", file.display()));
        }
        _ => {
            process.arg(format!("+{line}")).arg(file);
        }
    }
    match process.status() {
        Ok(_) => Ok(()),
        Err(e) => Err(format!(
            "cannot start the editor {name:?}: {e}; $VISUAL or $EDITOR names another"
        )),
    }
}

/// Returns the changed files, and a note about those that are left out.
fn changes(root: &Path, env: &Env) -> Result<(Vec<FileChange>, Option<String>), String> {
    is_plain(&root.to_string_lossy()).map_err(|why| {
        format!(
            "{why}, so git is not called. `rewake diff ID` shows what changed in a session, without git"
        )
    })?;
    let git = |args: &[&str]| {
        let git = looking_git(env, root);
        let git = git.ok_or("there is no git on PATH that lies outside of the workspace")?;
        printed(git, args)
    };
    let against = |tree: &str| git(&[&DIFF[..], &[tree]].concat());
    let (diff, is_cut) = match against("HEAD") {
        Err(why) if why.contains("HEAD") => against(EMPTY_TREE)?,
        diff => diff?,
    };
    let mut files = parse(&String::from_utf8_lossy(&diff));
    let (new, _) = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    let new = String::from_utf8_lossy(&new).into_owned();
    let names: Vec<&str> = new.split('\0').filter(|name| !name.is_empty()).collect();
    files.extend(
        names
            .iter()
            .take(MAX_NEW_FILES)
            .map(|name| new_file(root, name)),
    );
    let surplus = names.len().saturating_sub(MAX_NEW_FILES);
    let warning = match (is_cut, surplus) {
        (true, _) => Some(format!(
            "the diff has more than {}: its end is not shown",
            size_text(MAX_BYTES)
        )),
        (false, 0) => None,
        (false, more) => Some(format!("{more} more new files are not listed")),
    };
    Ok((files, warning))
}

/// Returns the change of a file that no commit has.
fn new_file(root: &Path, name: &str) -> FileChange {
    let mut change = FileChange {
        path: name.to_string(),
        notes: vec!["new file, not in git yet".to_string()],
        ..FileChange::default()
    };
    let path = root.join(name);
    let is_file = std::fs::symlink_metadata(&path).is_ok_and(|m| m.is_file());
    let mut bytes = Vec::new();
    let read = match is_file {
        true => std::fs::File::open(&path)
            .and_then(|file| file.take(MAX_NEW_BYTES + 1).read_to_end(&mut bytes)),
        false => Ok(0),
    };
    if let Err(e) = read {
        change.notes.push(format!("it cannot be read: {e}"));
    } else if !is_file {
        change
            .notes
            .push("no regular file: its lines are not shown".to_string());
    } else if bytes.contains(&0) {
        change
            .notes
            .push("binary: its lines are not shown".to_string());
    } else if bytes.len() as u64 > MAX_NEW_BYTES {
        change.notes.push(format!(
            "more than {}: its lines are not shown",
            size_text(MAX_NEW_BYTES)
        ));
    } else {
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().enumerate().map(|(at, line)| ChangeLine {
            side: Side::Added,
            number: at + 1,
            text: line.to_string(),
        });
        change.lines = lines.collect();
        change.added = change.lines.len();
    }
    change
}

/// Runs git. Returns its output, and whether it was cut.
fn printed(mut git: Command, args: &[&str]) -> Result<(Vec<u8>, bool), String> {
    let cannot = |e: std::io::Error| format!("cannot run git: {e}");
    let mut errors = tempfile::tempfile().map_err(cannot)?;
    let to = errors.try_clone().map_err(cannot)?;
    let mut child = git
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(to)
        .spawn()
        .map_err(cannot)?;
    let mut bytes = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let read = stdout.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(cannot)?;
    }
    let is_cut = bytes.len() as u64 > MAX_BYTES;
    bytes.truncate(usize::try_from(MAX_BYTES).unwrap_or(usize::MAX));
    if is_cut {
        let _ = child.kill();
    }
    let status = child.wait().map_err(cannot)?;
    if status.success() || is_cut {
        return Ok((bytes, is_cut));
    }
    let mut why = String::new();
    use std::io::Seek;
    let _ = errors.rewind();
    let _ = errors.take(2_000).read_to_string(&mut why);
    Err(format!(
        "git {}: {}",
        args.first().unwrap_or(&""),
        one_line(&why, 300)
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use support::git as run_git;

    /// A repository with one changed file, whose settings name a program that writes `ran`.
    fn repository(settings: &[(&str, &str)]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap().join("top");
        fs::create_dir(&top).unwrap();
        run_git(&top, &["init", "-q"]);
        fs::write(top.join("a"), "one\n").unwrap();
        run_git(&top, &["add", "."]);
        run_git(&top, &["commit", "-qm", "one"]);
        fs::write(top.join("a"), "two\n").unwrap();
        let program = top.join("program");
        let script = format!("#!/bin/sh\ntouch {}\ncat\n", top.join("ran").display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(top.join(".gitattributes"), "* filter=x diff=x\n").unwrap();
        for (key, value) in settings {
            let value = value.replace("PROGRAM", program.to_str().unwrap());
            run_git(&top, &["config", key, &value]);
        }
        let _ = fs::remove_file(top.join("ran"));
        (dir, top)
    }

    fn env(top: &Path) -> Env {
        let path = std::env::var_os("PATH").unwrap();
        Env::new([("PATH", path), ("HOME", top.join("nowhere").into())], top)
    }

    #[test]
    fn nothing_that_a_repository_names_is_run_to_show_what_changed() {
        for (key, value) in [
            ("filter.x.clean", "PROGRAM"),
            ("filter.x.process", "PROGRAM"),
            ("diff.x.textconv", "PROGRAM"),
            ("diff.external", "PROGRAM"),
            ("core.fsmonitor", "PROGRAM"),
            ("core.worktree", "/"),
        ] {
            let (_dir, top) = repository(&[(key, value)]);
            let shown = changes(&top, &env(&top));
            assert!(!top.join("ran").exists(), "{key} was run");
            let why = shown.unwrap_err();
            let want = format!("`git` obeys `{}/.git", top.display());
            assert!(
                why.starts_with(&want) && why.contains("rewake diff"),
                "{why}"
            );
        }
    }

    #[test]
    fn a_git_of_the_workspace_is_not_run() {
        let (_dir, top) = repository(&[]);
        fs::copy(top.join("program"), top.join("git")).unwrap();
        let env = Env::new([("PATH", top.as_os_str())], &top);
        assert!(changes(&top, &env).unwrap_err().contains("no git"));
        assert!(!top.join("ran").exists());
    }

    #[test]
    fn changes_in_a_git_repository_are_shown() {
        let (_dir, top) = repository(&[]);
        let (files, warning) = changes(&top, &env(&top)).unwrap();
        let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(names, ["a", ".gitattributes", "program"]);
        assert_eq!((files[0].added, files[0].removed, warning), (1, 1, None));
    }
}
