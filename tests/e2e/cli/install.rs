//! `install.sh` and the scripts of a release, against a mirror on this machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use tempfile::TempDir;

use crate::cli::LIMIT;
use crate::cli::mirror::{ALL, Mirror, VERSION, has, name, target, write_program};
use support::{Run, run, skip_everywhere};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The home folder of a user who installs.
struct User {
    home: TempDir,
}

impl User {
    fn new() -> User {
        User {
            home: tempfile::tempdir().unwrap(),
        }
    }

    fn bin(&self) -> PathBuf {
        self.home.path().join(".local/bin")
    }

    /// A shell that runs a script, without a terminal.
    fn shell(&self, shell: &[&str], script: &Path, mirror: &Mirror) -> Command {
        let mut command = Command::new("setsid");
        command.arg("-w").args(shell).arg(script);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home.path())
            .env("REWAKE_RELEASES", &mirror.address)
            .stdin(Stdio::null());
        command
    }

    fn install(&self, mirror: &Mirror) -> Run {
        let mut command = self.shell(&["sh"], &root().join("install.sh"), mirror);
        command.arg("--yes");
        run(command, LIMIT)
    }

    /// Nothing is there: neither a program, nor a receipt, nor anything temporary.
    #[track_caller]
    fn has_nothing(&self, why: &Run) {
        let bin = fs::read_dir(self.bin()).map_or(0, Iterator::count);
        assert_eq!(bin, 0, "{} {}", why.stdout, why.stderr);
        assert!(!self.home.path().join(".local/share/rewake").exists());
    }
}

fn program() -> String {
    format!("#!/bin/sh\necho rewake {VERSION}\n")
}

fn can_install() -> bool {
    let can = has("tar") && has("gzip") && has("setsid") && (has("curl") || has("wget"));
    if !can {
        skip_everywhere("tar, gzip, setsid and curl or wget");
    }
    can
}

#[test]
fn one_command_installs_in_each_shell() {
    if !can_install() {
        return;
    }
    let mirror = Mirror::new(&program());
    for shell in [&["sh"][..], &["dash"], &["bash"], &["busybox", "sh"]] {
        if !has(shell[0]) {
            skip_everywhere(shell[0]);
            continue;
        }
        let user = User::new();
        // As `curl … | sh -s -- --yes`.
        let mut command = user.shell(shell, Path::new("-s"), &mirror);
        command.args(["--", "--yes"]);
        command.stdin(fs::File::open(root().join("install.sh")).unwrap());
        let ran = run(command, LIMIT).expect(0);
        assert!(ran.stdout.contains("is not on PATH"), "{}", ran.stdout);
        let placed = user.bin().join("rewake");
        assert_eq!(fs::read_to_string(&placed).unwrap(), program());
        assert_eq!(fs::read_dir(user.bin()).unwrap().count(), 1);
        let receipt = user.home.path().join(".local/share/rewake/install.json");
        let receipt: serde_json::Value =
            serde_json::from_slice(&fs::read(receipt).unwrap()).unwrap();
        assert_eq!(receipt["channel"], "script");
        assert_eq!(receipt["version"], VERSION);
        assert_eq!(receipt["path"], placed.to_str().unwrap());
        // No start-up file is made.
        assert_eq!(fs::read_dir(user.home.path()).unwrap().count(), 1);
        // Again, and a chosen version.
        let mut again = user.shell(shell, &root().join("install.sh"), &mirror);
        again.arg("--yes").env("REWAKE_VERSION", VERSION);
        run(again, LIMIT).expect(0);
    }
}

#[test]
fn a_download_that_is_cut_places_nothing() {
    if !can_install() {
        return;
    }
    let mirror = Mirror::new(&program());
    let length = fs::metadata(mirror.archive()).unwrap().len();
    for part in 0..10 {
        mirror.cut.store(length * part / 10, Ordering::Relaxed);
        let user = User::new();
        let ran = user.install(&mirror).expect(1);
        user.has_nothing(&ran);
    }
    // A part of the script itself does nothing.
    let script = fs::read_to_string(root().join("install.sh")).unwrap();
    let cut = tempfile::tempdir().unwrap();
    let whole = script.trim_end().len();
    for end in (0..whole).step_by(97).chain([whole - 1, whole - 5]) {
        let user = User::new();
        let path = cut.path().join("install.sh");
        fs::write(&path, &script[..end]).unwrap();
        mirror.cut.store(ALL, Ordering::Relaxed);
        let mut command = user.shell(&["sh"], &path, &mirror);
        command.arg("--yes");
        let ran = run(command, LIMIT);
        user.has_nothing(&ran);
    }
}

