//! `rewake update`, with the real binary in a folder as `install.sh` places it, and a mirror on this
//! machine. The new versions are scripts that print their version.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::geteuid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::mirror::{Mirror, VERSION, copy_program, has, name, sha256, write_program};
use crate::cli::served::until;
use crate::cli::{LIMIT, SCRIPTED, bash, play, step};
use support::{Home, Run, Terminal, run, skip, skip_everywhere};

const OWN: &str = env!("CARGO_PKG_VERSION");
const OLDER: &str = "0.0.9";

fn says(version: &str) -> String {
    format!("#!/bin/sh\necho rewake {version}\n")
}

/// A person with an installed program.
struct Installed {
    home: Home,
    /// On the file system of the built program, so that it is linked and not copied.
    bin: TempDir,
}

impl Installed {
    fn new() -> Installed {
        let installed = Installed {
            home: Home::new(),
            bin: TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
        };
        installed.place();
        installed.write_receipt(&installed.program());
        installed
    }

    fn program(&self) -> PathBuf {
        self.bin.path().join("rewake")
    }

    fn old(&self) -> PathBuf {
        self.bin.path().join("rewake.old")
    }

    /// Installs this version, as if the installer had done so again.
    fn place(&self) {
        let _ = fs::remove_file(self.program());
        place(&self.program());
    }

    fn write_receipt(&self, path: &Path) {
        let receipt = json!({"channel": "script", "path": path, "version": OWN});
        fs::write(self.receipt(), receipt.to_string()).unwrap();
    }

    fn receipt(&self) -> PathBuf {
        self.home.rewake_home().join("install.json")
    }

    fn receipt_version(&self) -> Value {
        let receipt: Value = serde_json::from_slice(&fs::read(self.receipt()).unwrap()).unwrap();
        assert_eq!(receipt["path"], self.program().to_str().unwrap());
        receipt["version"].clone()
    }

    fn command(&self, mirror: &Mirror, args: &[&str]) -> Command {
        let mut command = Command::new(self.program());
        command
            .arg("update")
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home.user())
            .env("REWAKE_HOME", self.home.rewake_home())
            .env("REWAKE_RELEASES", &mirror.address)
            .current_dir(self.home.workspace());
        command
    }

    fn update(&self, mirror: &Mirror, args: &[&str]) -> Run {
        run(self.command(mirror, args), LIMIT)
    }

    /// The version that the program and the old one print.
    fn versions(&self) -> (String, Option<String>) {
        let of = |program: PathBuf| {
            let mut command = Command::new(program);
            command.arg("--version");
            let text = run(command, LIMIT).expect(0).stdout;
            let version = text.trim().strip_prefix("rewake ").unwrap();
            version.split(' ').next().unwrap().to_string()
        };
        let old = self.old().exists().then(|| of(self.old()));
        (of(self.program()), old)
    }

    #[track_caller]
    fn has(&self, program: &str, old: Option<&str>) {
        assert_eq!(
            self.versions(),
            (program.to_string(), old.map(str::to_string))
        );
        let names = fs::read_dir(self.bin.path()).unwrap();
        let mut names: Vec<_> = names.map(|file| file.unwrap().file_name()).collect();
        names.sort();
        let count = 1 + usize::from(old.is_some());
        assert_eq!(names.len(), count, "{names:?}");
    }

    #[track_caller]
    fn refused(&self, mirror: &Mirror, args: &[&str], code: i32, why: &str) -> Run {
        let ran = self.update(mirror, args).expect(code);
        assert!(ran.stderr.contains(why), "{why}: {}", ran.stderr);
        self.has(OWN, None);
        ran
    }
}

fn place(at: &Path) {
    let built = Path::new(env!("CARGO_BIN_EXE_rewake"));
    if fs::hard_link(built, at).is_err() {
        // In a process apart: no program that a test beside starts may have the copy open.
        let copied = Command::new("cp").args([built, at]).status().unwrap();
        assert!(copied.success());
    }
}

