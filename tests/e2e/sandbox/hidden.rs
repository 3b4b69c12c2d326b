//! Files that a rule denies to read, wherever protected ones lie.

use std::os::unix::fs::symlink;

use rewake::command::How;
use rewake::core::access::Access;
use rewake::sandbox::Profile;

use crate::sandbox::kept::{Place, open_place};

/// Folders and files with a secret in them, as the profile hides them, and a protected file, which
/// is held with the folders above it.
const PLACES: [(&str, &str); 8] = [
    ("sub/.env", "sub/AGENTS.md"),
    ("sub/.env", "sub/.vscode/settings.json"),
    ("sub/deep/.env", "sub/AGENTS.md"),
    ("sub/.env", "sub/deep/deeper/AGENTS.md"),
    (".claude/key", ".claude/settings.json"),
    ("sub/secret", "sub/secret/AGENTS.md"),
    ("sub/secret", "sub/secret/deep/.git/config"),
    ("sub/.git/key", "sub/.git/config"),
];

fn hiding(place: &Place, path: &str, access: Access) -> Profile {
    let mut profile = place.profile(access);
    profile.hidden = vec![place.path("ws").join(path)];
    profile
}

#[test]
fn a_denied_file_beside_a_protected_one_is_not_read() {
    for lacks in ["", "no-namespaces"] {
        for access in [Access::Read, Access::Workspace, Access::Network] {
            for (denied, protected) in PLACES {
                let what = format!("{lacks} {access} {denied} {protected}");
                look_for(denied, protected, lacks, access, &what);
            }
        }
    }
}

/// A rule names the link, and commands read its target by either name.
#[test]
fn the_target_of_a_denied_link_is_not_read() {
    for lacks in ["", "no-namespaces"] {
        for access in [Access::Read, Access::Workspace] {
            let place = open_place(lacks);
            let ws = place.path("ws");
            std::fs::create_dir(ws.join("conf")).unwrap();
            std::fs::write(ws.join("conf/real"), "PASSWORD\n").unwrap();
            symlink("real", ws.join("conf/next")).unwrap();
            symlink("conf/next", ws.join(".env")).unwrap();
            let look = "cat .env conf/next conf/real; grep -rs PASSWORD .; cat plain";
            let (_, text) = place.run(place.profile(access), look);
            assert!(
                text.contains("plain") && !text.contains("PASSWORD"),
                "{lacks} {access}: {text}"
            );
            // Nothing works without the workspace, whatever leads to it.
            std::fs::remove_file(ws.join(".env")).unwrap();
            symlink(".", ws.join(".env")).unwrap();
            let (ended, text) = place.run(place.profile(access), "cat plain");
            assert_eq!((ended.how, text.as_str()), (How::Exited(0), "plain\n"));
        }
    }
}

fn look_for(denied: &str, protected: &str, lacks: &str, access: Access, what: &str) {
    let place = open_place(lacks);
    let ws = place.path("ws");
    let secret = match denied.ends_with("secret") {
        true => format!("{denied}/a"),
        false => denied.to_string(),
    };
    for (path, text) in [(secret.as_str(), "PASSWORD"), (protected, "mine")] {
        std::fs::create_dir_all(ws.join(path).parent().unwrap()).unwrap();
        std::fs::write(ws.join(path), text).unwrap();
    }
    let look = format!(
        "cat {secret}; grep -rs PASSWORD .; cat plain; cd $(dirname {secret}); \
         cat $(basename {secret}); mv ../sub ../t && cat ../t/*; true"
    );
    let (ended, text) = place.run(hiding(&place, denied, access), &look);
    assert_eq!(ended.how, How::Exited(0), "{what}: {text}");
    assert!(
        text.contains("plain") && !text.contains("PASSWORD"),
        "{what}: {text}"
    );
}
