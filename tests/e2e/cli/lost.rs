//! A database that was removed, emptied, or replaced by an older copy of itself. With a journal
//! its sessions come back. Without one they are not in it, and that is said at a start and by
//! doctor, and only when it is so.

use std::fs;
use std::path::PathBuf;

use rewake::store::{SessionLock, Store, new_id};

use crate::cli::{LIMIT, SCRIPTED, bash, newest, play, quiet, refused, step, until};
use support::{Home, Live};

const SAID: &str = "not in the database";

fn scripted(steps: &[String]) -> Home {
    scripted_with(false, steps)
}

fn scripted_with(journal: bool, steps: &[String]) -> Home {
    let home = crate::cli::scripted(steps);
    home.write_config(&format!("{SCRIPTED}[store]\njournal = {journal}\n"));
    home
}

/// One session that is done, a copy of the database then, and one that was killed.
struct Scene {
    home: Home,
    killed: String,
    copy: Vec<u8>,
}

fn scene() -> Scene {
    scene_with(false)
}

fn scene_with(journal: bool) -> Scene {
    let home = scripted_with(journal, &[step("done", &[])]);
    home.run(["-p", "the first"]).expect(0);
    let copy = all_in_one_file(&home);
    play(
        &home,
        &[
            step("", &[bash("echo x >> effects; sleep 2")]),
            step("went on", &[]),
        ],
    );
    let args = [
        "-p",
        "the second",
        "--yolo",
        "--output-format",
        "stream-json",
    ];
    let mut live = Live::spawn(home.rewake(args));
    live.wait_for(LIMIT, |line| line.contains("entry.started"));
    until(|| home.workspace().join("effects").exists());
    live.kill();
    live.wait(LIMIT);
    let killed = newest(&home);
    Scene { home, killed, copy }
}

fn database(home: &Home) -> PathBuf {
    home.rewake_home().join("rewake.db")
}

fn all_in_one_file(home: &Home) -> Vec<u8> {
    let sqlite = rusqlite::Connection::open(database(home)).unwrap();
    let truncated = sqlite.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    truncated.unwrap();
    drop(sqlite);
    fs::read(database(home)).unwrap()
}

impl Scene {
    fn replace(&self, bytes: Option<&[u8]>) {
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(self.home.rewake_home().join(format!("rewake.db{suffix}")));
        }
        if let Some(bytes) = bytes {
            fs::write(database(&self.home), bytes).unwrap();
        }
    }

    #[track_caller]
    fn doctor_says(&self, sessions: &str) {
        let doctor = self.home.run(["doctor"]).expect(1);
        let said = [
            sessions,
            &self.killed[..13],
            "older copy",
            "locks",
            "put it back",
        ];
        for words in said {
            assert!(
                doctor.stdout.contains(words),
                "{words:?}: {}",
                doctor.stdout
            );
        }
        let row = format!("note   lost     session {}", self.killed);
        assert!(doctor.stdout.contains(&row), "{}", doctor.stdout);
        assert!(
            !doctor.stdout.contains("no problems found"),
            "{}",
            doctor.stdout
        );
    }

    /// A new session says it once; from then on it is doctor's to say.
    #[track_caller]
    fn is_said_at_a_start(&self) {
        play(&self.home, &[step("done", &[])]);
        let first = self.home.run(["-p", "anew"]).expect(0);
        quiet(&first);
        for words in [SAID, &self.killed[..13], "put it back"] {
            assert!(first.stderr.contains(words), "{words:?}: {}", first.stderr);
        }
        play(&self.home, &[step("done", &[])]);
        let second = self.home.run(["-p", "once more"]).expect(0);
        assert!(!second.stderr.contains(SAID), "{}", second.stderr);
    }
}

/// The same losses, and the whole of the rest of the data folder.
#[test]
fn with_a_journal_all_sessions_come_back_and_nothing_is_done_twice() {
    let ways: [fn(&Scene); 4] = [
        |scene| scene.replace(None),
        |scene| scene.replace(Some(&[])),
        |scene| scene.replace(Some(&scene.copy)),
        |scene| {
            scene.replace(None);
            for folder in ["locks", "log"] {
                let _ = fs::remove_dir_all(scene.home.rewake_home().join(folder));
            }
        },
    ];
    for lose in ways {
        let scene = scene_with(true);
        lose(&scene);
        let home = &scene.home;
        let run = home.run(["-p", "-c", "--yolo"]).expect(0);
        quiet(&run);
        assert_eq!(run.stdout.trim(), "went on");
        for words in [&scene.killed[..13], "from the journal"] {
            assert!(run.stderr.contains(words), "{words:?}: {}", run.stderr);
        }
        assert!(!run.stderr.contains(SAID), "{}", run.stderr);
        assert_eq!(home.read("effects"), "x\n");
        let history = home.run(["history"]).expect(0);
        assert_eq!(history.stdout.lines().count(), 2, "{}", history.stdout);
        nothing_is_said(home);
    }
}