fn can_pack() -> bool {
    let can = has("tar") && has("gzip");
    if !can {
        skip("tar and gzip");
    }
    can
}

#[test]
fn an_update_keeps_the_old_program_and_can_be_undone() {
    if !can_pack() {
        return;
    }
    let mirror = Mirror::new(&says(VERSION));
    let user = Installed::new();
    let ran = user.update(&mirror, &["--check"]).expect(0);
    assert!(
        ran.stdout.contains(&format!("installed: {OWN}")),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains(&format!("newest:    {VERSION}")),
        "{}",
        ran.stdout
    );
    user.has(OWN, None);
    let mode = fs::metadata(user.program()).unwrap().mode() & 0o777;
    let ran = user.update(&mirror, &["--yes"]).expect(0);
    assert!(
        ran.stdout
            .contains(&format!("updated rewake {OWN} to {VERSION}")),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("--undo"), "{}", ran.stdout);
    user.has(VERSION, Some(OWN));
    assert_eq!(fs::metadata(user.program()).unwrap().mode() & 0o777, mode);
    assert_eq!(user.receipt_version(), VERSION);
    // Again, over a program that is old already.
    user.place();
    user.update(&mirror, &["--yes"]).expect(0);
    user.has(VERSION, Some(OWN));
    // An older version, and back.
    user.place();
    mirror.add(OLDER, &says(OLDER));
    let ran = user.update(&mirror, &["--to", OLDER]).expect(2);
    assert!(ran.stderr.contains("names the address"), "{}", ran.stderr);
    let ran = user.update(&mirror, &["--to", OLDER, "--yes"]).expect(0);
    assert!(ran.stderr.contains("is older than"), "{}", ran.stderr);
    user.has(OLDER, Some(OWN));
    user.place();
    user.update(&mirror, &["--to", &format!("v{VERSION}"), "--yes"])
        .expect(0);
    user.has(VERSION, Some(OWN));
}

#[test]
fn undo_exchanges_both_programs_and_undo_again_exchanges_them_back() {
    let mirror = Mirror::new(&says(VERSION));
    for without_links in [false, true] {
        let user = Installed::new();
        let undo = |version: &str| {
            let mut command = user.command(&mirror, &["--undo"]);
            if without_links {
                command.env("REWAKE_TEST_UPDATE_LINKS", "none");
            }
            let ran = run(command, LIMIT).expect(0);
            assert!(
                ran.stdout.contains(&format!("is version {version} now")),
                "{}",
                ran.stdout
            );
            assert_eq!(user.receipt_version(), version);
        };
        let ran = user.update(&mirror, &["--undo"]).expect(1);
        assert!(ran.stderr.contains("rewake.old"), "{}", ran.stderr);
        // Both are this version, of two files.
        copy_program(&user.program(), &user.old());
        let file = |path: PathBuf| fs::metadata(path).unwrap().ino();
        // Its number is not given again while it is open.
        let _first = fs::File::open(user.program()).unwrap();
        let (program, old) = (file(user.program()), file(user.old()));
        undo(OWN);
        assert!(without_links || file(user.program()) == old);
        undo(OWN);
        // Without links it is a copy of the first one.
        assert_eq!(file(user.program()) == program, !without_links);
        user.has(OWN, Some(OWN));
        write_program(&user.old(), says(OLDER));
        undo(OLDER);
        user.has(OLDER, Some(OWN));
        // An old program that does not start stays the old one.
        user.place();
        write_program(&user.old(), "not a program");
        let ran = user.update(&mirror, &["--undo"]).expect(1);
        assert!(ran.stderr.contains("does not start"), "{}", ran.stderr);
        assert_eq!(fs::read_to_string(user.old()).unwrap(), "not a program");
        // The old program goes back to itself, also if the new one cannot.
        fs::remove_file(user.old()).unwrap();
        fs::rename(user.program(), user.old()).unwrap();
        write_program(&user.program(), "#!/bin/sh\nexit 1\n");
        let of_old = |args: &[&str]| {
            let mut command = user.command(&mirror, args);
            let mut old = Command::new(user.old());
            old.args(command.get_args())
                .current_dir(user.home.workspace())
                .env_clear();
            old.envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
            command = old;
            run(command, LIMIT)
        };
        let ran = of_old(&["--yes"]).expect(1);
        assert!(ran.stderr.contains("this is rewake.old"), "{}", ran.stderr);
        of_old(&["--undo"]).expect(0);
        assert_eq!(
            fs::read_to_string(user.old()).unwrap(),
            "#!/bin/sh\nexit 1\n"
        );
        // Nothing is exchanged with itself.
        fs::remove_file(user.old()).unwrap();
        fs::hard_link(user.program(), user.old()).unwrap();
        let ran = user.update(&mirror, &["--undo"]).expect(1);
        assert!(
            ran.stderr.contains("are the same program"),
            "{}",
            ran.stderr
        );
        // Nor is a link followed.
        fs::remove_file(user.old()).unwrap();
        symlink("/bin/true", user.old()).unwrap();
        user.update(&mirror, &["--undo"]).expect(1);
    }
}

