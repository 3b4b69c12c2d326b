//! The exchange race: a process that survives its command exchanges a folder for a link while the
//! keeper, which is in no sandbox, puts protected files back. `REWAKE_RACES` says how many rounds.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rewake::core::access::Access;
use rewake::sandbox::{Profile, Watched};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::sandbox::kept::{Place, place};

const ROUNDS: u64 = 40;
const SECRET: &str = "what lies outside";

/// Exchanges a folder and a link out of the workspace, without a pause.
struct Attacker {
    stop: Arc<AtomicBool>,
    exchanges: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Attacker {
    fn start(place: &Place) -> Attacker {
        let (folder, link) = (place.path("ws/d"), place.path("ws/l"));
        let outside = place.path("outside");
        let (stop, exchanges) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (asked, made) = (Arc::clone(&stop), Arc::clone(&exchanges));
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                if renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).is_ok() {
                    made.fetch_add(1, Ordering::Relaxed);
                } else if !link.is_symlink() {
                    // The keeper put the link aside under the name of the folder: here is the next.
                    let aside = link.with_file_name(format!("l{}", made.load(Ordering::Relaxed)));
                    let _ = std::fs::rename(&link, aside);
                    let _ = symlink(&outside, &link);
                }
            }
        });
        let attacker = Attacker {
            stop,
            exchanges,
            thread: Some(thread),
        };
        while attacker.exchanges.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        attacker
    }

    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.exchanges.load(Ordering::Relaxed)
    }
}

/// `d` with protected names in the workspace, and the same names outside.
fn lay_out(place: &Place) {
    let (ws, outside) = (place.path("ws"), place.path("outside"));
    for folder in [&ws, &outside] {
        let _ = std::fs::remove_dir_all(folder);
    }
    for folder in ["ws/d/.husky", "outside/.claude", "outside/.husky"] {
        std::fs::create_dir_all(place.path(folder)).unwrap();
    }
    symlink("../plain", ws.join("d/.envrc")).unwrap();
    std::fs::write(ws.join("d/.npmrc"), "mine").unwrap();
    std::fs::write(ws.join("d/.husky/pre-commit"), "mine").unwrap();
    for name in [".mcp.json", ".npmrc", ".claude/settings.json"] {
        std::fs::write(outside.join(name), SECRET).unwrap();
    }
    symlink(&outside, ws.join("l")).unwrap();
}

/// What a command did before its survivor attacks.
fn change(ws: &Path) {
    for name in ["d/.envrc", "d/.npmrc"] {
        std::fs::remove_file(ws.join(name)).unwrap();
    }
    std::fs::remove_dir_all(ws.join("d/.husky")).unwrap();
    std::fs::create_dir(ws.join("d/.claude")).unwrap();
    std::fs::write(ws.join("d/.mcp.json"), "evil").unwrap();
}

fn all(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        let content = std::fs::read_to_string(&path).unwrap_or_default();
        found.insert(path.clone(), format!("{:o} {content}", metadata.mode()));
        if metadata.is_dir() {
            found.append(&mut all(&path));
        }
    }
    found
}

/// One round. What went wrong.
fn round(place: &Place, profile: &Profile, during_the_look: bool) -> (u64, Option<String>) {
    lay_out(place);
    let (ws, outside) = (place.path("ws"), place.path("outside"));
    let before = all(&outside);
    let early = during_the_look.then(|| Attacker::start(place));
    let watched = Watched::look(profile);
    let mut exchanges = early.map_or(0, Attacker::end);
    // The folder has its own name again.
    if ws.join("d").is_symlink() {
        renameat_with(CWD, ws.join("d"), CWD, ws.join("l"), RenameFlags::EXCHANGE).unwrap();
    }
    change(&ws);
    let attacker = Attacker::start(place);
    let changes = watched.compare();
    exchanges += attacker.end();
    let stolen = |name: &str| {
        all(&place.path(name))
            .into_values()
            .any(|text| text.ends_with(SECRET))
    };
    let wrong = match () {
        () if all(&outside) != before => Some("something changed outside"),
        () if stolen("quarantine") => Some("a file from outside is in quarantine"),
        () => None,
    };
    (
        exchanges,
        wrong.map(|wrong| format!("{wrong}: {changes:?}")),
    )
}

#[test]
fn the_keeper_does_nothing_outside_while_folders_are_exchanged_for_links() {
    let rounds = std::env::var("REWAKE_RACES").ok();
    let rounds = rounds.map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let place = place("no-namespaces");
    lay_out(&place);
    let profile = place.profile(Access::Workspace);
    let (mut exchanges, mut wrong) = (0, Vec::new());
    for number in 0..rounds {
        let (more, said) = round(&place, &profile, number % 2 == 1);
        exchanges += more;
        wrong.extend(said);
    }
    println!(
        "{rounds} rounds, {exchanges} exchanges, {} got out",
        wrong.len()
    );
    assert!(
        wrong.is_empty(),
        "{} of {rounds}: {}",
        wrong.len(),
        wrong[0]
    );
}
