//! Access tokens and their scopes.
//!
//! There is one token for each scope. It is created once and stored in a file that only its owner
//! can read. The file is in the folder of the keys, so no tool call and no command in the sandbox
//! can read it. Its name begins with a dot, unlike the name of any provider.
//!
//! The file contains the tokens themselves, not hashes, because `rewake serve` prints the same
//! link each time. A process that can read the file can also read and write the store beside it.

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::config::make_private_folder;
use crate::report::CliError;

/// Name of the file in the folder of the keys.
const FILE: &str = ".serve.token";

/// Bytes of a token, from the system's random numbers.
const TOKEN_BYTES: usize = 32;

/// A larger file was not written by rewake.
const MAX_FILE_BYTES: u64 = 4096;

/// The rights of a token. Each scope includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenScope {
    /// Read everything that is recorded.
    Read,
    /// Send, answer, stop, pause, start, and choose settings.
    Control,
    /// Choose `bypassPermissions`, so that nothing needs approval.
    Admin,
}

impl TokenScope {
    pub const ALL: [TokenScope; 3] = [TokenScope::Read, TokenScope::Control, TokenScope::Admin];

    pub fn name(self) -> &'static str {
        match self {
            TokenScope::Read => "read",
            TokenScope::Control => "control",
            TokenScope::Admin => "admin",
        }
    }

    pub fn named(name: &str) -> Option<TokenScope> {
        TokenScope::ALL
            .into_iter()
            .find(|scope| scope.name() == name)
    }
}

impl fmt::Display for TokenScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The token of each scope.
pub(super) struct Tokens {
    /// Tokens in hex, in the order of [`TokenScope::ALL`].
    texts: [String; 3],
}

impl Tokens {
    /// Returns the tokens in this folder. Creates them if there are none, or on request.
    pub(super) fn of(folder: &Path, replace: bool) -> Result<Tokens, CliError> {
        let path = folder.join(FILE);
        let cannot = |what: &str, e: io::Error| {
            CliError::failed(format!("cannot {what} {}: {e}", path.display())).with_hint(
                "it holds the tokens of `rewake serve`, and its folder has to be writable",
            )
        };
        if !replace && let Some(text) = read(&path)? {
            return parse(&text).ok_or_else(|| unreadable(&path));
        }
        make_private_folder(folder)
            .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(0o700)))
            .map_err(|e| cannot("make the folder of", e))?;
        let made = Tokens::random().map_err(|e| cannot("make", e))?;
        made.write(&path, replace).map_err(|e| cannot("write", e))?;
        // If two servers start at the same time, the file contains the tokens of one of them.
        let text = read(&path)?.ok_or_else(|| unreadable(&path))?;
        parse(&text).ok_or_else(|| unreadable(&path))
    }

    fn random() -> io::Result<Tokens> {
        let mut source = File::open("/dev/urandom")?;
        let mut token = || -> io::Result<String> {
            let mut bytes = [0; TOKEN_BYTES];
            source.read_exact(&mut bytes)?;
            Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
        };
        Ok(Tokens {
            texts: [token()?, token()?, token()?],
        })
    }

    /// Writes the file atomically, never readable by others.
    fn write(&self, path: &Path, replaces: bool) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        for scope in TokenScope::ALL {
            writeln!(file, "{scope} {}", self.text(scope))?;
        }
        file.as_file().sync_all()?;
        match replaces {
            true => file.persist(path).map(drop).map_err(|e| e.error),
            false => match file.persist_noclobber(path) {
                Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                kept => kept.map(drop).map_err(|e| e.error),
            },
        }
    }

    pub(super) fn text(&self, scope: TokenScope) -> &str {
        &self.texts[scope as usize]
    }

    /// Returns the scope of this token. The comparison uses hashes, so its duration reveals
    /// nothing.
    pub(super) fn scope_of(&self, token: &str) -> Option<TokenScope> {
        let given = blake3::hash(token.trim().as_bytes());
        let mut found = None;
        for scope in TokenScope::ALL {
            // blake3::Hash compares in constant time.
            if blake3::hash(self.text(scope).as_bytes()) == given {
                found = Some(scope);
            }
        }
        found
    }
}

/// Reads the file. `None`: it does not exist yet.
fn read(path: &Path) -> Result<Option<String>, CliError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(unreadable(path)),
    };
    let is_private = found.is_file()
        && found.mode() & 0o077 == 0
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.len() <= MAX_FILE_BYTES;
    if !is_private {
        return Err(CliError::failed(format!(
            "{} is not a file that you alone can read",
            path.display()
        ))
        .with_hint("remove it: new tokens are made, and old links are no longer good"));
    }
    fs::read_to_string(path)
        .map(Some)
        .map_err(|_| unreadable(path))
}

fn parse(text: &str) -> Option<Tokens> {
    let of = |scope: TokenScope| {
        let token = text.lines().find_map(|line| {
            let (name, token) = line.split_once(' ')?;
            (name == scope.name()).then(|| token.trim().to_string())
        })?;
        let is_token =
            token.len() == 2 * TOKEN_BYTES && token.bytes().all(|b| b.is_ascii_hexdigit());
        is_token.then_some(token)
    };
    Some(Tokens {
        texts: [
            of(TokenScope::Read)?,
            of(TokenScope::Control)?,
            of(TokenScope::Admin)?,
        ],
    })
}

fn unreadable(path: &Path) -> CliError {
    CliError::failed(format!("cannot read the tokens in {}", path.display()))
        .with_hint("remove it: new tokens are made, and old links are no longer good")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_made_once_for_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let made = Tokens::of(dir.path(), false).unwrap();
        let again = Tokens::of(dir.path(), false).unwrap();
        assert_eq!(made.texts, again.texts);
        let mode = fs::metadata(dir.path().join(FILE)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        let other = Tokens::of(dir.path(), true).unwrap();
        assert_ne!(made.texts, other.texts);
        assert_eq!(Tokens::of(dir.path(), false).unwrap().texts, other.texts);
    }

    #[test]
    fn each_token_has_its_scope() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::of(dir.path(), false).unwrap();
        for scope in TokenScope::ALL {
            assert_eq!(tokens.scope_of(tokens.text(scope)), Some(scope));
        }
        for wrong in [
            "",
            "read",
            &tokens.text(TokenScope::Admin)[1..],
            &"0".repeat(64),
        ] {
            assert_eq!(tokens.scope_of(wrong), None, "{wrong:?}");
        }
        assert!(TokenScope::Admin > TokenScope::Control && TokenScope::Control > TokenScope::Read);
    }

    #[test]
    fn a_file_that_others_can_read_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        drop(Tokens::of(dir.path(), false).unwrap());
        let path = dir.path().join(FILE);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let trouble = Tokens::of(dir.path(), false).err().unwrap();
        assert!(trouble.message.contains("you alone"), "{}", trouble.message);
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "read x\n").unwrap();
        assert!(Tokens::of(dir.path(), false).is_err());
    }
}
