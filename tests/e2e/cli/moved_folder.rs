//! A project's folder is renamed or moved, and its sessions continue in the new place.

use std::fs;
use std::path::{Path, PathBuf};

use rewake::core::entry::{Entry, RecognisedBy, Record};
use rewake::core::tree::named;
use serde_json::json;

use crate::cli::{LIMIT, newest, play, records, refused, scripted, step, until, write};
use crate::scenes::hooks::hooks;
use support::{ENTER, Home, Live, Run, Terminal, run, skip_everywhere};

/// A session in a folder with these files. If there are any, it adds one, so there is a snapshot.
fn worked(files: &[(&str, &str)]) -> (Home, String) {
    let calls = [write("added", "by the agent\n")];
    let calls = if files.is_empty() { &[][..] } else { &calls };
    let home = scripted(&[step("First answer.", calls), step("First answer.", &[])]);
    for (name, text) in files {
        fs::write(home.path(name), text).unwrap();
    }
    home.run(["-p", "one", "--yolo"]).expect(0);
    then(&home, &[step("Second answer.", &[])]);
    let id = newest(&home);
    (home, id)
}

/// Plays these answers after those that are in the log: their number selects the next one.
fn then(home: &Home, steps: &[String]) {
    let is_answer = |record: &Record| matches!(record.entry, Entry::Replied { .. });
    let past = records(home).iter().filter(|r| is_answer(r)).count();
    play(
        home,
        &[vec![step("past", &[]); past], steps.to_vec()].concat(),
    );
}

fn beside(home: &Home, name: &str) -> PathBuf {
    home.workspace().with_file_name(name)
}

/// Renames the folder of the session. Returns the new one.
fn renamed(home: &Home) -> PathBuf {
    let new = beside(home, "renamed");
    fs::rename(home.workspace(), &new).unwrap();
    new
}

/// Moves the files alone, as to another disk, and returns the new folder.
fn copied(home: &Home) -> PathBuf {
    let new = beside(home, "copied");
    fs::create_dir(&new).unwrap();
    for file in fs::read_dir(home.workspace()).unwrap().flatten() {
        fs::copy(file.path(), new.join(file.file_name())).unwrap();
    }
    fs::remove_dir_all(home.workspace()).unwrap();
    new
}

fn runs_in(home: &Home, folder: &Path, args: &[&str]) -> Run {
    let mut command = home.rewake(args);
    command.current_dir(folder);
    run(command, LIMIT)
}

/// The place and the reason of each move that the newest session records.
fn moves(home: &Home) -> Vec<(String, RecognisedBy)> {
    let entries = records(home).into_iter().map(|record| record.entry);
    let moved = entries.filter_map(|entry| match entry {
        Entry::Relocated { folder, by, .. } => Some((folder, by)),
        _ => None,
    });
    moved.collect()
}

const THREE: [(&str, &str); 3] = [("a", "one\n"), ("b", "two\n"), ("c", "three\n")];

#[test]
fn a_session_continues_in_a_renamed_folder() {
    let forms: [&[&str]; 4] = [
        &["-p", "-c", "two"],
        &["-p", "two", "-r", "ID"],
        &["-p", "two", "-r", "ID", "--fork-session"],
        &["-p", "two", "-r", "ID", "-C", "."],
    ];
    for form in forms {
        let (home, id) = worked(&[]);
        let new = renamed(&home);
        let args: Vec<&str> = form
            .iter()
            .map(|arg| if *arg == "ID" { &id } else { *arg })
            .collect();
        let run = runs_in(&home, &new, &args).expect(0);
        assert_eq!(run.stdout, "Second answer.\n");
        let line = "is not there any more";
        let said = run.stderr.lines().filter(|l| l.contains(line)).count();
        assert_eq!(said, 1, "{}", run.stderr);
        let place = (new.display().to_string(), RecognisedBy::Folder);
        assert_eq!(moves(&home), [place], "{form:?}");
        // It is a session of the new folder from here on, and no second line names the move.
        then(&home, &[step("Third answer.", &[])]);
        let run = runs_in(&home, &new, &["-p", "-c", "three"]).expect(0);
        assert!(!run.stderr.contains(line), "{}", run.stderr);
        assert_eq!(moves(&home).len(), 1);
        assert!(!beside(&home, "work").exists());
    }
}

#[test]
fn a_link_at_the_old_path_counts_as_moved() {
    for through in ["work", "renamed"] {
        let (home, _) = worked(&[]);
        let new = renamed(&home);
        std::os::unix::fs::symlink(&new, home.workspace()).unwrap();
        let run = runs_in(&home, &beside(&home, through), &["-p", "-c", "two"]).expect(0);
        assert_eq!(run.stdout, "Second answer.\n", "{}", run.stderr);
        let place = (new.display().to_string(), RecognisedBy::Folder);
        assert_eq!(moves(&home), [place], "{through}");
    }
}

