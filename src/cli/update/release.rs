//! The address of the releases, the list of their checksums, and downloads from there.
//!
//! Nothing secret is sent, so these requests follow redirects, which file servers use.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, StatusCode, Url};
use ring::digest::{Context, SHA256};
use semver::Version;

use crate::config::Env;
use crate::core::text::size_text;
use crate::net::address::is_loopback;
use crate::net::client::{Kind, build, builder, reason};
use crate::report::CliError;

/// Variable with another address of the releases.
pub const RELEASES: &str = "REWAKE_RELEASES";

const MAX_SUMS_BYTES: u64 = 1024 * 1024;
const MAX_ARCHIVE_BYTES: u64 = 200 * 1024 * 1024;
const MAX_REDIRECTS: usize = 5;
/// Time without a byte after which a server is taken for dead.
const MAX_SILENCE: Duration = Duration::from_secs(30);

/// Returns the platform in the names of the archives.
fn target() -> String {
    let system = match std::env::consts::OS {
        "macos" => "apple-darwin",
        // Static.
        "linux" => "unknown-linux-musl",
        other => other,
    };
    format!("{}-{system}", std::env::consts::ARCH)
}

/// The server of the releases.
#[derive(Debug, Clone)]
pub struct ReleaseServer {
    /// The address, without a slash at the end.
    pub base: String,
    /// The address is that of this build, and not from the environment.
    pub is_built_in: bool,
    /// Certificates (PEM) that are trusted besides those of the system.
    pub ca_file: Option<PathBuf>,
}

/// A version that a release has for this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    pub version: Version,
    /// The archive and its only folder, without `.tar.gz`.
    pub name: String,
    /// SHA-256 of the archive, in lower-case hex.
    sum: String,
}

/// Returns the built-in address, if this build has one.
pub fn built_in() -> Option<String> {
    let repository = env!("CARGO_PKG_REPOSITORY").trim_end_matches('/');
    (!repository.is_empty()).then(|| format!("{repository}/releases"))
}

impl ReleaseServer {
    /// Finds the address, in the environment or in this build.
    ///
    /// # Errors
    /// There is none, or it is neither https nor on this machine.
    pub fn find(env: &Env, ca_file: Option<PathBuf>) -> Result<ReleaseServer, CliError> {
        let named = env.var(RELEASES).filter(|named| !named.is_empty());
        let base = named.map(str::to_string).or_else(built_in).ok_or_else(|| {
            CliError::usage("this build has no release address")
                .with_hint(format!("name one: {RELEASES}=https://… rewake update"))
        })?;
        let base = base.trim_end_matches('/').to_string();
        // As in install.sh: no user name before the host, and nothing that a terminal obeys.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".:/_~%+-".contains(c);
        let url = Url::parse(&base)
            .ok()
            .filter(|_| base.chars().all(is_plain));
        match url {
            Some(url) if is_safe(&url) => Ok(ReleaseServer {
                is_built_in: built_in().is_some_and(|built_in| built_in == base),
                base,
                ca_file,
            }),
            _ if !base.chars().all(is_plain) => Err(CliError::usage(format!(
                "the release address {base:?} has a character that is not allowed"
            ))),
            _ => Err(CliError::usage(format!(
                "the release address {base:?} must be https, or http on this machine"
            ))),
        }
    }

    fn client(&self) -> Result<Client, CliError> {
        let kind = Url::parse(&self.base).map_or(Kind::Remote, |url| Kind::of(&url));
        let client = builder(kind, self.ca_file.as_deref()).and_then(|builder| {
            build(
                builder
                    .redirect(Policy::custom(follow))
                    .read_timeout(MAX_SILENCE),
            )
        });
        client.map_err(|e| CliError::failed(e.to_string()).with_any_hint(e.hint()))
    }

    /// Returns the newest release, or that of a version.
    ///
    /// # Errors
    /// The server cannot be reached, or has no archive for this machine.
    pub async fn release(&self, wanted: Option<&Version>) -> Result<Release, CliError> {
        let target = target();
        let url = match wanted {
            Some(version) => format!("{}/download/v{version}/SHA256SUMS", self.base),
            None => format!("{}/latest/download/SHA256SUMS", self.base),
        };
        let mut sums = Vec::new();
        self.download(&url, MAX_SUMS_BYTES, &mut sums, |e| {
            CliError::failed(e.to_string())
        })
        .await?;
        let sums = String::from_utf8_lossy(&sums);
        let releases = sums.lines().filter_map(|line| Release::read(line, &target));
        let release = match wanted {
            // A mirror may list several in one file.
            Some(wanted) => releases.max_by_key(|release| release.version == *wanted),
            None => releases.max_by(|one, other| one.version.cmp(&other.version)),
        };
        let release = release
            .ok_or_else(|| CliError::failed(format!("{url} names no archive for {target}")))?;
        match wanted {
            Some(wanted) if *wanted != release.version => Err(CliError::failed(format!(
                "{url} is for version {}, not {wanted}",
                release.version
            ))),
            _ => Ok(release),
        }
    }

