//! Changes of the user's own files that the screen makes: a rule, the model, the theme.
//!
//! The rest of a file stays unchanged, including comments. The file is replaced as a whole, so a
//! crash leaves the old or the new content. Symbolic links are followed.

mod servers;

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use toml_edit::{Array, DocumentMut, Item, Table, Value, value};

use super::file::{Digest, lock, read_text};
use super::layer::MAX_FILE_BYTES;
use super::paths::create_private_dir;
use super::project::project_file;
use super::worktree::project_root;
use super::{ConfigError, Paths, granted};

pub use servers::{add_servers, remove_server};

/// A longer chain of links is treated as a cycle.
const MAX_LINKS: usize = 40;

/// The result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingChange {
    /// False if the file already had this value.
    pub is_changed: bool,
    /// State of the file before and after the change.
    pub before: Digest,
    pub after: Digest,
}

/// A file of the user that is changed on request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteTarget {
    pub file: PathBuf,
    /// Initial content of a new file.
    beginning: String,
    /// File whose lock is taken during the change. `None`: one beside the file.
    lock: Option<PathBuf>,
}

impl WriteTarget {
    /// Returns the user's config, which applies everywhere.
    pub fn config(paths: &Paths) -> WriteTarget {
        WriteTarget {
            file: paths.config_file(),
            beginning: String::new(),
            lock: None,
        }
    }

    /// Returns the file with the rules of one project.
    pub fn project(paths: &Paths, root: &Path) -> WriteTarget {
        WriteTarget {
            file: granted::file(paths, root),
            beginning: granted::beginning(root),
            lock: None,
        }
    }

    /// Returns the workspace's own config, and creates its folder. No lock file is left in a
    /// repository.
    ///
    /// # Errors
    /// The path is a link that leads out of the workspace, so another file would be changed.
    pub fn of_workspace(paths: &Paths, root: &Path) -> Result<WriteTarget, ConfigError> {
        let root = &project_root(paths, root)?;
        let file = project_file(root);
        let cannot =
            |why: String| ConfigError::new(format!("cannot change {}: {why}", file.display()));
        let folder = file.parent().unwrap_or(root);
        fs::create_dir_all(folder).map_err(|e| cannot(e.to_string()))?;
        let place = |path: &Path| path.canonicalize().map_err(|e| cannot(e.to_string()));
        let leads_to = followed(&file).map_err(|e| cannot(e.to_string()))?;
        let leads_to = place(leads_to.parent().unwrap_or(Path::new("/")))?;
        if !leads_to.starts_with(place(root)?) {
            return Err(cannot(format!(
                "it is a link to {}, outside of the workspace",
                leads_to.display()
            )));
        }
        Ok(WriteTarget {
            file,
            beginning: String::new(),
            lock: Some(paths.config_dir.join("project.lock")),
        })
    }
}

/// Removes a rule from a list of `permissions`: `allow`, `ask` or `deny`.
pub fn remove(target: &WriteTarget, list: &str, rule: &str) -> Result<SettingChange, ConfigError> {
    change(target, |document| {
        let rules = document
            .get_mut("permissions")
            .and_then(|permissions| permissions.get_mut(list))
            .and_then(Item::as_array_mut);
        let Some(rules) = rules else {
            return Ok(false);
        };
        let mut is_changed = false;
        for at in (0..rules.len()).rev() {
            if rules.get(at).and_then(Value::as_str) == Some(rule) {
                take_out(rules, at);
                is_changed = true;
            }
        }
        Ok(is_changed)
    })
}

/// Removes a rule. A comment comes after its subject, and so before the next element. The text
/// before the rule stays, and the text after it on the same line is removed with it.
fn take_out(list: &mut Array, at: usize) {
    let text = |raw: Option<&str>| raw.unwrap_or_default().to_string();
    let removed = list.remove(at);
    let front = text(removed.decor().prefix().and_then(|p| p.as_str()));
    let below = |behind: &str| match behind.find('\n') {
        Some(end) => behind[end..].to_string(),
        None => behind.to_string(),
    };
    let own = |front: &str| {
        front
            .rfind('\n')
            .map_or(String::new(), |end| front[..end].to_string())
    };
    match list.get_mut(at) {
        Some(next) => {
            let behind = text(next.decor().prefix().and_then(|p| p.as_str()));
            let prefix = if behind.contains('\n') {
                own(&front) + &below(&behind)
            } else {
                front
            };
            next.decor_mut().set_prefix(prefix);
        }
        None => {
            let behind = text(list.trailing().as_str());
            list.set_trailing(own(&front) + &below(&behind));
        }
    }
}