/// Neither has them: whoever would go on is told, and nothing of it is done again.
#[test]
fn without_database_and_journal_what_was_recorded_is_held() {
    for copy in [false, true] {
        let scene = scene_with(true);
        scene.replace(copy.then_some(&scene.copy));
        fs::remove_dir_all(scene.home.rewake_home().join("journal")).unwrap();
        let named = scene.home.run(["-p", "-r", &scene.killed]);
        refused(named, 2, &["there is no session", SAID]);
        let (code, words) = match copy {
            true => (1, "neither in the database nor in its journal"),
            false => (2, "there is no session"),
        };
        refused(scene.home.run(["-p", "-c"]), code, &[words]);
        // Nothing is made of what is held.
        let before = scene.home.run(["history"]).expect(0).stdout;
        refused(
            scene.home.run(["-p", "-c", "--fork-session"]),
            code,
            &[words],
        );
        assert_eq!(scene.home.run(["history"]).expect(0).stdout, before);
        let doctor = scene.home.run(["doctor"]).expect(1);
        assert!(doctor.stdout.contains("are locked"), "{}", doctor.stdout);
        // What is new is not held up.
        play(&scene.home, &[step("done", &[])]);
        scene.home.run(["-p", "anew"]).expect(0);
        let effects = fs::read_to_string(scene.home.workspace().join("effects"));
        assert_eq!(effects.unwrap(), "x\n");
    }
}

#[test]
fn a_database_that_was_removed() {
    let scene = scene();
    scene.replace(None);
    scene.doctor_says("2 sessions");
    let history = scene.home.run(["history"]).expect(0);
    assert!(history.stderr.contains(SAID), "{}", history.stderr);
    assert!(!history.stderr.contains("no sessions yet"));
    refused(
        scene.home.run(["-p", "-c"]),
        2,
        &["there is no session", SAID],
    );
    let named = scene.home.run(["-p", "-r", &scene.killed]);
    refused(named, 2, &["there is no session", SAID]);
    scene.is_said_at_a_start();
    scene.doctor_says("2 sessions");
}

/// The logs may lie elsewhere: they are left when the whole data folder is gone.
#[test]
fn logs_are_enough() {
    let scene = scene();
    let remove_all_but_logs = || {
        scene.replace(None);
        for folder in ["locks", "runs"] {
            let _ = fs::remove_dir_all(scene.home.rewake_home().join(folder));
        }
    };
    remove_all_but_logs();
    scene.doctor_says("2 sessions");
    scene.is_said_at_a_start();
    scene.doctor_says("2 sessions");

    // Lines of another data folder, of an older version, and of no session say nothing.
    let log = fs::read_dir(scene.home.rewake_home().join("log")).unwrap();
    let log = log.last().unwrap().unwrap().path();
    let ours = fs::read_to_string(&log).unwrap();
    let home = scene.home.rewake_home().display().to_string();
    let theirs = ours.replace(&home, "/another/home");
    let older = ours.replace(&format!(" data={:?}", scene.home.rewake_home()), "");
    assert!(theirs != ours && older != ours);
    fs::write(
        &log,
        format!("{theirs}{older} opened session=\"\" data={home:?}\n"),
    )
    .unwrap();
    remove_all_but_logs();
    let doctor = scene.home.run(["doctor"]).expect(0);
    assert!(doctor.stdout.contains("no problems found"));
    play(&scene.home, &[step("done", &[])]);
    let anew = scene.home.run(["-p", "anew"]).expect(0);
    assert!(!anew.stderr.contains(SAID), "{}", anew.stderr);
}

#[test]
fn a_database_that_was_emptied() {
    let scene = scene();
    scene.replace(Some(&[]));
    refused(
        scene.home.run(["-p", "-c"]),
        2,
        &["there is no session", SAID],
    );
    scene.doctor_says("2 sessions");
    scene.is_said_at_a_start();
    scene.doctor_says("2 sessions");
}

#[test]
fn an_older_copy_of_the_database() {
    let scene = scene();
    scene.replace(Some(&scene.copy));
    scene.doctor_says("1 session that");
    let older = scene.home.run(["-p", "-c"]).expect(0);
    assert!(older.stderr.contains(SAID), "{}", older.stderr);
    scene.is_said_at_a_start();
    scene.doctor_says("1 session that");
}