    /// Downloads the archive of a release to a file, and compares its checksum. `unwritten` makes the
    /// error of a write that failed.
    ///
    /// # Errors
    /// It cannot be downloaded or written, or is another one.
    pub async fn archive(
        &self,
        release: &Release,
        file: &mut File,
        unwritten: impl Fn(io::Error) -> CliError,
    ) -> Result<(), CliError> {
        let url = format!(
            "{}/download/v{}/{}.tar.gz",
            self.base, release.version, release.name
        );
        let sum = self
            .download(&url, MAX_ARCHIVE_BYTES, file, unwritten)
            .await?;
        if sum != release.sum {
            return Err(CliError::failed(format!(
                "the checksum of {url} does not match SHA256SUMS"
            ))
            .with_hint("nothing was changed; try again"));
        }
        Ok(())
    }

    /// Downloads a file, and returns its SHA-256. `unwritten` makes the error of a write that failed.
    async fn download(
        &self,
        url: &str,
        max: u64,
        to: &mut impl Write,
        unwritten: impl Fn(io::Error) -> CliError,
    ) -> Result<String, CliError> {
        let unreachable = |why: String| {
            CliError::failed(format!("cannot download {url}: {why}")).with_hint(
                "check the address, the network and the proxy (HTTPS_PROXY), then try again",
            )
        };
        let client = self.client()?;
        let mut response = client
            .get(url)
            .send()
            .await
            .map_err(|e| unreachable(reason(e)))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Err(CliError::failed(format!("there is no {url}"))),
            status => return Err(unreachable(status.to_string())),
        }
        let mut context = Context::new(&SHA256);
        let mut length = 0;
        while let Some(chunk) = response.chunk().await.map_err(|e| unreachable(reason(e)))? {
            length += chunk.len() as u64;
            if length > max {
                return Err(CliError::failed(format!(
                    "{url} has more than {}",
                    size_text(max)
                )));
            }
            context.update(&chunk);
            to.write_all(&chunk).map_err(&unwritten)?;
        }
        let digest = context.finish();
        let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        Ok(hex.collect())
    }
}

impl Release {
    /// Reads a line of `SHA256SUMS`, if it is of the archive for this platform.
    fn read(line: &str, target: &str) -> Option<Release> {
        let (sum, name) = line.split_once([' '])?;
        let name = name.strip_prefix([' ', '*'])?.strip_suffix(".tar.gz")?;
        let version = name
            .strip_prefix("rewake-")?
            .strip_suffix(target)?
            .strip_suffix('-')?;
        let is_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        let is_sum = sum.len() == 64 && sum.chars().all(is_hex);
        let version = Version::parse(version).ok().filter(|_| is_sum)?;
        Some(Release {
            version,
            name: name.to_string(),
            sum: sum.to_string(),
        })
    }
}

fn is_safe(url: &Url) -> bool {
    let has_host = url.host_str().is_some_and(|host| !host.is_empty());
    has_host && (url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url)))
}

fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let was_https = attempt
        .previous()
        .first()
        .is_some_and(|url| url.scheme() == "https");
    let is_https = attempt.url().scheme() == "https";
    match () {
        () if attempt.previous().len() > MAX_REDIRECTS => attempt.error("too many redirects"),
        () if !is_https && (was_https || !is_safe(attempt.url())) => {
            attempt.error("a redirect leads to an address without TLS")
        }
        () => attempt.follow(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_this_platform_are_read() {
        let sum = "0123456789abcdef".repeat(4);
        let read = |name: &str| Release::read(&format!("{sum}  {name}"), "mips-linux");
        let release = read("rewake-1.2.3-mips-linux.tar.gz").unwrap();
        assert_eq!(release.version, Version::new(1, 2, 3));
        assert_eq!(release.name, "rewake-1.2.3-mips-linux");
        let candidate = read("rewake-1.2.3-rc.1-mips-linux.tar.gz").unwrap();
        assert_eq!(candidate.version.to_string(), "1.2.3-rc.1");
        for other in [
            "rewake-1.2.3-mips-linux.tar.xz",
            "rewake-1.2.3-arm-linux.tar.gz",
            "rewake-1.2-mips-linux.tar.gz",
            "rewake-../1.2.3-mips-linux.tar.gz",
            "install.sh",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
        let binary = format!("{sum} *rewake-1.2.3-mips-linux.tar.gz");
        assert!(Release::read(&binary, "mips-linux").is_some());
        for line in [
            format!("{}  rewake-1.2.3-mips-linux.tar.gz", &sum[1..]),
            format!("{}  rewake-1.2.3-mips-linux.tar.gz", sum.to_uppercase()),
            format!("{sum} rewake-1.2.3-mips-linux.tar.gz"),
        ] {
            assert_eq!(Release::read(&line, "mips-linux"), None, "{line}");
        }
    }
}