#[test]
fn without_hard_links_the_old_program_is_a_copy() {
    if !can_pack() {
        return;
    }
    let mirror = Mirror::new(&says(VERSION));
    let user = Installed::new();
    let before = fs::metadata(user.program()).unwrap();
    let mut command = user.command(&mirror, &["--yes"]);
    command.env("REWAKE_TEST_UPDATE_LINKS", "none");
    run(command, LIMIT).expect(0);
    user.has(VERSION, Some(OWN));
    let old = fs::metadata(user.old()).unwrap();
    assert_eq!((old.len(), old.mode()), (before.len(), before.mode()));
    assert_ne!(old.ino(), before.ino());
}

#[test]
fn a_newest_version_that_is_older_installs_nothing() {
    if !can_pack() {
        return;
    }
    let mirror = Mirror::new(&says(VERSION));
    mirror.add(OLDER, &says(OLDER));
    mirror.add(OWN, &says(OWN));
    let user = Installed::new();
    for version in [OLDER, OWN] {
        let folder = mirror.folder.path();
        let sums = fs::read_to_string(folder.join(format!("download/v{version}/SHA256SUMS")));
        fs::write(folder.join("latest/download/SHA256SUMS"), sums.unwrap()).unwrap();
        for args in [&["--yes"][..], &["--check"]] {
            let ran = user.update(&mirror, args).expect(0);
            assert!(ran.stdout.contains("up to date"), "{}", ran.stdout);
        }
    }
    let ran = user.update(&mirror, &["--to", OWN, "--yes"]).expect(0);
    assert!(ran.stdout.contains("installed already"), "{}", ran.stdout);
    user.has(OWN, None);
    // A mirror that lists several versions in each file.
    let sums = |version: &str| {
        let file = format!("download/v{version}/SHA256SUMS");
        fs::read_to_string(mirror.folder.path().join(file)).unwrap()
    };
    mirror.write_sums(&format!("{}{}{}", sums(OLDER), sums(VERSION), sums(OWN)));
    let ran = user.update(&mirror, &["--check"]).expect(0);
    assert!(ran.stdout.contains(VERSION), "{}", ran.stdout);
    user.update(&mirror, &["--to", VERSION, "--yes"]).expect(0);
    user.has(VERSION, Some(OWN));
}

