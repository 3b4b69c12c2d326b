//! Tests that protected files are restored, for any change that a command makes to the folders
//! around them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, RenameFlags, mknodat, renameat_with};

use super::super::kernel::Kernel;
use super::super::profile::{Limits, Network};
use super::super::writable::BETWEEN;
use super::*;
use crate::core::access::Access;

const SECRET: &str = "what lies outside";

/// A workspace `ws`, and a folder `outside` of it that contains the same names.
struct Room(tempfile::TempDir);

impl Room {
    fn new() -> Room {
        let room = Room(tempfile::tempdir().unwrap());
        for folder in ["ws/d/.husky", "outside/.claude"] {
            fs::create_dir_all(room.path(folder)).unwrap();
        }
        symlink("../plain", room.path("ws/d/.envrc")).unwrap();
        room.write("ws/d/.npmrc", "mine");
        room.write("ws/d/.husky/pre-commit", "mine");
        for name in [".mcp.json", ".npmrc", ".claude/settings.json"] {
            room.write(&format!("outside/{name}"), SECRET);
        }
        symlink(room.path("outside"), room.path("ws/l")).unwrap();
        room
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn profile(&self, quarantine: &str) -> Profile {
        let names = [".envrc", ".npmrc", ".husky", ".mcp.json", ".claude"];
        let names = names.iter().map(|name| self.path("ws/d").join(name));
        let more = [".github/workflows", ".mcp.json"].map(|name| self.path("ws").join(name));
        Profile {
            access: Access::Workspace,
            kernel: Kernel::default(),
            network: Network::None,
            read: Vec::new(),
            write: vec![self.path("ws")],
            devices: Vec::new(),
            pinned: Vec::new(),
            hidden: Vec::new(),
            protected: names.chain(more).collect(),
            looked: None,
            looked_further: Vec::new(),
            modes: Vec::new(),
            tmp: self.path("tmp"),
            private_tmp: None,
            quarantine: self.path(quarantine),
            pass_env: Vec::new(),
            set_env: Vec::new(),
            limits: Limits::default(),
            gaps: Vec::new(),
        }
    }

    /// Returns everything below a folder: contents of files, targets of links.
    fn all(&self, name: &str) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.path(name)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                let text = match () {
                    () if kind.is_symlink() => format!("{:?}", fs::read_link(&path).unwrap()),
                    () if kind.is_file() => fs::read_to_string(&path).unwrap(),
                    () => String::new(),
                };
                found.insert(path.clone(), text);
                if kind.is_dir() {
                    folders.push(path);
                }
            }
        }
        found
    }

    /// Changes files like a command: removes protected ones and creates others.
    fn change(&self) {
        for name in [".envrc", ".npmrc"] {
            fs::remove_file(self.path("ws/d").join(name)).unwrap();
        }
        fs::remove_dir_all(self.path("ws/d/.husky")).unwrap();
        fs::create_dir(self.path("ws/d/.claude")).unwrap();
        self.write("ws/d/.claude/settings.json", "evil");
        self.write("ws/d/.mcp.json", "evil");
    }

    fn exchange(&self) -> impl Fn() + 'static {
        let (folder, link) = (self.path("ws/d"), self.path("ws/l"));
        move || exchange(&folder, &link)
    }
}

fn exchange(one: &Path, other: &Path) {
    // Either one may have been moved to quarantine.
    let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
}

/// Calls `act` whenever a folder was opened, before anything is done in it.
fn with<T>(act: impl FnMut() + 'static, run: impl FnOnce() -> T) -> T {
    BETWEEN.set(Some(Box::new(act)));
    let done = run();
    BETWEEN.set(None);
    done
}

#[test]
fn changes_to_watched_files_are_restored() {
    let room = Room::new();
    let before = room.all("ws");
    let watched = Watched::look(&room.profile("quarantine"));
    room.change();
    let changes = watched.compare();
    assert!(changes.iter().all(|change| change.restored), "{changes:?}");
    assert_eq!(room.all("ws"), before);
    assert_eq!(watched.compare(), []);
    let aside = room.all("quarantine");
    assert_eq!(aside.values().filter(|text| *text == "evil").count(), 2);
}

/// A folder may change between a check and the action that follows. The test tries each of these
/// moments first.
#[test]
fn a_folder_exchanged_for_a_link_gets_nothing_done_where_the_link_leads() {
    for first in 0..40 {
        let room = Room::new();
        let outside = room.all("outside");
        let watched = Watched::look(&room.profile("quarantine"));
        room.change();
        let (exchange, mut moment) = (room.exchange(), 0);
        let attack = move || {
            if moment >= first {
                exchange();
            }
            moment += 1;
        };
        let changes = with(attack, || watched.compare());
        assert!(!changes.is_empty());
        assert_eq!(room.all("outside"), outside, "{first}: {changes:?}");
        let aside = room.all("quarantine");
        assert!(!aside.values().any(|text| text == SECRET), "{first}");
    }
}

