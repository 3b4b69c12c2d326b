//! Installing a version: download, try, place; and going back to the old one.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use semver::Version;
use tokio::io::AsyncReadExt;

use super::archive::unpack;
use super::failed_at;
use super::folder::{Folder, NEW, reached};
use super::release::{Release, ReleaseServer};
use crate::core::text::one_line;
use crate::core::visible::visible;
use crate::report::CliError;

/// Time within which a program must print its version.
const STARTS_WITHIN: Duration = Duration::from_secs(5);

/// Maximum size of the version that a program prints.
const MAX_VERSION_BYTES: u64 = 1024;

/// Maximum length of foreign text in an error, in characters.
const MAX_QUOTED: usize = 80;

/// Starts a program with `--version`, and returns the version that it prints.
///
/// # Errors
/// It does not start, does not end in time, or is another program.
async fn version_of(program: &Path) -> Result<Version, CliError> {
    let started = async {
        let mut child = tokio::process::Command::from(crate::sandbox::child(program))
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let mut text = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout
                .take(MAX_VERSION_BYTES)
                .read_to_end(&mut text)
                .await?;
        }
        Ok::<_, std::io::Error>((child.wait().await?, text))
    };
    let wrong = |why: String| {
        CliError::failed(format!(
            "{} does not start on this machine: {why}",
            program.display()
        ))
    };
    let (status, text) = match tokio::time::timeout(STARTS_WITHIN, started).await {
        Ok(ended) => ended.map_err(|e| wrong(e.to_string()))?,
        Err(_) => return Err(wrong(format!("no answer in {STARTS_WITHIN:?}"))),
    };
    if !status.success() {
        return Err(wrong(status.to_string()));
    }
    let text = String::from_utf8_lossy(&text);
    let said = text.strip_prefix("rewake ").and_then(|rest| {
        let version = rest.split([' ', '\n']).next()?;
        Version::parse(version).ok()
    });
    said.ok_or_else(|| {
        let text = one_line(&visible(&text), MAX_QUOTED);
        CliError::failed(format!(
            "{} is another program: it prints {text:?}",
            program.display()
        ))
    })
}

/// Locks updates of this user until the file is closed.
///
/// # Errors
/// Another process has the lock, or the file cannot be opened.
pub fn lock(data_dir: &Path) -> Result<File, CliError> {
    let path = data_dir.join("update.lock");
    let mut options = File::options();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
    let mut file = options
        .custom_flags(flags.bits() as i32)
        .open(&path)
        .map_err(|e| failed_at(&path, e))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = (&file).take(20).read_to_string(&mut pid);
            return Err(CliError::failed(format!(
                "another update is in progress, in process {}",
                visible(pid.trim())
            )));
        }
        Err(TryLockError::Error(e)) => return Err(failed_at(&path, e)),
    }
    // The number is only for the message.
    let _ = file
        .set_len(0)
        .and_then(|()| write!(file, "{}", std::process::id()));
    Ok(file)
}

/// Downloads the program of a release, tries it, and replaces the installed one.
///
/// # Errors
/// A step failed. The current program stays in place.
pub async fn install(
    server: &ReleaseServer,
    release: &Release,
    folder: &Folder,
) -> Result<(), CliError> {
    folder.clean()?;
    let done = install_in(server, release, folder).await;
    if done.is_err() {
        let _ = folder.clean();
    }
    done
}

async fn install_in(
    server: &ReleaseServer,
    release: &Release,
    folder: &Folder,
) -> Result<(), CliError> {
    let mut archive = folder.anonymous()?;
    server
        .archive(release, &mut archive, |e| folder.failed("write to", "", e))
        .await?;
    reached("downloaded");
    let mut new = folder.create_new()?;
    unpack(&mut archive, &release.name, &mut new, |e| {
        folder.failed("write", NEW, e)
    })?;
    new.sync_all()
        .map_err(|e| failed_at(&folder.file(NEW), e))?;
    reached("unpacked");
    // A program that is open for writing does not start.
    drop(new);
    expect(&folder.file(NEW), &release.version).await?;
    reached("tried");
    folder.place()
}

/// Exchanges the program and the one before it. Returns the version that is in place then.
///
/// # Errors
/// The old program is missing or does not start. The current program stays in place.
pub async fn undo(folder: &Folder) -> Result<Version, CliError> {
    folder.clean()?;
    folder.take_old()?;
    let done = version_of(&folder.file(NEW)).await;
    let done = done.and_then(|version| folder.place().map(|()| version));
    if done.is_err() {
        let _ = folder.clean();
    }
    done
}

async fn expect(program: &Path, version: &Version) -> Result<(), CliError> {
    match version_of(program).await? {
        found if found == *version => Ok(()),
        found => Err(CliError::failed(format!(
            "the program of the archive is version {found}, not {version}"
        ))),
    }
}
