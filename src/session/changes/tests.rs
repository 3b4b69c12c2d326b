//! Tests with repositories that git itself made, some of them hostile.

use super::*;
use crate::workspace::here;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use support::git;

/// A limit that no test reaches.
const LONG: Duration = Duration::from_secs(120);

fn repository(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    git(folder, &["init", "-q"]);
    fs::write(folder.join("a"), "a\n").unwrap();
    fs::write(folder.join("b"), "b\n").unwrap();
    git(folder, &["add", "."]);
    git(folder, &["commit", "-qm", "one"]);
}

fn env(root: &Path) -> Env {
    let path = std::env::var_os("PATH").unwrap();
    Env::new([("PATH", path), ("HOME", root.join("home").into())], root)
}

fn asked(folder: &Path) -> Option<SessionChanges> {
    changes(&here(folder).unwrap(), &env(Path::new("/nowhere")), LONG)
}

fn names(folder: &Path) -> Vec<String> {
    asked(folder).unwrap().names
}

#[test]
fn files_that_differ_from_the_last_commit_are_named() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(asked(dir.path()), None, "no repository");
    let top = dir.path().join("top");
    repository(&top);
    assert_eq!(asked(&top).unwrap().count, 0);
    fs::write(top.join("a"), "another\n").unwrap();
    fs::remove_file(top.join("b")).unwrap();
    fs::write(top.join("staged"), "x").unwrap();
    git(&top, &["add", "staged"]);
    fs::create_dir(top.join("new")).unwrap();
    fs::write(top.join("new/c"), "x").unwrap();
    fs::write(top.join("ignored"), "x").unwrap();
    fs::write(top.join(".gitignore"), "ignored\n").unwrap();
    let index = fs::read(top.join(".git/index")).unwrap();
    assert_eq!(names(&top), ["a", "b", "staged", ".gitignore", "new/"]);
    assert_eq!(fs::read(top.join(".git/index")).unwrap(), index);
    for n in 0..30 {
        fs::write(top.join(format!("x{n}\n.rs")), "x").unwrap();
    }
    let many = asked(&top).unwrap();
    assert_eq!((many.count, many.names.len()), (35, MAX_NAMES));
}

#[test]
fn nothing_that_a_repository_names_is_run() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().join("top");
    repository(&top);
    let ran = dir.path().join("ran");
    let trap = top.join("trap");
    fs::write(&trap, format!("#!/bin/sh\ntouch {}\ncat\n", ran.display())).unwrap();
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
    let trap = trap.to_str().unwrap();
    fs::write(top.join(".gitattributes"), "* filter=f\n").unwrap();
    for (setting, hook) in [
        (Some("core.fsmonitor"), None),
        (Some("filter.f.clean"), None),
        (Some("filter.f.process"), None),
        (None, Some("post-index-change")),
    ] {
        fs::write(top.join("a"), format!("{setting:?}\n")).unwrap();
        if let Some(setting) = setting {
            git(&top, &["config", setting, trap]);
        }
        if let Some(hook) = hook {
            fs::copy(trap, top.join(".git/hooks").join(hook)).unwrap();
        }
        assert_eq!(asked(&top), None, "{setting:?} {hook:?}");
        assert!(!ran.exists(), "{setting:?} {hook:?}");
        if let Some(setting) = setting {
            git(&top, &["config", "--unset", setting]);
        }
        // Git itself was called above to set this up, and no trap was set then.
        let _ = fs::remove_file(&ran);
    }
}

#[test]
fn no_git_of_the_workspace_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap().join("top");
    repository(&top);
    let own = top.join("git");
    fs::write(&own, "#!/bin/sh\ntouch ran\n").unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    let path = |folders: &str| Env::new([("PATH", folders)], &top);
    let found = |folders: &str| looking_git(&path(folders), &top);
    assert!(found(top.to_str().unwrap()).is_none());
    assert!(found(".::bin").is_none());
    std::os::unix::fs::symlink(&own, dir.path().join("git")).unwrap();
    assert!(found(dir.path().to_str().unwrap()).is_none());
    // Nor are programs that git starts.
    let both = format!("{}:/usr/bin:.", top.display());
    let git = found(&both).unwrap();
    let mut set = git.get_envs();
    let path = set.find_map(|(name, value)| (name == "PATH").then_some(value?));
    assert_eq!(path.unwrap(), "/usr/bin");
    assert!(!top.join("ran").exists());
}

#[test]
fn a_git_that_does_not_end_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap().join("top");
    repository(&top);
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let own = bin.join("git");
    fs::write(&own, "#!/bin/sh\necho $$ > \"$HOME/pid\"\nexec sleep 600\n").unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let env = Env::new(
        [("PATH", path.as_str()), ("HOME", bin.to_str().unwrap())],
        &top,
    );
    assert_eq!(
        changes(&here(&top).unwrap(), &env, Duration::from_millis(300)),
        None
    );
    // If it was started at all, it is gone soon.
    let is_there = || {
        let pid = fs::read_to_string(bin.join("pid")).unwrap_or_default();
        !pid.trim().is_empty() && Path::new("/proc").join(pid.trim()).exists()
    };
    for _ in 0..1_200 {
        if !is_there() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("it is still there");
}