/// The content of a file outside would be written into the workspace.
#[test]
fn nothing_outside_is_read_in_the_place_of_what_was_there() {
    let room = Room::new();
    let (profile, outside) = (room.profile("quarantine"), room.all("outside"));
    let watched = with(room.exchange(), || Watched::look(&profile));
    let known = format!("{:?}", watched.before);
    assert!(
        !known.contains(&format!("{:?}", SECRET.as_bytes())),
        "{known}"
    );
    let changes = with(room.exchange(), || watched.compare());
    assert_eq!(room.all("outside"), outside, "{changes:?}");
    let inside = room.all("ws");
    assert!(!inside.values().any(|text| text == SECRET), "{inside:?}");
}

#[test]
fn a_link_in_the_place_of_a_folder_goes_and_the_folder_comes_back() {
    let room = Room::new();
    let outside = room.all("outside");
    let watched = Watched::look(&room.profile("quarantine"));
    room.exchange()();
    let changes = watched.compare();
    let link = changes
        .iter()
        .find(|change| change.path == room.path("ws/d"));
    assert!(
        link.is_some_and(|link| link.moved_to.is_some()),
        "{changes:?}"
    );
    assert!(changes.iter().all(|change| change.restored), "{changes:?}");
    assert_eq!(
        fs::read_to_string(room.path("ws/d/.npmrc")).unwrap(),
        "mine"
    );
    assert_eq!(room.all("outside"), outside);
}

#[test]
fn the_quarantine_is_where_it_was_before_the_command() {
    let room = Room::new();
    fs::create_dir(room.path("ws/own")).unwrap();
    let outside = room.all("outside");
    let watched = Watched::look(&room.profile("ws/own/quarantine"));
    room.write("ws/.mcp.json", "evil");
    exchange(&room.path("ws/own"), &room.path("ws/l"));
    let changes = watched.compare();
    assert_eq!(room.all("outside"), outside, "{changes:?}");
    assert!(
        room.all("ws/l/quarantine")
            .values()
            .any(|text| text == "evil")
    );
}

#[test]
fn links_in_a_circle_are_set_aside() {
    let room = Room::new();
    let watched = Watched::look(&room.profile("quarantine"));
    for (link, to) in [
        (".github", "two"),
        ("two", ".github"),
        (".mcp.json", ".mcp.json"),
    ] {
        symlink(to, room.path("ws").join(link)).unwrap();
    }
    let changes = watched.compare();
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert!(changes.iter().all(|change| change.restored), "{changes:?}");
    for name in ["ws/.github", "ws/.mcp.json"] {
        assert!(!room.path(name).is_symlink(), "{name}");
    }
}

#[test]
fn a_link_of_the_user_stays_and_what_it_leads_to_is_not_followed() {
    let room = Room::new();
    symlink(room.path("outside"), room.path("ws/.github")).unwrap();
    let watched = Watched::look(&room.profile("quarantine"));
    assert_eq!(watched.compare(), []);
    fs::create_dir(room.path("outside/workflows")).unwrap();
    assert_eq!(watched.compare(), []);
    fs::remove_file(room.path("ws/.github")).unwrap();
    symlink("d", room.path("ws/.github")).unwrap();
    let changes = watched.compare();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(
        fs::read_link(room.path("ws/.github")).unwrap(),
        room.path("outside")
    );
}

#[test]
fn folders_removed_during_the_restore_are_told_and_nothing_is_made_elsewhere() {
    let room = Room::new();
    let outside = room.all("outside");
    let watched = Watched::look(&room.profile("quarantine"));
    room.change();
    let (folder, link) = (room.path("ws/d"), room.path("ws/l"));
    let removes = move || {
        if fs::remove_dir_all(&folder).is_ok() {
            let _ = fs::rename(&link, &folder);
        }
    };
    let changes = with(removes, || watched.compare());
    assert!(changes.iter().any(|change| !change.restored), "{changes:?}");
    assert_eq!(room.all("outside"), outside, "{changes:?}");
}

#[test]
fn a_fifo_in_the_place_of_a_file_does_not_block() {
    let room = Room::new();
    let watched = Watched::look(&room.profile("quarantine"));
    let path = room.path("ws/d/.npmrc");
    fs::remove_file(&path).unwrap();
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let changes = watched.compare();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

/// A command may have removed the permissions of a folder that we own.
#[test]
fn a_folder_without_rights_is_looked_into_and_what_is_in_it_comes_back() {
    let room = Room::new();
    let watched = Watched::look(&room.profile("quarantine"));
    room.write("ws/d/.husky/pre-commit", "evil");
    let locked = room.path("ws/d/.husky");
    fs::set_permissions(&locked, Permissions::from_mode(0o300)).unwrap();
    let changes = watched.compare();
    assert!(changes.iter().all(|change| change.restored), "{changes:?}");
    let text = fs::read_to_string(locked.join("pre-commit")).unwrap();
    assert_eq!(text, "mine");
}