/// As an older version leaves it: its locks do not say that the session was recorded. A command
/// that ran says so.
#[test]
fn a_run_folder_is_enough() {
    let scene = scene();
    let lock = format!("locks/{}.lock", scene.killed);
    fs::write(
        scene.home.rewake_home().join(lock),
        "4711 1795305520453 4711-abc\n",
    )
    .unwrap();
    scene.replace(Some(&scene.copy));
    scene.doctor_says("1 session that");
    scene.is_said_at_a_start();
}

#[test]
fn moving_the_folders_that_doctor_names_ends_the_warning() {
    let scene = scene();
    scene.replace(Some(&scene.copy));
    let doctor = scene.home.run(["doctor"]).expect(1);
    let said = doctor.stdout.split_once("move the folders ");
    let (_, named) = said.expect("what to move");
    let (named, _) = named.split_once(" away").expect("where the names end");
    let folders = ["runs", "locks", "log"];
    for folder in folders.iter().filter(|folder| named.contains(**folder)) {
        let from = scene.home.rewake_home().join(folder);
        fs::rename(&from, from.with_extension("old")).unwrap();
    }
    nothing_is_said(&scene.home);
}

#[track_caller]
fn nothing_is_said(home: &Home) {
    let doctor = home.run(["doctor"]).expect(0);
    assert!(
        doctor.stdout.contains("no problems found"),
        "{}",
        doctor.stdout
    );
    play(home, &[step("done", &[]), step("done", &[])]);
    for args in [&["-p", "-c", "more"][..], &["-p", "anew"]] {
        let run = home.run(args).expect(0);
        assert!(!run.stderr.contains(SAID), "{}", run.stderr);
    }
}

#[test]
fn no_loss_is_reported_when_nothing_is_lost() {
    let scene = scene();
    let home = &scene.home;
    home.run(["-p", "-c"]).expect(0);
    nothing_is_said(home);

    // Begun by a start that came no further, or that is only beginning; not one of ours.
    let locks = home.rewake_home().join("locks");
    let id = new_id();
    fs::write(locks.join(format!("{id}.lock")), "").unwrap();
    nothing_is_said(home);
    let id = new_id();
    fs::write(
        locks.join(format!("{id}.lock")),
        "4711 1795305520453 4711-abc\n",
    )
    .unwrap();
    fs::write(locks.join("notes.txt"), "recorded\n").unwrap();
    let being_made = SessionLock::take(&home.rewake_home(), &new_id());
    nothing_is_said(home);
    drop(being_made);
    nothing_is_said(home);

    // In the trash, without logs, without the folders of runs.
    let newest = newest(home);
    let mut store = Store::open(&home.rewake_home()).unwrap();
    store.trash(&newest, 1).unwrap();
    drop(store);
    fs::remove_dir_all(home.rewake_home().join("log")).unwrap();
    let _ = fs::remove_dir_all(home.rewake_home().join("runs"));
    nothing_is_said(home);
}

/// An older version does not know the word, and leaves the lock without it.
#[test]
fn the_word_in_a_lock_outlives_who_holds_it() {
    let home = scripted(&[step("done", &[])]);
    home.run(["-p", "begin"]).expect(0);
    let id = newest(&home);
    let file = home.rewake_home().join(format!("locks/{id}.lock"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "recorded\n");
    let lock = SessionLock::take(&home.rewake_home(), &id).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.ends_with(" recorded\n"), "{text}");
    let held_by = SessionLock::holder(&home.rewake_home(), &id);
    assert_eq!(held_by, Some(std::process::id()));
    drop(lock);
    assert_eq!(fs::read_to_string(&file).unwrap(), "recorded\n");
}

/// What only the journal knows has a row too, also where nothing of it could be put back.
#[test]
fn doctor_has_a_row_for_a_session_that_only_the_journal_knows() {
    let home = scripted_with(true, &[step("done", &[])]);
    home.run(["-p", "the first"]).expect(0);
    home.run(["doctor"]).expect(0);
    let id = new_id();
    let folder = home.rewake_home().join("journal").join(&id);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("state.jsonl"), "{\"inbox\":[],\"length\":3}\n").unwrap();
    let doctor = home.run(["doctor"]).expect(1);
    let row = format!("session {id}");
    assert!(doctor.stdout.contains(&row), "{}", doctor.stdout);
    assert!(
        doctor.stdout.contains("the journal has it"),
        "{}",
        doctor.stdout
    );
    assert!(
        !doctor.stdout.contains("nothing is wrong"),
        "{}",
        doctor.stdout
    );
}
