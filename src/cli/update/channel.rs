//! How the program was installed: the receipt of `install.sh`, and the command that updates it
//! otherwise.
//!
//! The names at registries are settings of the owner in Cargo.toml. A name that is not set appears
//! nowhere, because somebody else could register it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use semver::Version;
use serde::{Deserialize, Serialize};

use super::folder::{Folder, PROGRAM};
use super::release::built_in;
use crate::command::own_exe;
use crate::report::note;

const CARGO_TOML: &str = include_str!("../../../Cargo.toml");
/// File of the data folder.
const RECEIPT: &str = "install.json";
const MAX_RECEIPT_BYTES: u64 = 64 * 1024;
/// The channel of `install.sh`.
const SCRIPT: &str = "script";

/// The file of the installer: `{"channel":"script","path":"/home/ann/.local/bin/rewake","version":"0.1.0"}`.
#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    channel: String,
    path: PathBuf,
    version: String,
}

/// Returns the folder of the program that runs, if `install.sh` installed it.
pub fn installed(data_dir: &Path) -> Option<Folder> {
    let receipt = read(&data_dir.join(RECEIPT))?;
    let is_named = receipt.path.file_name().is_some_and(|name| name == PROGRAM);
    if !is_named || receipt.channel != SCRIPT {
        return None;
    }
    let running = own_exe().and_then(fs::metadata).ok()?;
    Folder::open(receipt.path.parent()?, &running)
}

/// Returns the receipt. One that cannot be read is none.
fn read(file: &Path) -> Option<Receipt> {
    let mut text = String::new();
    if !fs::symlink_metadata(file).ok()?.is_file() {
        return None;
    }
    File::open(file)
        .ok()?
        .take(MAX_RECEIPT_BYTES)
        .read_to_string(&mut text)
        .ok()?;
    serde_json::from_str(&text).ok()
}

/// Writes the receipt of a version. Without it the next update works, too: it has the version of the
/// program itself.
pub fn write_receipt(data_dir: &Path, folder: &Folder, version: &Version) {
    let receipt = Receipt {
        channel: SCRIPT.to_string(),
        path: folder.file(PROGRAM),
        version: version.to_string(),
    };
    let file = data_dir.join(RECEIPT);
    let write = || -> std::io::Result<()> {
        let mut beside = tempfile::NamedTempFile::new_in(data_dir)?;
        writeln!(beside, "{}", serde_json::to_string(&receipt)?)?;
        beside.as_file().sync_all()?;
        beside.persist(&file).map(drop).map_err(|e| e.error)
    };
    if let Err(error) = write() {
        note(&format!(
            "warning: cannot write {}: {error}",
            file.display()
        ));
    }
}

/// A name at a registry. `None`: the owner has set none.
fn setting(name: &str) -> Option<String> {
    let settings: toml::Table = CARGO_TOML.parse().ok()?;
    let channels = settings.get("package")?.get("metadata")?.get("channels")?;
    let value = channels.get(name)?.as_str()?;
    (!value.is_empty()).then(|| value.to_string())
}

/// Returns the command that updates a program that `install.sh` did not install, by its path.
pub fn command() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    command_for(&path, |file| Path::new(file).exists(), setting, built_in())
}

fn command_for(
    path: &Path,
    exists: impl Fn(&str) -> bool,
    setting: impl Fn(&str) -> Option<String>,
    releases: Option<String>,
) -> String {
    let has = |part: &str| path.components().any(|found| found.as_os_str() == part);
    let package = match () {
        () if !path.starts_with("/usr/bin") => None,
        () if exists("/etc/debian_version") => Some(("rewake_VERSION_ARCH.deb", "sudo dpkg -i")),
        () => Some(("rewake-VERSION-1.ARCH.rpm", "sudo rpm -U")),
    };
    let command = match () {
        () if has("node_modules") => setting("npm").map(|name| format!("npm i -g {name}@latest")),
        () if has("Cellar") => setting("tap").map(|tap| format!("brew upgrade {tap}/rewake")),
        () => None,
    };
    let package = package
        .zip(releases.as_ref())
        .map(|((file, command), releases)| {
            format!("download {file} from {releases}/latest, then: {command} FILE")
        });
    let script = releases.map(|base| format!("curl -fsSL {base}/latest/download/install.sh | sh"));
    let from_sources =
        || "in a clone of the new version: cargo install --path . --locked".to_string();
    command
        .or(package)
        .or_else(|| script.filter(|_| !has(".cargo")))
        .unwrap_or_else(from_sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_that_of_the_channel() {
        let named = |name: &str| Some(format!("the-{name}"));
        let of = |path: &str, releases: Option<&str>| {
            let exists = |file: &str| file == "/etc/debian_version";
            command_for(Path::new(path), exists, named, releases.map(String::from))
        };
        let releases = Some("https://r.example");
        for (path, command) in [
            (
                "/usr/lib/node_modules/x/bin/rewake",
                "npm i -g the-npm@latest",
            ),
            (
                "/opt/homebrew/Cellar/rewake/1/bin/rewake",
                "brew upgrade the-tap/rewake",
            ),
            (
                "/usr/bin/rewake",
                "download rewake_VERSION_ARCH.deb from https://r.example/latest, then: sudo dpkg -i FILE",
            ),
            (
                "/home/ann/bin/rewake",
                "curl -fsSL https://r.example/latest/download/install.sh | sh",
            ),
        ] {
            assert_eq!(of(path, releases), command);
        }
        let from_sources = "in a clone of the new version: cargo install --path . --locked";
        // A clone may be newer than the last release.
        assert_eq!(of("/home/ann/.cargo/bin/rewake", releases), from_sources);
        assert_eq!(of("/usr/bin/rewake", None), from_sources);
        assert_eq!(of("/home/ann/bin/rewake", None), from_sources);
        // A name that is not set appears nowhere.
        let unset = |path: &str| command_for(Path::new(path), |_| false, |_| None, None);
        for path in [
            "/x/node_modules/y",
            "/x/Cellar/y",
            "/x/.cargo/bin/y",
            "/usr/bin/rewake",
        ] {
            assert_eq!(unset(path), from_sources);
        }
    }
}