/// Adds rules to a list of `permissions`: `allow`, `ask` or `deny`.
pub fn add_rules(
    target: &WriteTarget,
    list: &str,
    rules: &[String],
) -> Result<SettingChange, ConfigError> {
    change(target, |document| {
        let permissions = document
            .entry("permissions")
            .or_insert_with(|| Item::Table(Table::new()));
        let known = permissions
            .as_table_like_mut()
            .ok_or("permissions is not a table")?
            .entry(list)
            .or_insert_with(|| value(Array::new()));
        let known = known
            .as_array_mut()
            .ok_or("the rules of permissions are not a list")?;
        let mut is_changed = false;
        for rule in rules {
            if !known.iter().any(|known| known.as_str() == Some(rule)) {
                add(known, rule);
                is_changed = true;
            }
        }
        Ok(is_changed)
    })
}

/// Sets a key at the top of the file.
pub fn set(paths: &Paths, key: &str, to: &str) -> Result<SettingChange, ConfigError> {
    change(&WriteTarget::config(paths), |document| {
        match document.get_mut(key) {
            Some(Item::Value(known)) if known.as_str() == Some(to) => Ok(false),
            Some(Item::Value(known)) => {
                let decor = known.decor().clone();
                *known = Value::from(to);
                *known.decor_mut() = decor;
                Ok(true)
            }
            Some(Item::Table(_) | Item::ArrayOfTables(_)) => Err("it is a table there"),
            Some(Item::None) | None => {
                document.insert(key, value(to));
                Ok(true)
            }
        }
    })
}

/// Adds a rule. In a list with one element per line it gets a separate line, and a comment stays
/// after its subject.
fn add(list: &mut Array, rule: &str) {
    let text = |raw: Option<&str>| raw.unwrap_or_default().to_string();
    let mut behind = text(list.trailing().as_str());
    let indent = list
        .get(0)
        .map(|first| text(first.decor().prefix().and_then(|p| p.as_str())));
    if !list.trailing_comma()
        && let Some(last) = list.len().checked_sub(1).and_then(|at| list.get_mut(at))
    {
        let decor = last.decor_mut();
        behind.insert_str(0, &text(decor.suffix().and_then(|s| s.as_str())));
        decor.set_suffix("");
    }
    match indent.filter(|indent| indent.contains('\n')) {
        Some(indent) => {
            let indent = indent.rsplit('\n').next().unwrap_or_default();
            let prefix = format!("{}\n{indent}", behind.trim_end());
            list.push_formatted(Value::from(rule).decorated(prefix, ""));
            list.set_trailing("\n");
            list.set_trailing_comma(true);
        }
        None => list.push(rule),
    }
}

/// Reads, changes and replaces the file under a lock, so that simultaneous changes are both
/// applied.
fn change(
    target: &WriteTarget,
    edit: impl FnOnce(&mut DocumentMut) -> Result<bool, &'static str>,
) -> Result<SettingChange, ConfigError> {
    let file = &target.file;
    let folder = file.parent().unwrap_or(Path::new("/"));
    create_private_dir(folder)?;
    let beside = folder.join("config.lock");
    let lock_file = target.lock.as_ref().unwrap_or(&beside);
    create_private_dir(lock_file.parent().unwrap_or(folder))?;
    let cannot = |why: String| ConfigError::new(format!("cannot change {}: {why}", file.display()));
    let _lock = lock(lock_file).map_err(|e| cannot(e.to_string()))?;
    // The target of a link is made.
    let is_missing = file
        .metadata()
        .is_err_and(|e| e.kind() == ErrorKind::NotFound);
    let read = read_text(file, MAX_FILE_BYTES);
    let before = Digest::of(&read);
    let text = match read {
        Ok(text) => text,
        Err(_) if is_missing => target.beginning.clone(),
        Err(e) => return Err(cannot(e.to_string())),
    };
    let is_dos = text.contains("\r\n") && !text.replace("\r\n", "").contains('\n');
    let text = if is_dos {
        text.replace("\r\n", "\n")
    } else {
        text
    };
    let mut document: DocumentMut = text.parse().map_err(|e| cannot(format!("{e}")))?;
    if !edit(&mut document).map_err(|why| cannot(why.to_string()))? {
        return Ok(SettingChange {
            is_changed: false,
            before,
            after: before,
        });
    }
    let text = document.to_string();
    let text = if is_dos {
        text.replace('\n', "\r\n")
    } else {
        text
    };
    replace(file, &text).map_err(|e| cannot(e.to_string()))?;
    Ok(SettingChange {
        is_changed: true,
        before,
        after: Digest::of(&Ok(text)),
    })
}

