//! Tests of [`super`]: the properties that a replacement keeps, and that no data of another writer
//! is lost.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr, setxattr};

use super::super::test_support::{ResultRoom, hash as hash_of};
use super::*;

fn appender(path: &Path) -> File {
    File::options().append(true).open(path).unwrap()
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1024];
    let length = fgetxattr(File::open(path).unwrap(), name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_replacement_keeps_the_mode() {
    let room = ResultRoom::new();
    let path = room.put("run.sh", "old");
    fs::set_permissions(&path, Permissions::from_mode(0o751)).unwrap();
    let staged = stage(&path, b"new").unwrap();
    assert_eq!(room.get("run.sh"), "old");
    staged.commit(Some(&hash_of("old"))).unwrap();
    assert_eq!(room.get("run.sh"), "new");
    assert_eq!(mode(&path), 0o751);
    assert_eq!(room.names(), ["run.sh"]);
}

#[test]
fn a_new_file_has_the_mode_that_any_program_would_give_it() {
    let room = ResultRoom::new();
    let theirs = room.put("theirs", "");
    let ours = room.path("ours");
    stage(&ours, b"x").unwrap().commit(None).unwrap();
    assert_eq!(mode(&ours), mode(&theirs));
}

#[test]
fn a_target_that_changed_meanwhile_is_left_alone() {
    let room = ResultRoom::new();
    let path = room.put("a", "old");
    let staged = stage(&path, b"new").unwrap();
    room.put("a", "theirs");
    let failed = staged.commit(Some(&hash_of("old")));
    assert!(matches!(failed, Err(CommitError::Changed(None))));
    let staged = stage(&room.path("b"), b"new").unwrap();
    room.put("b", "theirs");
    assert!(matches!(
        staged.commit(None),
        Err(CommitError::Changed(None))
    ));
    assert_eq!(
        (room.get("a"), room.get("b")),
        ("theirs".into(), "theirs".into())
    );
    assert_eq!(room.names(), ["a", "b"]);
}

#[test]
fn folders_are_made_on_the_way() {
    let room = ResultRoom::new();
    let path = room.path("a/b/c");
    stage(&path, b"x").unwrap().commit(None).unwrap();
    assert_eq!(room.get("a/b/c"), "x");
}

#[test]
fn a_file_that_somebody_has_open_for_writing_is_not_replaced() {
    let room = ResultRoom::new();
    let path = room.put("log", "one\n");
    let mut writer = appender(&path);
    assert!(
        super::super::file::replaceable(&path)
            .unwrap_err()
            .contains("open for writing")
    );
    let staged = stage(&path, b"new\n").unwrap();
    let failed = staged.commit(Some(&hash_of("one\n")));
    assert!(matches!(failed, Err(CommitError::Open)), "{failed:?}");
    writeln!(writer, "two").unwrap();
    assert_eq!(room.get("log"), "one\ntwo\n");
    assert_eq!(room.names(), ["log"]);
    drop(writer);
    let staged = stage(&path, b"new\n").unwrap();
    staged.commit(Some(&hash_of("one\ntwo\n"))).unwrap();
    assert_eq!(room.get("log"), "new\n");
}

/// Somebody opened the file after the check, and before the exchange.
#[test]
fn a_file_opened_during_its_replacement_gets_its_name_back() {
    let room = ResultRoom::new();
    let path = room.put("a", "old");
    let staged = stage(&path, b"new").unwrap();
    let out = room.path(&staged.beside.to_string_lossy().replace(".tmp", ".out"));
    let mut writer = None;
    let failed = staged.commit_with(Some(&hash_of("old")), || writer = Some(appender(&out)));
    assert!(matches!(failed, Err(CommitError::Open)), "{failed:?}");
    write!(writer.unwrap(), " and more").unwrap();
    assert_eq!(room.get("a"), "old and more");
    assert_eq!(room.names(), ["a"]);
}

#[test]
fn a_file_written_during_its_replacement_gets_its_name_back() {
    let room = ResultRoom::new();
    let path = room.put("a", "old");
    let staged = stage(&path, b"new").unwrap();
    let out = room.path(&staged.beside.to_string_lossy().replace(".tmp", ".out"));
    let failed = staged.commit_with(Some(&hash_of("old")), || {
        write!(appender(&out), " and more").unwrap();
    });
    assert!(
        matches!(failed, Err(CommitError::Changed(None))),
        "{failed:?}"
    );
    assert_eq!(room.get("a"), "old and more");
    assert_eq!(room.names(), ["a"]);
}

#[test]
fn writes_of_two_writers_during_a_replacement_are_both_kept() {
    let room = ResultRoom::new();
    let path = room.put("a", "old");
    let staged = stage(&path, b"new").unwrap();
    let out = room.path(&staged.beside.to_string_lossy().replace(".tmp", ".out"));
    let failed = staged.commit_with(Some(&hash_of("old")), || {
        write!(appender(&out), " and more").unwrap();
        write!(appender(&path), " and newer").unwrap();
    });
    let Err(CommitError::Changed(Some(kept))) = failed else {
        panic!("{failed:?}");
    };
    assert_eq!(room.get("a"), "new and newer");
    assert_eq!(room.get(&kept), "old and more");
    assert_eq!(room.names(), ["a", "a.rewake-kept"]);
}

/// Killed at each instant of an exchange, with a writer and without one.
#[test]
fn after_a_kill_nothing_of_another_writer_is_removed() {
    let (before, after) = (hash_of("old"), hash_of("new"));
    let left = format!("{}1-1.out", prefix(&after));
    let settle =
        |room: &ResultRoom| settle_leftovers(&room.path("a"), Some(&before), &after).unwrap();
    // Before the exchange, and after it.
    for (lies, beside) in [("old", "new"), ("new", "old")] {
        let room = ResultRoom::new();
        room.put("a", lies);
        room.put(&left, beside);
        room.put(&left.replace(".out", ".tmp"), "ne");
        assert_eq!(settle(&room), None);
        assert_eq!(
            (room.get("a").as_str(), room.names()),
            (lies, vec!["a".to_string()])
        );
    }
    // Somebody wrote into the file that came out.
    let room = ResultRoom::new();
    room.put("a", "new");
    room.put(&left, "old and more");
    assert_eq!(settle(&room), None);
    assert_eq!(
        (room.get("a").as_str(), room.names()),
        ("old and more", vec!["a".to_string()])
    );
    // They still have it open.
    let room = ResultRoom::new();
    room.put("a", "new");
    let writer = appender(&room.put(&left, "old"));
    assert_eq!(settle(&room), None);
    assert_eq!(
        (room.get("a").as_str(), room.names()),
        ("old", vec!["a".to_string()])
    );
    drop(writer);
    // Somebody also wrote into the file that has the name now, or removed it.
    let room = ResultRoom::new();
    room.put("a", "newer");
    room.put(&left, "old and more");
    assert_eq!(settle(&room).as_deref(), Some("a.rewake-kept"));
    assert_eq!(
        (room.get("a"), room.get("a.rewake-kept")),
        ("newer".into(), "old and more".into())
    );
    let room = ResultRoom::new();
    room.put(&left, "old and more");
    assert_eq!(settle(&room), None);
    assert_eq!(
        (room.get("a").as_str(), room.names()),
        ("old and more", vec!["a".to_string()])
    );
}

/// Only root may give a file to another user.
#[test]
fn another_owner_than_before_is_reported() {
    use rustix::thread::set_thread_res_uid;
    if !rustix::process::geteuid().is_root() {
        support::skip("root, whose file somebody else changes");
        return;
    }
    let room = ResultRoom::new();
    let path = room.put("a", "old");
    let other = Uid::from_raw(65_534);
    rustix::fs::chown(path.parent().unwrap(), Some(other), None).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let replace = || stage(&path, b"new").unwrap().commit(Some(&hash_of("old")));
    let loss = std::thread::scope(|scope| {
        let as_other = || {
            set_thread_res_uid(other, other, other).unwrap();
            replace().unwrap()
        };
        scope.spawn(as_other).join().unwrap()
    });
    assert!(loss.owner, "{loss:?}");
}

#[test]
fn attributes_and_the_acl_go_to_the_new_content() {
    let room = ResultRoom::new();
    let path = room.put("a", "old");
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let file = File::open(&path).unwrap();
    if let Err(e) = fsetxattr(&file, "user.origin", b"here", XattrFlags::empty()) {
        support::skip(&format!("a file system with extended attributes: {e}"));
        return;
    }
    let acl = acl();
    let has_acl = fsetxattr(&file, "system.posix_acl_access", &acl, XattrFlags::empty()).is_ok();
    let before = mode(&path);
    let staged = stage(&path, b"new").unwrap();
    let loss = staged.commit(Some(&hash_of("old"))).unwrap();
    assert_eq!(loss, Loss::default());
    assert_eq!(
        attribute(&path, "user.origin").as_deref(),
        Some(&b"here"[..])
    );
    assert_eq!(mode(&path), before);
    if has_acl {
        assert_eq!(attribute(&path, "system.posix_acl_access"), Some(acl));
    }
}

/// A file without an ACL, in a folder with a default ACL, gets none.
#[test]
fn the_default_acl_of_the_folder_is_not_given_to_a_file_without_one() {
    let room = ResultRoom::new();
    let path = room.put("a", "old");
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let folder = room.path("");
    if let Err(e) = setxattr(
        &folder,
        "system.posix_acl_default",
        &acl(),
        XattrFlags::empty(),
    ) {
        support::skip(&format!("a file system with ACLs: {e}"));
        return;
    }
    stage(&path, b"new")
        .unwrap()
        .commit(Some(&hash_of("old")))
        .unwrap();
    assert_eq!(attribute(&path, "system.posix_acl_access"), None);
    assert_eq!(mode(&path), 0o640);
}

/// Returns an ACL by which another user may read and write, and the group may not.
fn acl() -> Vec<u8> {
    let mut acl = 2_u32.to_le_bytes().to_vec();
    const NOBODY: u32 = 65534;
    const NO_ID: u32 = u32::MAX;
    let entries = [
        (1, 6, NO_ID),
        (2, 6, NOBODY),
        (4, 0, NO_ID),
        (16, 6, NO_ID),
        (32, 0, NO_ID),
    ];
    for (tag, rights, id) in entries {
        acl.extend(u16::to_le_bytes(tag));
        acl.extend(u16::to_le_bytes(rights));
        acl.extend(id.to_le_bytes());
    }
    acl
}

#[test]
fn the_other_names_of_a_file_are_counted() {
    let room = ResultRoom::new();
    let path = room.put("a", "old");
    fs::hard_link(&path, room.path("b")).unwrap();
    let loss = stage(&path, b"new")
        .unwrap()
        .commit(Some(&hash_of("old")))
        .unwrap();
    assert_eq!(loss.hard_links, 1);
    assert_eq!((room.get("a"), room.get("b")), ("new".into(), "old".into()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_system_that_refuses_modes_takes_the_new_content_and_the_loss_is_named() {
    let room = ResultRoom::new();
    let kept = room.put("kept", "old");
    fs::set_permissions(&kept, Permissions::from_mode(0o700)).unwrap();
    // No umask leaves this mode.
    let lost = room.put("lost", "old");
    fs::set_permissions(&lost, Permissions::from_mode(0o777)).unwrap();
    support::Refusal::Modes.apply();
    for (path, name, is_lost) in [(kept, "kept", false), (lost, "lost", true)] {
        let staged = stage(&path, b"new").unwrap();
        let loss = staged.commit(Some(&hash_of("old"))).unwrap();
        assert_eq!((room.get(name).as_str(), loss.mode), ("new", is_lost));
        assert_eq!(mode(&path) & 0o700, 0o700);
        assert_eq!(room.names(), ["kept", "lost"]);
    }
}
