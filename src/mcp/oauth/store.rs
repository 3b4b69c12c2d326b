//! Stored tokens: a file for each server and issuer, readable only by its owner, in the folder of
//! the keys. No tool call and no command in the sandbox can read that folder.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::client::Client;
use crate::config::{make_private_folder, replace_file};

/// Prefix of the names of these files. Other keys are in the same folder.
const PREFIX: &str = "mcp-";

const FILE_MAX_BYTES: u64 = 256 * 1024;

/// Time to wait for the lock: as long as another process may take to request a new token.
const LOCK_WITHIN: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(20);

/// A login at a server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// Address of the server.
    pub server: String,
    /// Resource that the tokens are for.
    pub resource: String,
    pub issuer: String,
    pub token_endpoint: String,
    pub client: Client,
    pub access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// Expiry, UTC, milliseconds since 1970. `None`: the server does not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
    /// Granted scopes.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Time of the login. The newest login is used.
    pub at_ms: i64,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("server", &self.server)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

/// The logins in a folder of keys.
#[derive(Debug, Clone)]
pub struct Logins {
    folder: PathBuf,
}

/// The lock for changing a login. Dropping it releases the lock.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Logins {
    pub fn of(keys: &Path) -> Logins {
        Logins {
            folder: keys.to_path_buf(),
        }
    }

    /// Returns the newest login at this server. Unreadable files are ignored.
    pub fn load(&self, server: &str) -> Option<Login> {
        let mut all: Vec<Login> = self.files(server).iter().filter_map(|f| read(f)).collect();
        all.retain(|login| login.server == server);
        all.into_iter().max_by_key(|login| login.at_ms)
    }

    /// Stores a login.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, login: &Login) -> io::Result<()> {
        make_private_folder(&self.folder)?;
        let name = format!(
            "{PREFIX}{}-{}.json",
            hash(&login.server),
            hash(&login.issuer)
        );
        let json = serde_json::to_vec(login)?;
        replace_file(&self.folder, &self.folder.join(name), &json)
    }

    /// Removes every login at this server, and returns their number.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self, server: &str) -> io::Result<usize> {
        let files = self.files(server);
        for file in &files {
            fs::remove_file(file)?;
        }
        Ok(files.len())
    }

    /// Waits until no other process changes logins at this server.
    ///
    /// # Errors
    /// The lock cannot be taken, or another process does not release it.
    pub async fn lock(&self, server: &str) -> io::Result<Lock> {
        make_private_folder(&self.folder)?;
        let path = self.folder.join(format!("{PREFIX}{}.lock", hash(server)));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path)?;
        let since = std::time::Instant::now();
        loop {
            match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR)
                    if since.elapsed() < LOCK_WITHIN =>
                {
                    tokio::time::sleep(TICK).await;
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn files(&self, server: &str) -> Vec<PathBuf> {
        let before = format!("{PREFIX}{}-", hash(server));
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let is_of_server = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&before) && name.ends_with(".json"))
        };
        paths.filter(is_of_server).collect()
    }
}

fn read(path: &Path) -> Option<Login> {
    let length = fs::metadata(path).ok()?.len();
    let bytes = (length <= FILE_MAX_BYTES).then(|| fs::read(path).ok())??;
    serde_json::from_slice(&bytes).ok()
}

fn hash(text: &str) -> String {
    let mut hex = blake3::hash(text.as_bytes()).to_hex().to_string();
    hex.truncate(24);
    hex
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::client::ClientAuth;
    use super::*;

    fn login(issuer: &str, at_ms: i64) -> Login {
        Login {
            server: "https://a.b/mcp".into(),
            resource: "https://a.b/mcp".into(),
            issuer: issuer.into(),
            token_endpoint: "https://a.b/token".into(),
            client: Client {
                id: "c".into(),
                secret: Some("client-secret".into()),
                auth: ClientAuth::Post,
            },
            access_token: "access-secret".into(),
            refresh_token: Some("refresh-secret".into()),
            expires_at_ms: Some(1),
            scopes: vec!["a".into()],
            at_ms,
        }
    }

    #[test]
    fn a_login_is_for_its_owner_alone_and_the_newest_counts() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("keys");
        let logins = Logins::of(&folder);
        assert_eq!(logins.load("https://a.b/mcp"), None);
        logins.save(&login("https://new", 2)).unwrap();
        logins.save(&login("https://old", 1)).unwrap();
        let found = logins.load("https://a.b/mcp").unwrap();
        assert_eq!(found, login("https://new", 2));
        assert_eq!(logins.load("https://a.b/other"), None);
        assert_eq!(
            folder.metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
        for entry in fs::read_dir(&folder).unwrap() {
            let mode = entry.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert!(!format!("{found:?}").contains("secret"));
        assert_eq!(logins.remove("https://a.b/mcp").unwrap(), 2);
        assert_eq!(logins.load("https://a.b/mcp"), None);
    }

    #[test]
    fn a_file_that_is_not_a_login_is_ignored() {
        let place = tempfile::tempdir().unwrap();
        let logins = Logins::of(place.path());
        logins.save(&login("https://i", 1)).unwrap();
        let other = format!("{PREFIX}{}-x.json", hash("https://a.b/mcp"));
        fs::write(place.path().join(other), "{").unwrap();
        assert!(logins.load("https://a.b/mcp").is_some());
    }

    #[tokio::test]
    async fn only_a_single_process_can_change_a_login_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let logins = Logins::of(place.path());
        let first = logins.lock("s").await.unwrap();
        let second = logins.lock("s");
        tokio::pin!(second);
        let waited = tokio::time::timeout(Duration::from_millis(100), &mut second).await;
        assert!(waited.is_err());
        logins.lock("other").await.unwrap();
        drop(first);
        second.await.unwrap();
    }
}
