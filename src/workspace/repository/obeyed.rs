//! The files to which the settings and links of a git folder lead: git runs or obeys them.
//!
//! Unlike the checks beside it, this is a search: what is not understood is passed over.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::config::is_setting_of_lfs;
use super::{MAX_CONFIG_BYTES, read};

/// Maximum depth of files of settings that include each other, as in git.
const MAX_DEPTH: usize = 10;

/// Maximum number of settings that are looked at, and of words of their values.
const MAX_SETTINGS: usize = 2_000;
const MAX_WORDS: usize = 100;

/// Maximum number of hooks that are looked at for links.
const MAX_HOOKS: usize = 100;

/// Sections whose settings all are about programs.
#[rustfmt::skip]
const SECTIONS: [&str; 9] = [
    "filter", "hook", "pager", "difftool", "mergetool", "guitool", "browser", "man", "trailer",
];

/// Parts of the names of settings that name programs.
#[rustfmt::skip]
const NAMES: [&str; 21] = [
    "askpass", "clean", "cmd", "command", "driver", "editor", "exec", "external", "gitproxy", "helper", "hook",
    "pager", "process", "program", "promisor", "receivepack", "smudge", "textconv", "transferagent", "uploadpack",
    "vcs",
];

/// A setting, with section and name in lowercase.
#[derive(Debug, Clone)]
pub struct GitSetting {
    key: String,
    value: String,
    /// The folder of its file.
    folder: PathBuf,
}

/// Returns whether a setting names a program, or decides whether one runs. `core.hooksPath` and
/// `core.fsmonitor` are separate.
pub fn names_program(key: &str, value: &str) -> bool {
    let section = key.split('.').next().unwrap_or_default();
    let name = key.rsplit('.').next().unwrap_or_default();
    let is_listed = SECTIONS.contains(&section) || NAMES.iter().any(|part| name.contains(part));
    let is_tool = section == "lfs" && (name == "path" || name == "args");
    (is_listed || is_tool) && key != "core.hookspath" && !is_setting_of_lfs(key, value)
}

/// Returns the settings of a user, which apply in each repository.
pub fn git_settings_of_user(home: &Path) -> Vec<GitSetting> {
    let mut found = Vec::new();
    for name in [".gitconfig", ".config/git/config"] {
        add_settings(&home.join(name), Some(home), 0, &mut found);
    }
    found
}

/// Returns the files and folders to which a git folder leads. `names` are those in it that git obeys,
/// `top` is the folder of its files. Paths that do not exist are there too: git obeys them when they do.
pub fn obeyed_by_git(
    git: &Path,
    top: &Path,
    names: &[&str],
    of_user: &[GitSetting],
    home: Option<&Path>,
) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut hooks = vec![git.join("hooks")];
    let mut settings = of_user.to_vec();
    for name in names {
        found.extend(target(&git.join(name)));
        if name.starts_with("config") {
            add_settings(&git.join(name), home, 0, &mut settings);
        }
    }
    for GitSetting { key, value, folder } in &settings {
        match key.as_str() {
            "core.hookspath" | "init.templatedir" => hooks.extend(path_of(value, top, home)),
            "core.attributesfile" => found.extend(path_of(value, top, home)),
            _ if is_include(key) => found.extend(path_of(value, folder, home)),
            _ if key == "core.fsmonitor" || names_program(key, value) || value.starts_with('!') => {
                let is_end = |c: char| c.is_whitespace() || "'\";|&()<>=!`".contains(c);
                let words = value.split(is_end).take(MAX_WORDS);
                let files = words.filter_map(|word| path_of(word, top, home));
                found.extend(files.filter(|file| file.is_file()));
            }
            _ => {}
        }
    }
    for folder in &hooks {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        found.extend(entries.take(MAX_HOOKS).filter_map(|e| target(&e.path())));
    }
    found.extend(hooks.into_iter().skip(1));
    found.iter().filter_map(|path| real(path)).collect()
}

fn is_include(key: &str) -> bool {
    key == "include.path" || (key.starts_with("includeif.") && key.ends_with(".path"))
}

/// Returns where a link leads.
fn target(path: &Path) -> Option<PathBuf> {
    let to = path.is_symlink().then(|| std::fs::read_link(path).ok())?;
    Some(path.parent()?.join(to?))
}

/// Returns the path with all links followed. Its last part need not exist.
fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let parent = path.parent()?.canonicalize().ok()?;
        Some(parent.join(path.file_name()?))
    })
}

/// Returns the path that a value names. The value may begin with `~/`.
fn path_of(value: &str, folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    match value.strip_prefix("~/") {
        _ if value.is_empty() => None,
        Some(below) => Some(home?.join(below)),
        None => Some(folder.join(value)),
    }
}