#[test]
fn the_model_works_in_the_new_place() {
    let (home, _) = worked(&[]);
    then(
        &home,
        &[step("", &[write("made", "x\n")]), step("done", &[])],
    );
    let new = renamed(&home);
    let args = ["-p", "-c", "two", "--permission-mode", "acceptEdits"];
    runs_in(&home, &new, &args).expect(0);
    assert_eq!(fs::read_to_string(new.join("made")).unwrap(), "x\n");
}

/// The call is settled in the new place, and the session is never stuck.
#[test]
fn a_kill_during_a_call_and_a_move_lose_nothing() {
    let waits = "touch ~/began; until [ -e ~/go ]; do sleep 0.01; done; touch here";
    let call = ("bash", json!({ "command": waits }));
    let home = scripted(&[step("", &[call]), step("done", &[])]);
    let mut live = Live::spawn(home.rewake(["-p", "one", "--yolo"]));
    until(|| home.user().join("began").exists());
    live.kill();
    live.wait(LIMIT);
    let new = renamed(&home);
    fs::write(home.user().join("go"), "").unwrap();
    let run = runs_in(&home, &new, &["-p", "-c"]).expect(0);
    assert_eq!(run.stdout, "done\n", "{}", run.stderr);
    assert!(new.join("here").exists());
    assert_eq!(moves(&home).len(), 1);
    let ends = |r: &&Record| matches!(r.entry, Entry::Finished { .. });
    assert_eq!(records(&home).iter().filter(ends).count(), 1);
}

/// A folder that only looks like the one before: the command that still runs is ended.
#[test]
fn what_runs_ends_before_the_session_continues_in_another_folder() {
    let (home, id) = worked(&THREE);
    let waits = "touch ~/began; until [ -e ~/go ]; do sleep 0.01; done; touch ~/here";
    let call = ("bash", json!({ "command": waits }));
    then(&home, &[step("", &[call]), step("done", &[])]);
    let mut live = Live::spawn(home.rewake(["-p", "-c", "two", "--yolo"]));
    until(|| home.user().join("began").exists());
    live.kill();
    live.wait(LIMIT);
    let new = copied(&home);
    let run = runs_in(&home, &new, &["-p", "-r", &id]).expect(0);
    assert_eq!(run.stdout, "done\n", "{}", run.stderr);
    assert_eq!(moves(&home)[0].1, RecognisedBy::Files);
    let processes = runs_in(&home, &new, &["ps"]).expect(0);
    assert!(!processes.stdout.contains("began"), "{}", processes.stdout);
    assert!(!home.user().join("here").exists());
}

#[test]
fn files_of_the_last_snapshot_recognise_a_folder_on_another_disk() {
    let (home, id) = worked(&THREE);
    let new = copied(&home);
    fs::write(new.join("a"), "changed\n").unwrap();
    fs::write(new.join("c"), "changed\n").unwrap();
    let named = ["-p", "two", "-r", &id];
    // Two of four are too few.
    refused(runs_in(&home, &new, &named), 2, &["if it was moved"]);
    fs::write(new.join("a"), "one\n").unwrap();
    // Files may be those of another project, so the session has to be named.
    let newest = runs_in(&home, &new, &["-p", "-c", "two"]);
    refused(newest, 2, &["no session in"]);
    runs_in(&home, &new, &named).expect(0);
    assert_eq!(moves(&home)[0].1, RecognisedBy::Files);
}

#[test]
fn a_commit_recognises_a_repository_whose_files_all_changed() {
    let home = scripted(&[step("First answer.", &[])]);
    home.git(&["init", "-q"]);
    fs::write(home.path("a"), "one\n").unwrap();
    home.git(&["add", "."]);
    home.git(&["commit", "-q", "-m", "x"]);
    fs::create_dir(home.path("sub")).unwrap();
    runs_in(&home, &home.path("sub"), &["-p", "one"]).expect(0);
    let new = beside(&home, "cloned");
    let (from, to) = (home.workspace(), new.display().to_string());
    support::git(&from, &["clone", "-q", ".", &to]);
    fs::remove_dir_all(&from).unwrap();
    fs::write(new.join("a"), "other\n").unwrap();
    fs::create_dir(new.join("sub")).unwrap();
    let id = newest(&home);
    then(&home, &[step("Second answer.", &[])]);
    let other = runs_in(&home, &new, &["-p", "-c", "two"]);
    refused(other, 2, &["no session in"]);
    runs_in(&home, &new, &["-p", "two", "-r", &id]).expect(0);
    // It works in the same folder below the root.
    let place = new.join("sub").display().to_string();
    assert_eq!(moves(&home), [(place, RecognisedBy::Repository)]);
}

