//! Changes of the user's own file that the screen makes: a rule, the model, the theme.
//!
//! What stands in the file stays as it is, comments and all. The file is replaced as a whole,
//! so a crash leaves the old one or the new one; a link is followed.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::{ConfigError, Paths};

/// Adds a rule to `permissions.allow`. False when it is there already.
pub fn allow(paths: &Paths, rule: &str) -> Result<bool, ConfigError> {
    change(paths, |document| {
        let permissions = document
            .entry("permissions")
            .or_insert_with(|| Item::Table(Table::new()));
        let allow = permissions
            .as_table_like_mut()
            .ok_or("permissions is not a table")?
            .entry("allow")
            .or_insert_with(|| value(Array::new()));
        let allow = allow
            .as_array_mut()
            .ok_or("permissions.allow is not a list")?;
        if allow.iter().any(|known| known.as_str() == Some(rule)) {
            return Ok(false);
        }
        allow.push(rule);
        Ok(true)
    })
}

/// Sets a key at the top of the file. False when it has the value already.
pub fn set(paths: &Paths, key: &str, to: &str) -> Result<bool, ConfigError> {
    change(paths, |document| {
        if document.get(key).and_then(Item::as_str) == Some(to) {
            return Ok(false);
        }
        document[key] = value(to);
        Ok(true)
    })
}

fn change(
    paths: &Paths,
    edit: impl FnOnce(&mut DocumentMut) -> Result<bool, &'static str>,
) -> Result<bool, ConfigError> {
    let file = paths.config_file();
    let cannot = |why: String| ConfigError::new(format!("cannot change {}: {why}", file.display()));
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(cannot(e.to_string())),
    };
    let mut document: DocumentMut = text.parse().map_err(|e| cannot(format!("{e}")))?;
    if !edit(&mut document).map_err(|why| cannot(why.to_string()))? {
        return Ok(false);
    }
    replace(&file, &document.to_string()).map_err(|e| cannot(e.to_string()))?;
    Ok(true)
}

fn replace(file: &Path, text: &str) -> io::Result<()> {
    let target: PathBuf = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
    let folder = target.parent().unwrap_or(Path::new("/"));
    let mut staged = tempfile::NamedTempFile::new_in(folder)?;
    staged.write_all(text.as_bytes())?;
    // As it was: a file that others may read stays one.
    if let Ok(metadata) = fs::metadata(&target) {
        staged.as_file().set_permissions(metadata.permissions())?;
    }
    staged.as_file().sync_all()?;
    staged.persist(&target).map_err(|e| e.error)?;
    fs::File::open(folder)?.sync_all()
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

    #[test]
    fn what_stands_in_the_file_stays() {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(home.path());
        assert!(allow(&paths, "Bash(make:*)").unwrap());
        assert!(!allow(&paths, "Bash(make:*)").unwrap());
        let text = "# mine\nmodel = \"a/b\" # this one\n\n[permissions]\nallow = [\n    \"Bash(x)\", # x\n]\n";
        fs::write(paths.config_file(), text).unwrap();
        assert!(allow(&paths, "Read(~/n/**)").unwrap());
        assert!(set(&paths, "model", "c/d").unwrap());
        let now = fs::read_to_string(paths.config_file()).unwrap();
        assert!(now.starts_with("# mine\nmodel = \"c/d\""), "{now}");
        assert!(
            now.contains("\"Bash(x)\", # x") && now.contains("\"Read(~/n/**)\""),
            "{now}"
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(home.path());
        fs::write(paths.config_file(), "model = [").unwrap();
        assert!(
            allow(&paths, "Bash(make:*)")
                .unwrap_err()
                .to_string()
                .contains("config.toml")
        );
        assert_eq!(
            fs::read_to_string(paths.config_file()).unwrap(),
            "model = ["
        );
        fs::write(paths.config_file(), "permissions = 3").unwrap();
        assert!(allow(&paths, "Bash(make:*)").is_err());
    }
}
