//! Owners of rewake's folders and files: whose they are, and what to do if they are another user's.
//!
//! root who uses the folders of another user would leave files there that the user cannot open any
//! more, and a hostile user could lead root elsewhere with links. So root is refused before anything
//! is written.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::rights::{MAX_ENTRIES, rights_hint, user_name};
use super::{ConfigError, Env, Paths};

/// The user that owns what a user namespace has no number for.
const NOBODY: u32 = 65_534;

/// The folders and files that rewake writes in its data folder, besides those of the database.
const WRITTEN: [&str; 9] = [
    "store.lock",
    "caches",
    "files",
    "journal",
    "locks",
    "marks",
    "processes",
    "runs",
    "tmp",
];

/// Prefix of the files of the database.
const DATABASE: &str = "rewake.";

impl Paths {
    /// Checks that root does not use the folders of another user.
    ///
    /// # Errors
    /// One belongs to another user. The hint has the command for that user.
    pub fn check_owner(&self, env: &Env) -> Result<(), ConfigError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let owner = |path: &Path| path.metadata().ok().map(|found| found.uid());
        let Some((path, uid)) = self.of_other_user(env.home(), &owner) else {
            return Ok(());
        };
        let user = user_name(uid);
        let sudo = match user.parse::<u32>() {
            Ok(number) => format!("'#{number}'"),
            Err(_) => user.clone(),
        };
        let why = format!(
            "root does not use rewake's folders of another user: {} belongs to {user}",
            path.display()
        );
        Err(ConfigError::new(why).with_hint(format!(
            "sudo -u {sudo} rewake runs it as that user; HOME=/root rewake uses root's own folders"
        )))
    }

    /// Returns the first folder that does not belong to root: the home folder, if rewake's folders
    /// are in it, and each of these or the folder that it will be made in.
    fn of_other_user(
        &self,
        home: Option<&Path>,
        owner: &dyn Fn(&Path) -> Option<u32>,
    ) -> Option<(PathBuf, u32)> {
        let all = [&self.config_dir, &self.data_dir, &self.state_dir];
        let home = home.filter(|home| all.iter().any(|dir| dir.starts_with(home)));
        let nearest = |dir: &PathBuf| {
            let mut above = dir.ancestors();
            above.find_map(|path| Some((path.to_path_buf(), owner(path)?)))
        };
        let home = home.and_then(|home| Some((home.to_path_buf(), owner(home)?)));
        let mut found = home.into_iter().chain(all.into_iter().filter_map(nearest));
        found.find(|(_, uid)| ![0, NOBODY].contains(uid))
    }

    /// Checks that this user may write what rewake writes in its data folder and its state folder,
    /// or read what is in the data folder.
    ///
    /// # Errors
    /// A file or folder there belongs to another user.
    pub fn check_rights(&self, writes: bool) -> Result<(), ConfigError> {
        let (doing, access, state) = if writes {
            ("write to", Access::WRITE_OK, Some(self.state_dir.clone()))
        } else {
            ("read", Access::READ_OK, None)
        };
        let is_written = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(DATABASE) || WRITTEN.contains(&&*name)
        };
        let entries = self.data_dir.read_dir().into_iter().flatten().flatten();
        let entries = entries.take(MAX_ENTRIES).map(|entry| entry.path());
        let folders = std::iter::once(self.data_dir.clone()).chain(state);
        let mut all = folders.chain(entries.filter(is_written));
        let foreign = all.find_map(|path| {
            let denied = Err(rustix::io::Errno::ACCESS);
            let is_foreign = rustix::fs::access(&path, access) == denied;
            let hint = is_foreign.then(|| rights_hint(&path)).flatten()?;
            Some((path, hint))
        });
        match foreign {
            Some((path, hint)) => {
                let why = format!(
                    "cannot {doing} {}: it belongs to another user",
                    path.display()
                );
                Err(ConfigError::new(why).with_hint(hint))
            }
            None => Ok(()),
        }
    }

    /// Returns a warning about a data folder that this user does not own but may write to.
    pub fn shared_folder(&self) -> Option<String> {
        let found = self.data_dir.metadata().ok()?;
        let others = match found.mode() {
            mode if mode & 0o002 != 0 => "everybody",
            mode if mode & 0o020 != 0 => "its group",
            _ => return None,
        };
        is_usable(&self.data_dir, &found).then(|| {
            format!(
                "{} belongs to {}, and {others} may write to it, and so change config and sessions",
                self.data_dir.display(),
                user_name(found.uid())
            )
        })
    }
}

/// Returns whether a folder is another user's, and this user may create and replace files in it. In
/// a folder with the sticky bit (`/tmp`) others could leave files that cannot be removed.
pub fn is_usable(path: &Path, found: &Metadata) -> bool {
    const STICKY: u32 = 0o1000;
    found.is_dir()
        && found.uid() != rustix::process::geteuid().as_raw()
        && found.mode() & STICKY == 0
        && rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(env: &[(&str, &str)], owners: &[(&str, u32)]) -> Option<(String, u32)> {
        let env = Env::new(env.iter().copied(), "/");
        let paths = Paths::new(&env).unwrap();
        let owner = |path: &Path| {
            let of = owners.iter().find(|(known, _)| Path::new(known) == path);
            of.map(|(_, uid)| *uid)
        };
        let found = paths.of_other_user(env.home(), &owner);
        found.map(|(path, uid)| (path.display().to_string(), uid))
    }

    #[test]
    fn folders_of_another_user_are_found_before_they_exist() {
        let roots = [("/", 0), ("/home", 0), ("/root", 0)];
        let of_ann = [&roots[..], &[("/home/ann", 1000)]].concat();
        assert_eq!(found(&[("HOME", "/root")], &roots), None);
        let ann = Some(("/home/ann".to_string(), 1000));
        assert_eq!(found(&[("HOME", "/home/ann")], &of_ann), ann);
        // An earlier run as root left its folders there.
        let left = [&of_ann[..], &[("/home/ann/.local/share/rewake", 0)]].concat();
        assert_eq!(found(&[("HOME", "/home/ann")], &left), ann);
        let folders = ["/home/ann/.local", "/home/ann/.config", "/home/ann/.cache"].map(|f| (f, 0));
        let left = [&of_ann[..], &folders].concat();
        assert_eq!(found(&[("HOME", "/home/ann")], &left), ann);
        // A separate folder.
        let own = [("HOME", "/home/ann"), ("REWAKE_HOME", "/srv/r")];
        assert_eq!(found(&own, &[&of_ann[..], &[("/srv/r", 0)]].concat()), None);
        let theirs = [&of_ann[..], &[("/srv/r", 1001)]].concat();
        assert_eq!(found(&own, &theirs), Some(("/srv/r".to_string(), 1001)));
        // One kind of folder is elsewhere.
        let data = [("HOME", "/root"), ("XDG_DATA_HOME", "/home/ann/data")];
        assert_eq!(found(&data, &of_ann), ann);
        // In a namespace of users, the owner of `/` has no number.
        let unmapped = [("/", NOBODY), ("/home", NOBODY), ("/home/ann", 0)];
        assert_eq!(found(&[("HOME", "/home/ann")], &unmapped), None);
    }
}