#[test]
fn another_folder_is_refused_unless_it_is_named() {
    let (home, id) = worked(&THREE);
    fs::remove_dir_all(home.workspace()).unwrap();
    let other = beside(&home, "other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("a"), "something else\n").unwrap();
    refused(
        runs_in(&home, &other, &["-p", "-c", "two"]),
        2,
        &["no session in"],
    );
    let hint = format!("if it was moved: rewake -C DIR -r {id}");
    refused(
        runs_in(&home, &other, &["-p", "two", "-r", &id]),
        2,
        &[&hint],
    );
    assert_eq!(moves(&home), []);
    let named = other.display().to_string();
    let args = ["-p", "two", "-r", &id, "-C", &named];
    runs_in(&home, &home.user(), &args).expect(0);
    assert_eq!(moves(&home), [(named, RecognisedBy::Request)]);
}

#[test]
fn a_session_whose_folder_exists_stays_there() {
    let (home, id) = worked(&THREE);
    let copy = beside(&home, "copy");
    fs::create_dir(&copy).unwrap();
    for (name, text) in THREE {
        fs::write(copy.join(name), text).unwrap();
    }
    refused(
        runs_in(&home, &copy, &["-p", "-c", "two"]),
        2,
        &["no session in"],
    );
    let args = ["-p", "two", "-r", &id, "-C", &copy.display().to_string()];
    runs_in(&home, &copy, &args).expect(0);
    assert_eq!(moves(&home), []);
}

/// Only a folder that does not exist was moved.
#[test]
fn a_folder_that_cannot_be_read_is_not_taken_for_a_moved_one() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        return skip_everywhere("a user who is not root");
    }
    let home = scripted(&[step("First answer.", &[])]);
    let old = home.path("above/old");
    fs::create_dir_all(&old).unwrap();
    for (name, text) in THREE {
        fs::write(old.join(name), text).unwrap();
    }
    runs_in(&home, &old, &["-p", "one"]).expect(0);
    let id = newest(&home);
    let new = beside(&home, "renamed");
    fs::rename(&old, &new).unwrap();
    let mode = |mode| fs::set_permissions(home.path("above"), fs::Permissions::from_mode(mode));
    mode(0).unwrap();
    let named = runs_in(&home, &new, &["-p", "two", "-r", &id]);
    let newest = runs_in(&home, &new, &["-p", "-c", "two"]);
    mode(0o755).unwrap();
    refused(named, 2, &["cannot work in"]);
    refused(newest, 2, &["no session in"]);
    assert_eq!(moves(&home), []);
}

#[test]
fn a_kill_before_the_first_answer_leaves_a_session_of_the_new_folder() {
    let (home, id) = worked(&THREE);
    let waits = "touch ~/began; until [ -e ~/go ]; do sleep 0.01; done";
    hooks(&home, &[("UserPromptSubmit", "", waits)]);
    let new = renamed(&home);
    let mut command = home.rewake(["-p", "-r", &id, "two"]);
    command.current_dir(&new);
    let mut live = Live::spawn(command);
    until(|| home.user().join("began").exists());
    assert_eq!(moves(&home).len(), 1);
    live.kill();
    live.wait(LIMIT);
    fs::write(home.user().join("go"), "").unwrap();
    let run = runs_in(&home, &new, &["-p", "-c"]).expect(0);
    assert_eq!(run.stdout, "Second answer.\n", "{}", run.stderr);
    assert_eq!(moves(&home).len(), 1);
}

#[test]
fn files_go_back_to_a_time_before_the_move() {
    let (home, id) = worked(&THREE);
    let read = ("read", json!({ "path": "a" }));
    let calls = [write("a", "by the agent\n"), write("made", "x\n")];
    then(
        &home,
        &[step("", &[read]), step("", &calls), step("done", &[])],
    );
    home.run(["-p", "-c", "two", "--yolo"]).expect(0);
    let new = renamed(&home);
    then(
        &home,
        &[
            step("", &[("read", json!({ "path": "b" }))]),
            step("", &[write("b", "later\n")]),
            step("done", &[]),
        ],
    );
    runs_in(&home, &new, &["-p", "-c", "three", "--yolo"]).expect(0);
    let named = records(&home)
        .into_iter()
        .find(|r| named(&r.entry).is_some());
    let at = named.unwrap().seq.to_string();
    let args = ["rewind", &id, &at, "--files", "--yes"];
    runs_in(&home, &new, &args).expect(0);
    let text = |name: &str| fs::read_to_string(new.join(name)).unwrap();
    assert_eq!((text("a"), text("b")), ("one\n".into(), "two\n".into()));
    assert!(!new.join("made").exists());
    assert!(!home.workspace().exists());
}

#[test]
fn the_screen_asks_once() {
    for args in [&[][..], &["-c"]] {
        for answer in ["y", "n"] {
            let (home, _) = worked(&THREE);
            let new = renamed(&home);
            let mut command = home.rewake(args);
            command.current_dir(&new);
            let mut terminal = Terminal::of(command);
            terminal.sees("Continue it there? [y/N]");
            terminal.types(answer);
            terminal.types(ENTER);
            match (answer, args) {
                ("y", _) => terminal.sees("First answer."),
                (_, []) => terminal.waits("a new session", |shown| !shown.contains("[y/N]")),
                _ => terminal.sees("nothing was continued"),
            }
            assert_eq!(moves(&home).len(), usize::from(answer == "y"));
        }
    }
}
