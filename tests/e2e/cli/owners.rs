//! Folders of other users: root in the home of a user, files that an earlier run as root left, and
//! a volume that is writable but not owned. Only root can make them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::mirror::copy_program;
use crate::cli::{LIMIT, SCRIPTED, play, refused, step};
use support::{Home, Run, run, skip_everywhere};

/// A user who owns nothing else.
const USER: u32 = 12_345;

/// A home whose folders an ordinary user can reach, with the program. `None`: this is not root.
fn home() -> Option<(Home, PathBuf)> {
    if !rustix::process::geteuid().is_root() {
        skip_everywhere("root");
        return None;
    }
    let home = Home::new();
    let above = home.user().parent().unwrap().to_path_buf();
    fs::set_permissions(&above, Permissions::from_mode(0o755)).unwrap();
    let program = above.join("program");
    copy_program(Path::new(env!("CARGO_BIN_EXE_rewake")), &program);
    play(&home, &[step("done", &[])]);
    for folder in [home.user(), home.workspace()] {
        chown(folder, Some(USER), Some(USER)).unwrap();
    }
    Some((home, program))
}

/// Runs the program with HOME alone, as root or as the user.
fn at_home(home: &Home, program: &Path, uid: u32, args: &[&str]) -> Run {
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", home.user())
        .uid(uid)
        .gid(uid)
        .current_dir(home.workspace());
    run(command, LIMIT)
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[test]
fn root_writes_nothing_in_the_home_of_a_user() {
    let Some((home, program)) = home() else {
        return;
    };
    for args in [&["-p", "go"][..], &["history"], &["doctor"], &["trust"]] {
        let run = at_home(&home, &program, 0, args);
        refused(run, 2, &["belongs to 12345", "sudo -u '#12345' rewake"]);
    }
    assert_eq!(names(&home.user()), Vec::<PathBuf>::new());
    at_home(&home, &program, USER, &["history"]).expect(0);
    refused(at_home(&home, &program, 0, &["-p", "go"]), 2, &["sudo -u"]);
    for path in names(&home.user().join(".local/share/rewake")) {
        assert_eq!(
            fs::metadata(&path).unwrap().uid(),
            USER,
            "{}",
            path.display()
        );
    }
}

#[test]
fn what_root_left_is_named_with_the_command_that_gives_it_back() {
    let Some((home, program)) = home() else {
        return;
    };
    at_home(&home, &program, USER, &["history"]).expect(0);
    let data = home.user().join(".local/share/rewake");
    let config = home.user().join(".config");
    let state = home.user().join(".local/state/rewake");
    for (left, mode) in [
        (data.join("rewake.db"), 0o600),
        (data.join("tmp"), 0o700),
        (config, 0o700),
        (state, 0o700),
    ] {
        if !left.exists() {
            fs::create_dir(&left).unwrap();
        }
        fs::set_permissions(&left, Permissions::from_mode(mode)).unwrap();
        chown(&left, Some(0), Some(0)).unwrap();
        let command = format!("sudo chown -R 12345 {}", left.display());
        refused(
            at_home(&home, &program, USER, &["-p", "go"]),
            2,
            &[&command],
        );
        let doctor = at_home(&home, &program, USER, &["doctor"]);
        assert!(doctor.stdout.contains(&command), "{}", doctor.stdout);
        if left.ends_with("rewake.db") {
            for reads in ["history", "stats"] {
                refused(at_home(&home, &program, USER, &[reads]), 2, &[&command]);
            }
        }
        chown(&left, Some(USER), Some(USER)).unwrap();
    }
}

#[test]
fn a_volume_that_is_writable_but_not_owned_is_used_with_a_warning() {
    let Some((home, program)) = home() else {
        return;
    };
    let volume = home.rewake_home();
    home.write_config(SCRIPTED);
    chown(&volume, Some(0), Some(USER)).unwrap();
    let go = || {
        let mut command = Command::new(&program);
        command
            .args(["-p", "go"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("REWAKE_HOME", &volume)
            .uid(USER)
            .gid(USER)
            .current_dir(home.workspace());
        run(command, LIMIT)
    };
    for (mode, who) in [
        (0o2770, "its group may write"),
        (0o2777, "everybody may write"),
    ] {
        fs::set_permissions(&volume, Permissions::from_mode(mode)).unwrap();
        let went = go().expect(0);
        assert!(went.stderr.contains(who), "{}", went.stderr);
        for name in ["rewake.db", "journal", "locks"] {
            let found = fs::metadata(volume.join(name)).unwrap();
            assert_eq!((found.uid(), found.mode() & 0o077), (USER, 0), "{name}");
        }
    }
    // Others could leave files here that this user cannot remove.
    fs::set_permissions(&volume, Permissions::from_mode(0o1777)).unwrap();
    assert_ne!(go().code(), Some(0));
}
