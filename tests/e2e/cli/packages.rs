//! `.ci/package`: what it makes from the archives of a release, installed with the tools of each
//! channel. The program in the archives is a script.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::cli::LIMIT;
use crate::cli::mirror::{has, sha256, write_program};
use support::{Run, Terminal, run, skip_everywhere};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const BASE: &str = "https://releases.example/releases";
const TARGETS: [&str; 4] = [
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
];

/// It shows what reaches it.
const PROGRAM: &str = "#!/bin/sh
case $1 in
    exit) exit 7 ;;
    die) kill -KILL $$ ;;
    wait)
        for signal in INT TERM HUP QUIT; do
            trap \"echo got $signal; exit 3\" $signal
        done
        echo ready
        while :; do sleep 0.05; done
        ;;
    plain) echo ready; exec sleep 600 ;;
    count)
        trap 'count=$((count + 1)); echo got $count' INT
        echo ready
        while [ ! -e gate ]; do sleep 0.05; done
        echo \"in all $count\"
        ;;
    *) echo \"rewake VERSION $*\" ;;
esac
";

/// The project with settings of an owner, and the archives.
struct Project {
    folder: TempDir,
}

impl Project {
    fn new(settings: &[&str]) -> Project {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let project = Project {
            folder: tempfile::tempdir().unwrap(),
        };
        let root = project.folder.path();
        for folder in [".ci", "assets/packages", "src", "files"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in [
            ".ci/package",
            "install.sh",
            "README.md",
            "CHANGELOG.md",
            "LICENSE-MIT",
            "LICENSE-APACHE",
            "assets/packages/rewake.js",
            "assets/packages/rewake.rb",
        ] {
            fs::copy(own.join(file), root.join(file)).unwrap();
        }
        let mut cargo = fs::read_to_string(own.join("Cargo.toml")).unwrap();
        for setting in settings {
            let (name, value) = setting.split_once('=').unwrap();
            let before = format!("\n{name} = \"\"\n");
            assert_eq!(cargo.matches(&before).count(), 1, "{name}");
            cargo = cargo.replace(&before, &format!("\n{name} = \"{value}\"\n"));
        }
        fs::write(root.join("Cargo.toml"), cargo).unwrap();
        for target in TARGETS {
            project.pack(target);
        }
        project
    }

    fn files(&self) -> PathBuf {
        self.folder.path().join("files")
    }

    /// As `.ci/release` does it.
    fn pack(&self, target: &str) {
        let made = tempfile::tempdir().unwrap();
        let name = format!("rewake-{VERSION}-{target}");
        let folder = made.path().join(&name);
        fs::create_dir_all(folder.join("completions")).unwrap();
        write_program(&folder.join("rewake"), PROGRAM.replace("VERSION", VERSION));
        for shell in ["bash", "zsh", "fish"] {
            fs::write(folder.join(format!("completions/rewake.{shell}")), "# x\n").unwrap();
        }
        fs::write(
            folder.join("rewake.1"),
            ".TH rewake 1\n.SH NAME\nrewake \\- x\n",
        )
        .unwrap();
        for file in ["CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            fs::copy(self.folder.path().join(file), folder.join(file)).unwrap();
        }
        let mut tar = Command::new("tar");
        tar.arg("-czf")
            .arg(self.files().join(format!("{name}.tar.gz")));
        tar.arg("-C").arg(made.path()).arg(&name);
        assert!(tar.status().unwrap().success());
    }

    fn package(&self) -> Run {
        self.package_for(Some(BASE))
    }

    fn package_for(&self, address: Option<&str>) -> Run {
        let mut command = Command::new("bash");
        command
            .arg(self.folder.path().join(".ci/package"))
            .arg(self.files());
        command.env_remove("REWAKE_RELEASES").stdin(Stdio::null());
        command.envs(address.map(|address| ("REWAKE_RELEASES", address)));
        run(command, LIMIT)
    }

    fn names(&self) -> BTreeSet<String> {
        let files = fs::read_dir(self.files()).unwrap();
        files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

fn needs(tools: &[&str]) -> bool {
    let missing = tools.iter().find(|tool| !has(tool));
    if let Some(tool) = missing {
        skip_everywhere(tool);
    }
    missing.is_none()
}

/// `SHA256SUMS` lists every other file, and a channel without a name makes none.
#[test]
fn a_release_lists_all_of_its_files() {
    if !needs(&["bash", "tar", "gzip"]) {
        return;
    }
    let none = Project::new(&[]);
    none.package().expect(0);
    let names = none.names();
    let made = |end: &str| names.iter().any(|name| name.ends_with(end));
    assert!(!made(".deb") && !made(".tgz") && !made(".rb"), "{names:?}");

    let all = Project::new(&["npm=rewake-test", "npm_scope=@rewake-test", "tap=ann/tap"]);
    all.package().expect(0);
    // Again, over what the first run made.
    all.package().expect(0);
    let names = all.names();
    let sums = fs::read_to_string(all.files().join("SHA256SUMS")).unwrap();
    let mut listed = BTreeSet::from(["SHA256SUMS".to_string()]);
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        assert_eq!(
            sha256(&fs::read(all.files().join(name)).unwrap()),
            sum,
            "{name}"
        );
        listed.insert(name.to_string());
    }
    assert_eq!(listed, names);
    // A file with the archives of two versions would confuse every installer.
    let old = all
        .files()
        .join("rewake-0.0.1-x86_64-unknown-linux-musl.tar.gz");
    fs::write(&old, "").unwrap();
    let ran = all.package().expect(1);
    assert!(ran.stderr.contains("of another version"), "{}", ran.stderr);
    fs::remove_file(old).unwrap();
    assert!(names.contains("rewake.rb") && names.contains("install.sh"));
    for target in TARGETS {
        let folder = format!("rewake-{VERSION}-{target}");
        let name = format!("{folder}.tar.gz");
        let url = format!("{BASE}/download/v{VERSION}/{name}");
        assert!(listed.contains(name.as_str()), "{name}");
        let mut tar = Command::new("tar");
        tar.arg("-tzf").arg(all.files().join(&name));
        let entries = run(tar, LIMIT).expect(0).stdout;
        let program = format!("{folder}/rewake");
        assert!(entries.lines().any(|entry| entry == program), "{program}");
        // The formula has the checksum of the same archive.
        let sum = sha256(&fs::read(all.files().join(name)).unwrap());
        let formula = fs::read_to_string(all.files().join("rewake.rb")).unwrap();
        let at = formula.find(&format!("{url}\"")).unwrap();
        assert!(
            formula[at..].lines().nth(1).unwrap().contains(&sum),
            "{target}"
        );
    }
}

/// The installer that is made knows its address, and is otherwise the same.
#[test]
fn a_release_is_packed_only_with_an_address() {
    if !needs(&["bash", "tar", "gzip"]) {
        return;
    }
    let project = Project::new(&[]);
    let is_refused = |address: Option<&str>, why: &str| {
        let ran = project.package_for(address).expect(1);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
        assert!(!project.files().join("SHA256SUMS").exists());
    };
    if env!("CARGO_PKG_REPOSITORY").is_empty() {
        is_refused(None, "repository");
        is_refused(
            Some("https://x.example/'; rm -rf ~; '"),
            "must be http or https",
        );
    }
    project.package().expect(0);
    let made = fs::read_to_string(project.files().join("install.sh")).unwrap();
    let own = fs::read_to_string(project.folder.path().join("install.sh")).unwrap();
    let rest = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with("built_in="));
        lines.map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(rest(&made), rest(&own));
    assert!(made.contains("\nbuilt_in='https://"), "{made}");
    for target in TARGETS {
        let archive = format!("rewake-{VERSION}-{target}.tar.gz");
        fs::remove_file(project.files().join(archive)).unwrap();
    }
    let ran = project.package().expect(1);
    assert!(ran.stderr.contains("has no archive"), "{}", ran.stderr);
}

#[test]
fn a_formula_is_made_only_with_all_archives() {
    if !needs(&["bash", "tar", "gzip"]) {
        return;
    }
    let project = Project::new(&["tap=ann/tap"]);
    project.package().expect(0);
    if needs(&["ruby"]) {
        let mut ruby = Command::new("ruby");
        ruby.arg("-c").arg(project.files().join("rewake.rb"));
        run(ruby, LIMIT).expect(0);
    }
    let one = project
        .files()
        .join(format!("rewake-{VERSION}-{}.tar.gz", TARGETS[3]));
    fs::remove_file(one).unwrap();
    let ran = project.package().expect(0);
    assert!(ran.stderr.contains("all four archives"), "{}", ran.stderr);
    assert!(!project.names().contains("rewake.rb"));
}

#[test]
fn the_npm_package_forwards_signals_and_exit_codes() {
    if !needs(&["bash", "tar", "gzip", "npm", "node"]) || !cfg!(target_arch = "x86_64") {
        return;
    }
    let project = Project::new(&["npm=rewake-test", "npm_scope=@rewake-test"]);
    project.package().expect(0);
    let prefix = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let npm = |packages: &[String]| {
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            "--global",
            "--offline",
            "--no-audit",
            "--no-fund",
            "--prefix",
        ]);
        npm.arg(prefix.path()).env("HOME", home.path());
        for package in packages {
            npm.arg(project.files().join(package));
        }
        run(npm, LIMIT).expect(0);
    };
    let platform = if cfg!(target_os = "macos") {
        "darwin"
    } else {
        "linux"
    };
    let own = format!("rewake-test-rewake-{platform}-x64-{VERSION}.tgz");
    let launcher = format!("rewake-test-{VERSION}.tgz");
    // Without the package of this system, as with --omit=optional.
    npm(std::slice::from_ref(&launcher));
    let rewake = prefix.path().join("bin/rewake");
    let start = |args: &[&str]| {
        let mut command = Command::new(&rewake);
        command.args(args).stdin(Stdio::null());
        command
    };
    let ran = run(start(&[]), LIMIT).expect(1);
    assert!(ran.stderr.contains("hint: reinstall"), "{}", ran.stderr);
    npm(&[launcher, own]);
    let ran = run(start(&["a b", "$c"]), LIMIT).expect(0);
    assert_eq!(ran.stdout, format!("rewake {VERSION} a b $c\n"));
    run(start(&["exit"]), LIMIT).expect(7);
    assert_eq!(run(start(&["die"]), LIMIT).signal(), Some(9));
    let signalled = |word: &str, signal: Signal| {
        let mut command = start(&[word]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        (status, lines.next().map(Result::unwrap))
    };
    for (name, signal) in [
        ("INT", Signal::INT),
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
        ("QUIT", Signal::QUIT),
    ] {
        let (status, line) = signalled("wait", signal);
        assert_eq!(status.code(), Some(3), "{name}");
        assert_eq!(line, Some(format!("got {name}")));
        let (status, _) = signalled("plain", signal);
        assert_eq!(status.signal(), Some(signal.as_raw()), "{name}");
    }
    // Ctrl+C at a terminal reaches the program once.
    let folder = tempfile::tempdir().unwrap();
    let mut command = start(&["count"]);
    command.current_dir(folder.path());
    let mut terminal = Terminal::of(command);
    terminal.sees("ready");
    terminal.types("\x03");
    terminal.sees("got 1");
    fs::write(folder.path().join("gate"), "").unwrap();
    terminal.sees("in all 1");
    assert!(terminal.ends().success());
    // It runs nothing when it is installed.
    let manifest = prefix
        .path()
        .join("lib/node_modules/rewake-test/package.json");
    let manifest: serde_json::Value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
    assert!(manifest.get("scripts").is_none());
    assert_eq!(
        manifest["optionalDependencies"].as_object().unwrap().len(),
        4
    );
}