#[test]
fn a_release_that_is_wrong_changes_nothing() {
    if !can_pack() {
        return;
    }
    let user = Installed::new();
    let yes = &["--yes"][..];
    let mirror = Mirror::new(&says(VERSION));
    let latest = mirror.folder.path().join("latest/download/SHA256SUMS");
    let sums = fs::read_to_string(&latest).unwrap();
    for (text, why) in [
        (
            sums.replace(&sums[..8], "00000000"),
            "does not match SHA256SUMS",
        ),
        (String::new(), "SHA256SUMS names no archive for"),
        (
            "<!DOCTYPE html><html></html>\n".to_string(),
            "names no archive for",
        ),
        (
            sums.replace("linux", "plan9").replace("apple", "plan9"),
            "names no archive for",
        ),
        (sums[1..].to_string(), "names no archive for"),
        ("x".repeat(3 << 20), "SHA256SUMS has more than 1 MiB"),
    ] {
        mirror.write_sums(&text);
        user.refused(&mirror, yes, 1, why);
    }
    mirror.write_sums(&sums);
    let length = fs::metadata(mirror.archive()).unwrap().len();
    for part in 0..10 {
        mirror.cut.store(length * part / 10, Ordering::Relaxed);
        user.refused(&mirror, yes, 1, "cannot download");
    }
    mirror.cut.store(u64::MAX, Ordering::Relaxed);
    // A cut archive with its own checksum.
    let whole = fs::read(mirror.archive()).unwrap();
    for length in [0, 1, whole.len() / 2, whole.len() - 9] {
        fs::write(mirror.archive(), &whole[..length]).unwrap();
        let sum = sha256(&whole[..length]);
        mirror.write_sums(&format!("{sum}  {}.tar.gz\n", name()));
        user.refused(&mirror, yes, 1, ".tar.gz: ");
    }
    let packs = |make: &dyn Fn(&Path), why: &str| {
        mirror.pack(|folder| {
            fs::create_dir(folder.join(name())).unwrap();
            make(&folder.join(name()));
        });
        user.refused(&mirror, yes, 1, why);
    };
    packs(&|_| {}, "there is no entry");
    packs(
        &|folder| symlink("/bin/true", folder.join("rewake")).unwrap(),
        "is not a file or folder inside",
    );
    packs(
        &|folder| {
            write_program(&folder.join("rewake"), says(VERSION));
            symlink("/etc/passwd", folder.join("notes")).unwrap();
        },
        "is not a file or folder inside",
    );
    packs(
        &|folder| {
            write_program(&folder.join("docs"), says(VERSION));
            fs::hard_link(folder.join("docs"), folder.join("rewake")).unwrap();
        },
        "is not a file or folder inside",
    );
    packs(
        &|folder| fs::create_dir(folder.join("rewake")).unwrap(),
        "must occur once",
    );
    // Compressed zeros in it, more than any program has.
    packs(
        &|folder| {
            write_program(&folder.join("rewake"), says(VERSION));
            let zeros = fs::File::create(folder.join("zeros")).unwrap();
            zeros.set_len(500 << 20).unwrap();
        },
        ".tar.gz: ",
    );
    for (program, why) in [
        ("not a program".to_string(), "does not start"),
        ("#!/bin/sh\nexit 3\n".to_string(), "exit status: 3"),
        ("#!/bin/sh\nexec sleep 60\n".to_string(), "no answer in 5s"),
        ("#!/bin/sh\necho other 1\n".to_string(), "another program"),
        // It is stopped when it prints more than any version.
        ("#!/bin/sh\nexec yes\n".to_string(), "does not start"),
        (says("9.9.8"), "is version 9.9.8, not 9.9.9"),
        ("\x7fELF\x02\x01\x01".to_string(), "does not start"),
    ] {
        packs(
            &|folder| write_program(&folder.join("rewake"), &program),
            why,
        );
    }
    user.refused(
        &mirror,
        &["--to", "99.9.9", "--yes"],
        1,
        "v99.9.9/SHA256SUMS",
    );
    user.refused(
        &mirror,
        &["--to", "x", "--yes"],
        2,
        "a version is like 0.1.0",
    );
    user.refused(
        &mirror,
        &["--to", "../../x", "--yes"],
        2,
        "a version is like 0.1.0",
    );
    assert_eq!(user.receipt_version(), OWN);
}