#[test]
fn what_is_not_the_release_is_refused() {
    if !can_install() {
        return;
    }
    let refused = |mirror: &Mirror, why: &str| {
        let user = User::new();
        let ran = user.install(mirror).expect(1);
        assert!(ran.stderr.contains(why), "{why}: {}", ran.stderr);
        user.has_nothing(&ran);
    };
    let mirror = Mirror::new(&program());
    let sums = fs::read_to_string(mirror.folder.path().join("latest/download/SHA256SUMS")).unwrap();
    let wrong = sums.replace(&sums[..8], "00000000");
    for (text, why) in [
        (wrong.as_str(), "does not match SHA256SUMS"),
        ("", "names no archive for"),
        ("<!DOCTYPE html><html></html>\n", "names no archive for"),
        (
            &sums.replace(&target(), "mips-unknown-linux"),
            "names no archive for",
        ),
        (&"x".repeat(3 << 20), "cannot download"),
    ] {
        mirror.write_sums(text);
        refused(&mirror, why);
    }
    mirror.pack(|folder| {
        fs::create_dir(folder.join(name())).unwrap();
        symlink("/bin/true", folder.join(name()).join("rewake")).unwrap();
    });
    refused(&mirror, "is not a file");
    mirror.pack(|folder| fs::create_dir(folder.join(name())).unwrap());
    refused(&mirror, "has no entry");
    refused(&Mirror::new("not a program"), "does not start");
    refused(&Mirror::new("#!/bin/sh\nexit 1\n"), "does not start");
    refused(
        &Mirror::new("#!/bin/sh\necho rewake 0.0.1\n"),
        "not version",
    );
    // The old program stays.
    let user = User::new();
    fs::create_dir_all(user.bin()).unwrap();
    write_program(&user.bin().join("rewake"), "old");
    user.install(&Mirror::new("not a program")).expect(1);
    assert_eq!(
        fs::read_to_string(user.bin().join("rewake")).unwrap(),
        "old"
    );
}

#[test]
fn an_address_from_elsewhere_needs_a_yes() {
    if !can_install() {
        return;
    }
    let mirror = Mirror::new(&program());
    let user = User::new();
    let script = root().join("install.sh");
    let ran = run(user.shell(&["sh"], &script, &mirror), LIMIT).expect(2);
    assert!(ran.stderr.contains(&mirror.address), "{}", ran.stderr);
    assert!(ran.stderr.contains("--yes"), "{}", ran.stderr);
    user.has_nothing(&ran);
    for address in [
        "http://example.com",
        "ftp://127.0.0.1",
        "http://localhost.example.com",
        "http://localhost:1@127.0.0.1:9",
        "https://example.com/\r\u{1b}[2K",
        "",
    ] {
        let mut command = user.shell(&["sh"], &script, &mirror);
        command.arg("--yes").env("REWAKE_RELEASES", address);
        let ran = run(command, LIMIT).expect(2);
        user.has_nothing(&ran);
    }
    let mut command = user.shell(&["sh"], &script, &mirror);
    command.arg("--no");
    run(command, LIMIT).expect(2);
}

#[test]
fn what_the_machine_lacks_is_named() {
    if !can_install() {
        return;
    }
    let mirror = Mirror::new(&program());
    let tools = tempfile::tempdir().unwrap();
    let all =
        "sh setsid uname mkdir mktemp rm sed head cut tar gzip grep chmod mv sync cat printf pwd";
    for tool in all.split(' ') {
        let mut which = Command::new("sh");
        which.args(["-c", &format!("command -v {tool}")]);
        let found = which.output().unwrap().stdout;
        let found = String::from_utf8(found).unwrap();
        if found.starts_with('/') {
            symlink(found.trim(), tools.path().join(tool)).unwrap();
        }
    }
    let with = |more: &[&str], user: &User| {
        for tool in more {
            let target = tools.path().join(tool);
            let which = Command::new("which").arg(tool).output().unwrap().stdout;
            let _ = fs::remove_file(&target);
            symlink(String::from_utf8(which).unwrap().trim(), target).unwrap();
        }
        let mut command = user.shell(&["sh"], &root().join("install.sh"), &mirror);
        command.arg("--yes").env("PATH", tools.path());
        run(command, LIMIT)
    };
    let user = User::new();
    let ran = with(&[], &user).expect(1);
    assert!(ran.stderr.contains("curl or wget"), "{}", ran.stderr);
    user.has_nothing(&ran);
    let download = if has("wget") { "wget" } else { "curl" };
    let ran = with(&[download], &user).expect(1);
    assert!(ran.stderr.contains("sha256sum or shasum"), "{}", ran.stderr);
    user.has_nothing(&ran);
    with(&["sha256sum"], &user).expect(0);
    // An unknown system, and a folder that cannot be written.
    write_program(&tools.path().join("uname2"), "#!/bin/sh\necho Plan9 mips\n");
    fs::remove_file(tools.path().join("uname")).unwrap();
    fs::rename(tools.path().join("uname2"), tools.path().join("uname")).unwrap();
    let user = User::new();
    let ran = with(&[], &user).expect(1);
    assert!(ran.stderr.contains("cargo install"), "{}", ran.stderr);
    user.has_nothing(&ran);
    let mut command = user.shell(&["sh"], &root().join("install.sh"), &mirror);
    command.arg("--yes").env("REWAKE_BIN_DIR", "/proc/self");
    let ran = run(command, LIMIT).expect(1);
    assert!(ran.stderr.contains("/proc/self"), "{}", ran.stderr);
}