#[test]
fn the_debian_package_installs_and_uninstalls() {
    if !needs(&["bash", "tar", "gzip", "dpkg-deb", "dpkg"]) {
        return;
    }
    let project = Project::new(&["maintainer=Ann Example <ann@example.org>"]);
    project.package().expect(0);
    let package = project.files().join(format!("rewake_{VERSION}_amd64.deb"));
    let root = tempfile::tempdir().unwrap();
    let admin = root.path().join("admin");
    for folder in ["info", "updates", "triggers"] {
        fs::create_dir_all(admin.join(folder)).unwrap();
    }
    for file in ["status", "available"] {
        fs::write(admin.join(file), "").unwrap();
    }
    let dpkg = |act: &str, what: &Path| {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--instdir={}", root.path().display()))
            .arg(format!("--admindir={}", admin.display()))
            .args([
                "--force-not-root",
                "--force-architecture",
                "--force-bad-path",
            ])
            .args([act, what.to_str().unwrap()]);
        run(dpkg, LIMIT).expect(0);
    };
    dpkg("-i", &package);
    let usr = root.path().join("usr");
    for file in [
        "bin/rewake",
        "share/man/man1/rewake.1.gz",
        "share/doc/rewake/copyright",
        "share/bash-completion/completions/rewake",
        "share/zsh/vendor-completions/_rewake",
        "share/fish/vendor_completions.d/rewake.fish",
    ] {
        assert!(usr.join(file).exists(), "{file}");
    }
    dpkg("-r", Path::new("rewake"));
    assert!(!usr.join("bin/rewake").exists());
    assert!(!usr.join("share/doc/rewake").exists());
    if needs(&["lintian"]) {
        let mut lintian = Command::new("lintian");
        lintian
            .args(["--allow-root", "--fail-on", "error"])
            .arg(&package);
        let ran = run(lintian, LIMIT);
        assert!(ran.status.success(), "{}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn the_rpm_has_the_same_files() {
    if !needs(&["bash", "tar", "gzip", "cargo-generate-rpm", "rpm"]) {
        return;
    }
    let project = Project::new(&[]);
    fs::write(project.folder.path().join("src/lib.rs"), "").unwrap();
    fs::write(project.folder.path().join("src/main.rs"), "").unwrap();
    project.package().expect(0);
    let mut rpm = Command::new("rpm");
    let package = project
        .files()
        .join(format!("rewake-{VERSION}-1.x86_64.rpm"));
    rpm.args(["-qpl", "--nosignature"]).arg(package);
    let files = run(rpm, LIMIT).expect(0).stdout;
    for file in [
        "/usr/bin/rewake",
        "/usr/share/man/man1/rewake.1.gz",
        "/usr/share/bash-completion/completions/rewake",
        "/usr/share/zsh/site-functions/_rewake",
        "/usr/share/fish/vendor_completions.d/rewake.fish",
        "/usr/share/licenses/rewake/LICENSE-MIT",
    ] {
        assert!(files.lines().any(|line| line == file), "{file}: {files}");
    }
}