fn replace(file: &Path, text: &str) -> io::Result<()> {
    let target = followed(file)?;
    let folder = target.parent().unwrap_or(Path::new("/"));
    // The new file is readable only by its owner.
    let mut staged = tempfile::NamedTempFile::new_in(folder)?;
    staged.write_all(text.as_bytes())?;
    // The permissions of the old file are kept.
    if let Ok(metadata) = fs::metadata(&target) {
        staged.as_file().set_permissions(metadata.permissions())?;
    }
    staged.as_file().sync_all()?;
    staged.persist(&target).map_err(|e| e.error)?;
    fs::File::open(folder)?.sync_all()
}

/// Follows links, even if the target does not exist yet.
fn followed(file: &Path) -> io::Result<PathBuf> {
    let mut target = file.to_path_buf();
    for _ in 0..MAX_LINKS {
        let Ok(next) = fs::read_link(&target) else {
            return Ok(target);
        };
        // A relative link starts in the folder of the link.
        target = target.parent().unwrap_or(Path::new("/")).join(next);
    }
    Err(io::Error::other("its links go round in a circle"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Env;

    fn paths(home: &Path) -> Paths {
        let home = home.to_string_lossy().into_owned();
        let env = Env::new([("REWAKE_HOME", home.as_str())], "/");
        let paths = Paths::new(&env).unwrap();
        paths.create().unwrap();
        paths
    }

    fn allow(target: &WriteTarget, rule: &str) -> Result<SettingChange, ConfigError> {
        add_rules(target, "allow", &[rule.to_string()])
    }

    #[test]
    fn adding_a_rule_keeps_the_existing_text_of_the_config() {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(home.path());
        assert!(
            allow(&WriteTarget::config(&paths), "Bash(make:*)")
                .unwrap()
                .is_changed
        );
        assert!(
            !allow(&WriteTarget::config(&paths), "Bash(make:*)")
                .unwrap()
                .is_changed
        );
        let text = "# mine\nmodel = \"a/b\" # this one\n\n[permissions]\nallow = [\n    \"Bash(x)\", # x\n]\n";
        fs::write(paths.config_file(), text).unwrap();
        assert!(
            allow(&WriteTarget::config(&paths), "Read(~/n/**)")
                .unwrap()
                .is_changed
        );
        assert!(set(&paths, "model", "c/d").unwrap().is_changed);
        let now = fs::read_to_string(paths.config_file()).unwrap();
        assert!(now.starts_with("# mine\nmodel = \"c/d\""), "{now}");
        assert!(
            now.contains("\"Bash(x)\", # x") && now.contains("\"Read(~/n/**)\""),
            "{now}"
        );
    }

    /// Returns `text` after a rule and a model were added.
    fn changed(text: &str) -> String {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(home.path());
        fs::write(paths.config_file(), text).unwrap();
        assert!(allow(&WriteTarget::config(&paths), "B").unwrap().is_changed);
        assert!(set(&paths, "model", "c/d").unwrap().is_changed);
        fs::read_to_string(paths.config_file()).unwrap()
    }

    #[test]
    fn every_way_to_write_a_list_is_kept() {
        for (before, after) in [
            ("", "model = \"c/d\"\n[permissions]\nallow = [\"B\"]\n"),
            (
                "model = \"a/b\" # mine\npermissions.allow = [\"A\"] # some\n",
                "model = \"c/d\" # mine\npermissions.allow = [\"A\", \"B\"] # some\n",
            ),
            (
                "permissions = { allow = [\"A\"], deny = [] }\n",
                "permissions = { allow = [\"A\", \"B\"], deny = [] }\nmodel = \"c/d\"\n",
            ),
            (
                "[permissions]\nallow = [\n  \"A\" # a\n]\n",
                "model = \"c/d\"\n[permissions]\nallow = [\n  \"A\", # a\n  \"B\",\n]\n",
            ),
            (
                "[permissions]\nallow = [\n  # all\n  \"A\", # a\n  # end\n]\n",
                "model = \"c/d\"\n[permissions]\nallow = [\n  # all\n  \"A\", # a\n  # end\n  \"B\",\n]\n",
            ),
            (
                "model = \"a/b\"\r\n[permissions]\r\nallow = [\r\n\t\"A\",\r\n]\r\n",
                "model = \"c/d\"\r\n[permissions]\r\nallow = [\r\n\t\"A\",\r\n\t\"B\",\r\n]\r\n",
            ),
        ] {
            assert_eq!(changed(before), after);
        }
    }

    #[test]
    fn a_rule_is_taken_out_and_comments_stay_with_what_they_are_about() {
        for (before, after) in [
            ("allow = [\"A\", \"B\"]\n", "allow = [\"A\"]\n"),
            ("allow = [\"B\"] # some\n", "allow = [] # some\n"),
            (
                "allow = [\n  \"A\", # a\n  \"B\", # b\n  \"C\", # c\n]\n",
                "allow = [\n  \"A\", # a\n  \"C\", # c\n]\n",
            ),
            (
                "allow = [\n  \"A\", # a\n  \"B\", # b\n]\n",
                "allow = [\n  \"A\", # a\n]\n",
            ),
            ("deny = [\"B\"]\n", "deny = [\"B\"]\n"),
        ] {
            let home = tempfile::tempdir().unwrap();
            let target = WriteTarget::config(&paths(home.path()));
            fs::write(&target.file, format!("[permissions]\n{before}")).unwrap();
            let is_changed = remove(&target, "allow", "B").unwrap().is_changed;
            assert_eq!(is_changed, before != after);
            let now = fs::read_to_string(&target.file).unwrap();
            assert_eq!(now, format!("[permissions]\n{after}"));
        }
    }

    #[test]
    fn rules_of_a_project_are_written_to_a_separate_file() {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(home.path());
        let (one, other) = (home.path().join("one"), home.path().join("other"));
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(&other).unwrap();
        std::os::unix::fs::symlink(&one, home.path().join("link")).unwrap();
        let target = WriteTarget::project(&paths, &one);
        assert_eq!(
            WriteTarget::project(&paths, &home.path().join("link")).file,
            target.file
        );
        assert_ne!(WriteTarget::project(&paths, &other).file, target.file);
        assert!(allow(&target, "Bash(make:*)").unwrap().is_changed);
        let text = fs::read_to_string(&target.file).unwrap();
        assert!(text.starts_with("# Rules that were allowed for "), "{text}");
        assert!(text.contains("allow = [\"Bash(make:*)\"]"), "{text}");
        assert!(!paths.config_file().exists());
    }

    #[test]
    fn a_link_stays_a_link_and_a_new_file_is_private() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let (home, dotfiles) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let paths = paths(home.path());
        let target = dotfiles.path().join("rewake.toml");
        symlink(&target, paths.config_file()).unwrap();
        // First it leads nowhere, then to a file that others may read.
        for (mode, model) in [(0o600, "a/b"), (0o644, "c/d")] {
            assert!(set(&paths, "model", model).unwrap().is_changed);
            assert!(
                fs::symlink_metadata(paths.config_file())
                    .unwrap()
                    .is_symlink()
            );
            assert!(fs::read_to_string(&target).unwrap().contains(model));
            assert_eq!(
                fs::metadata(&target).unwrap().permissions().mode() & 0o777,
                mode
            );
            fs::set_permissions(&target, fs::Permissions::from_mode(0o644)).unwrap();
        }
        fs::remove_file(&target).unwrap();
        symlink(paths.config_file(), &target).unwrap();
        assert!(set(&paths, "model", "a/b").is_err());
    }

    #[test]
    fn two_at_once_both_count() {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(home.path());
        std::thread::scope(|scope| {
            for n in 0..8 {
                let paths = &paths;
                scope.spawn(move || {
                    allow(&WriteTarget::config(paths), &format!("Bash(r{n})")).unwrap()
                });
            }
        });
        let text = fs::read_to_string(paths.config_file()).unwrap();
        assert_eq!(text.matches("Bash(r").count(), 8, "{text}");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(home.path());
        fs::write(paths.config_file(), "model = [").unwrap();
        assert!(
            allow(&WriteTarget::config(&paths), "Bash(make:*)")
                .unwrap_err()
                .to_string()
                .contains("config.toml")
        );
        assert_eq!(
            fs::read_to_string(paths.config_file()).unwrap(),
            "model = ["
        );
        fs::write(paths.config_file(), "permissions = 3").unwrap();
        assert!(allow(&WriteTarget::config(&paths), "Bash(make:*)").is_err());
    }
}