#[test]
fn the_notes_of_a_release_need_a_tag_a_date_and_a_text() {
    let version = env!("CARGO_PKG_VERSION");
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".ci")).unwrap();
    let script = folder.path().join(".ci/notes");
    fs::copy(root().join(".ci/notes"), &script).unwrap();
    fs::copy(root().join("Cargo.toml"), folder.path().join("Cargo.toml")).unwrap();
    let notes = |changelog: &str, tag: &str| {
        fs::write(folder.path().join("CHANGELOG.md"), changelog).unwrap();
        let mut command = Command::new("bash");
        command.arg(&script).arg(tag).stdin(Stdio::null());
        run(command, LIMIT)
    };
    let tag = format!("v{version}");
    let dated = format!(
        "# Changelog\n\n## [{version}] - 2026-11-24\n\nText.\n\n### Part\n\n- one\n\n## [0.0.1] - 2026-01-01\n\n- old\n"
    );
    let printed = notes(&dated, &tag).expect(0).stdout;
    assert_eq!(printed.trim_end(), "Text.\n\n### Part\n\n- one");
    for (changelog, tag, why) in [
        (dated.as_str(), "v9.9.9", "the tag is v9.9.9"),
        (&dated, version, "the tag must be"),
        (
            &dated.replace(" - 2026-11-24", " - unreleased"),
            &tag,
            "has no date",
        ),
        (
            &dated.replace(&format!("[{version}]"), "[8.8.8]"),
            &tag,
            "has no section",
        ),
        (
            &dated.replace("Text.\n\n### Part\n\n- one\n", ""),
            &tag,
            "is empty",
        ),
        (
            &dated.replace("# Changelog\n", "# Changelog\n\n## [Unreleased]\n\n- new\n"),
            &tag,
            "[Unreleased]",
        ),
    ] {
        let refused = notes(changelog, tag).expect(1);
        assert!(refused.stderr.contains(why), "{why}: {}", refused.stderr);
        assert_eq!(refused.stdout, "");
    }
    // The changelog of this version can be released.
    let own = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    notes(&own, &tag).expect(0);
}

/// Names at registries are settings of the owner: a name that nobody registered can be taken by anybody.
#[test]
fn a_channel_without_a_name_is_not_promised() {
    let cargo: toml::Table =
        toml::from_str(&fs::read_to_string(root().join("Cargo.toml")).unwrap()).unwrap();
    let package = cargo["package"].as_table().unwrap();
    let channels = package["metadata"]["channels"].as_table().unwrap();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let promises = [("npm", "npm i"), ("tap", "brew install")];
    for (channel, command) in promises {
        let is_set = !channels[channel].as_str().unwrap().is_empty();
        assert_eq!(readme.contains(command), is_set, "{channel}");
    }
    let repository = package["repository"].as_str().unwrap();
    let first = readme
        .split("## Install")
        .nth(1)
        .unwrap()
        .lines()
        .skip_while(|line| *line != "```sh")
        .nth(1)
        .unwrap();
    match repository.is_empty() {
        true => assert_eq!(first, "cargo install --path . --locked"),
        false => assert!(
            first.starts_with("curl -fsSL ") && first.contains(repository),
            "{first}"
        ),
    }
    // The workflow publishes nothing without an address, and names each action by its hash.
    let workflow = fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    assert!(workflow.contains("grep -q '^repository = \"https://' Cargo.toml"));
    for line in workflow.lines().filter(|line| line.contains("uses: ")) {
        let hash = line.split('@').nth(1).unwrap().split(' ').next().unwrap();
        assert!(
            hash.len() == 40 && hash.bytes().all(|b| b.is_ascii_hexdigit()),
            "{line}"
        );
    }
    assert_eq!(workflow.matches("contents: write").count(), 1);
    assert!(
        workflow
            .split("  publish:")
            .next()
            .unwrap()
            .contains("contents: read")
    );
}

#[test]
fn all_scripts_pass_shellcheck() {
    if !has("shellcheck") {
        return skip_everywhere("shellcheck");
    }
    let mut scripts = vec![root().join("install.sh")];
    for folder in [".ci", ".github/action"] {
        let files = fs::read_dir(root().join(folder)).unwrap();
        scripts.extend(files.map(|file| file.unwrap().path()));
    }
    scripts.retain(|path| fs::read_to_string(path).is_ok_and(|text| text.starts_with("#!")));
    assert!(scripts.len() > 8, "{scripts:?}");
    let mut shellcheck = Command::new("shellcheck");
    shellcheck.args(scripts);
    let ran = run(shellcheck, LIMIT);
    assert!(ran.status.success(), "{}", ran.stdout);
}