/// An entry with `..` as `tar` writes it only when it is told to.
#[test]
fn an_entry_that_leads_outside_is_refused() {
    if !can_pack() || !cfg!(target_os = "linux") {
        return;
    }
    let mirror = Mirror::new(&says(VERSION));
    let user = Installed::new();
    for transform in [
        "s,/notes$,/../../notes,",
        "s,.*notes$,/notes,",
        "s,.*notes$,notes,",
    ] {
        let made = TempDir::new().unwrap();
        let folder = made.path().join(name());
        fs::create_dir(&folder).unwrap();
        write_program(&folder.join("rewake"), says(VERSION));
        fs::write(folder.join("notes"), "x").unwrap();
        let mut tar = Command::new("tar");
        tar.args(["-P", "-czf"]).arg(mirror.archive());
        tar.args(["--transform", transform, "-C"])
            .arg(made.path())
            .arg(name());
        assert!(tar.status().unwrap().success());
        let sum = sha256(&fs::read(mirror.archive()).unwrap());
        mirror.write_sums(&format!("{sum}  {}.tar.gz\n", name()));
        user.refused(&mirror, &["--yes"], 1, "is not a file or folder inside");
    }
}

#[test]
fn another_address_needs_a_yes_and_must_be_safe() {
    let mirror = Mirror::new(&says(VERSION));
    let user = Installed::new();
    user.refused(&mirror, &[], 2, &mirror.address);
    for address in [
        "http://example.com",
        "ftp://127.0.0.1",
        "https://ann@example.com",
        "https://example.com/\u{1b}[2K",
        "https://",
        "x",
    ] {
        let mut command = user.command(&mirror, &["--yes"]);
        command.env("REWAKE_RELEASES", address);
        let ran = run(command, LIMIT).expect(2);
        assert!(ran.stderr.contains("the release address"), "{}", ran.stderr);
        assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
    }
    user.refused(
        &mirror,
        &["--check", "--to", "1.0.0"],
        2,
        "cannot be used with",
    );
    user.update(&mirror, &["--check"]).expect(0);
    user.has(OWN, None);
    // This build has no address.
    if env!("CARGO_PKG_REPOSITORY").is_empty() {
        let mut command = user.command(&mirror, &["--yes"]);
        command.env_remove("REWAKE_RELEASES");
        let ran = run(command, LIMIT).expect(2);
        assert!(
            ran.stderr.contains("this build has no release address"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn a_program_from_another_channel_is_not_replaced() {
    let mirror = Mirror::new(&says(VERSION));
    let user = Installed::new();
    let elsewhere = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    copy_program(&user.program(), &elsewhere.path().join("rewake"));
    let is_refused = || {
        let ran = user.refused(
            &mirror,
            &["--yes"],
            1,
            "install.sh did not install this program",
        );
        assert!(ran.stderr.contains("cargo install"), "{}", ran.stderr);
        user.refused(
            &mirror,
            &["--undo"],
            1,
            "install.sh did not install this program",
        );
        let ran = user.update(&mirror, &["--check"]).expect(0);
        assert!(
            ran.stdout.contains("to update: in a clone"),
            "{}",
            ran.stdout
        );
    };
    user.write_receipt(&elsewhere.path().join("rewake"));
    is_refused();
    user.write_receipt(&user.bin.path().join("other"));
    is_refused();
    for text in [
        "",
        "{}",
        "[1",
        "{\"channel\":\"brew\",\"path\":\"/x/rewake\",\"version\":\"1\"}",
    ] {
        fs::write(user.receipt(), text).unwrap();
        is_refused();
    }
    fs::remove_file(user.receipt()).unwrap();
    is_refused();
    // A link that has the name is not replaced either.
    let linked = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    symlink(user.program(), linked.path().join("rewake")).unwrap();
    user.write_receipt(&linked.path().join("rewake"));
    is_refused();
}

#[test]
fn a_command_of_an_agent_cannot_update() {
    let mirror = Mirror::new(&says(VERSION));
    let user = Installed::new();
    let mut command = user.command(&mirror, &["--yes"]);
    command.env("REWAKE_RUN", "1");
    run(command, LIMIT).expect(2);
    user.has(OWN, None);
}

#[test]
fn a_second_update_says_who_has_the_lock() {
    let mirror = Mirror::new(&says(VERSION));
    let user = Installed::new();
    let lock = user.home.rewake_home().join("update.lock");
    fs::write(&lock, "4242").unwrap();
    let held = fs::File::open(&lock).unwrap();
    held.lock().unwrap();
    user.refused(&mirror, &["--yes"], 1, "in process 4242");
    drop(held);
    // Another data folder may have a receipt of the same program.
    let folder = fs::File::open(user.bin.path()).unwrap();
    folder.lock().unwrap();
    user.refused(&mirror, &["--yes"], 1, "another update of");
    user.refused(&mirror, &["--undo"], 1, "another update of");
    drop(folder);
    // Nor is a link followed.
    fs::remove_file(&lock).unwrap();
    let other = user.home.path("other");
    fs::write(&other, "kept").unwrap();
    symlink(&other, &lock).unwrap();
    user.refused(&mirror, &["--yes"], 1, "update.lock");
    assert_eq!(fs::read_to_string(other).unwrap(), "kept");
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    if !can_pack() {
        return;
    }
    let mirror = Mirror::new(&says(VERSION));
    let user = Installed::new();
    // Root may write everywhere, but not over a folder.
    fs::create_dir(user.old()).unwrap();
    let ran = user.update(&mirror, &["--yes"]).expect(1);
    assert!(
        ran.stderr.contains(user.old().to_str().unwrap()),
        "{}",
        ran.stderr
    );
    fs::remove_dir(user.old()).unwrap();
    user.has(OWN, None);
    if geteuid().is_root() {
        return skip_everywhere("a user who is not root");
    }
    let writable = fs::metadata(user.bin.path()).unwrap().permissions();
    fs::set_permissions(user.bin.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let ran = user.update(&mirror, &["--yes"]).expect(1);
    assert!(
        ran.stderr.contains(user.bin.path().to_str().unwrap()),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("REWAKE_BIN_DIR"), "{}", ran.stderr);
    fs::set_permissions(user.bin.path(), writable).unwrap();
    user.has(OWN, None);
}

/// A small file system, as long as it lives.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path, bytes: u64) -> Option<SmallDisk> {
        let mut mount = Command::new("mount");
        mount.args([
            "-t",
            "tmpfs",
            "-o",
            &format!("size={bytes},mode=0700"),
            "tmpfs",
        ]);
        let done = mount.arg(at).output();
        let is_done = done.is_ok_and(|out| out.status.success());
        is_done.then(|| SmallDisk(at.to_path_buf()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_leaves_the_program() {
    if !can_pack() {
        return;
    }
    // It is large, and no compression makes it small.
    let mut noise = says(VERSION).into_bytes();
    noise.extend_from_slice(b"exit\n");
    let mut random = fs::File::open("/dev/urandom").unwrap();
    std::io::copy(&mut std::io::Read::take(&mut random, 3 << 20), &mut noise).unwrap();
    let mirror = Mirror::new("");
    mirror.pack(|folder| {
        fs::create_dir(folder.join(name())).unwrap();
        write_program(&folder.join(name()).join("rewake"), &noise);
    });
    let size = fs::metadata(env!("CARGO_BIN_EXE_rewake")).unwrap().len();
    // Full while the archive is written, and while it is unpacked.
    for room in [1 << 20, 5 << 20] {
        let user = Installed::new();
        let Some(_disk) = SmallDisk::mount(user.bin.path(), size + room) else {
            return skip_everywhere("a small file system, which root can mount");
        };
        user.place();
        let ran = user.update(&mirror, &["--yes"]).expect(1);
        assert!(ran.stderr.contains("No space left"), "{}", ran.stderr);
        let hint = format!("free space in {}", user.bin.path().display());
        assert!(ran.stderr.contains(&hint), "{}", ran.stderr);
        user.has(OWN, None);
    }
}

#[test]
fn a_kill_at_any_step_leaves_a_working_program() {
    if !can_pack() {
        return;
    }
    let mirror = Mirror::new(&says(VERSION));
    for without_links in [false, true] {
        for step in ["downloaded", "unpacked", "tried", "linked", "placed"] {
            let user = Installed::new();
            write_program(&user.old(), says(OLDER));
            let killed = |args: &[&str]| {
                let mut command = user.command(&mirror, args);
                command.env("REWAKE_TEST_UPDATE_KILL", step);
                if without_links {
                    command.env("REWAKE_TEST_UPDATE_LINKS", "none");
                }
                assert_eq!(run(command, LIMIT).signal(), Some(9), "{step}");
            };
            let placed = if step == "placed" { VERSION } else { OWN };
            let before = (placed.to_string(), Some(OLDER.to_string()));
            killed(&["--yes"]);
            assert_eq!(user.versions(), before, "{step}");
            // The same again, over what the first left.
            user.place();
            killed(&["--yes"]);
            let old = if step == "placed" { OWN } else { OLDER };
            assert_eq!(
                user.versions(),
                (placed.to_string(), Some(old.to_string())),
                "{step}"
            );
            user.place();
            user.update(&mirror, &["--yes"]).expect(0);
            user.has(VERSION, Some(OWN));
        }
    }
}

#[test]
fn a_kill_during_undo_loses_no_program() {
    let mirror = Mirror::new(&says(VERSION));
    for without_links in [false, true] {
        for step in ["linked", "placed"] {
            let user = Installed::new();
            // It runs, and is another one.
            copy_program(&user.program(), &user.old());
            let mut longer = Command::new("sh");
            longer.args(["-c", "printf old >> \"$0\""]).arg(user.old());
            assert!(longer.status().unwrap().success());
            let length = |path: PathBuf| fs::metadata(path).unwrap().len();
            let (program, old) = (length(user.program()), length(user.old()));
            let undo = |kill: bool| {
                let mut command = user.command(&mirror, &["--undo"]);
                if without_links {
                    command.env("REWAKE_TEST_UPDATE_LINKS", "none");
                }
                if kill {
                    command.env("REWAKE_TEST_UPDATE_KILL", step);
                }
                run(command, LIMIT)
            };
            assert_eq!(undo(true).signal(), Some(9), "{step}");
            undo(false).expect(0);
            user.has(OWN, Some(OWN));
            // What was done before the kill is completed, and then undone.
            let expected = match step {
                "placed" => (program, old),
                _ => (old, program),
            };
            assert_eq!(
                (length(user.program()), length(user.old())),
                expected,
                "{step}"
            );
        }
    }
}

/// `REWAKE_UPDATE_KILLS` kills, 20 by default.
#[test]
fn a_kill_at_any_time_leaves_a_working_program() {
    if !can_pack() {
        return;
    }
    let kills = std::env::var("REWAKE_UPDATE_KILLS");
    let kills: u32 = kills.map_or(20, |number| number.parse().unwrap());
    let mirror = Mirror::new(&says(VERSION));
    let user = Installed::new();
    let started = std::time::Instant::now();
    user.update(&mirror, &["--yes"]).expect(0);
    let whole = started.elapsed().max(Duration::from_millis(10));
    for number in 0..kills {
        user.place();
        let mut child = user.command(&mirror, &["--yes"]).spawn().unwrap();
        std::thread::sleep(whole * (number * 37 % 100) / 100);
        let _ = child.kill();
        child.wait().unwrap();
        let (program, old) = user.versions();
        assert!([OWN, VERSION].contains(&program.as_str()), "{program}");
        assert_eq!(old.as_deref(), Some(OWN));
    }
    user.place();
    user.update(&mirror, &["--yes"]).expect(0);
    user.has(VERSION, Some(OWN));
}

/// The program that runs keeps its file, and starts its keepers from it.
#[test]
fn a_session_that_runs_keeps_its_version() {
    if !can_pack() || !cfg!(target_os = "linux") {
        return;
    }
    let mirror = Mirror::new(&says(VERSION));
    let user = Installed::new();
    let waits = bash("touch started; until [ -e gate ]; do sleep 0.05; done");
    let steps = [
        step("", &[waits]),
        step("", &[bash("echo second > second")]),
        step("done", &[]),
    ];
    play(&user.home, &steps);
    user.home.write_config(SCRIPTED);
    let update = user.command(&mirror, &[]);
    let own = Command::new(user.program());
    let env = update.get_envs().filter_map(|(k, v)| Some((k, v?)));
    let mut session = {
        let mut command = own;
        command.env_clear().envs(env);
        command.args(["-p", "go", "--permission-mode", "bypassPermissions"]);
        command.current_dir(user.home.workspace());
        command.spawn().unwrap()
    };
    until(|| user.home.path("started").exists());
    user.update(&mirror, &["--yes"]).expect(0);
    fs::write(user.home.path("gate"), "").unwrap();
    assert!(session.wait().unwrap().success());
    assert_eq!(user.home.read("second"), "second\n");
    user.has(VERSION, Some(OWN));
}

/// Once a day, only if the person's own config wants it, and it stops no start.
#[test]
fn a_newer_version_is_announced_on_quit() {
    let mirror = Mirror::new(&says(VERSION));
    let user = Installed::new();
    play(&user.home, &[]);
    let answer = user.home.rewake_home().join("update.json");
    let session = || {
        let mut command = user.home.rewake(["--no-alt-screen"]);
        command.env("REWAKE_RELEASES", &mirror.address);
        let terminal = Terminal::of(command);
        terminal.sees("Describe a task");
        terminal
    };
    let left = |mut terminal: Terminal| {
        terminal.types("\x04");
        assert!(terminal.ends().success());
        terminal.screen()
    };
    let line = format!("version {VERSION} of rewake is available: ");
    // Not without the setting, and not by that of a folder.
    user.home.write_config(SCRIPTED);
    let folder = user.home.workspace().join(".rewake");
    fs::create_dir(&folder).unwrap();
    fs::write(
        folder.join("config.toml"),
        "theme = \"dark\"\n[update]\ncheck = true\n",
    )
    .unwrap();
    user.home.run(["trust", "--yes"]).expect(0);
    assert!(!left(session()).contains(&line));
    assert!(!answer.exists());
    user.home
        .write_config(&format!("{SCRIPTED}\n[update]\ncheck = true\n"));
    let terminal = session();
    until(|| answer.exists());
    assert!(left(terminal).contains(&line));
    let stored = fs::read_to_string(&answer).unwrap();
    // The second start of a day asks nobody.
    let sums = mirror.folder.path().join("latest/download/SHA256SUMS");
    fs::remove_file(sums).unwrap();
    assert!(left(session()).contains(&line));
    assert_eq!(fs::read_to_string(&answer).unwrap(), stored);
    // A day later, from a server that fails.
    let old = stored.replace("\"asked_ms\":1", "\"asked_ms\":");
    assert_ne!(old, stored);
    fs::write(&answer, &old).unwrap();
    let terminal = session();
    until(|| fs::read_to_string(&answer).is_ok_and(|now| now != old));
    assert!(left(terminal).contains(&line));
}