/// Adds the settings of a file and of those that it includes, whatever their conditions.
fn add_settings(file: &Path, home: Option<&Path>, depth: usize, found: &mut Vec<GitSetting>) {
    let Ok(real) = file.canonicalize() else {
        return;
    };
    let text = read(&real, MAX_CONFIG_BYTES).ok().flatten();
    let text = text.unwrap_or_default();
    let folder = file.parent().unwrap_or(file);
    for (key, value) in settings(&String::from_utf8_lossy(&text)) {
        if found.len() >= MAX_SETTINGS {
            return;
        }
        let included = is_include(&key).then(|| path_of(&value, folder, home));
        found.push(GitSetting {
            key,
            value,
            folder: folder.to_path_buf(),
        });
        if let Some(included) = included.flatten().filter(|_| depth < MAX_DEPTH) {
            add_settings(&included, home, depth + 1, found);
        }
    }
}

/// Parses settings as git does (git-config, "Syntax").
fn settings(text: &str) -> Vec<(String, String)> {
    let text = text.replace("\r\n", "\n").replace("\\\n", "");
    let mut section = String::new();
    let mut found = Vec::new();
    for line in text.lines() {
        let mut line = line.trim();
        if let Some((head, rest)) = line.strip_prefix('[').and_then(split_head) {
            section = match head.split_once([' ', '\t', '"']) {
                Some((name, of)) => {
                    let of = of.trim().trim_matches('"');
                    format!("{}.{of}", name.to_lowercase())
                }
                None => head.to_lowercase(),
            };
            line = rest.trim();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or((line, "true"));
        let key = format!("{section}.{}", name.trim().to_lowercase());
        found.push((key, unquoted(value.trim())));
    }
    found
}

/// Splits the text after `[` at the end of the head of the section.
fn split_head(text: &str) -> Option<(&str, &str)> {
    let mut is_quoted = false;
    let end = text.find(|c| {
        is_quoted ^= c == '"';
        c == ']' && !is_quoted
    })?;
    Some((&text[..end], &text[end + 1..]))
}

/// Returns a value without its quotes, escapes and comment.
fn unquoted(value: &str) -> String {
    let mut plain = String::new();
    let mut is_quoted = false;
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '\\' => plain.extend(letters.next().map(|c| match c {
                'n' => '\n',
                't' => '\t',
                c => c,
            })),
            '#' | ';' if !is_quoted => break,
            c => plain.push(c),
        }
    }
    plain.trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let text = "# c\n[core] fsmonitor = \"./a b\" ; c\n\tHooksPath=x\\\ny # c\n\
            [Filter \"My x\"]\nclean = sh \\\"f\\\"\n[a.B]\nc\n[includeIf \"onbranch:[x]\"]\npath = p\n";
        let expected = [
            ("core.fsmonitor", "./a b"),
            ("core.hookspath", "xy"),
            ("filter.My x.clean", "sh \"f\""),
            ("a.b.c", "true"),
            ("includeif.onbranch:[x].path", "p"),
        ];
        let found = settings(text);
        let found: Vec<_> = found
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_settings_and_links_lead_to_is_found() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let git = top.join(".git");
        let write = |path: &str, text: &str| {
            let path = top.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "settings",
            "[include]\n\tpath = more\n[core]\n\thooksPath = hk\n",
        );
        write(
            "more",
            "[filter \"x\"]\n\tclean = sh -c './clean %f'\n[user]\n\tname = plain\n",
        );
        for name in ["clean", "plain", "hk/README", "one", "of-user"] {
            write(name, "");
        }
        write(".git/hooks/x.sample", "");
        let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, git.join(at)).unwrap();
        link("../settings", "config");
        link("../../one", "hooks/pre-commit");
        let home = top.join("home");
        write(
            "home/.gitconfig",
            "[core]\n\tfsmonitor = of-user\n[include]\n\tpath = ~/gone\n",
        );
        let of_user = git_settings_of_user(&home);
        let found = obeyed_by_git(&git, &top, &["config", "hooks"], &of_user, Some(&home));
        let expected = ["hk", "home/gone", "of-user", "one", "settings"];
        let mut expected: BTreeSet<PathBuf> = expected.iter().map(|path| top.join(path)).collect();
        // A file of settings that is a link includes files beside the link.
        expected.insert(git.join("more"));
        assert_eq!(found, expected);
        link("../more", "more");
        expected.remove(&git.join("more"));
        expected.extend([top.join("more"), top.join("clean")]);
        let found = obeyed_by_git(&git, &top, &["config", "hooks"], &of_user, Some(&home));
        assert_eq!(found, expected);
    }
}
