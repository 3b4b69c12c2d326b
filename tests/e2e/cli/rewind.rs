//! Going back: what is set back, what stays, and what is asked for before.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::cli::{SCRIPTED, bash, calling, newest, play, step, write};
use crate::scenes::rewind::*;
use support::{Home, skip_everywhere};

#[test]
fn files_that_calls_wrote_go_back_and_forth() {
    let home = rewriting(&[("a", "new\n")]);
    play(
        &home,
        &[
            step("", &[("read", json!({ "path": "a" }))]),
            step(
                "",
                &[
                    write("a", "new\n"),
                    write("made/here", "1\n"),
                    bash("echo x >> c"),
                ],
            ),
            step("done", &[]),
        ],
    );
    fs::write(home.path("a"), "old\n").unwrap();
    fs::write(home.path("c"), "c\n").unwrap();
    fs::set_permissions(home.path("a"), fs::Permissions::from_mode(0o755)).unwrap();
    let (id, at) = played(&home);
    let shown = rewind(&home, &[&id, &at, "--files", "--preview"], 0);
    for line in [
        "a  +1 −1",
        "made/here  +0 −1",
        "c  +0 −1",
        "1 file changed while a command ran: c",
    ] {
        assert!(shown.stdout.contains(line), "{line}: {}", shown.stdout);
    }
    assert_eq!(home.read("a"), "new\n");
    // Nobody is there to say yes.
    let refused = rewind(&home, &[&id, &at, "--files"], 2);
    assert!(
        refused.stderr.contains("--yes restores the files"),
        "{}",
        refused.stderr
    );
    assert_eq!(home.read("a"), "new\n");
    let done = rewind(&home, &[&id, &at, "--files", "--yes"], 0);
    assert!(
        done.stderr.contains("2 files restored, 1 removed"),
        "{}",
        done.stderr
    );
    let as_before = |home: &Home| {
        assert_eq!(
            (home.read("a"), home.read("c")),
            ("old\n".into(), "c\n".into())
        );
        assert!(!home.path("made").exists());
        let mode = fs::metadata(home.path("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    };
    as_before(&home);
    rewind(&home, &[&id, "--redo", "--yes"], 0);
    assert_eq!(
        (home.read("a"), home.read("made/here")),
        ("new\n".into(), "1\n".into())
    );
    assert_eq!(home.read("c"), "c\nx\n");
    rewind(&home, &[&id, "--redo", "--yes"], 0);
    as_before(&home);
    // Nothing is left of it, and nothing more is to be done.
    let names = fs::read_dir(home.workspace()).unwrap().flatten();
    let left = names.filter(|e| e.file_name().to_string_lossy().contains("rewake-restore"));
    assert_eq!(left.count(), 0);
    let again = rewind(&home, &[&id, &at, "--files", "--yes"], 0);
    assert!(
        again.stderr.contains("no file had to be restored"),
        "{}",
        again.stderr
    );
}

/// A command took modes from the user's files and folders, which only root can ignore.
#[test]
fn modes_that_a_command_changed_do_not_stop_a_rewind() {
    if rustix::process::geteuid().is_root() {
        return skip_everywhere("a user who is not root");
    }
    let home = calling(&[bash(
        "for f in a d/x e/x r/x; do echo new > $f; done; rm r/x; mkdir r/x; chmod 0 a d; chmod -R a-w e; chmod 555 .",
    )]);
    let files = ["a", "d/x", "e/x", "r/x"];
    for path in files {
        fs::create_dir_all(home.path(path).parent().unwrap()).unwrap();
        fs::write(home.path(path), "old\n").unwrap();
    }
    let (id, at) = played(&home);
    let done = rewind(&home, &[&id, &at, "--files", "--yes"], 1);
    for line in [
        "4 files restored",
        "a (what was there lies beside it",
        "d/x (what was there",
    ] {
        assert!(done.stderr.contains(line), "{line}: {}", done.stderr);
    }
    let mode = |path: &str| fs::metadata(home.path(path)).unwrap().permissions().mode() & 0o700;
    assert_eq!((mode("e"), mode(".")), (0o500, 0o500));
    for path in files {
        assert_eq!(home.read(path), "old\n", "{path}");
    }
    for folder in [".", "e"] {
        fs::set_permissions(home.path(folder), fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert_eq!(home.read("d/x.rewake-kept"), "new\n");
}

#[test]
fn rewind_keeps_protected_files_and_files_a_command_created() {
    let home = calling(&[bash(
        "echo 1 > created; echo evil > .envrc; echo x > .git/config",
    )]);
    fs::write(home.path(".envrc"), "mine\n").unwrap();
    fs::create_dir(home.path(".git")).unwrap();
    let (id, at) = played(&home);
    let done = rewind(&home, &[&id, &at, "--files", "--yes"], 1);
    assert!(
        done.stderr
            .contains("created (appeared while a command ran)"),
        "{}",
        done.stderr
    );
    assert!(done.stderr.contains(".envrc (protected"), "{}", done.stderr);
    assert_eq!(
        (home.read("created"), home.read(".envrc")),
        ("1\n".into(), "evil\n".into())
    );
    let done = rewind(&home, &[&id, &at, "--files", "--exact", "--yes"], 1);
    assert!(done.stderr.contains(".envrc (protected"), "{}", done.stderr);
    assert_eq!(home.read(".envrc"), "evil\n");
    assert_eq!(home.read(".git/config"), "x\n");
    assert!(!home.path("created").exists());
}

#[test]
fn a_session_does_not_continue_by_itself_after_a_rewind() {
    let home = rewriting(&[("a", "new\n")]);
    fs::write(home.path("a"), "old\n").unwrap();
    let (id, at) = played(&home);
    // The copy parts where the call was not done yet: an answer is owed there.
    let copy = rewind(&home, &[&id, &at, "--both", "--yes"], 0);
    let copy = copy.stdout.trim().to_string();
    assert_eq!(home.read("a"), "old\n");
    assert_ne!(copy, id);
    let asked = |home: &Home, id: &str| {
        let export = home.run(["export", id, "--json"]).expect(0).stdout;
        export.matches("\"replied\"").count()
    };
    let before = asked(&home, &copy);
    home.run(["-p", "-r", &copy, "--yolo"]);
    assert_eq!(asked(&home, &copy), before, "it went on by itself");
    let only = rewind(&home, &[&id, &at, "--conversation"], 0);
    let only = only.stdout.trim().to_string();
    home.run(["-p", "-r", &only, "--yolo"]);
    assert_eq!(asked(&home, &only), before, "it went on by itself");
    assert_eq!(home.read("a"), "old\n");
    // What the model is told when it is asked again.
    let shown = home.run(["show", &copy]).expect(0).stdout;
    assert!(shown.contains("1 file restored, 0 removed"), "{shown}");
}

#[test]
fn single_files_are_set_back_or_printed() {
    let home = rewriting(&[("a", "new\n"), ("sub/b", "new\n")]);
    fs::write(home.path("a"), "old\n").unwrap();
    fs::create_dir(home.path("sub")).unwrap();
    fs::write(home.path("sub/b"), "old\n").unwrap();
    let (id, at) = played(&home);
    let at = format!("{id}:{at}");
    let printed = home.run(["restore", "a", "--at", &at, "-o", "-"]).expect(0);
    assert_eq!(
        (printed.stdout.as_str(), home.read("a")),
        ("old\n", "new\n".into())
    );
    home.run(["restore", "sub", "--at", &at, "--yes"]).expect(0);
    assert_eq!(
        (home.read("a"), home.read("sub/b")),
        ("new\n".into(), "old\n".into())
    );
    let unknown = home.run(["restore", "c", "--at", &at, "-o", "-"]).expect(2);
    assert!(
        unknown.stderr.contains("no content of it is kept"),
        "{}",
        unknown.stderr
    );
    rewind(&home, &[&id, "3"], 2);
    let unknown = rewind(&home, &[&id, "--redo", "--preview"], 0);
    assert!(unknown.stdout.contains("sub/b"), "{}", unknown.stdout);
}

#[test]
fn a_file_rewind_is_refused_without_snapshots() {
    let home = calling(&[write("a", "new\n")]);
    home.write_config(&format!("{SCRIPTED}[files]\nsnapshots = \"off\"\n"));
    home.run(["-p", "go", "--yolo"]).expect(0);
    let refused = rewind(&home, &[&newest(&home), "3", "--files", "--yes"], 2);
    assert!(
        refused
            .stderr
            .contains("the files are not known at entry 3: this session has no snapshot"),
        "{}",
        refused.stderr
    );
    play(&home, &[step("done", &[])]);
}

/// Nobody looked at the files at the first entries, and nothing changed them until somebody did.
#[test]
fn entries_before_the_first_snapshot_stand_for_it() {
    let home = rewriting(&[("a", "new\n")]);
    fs::write(home.path("a"), "old\n").unwrap();
    let (id, at) = played(&home);
    assert!(at.parse::<u64>().unwrap() > 1, "{at}");
    for entry in ["0", "1"] {
        let shown = rewind(&home, &[&id, entry, "--files", "--preview"], 0);
        assert!(shown.stdout.contains("a  +1 −1"), "{}", shown.stdout);
    }
    rewind(&home, &[&id, "1", "--files", "--yes"], 0);
    assert_eq!(home.read("a"), "old\n");
}

#[test]
fn a_path_is_kept_or_taken_as_it_was_asked_for_and_redo_knows_it() {
    let home = rewriting(&[("a", "new\n"), ("d/x", "new\n"), ("d/y", "new\n")]);
    fs::create_dir(home.path("d")).unwrap();
    for path in ["a", "d/x", "d/y", "mine"] {
        fs::write(home.path(path), "old\n").unwrap();
    }
    let (id, at) = played(&home);
    fs::write(home.path("mine"), "by hand\n").unwrap();
    let all = |home: &Home| ["a", "d/x", "d/y", "mine"].map(|path| home.read(path));
    let done = rewind(
        &home,
        &[
            &id, &at, "--files", "--yes", "--keep", "d", "--take", "mine", "--take", "./d/y",
            "--json",
        ],
        0,
    );
    let chosen = ["old\n", "new\n", "old\n", "old\n"];
    assert_eq!(all(&home), chosen);
    let said: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        said["kept"],
        json!([{ "path": "d/x", "why": "chosen" }]),
        "{said}"
    );
    rewind(&home, &[&id, "--redo", "--yes"], 0);
    assert_eq!(all(&home), ["new\n", "new\n", "new\n", "by hand\n"]);
    rewind(&home, &[&id, "--redo", "--yes"], 0);
    assert_eq!(all(&home), chosen);
    // Who mistypes a path is told, and nothing is done.
    let wrong = rewind(&home, &[&id, "--redo", "--yes", "--keep", "typo"], 2);
    assert!(
        wrong.stderr.contains("nothing at typo differs"),
        "{}",
        wrong.stderr
    );
    assert_eq!(all(&home), chosen);
}

#[test]
fn the_take_option_does_not_restore_a_protected_path() {
    let home = calling(&[bash("echo evil > .envrc")]);
    fs::write(home.path(".envrc"), "mine\n").unwrap();
    let (id, at) = played(&home);
    let done = rewind(
        &home,
        &[&id, &at, "--files", "--yes", "--take", ".envrc"],
        1,
    );
    assert!(done.stderr.contains(".envrc (protected"), "{}", done.stderr);
    assert_eq!(home.read(".envrc"), "evil\n");
}

#[test]
fn a_preview_says_what_it_cannot_do() {
    let home = rewriting(&[("a", "new\n")]);
    fs::write(home.path("a"), "old\n").unwrap();
    home.git(&["init", "-q"]);
    let (id, at) = played(&home);
    let preview = ["--files", "--preview"];
    let shown = rewind(&home, &[&id[..], &at, preview[0], preview[1]], 0);
    assert!(!shown.stderr.contains("HEAD moved"), "{}", shown.stderr);
    assert!(
        shown.stderr.contains("Never restored: commits"),
        "{}",
        shown.stderr
    );
    home.git(&["add", "-A"]);
    home.git(&["commit", "-qm", "what was done"]);
    let shown = rewind(&home, &[&id[..], &at, preview[0], preview[1]], 0);
    assert!(
        shown
            .stderr
            .contains("HEAD moved once since (last: commit (initial): what was done)"),
        "{}",
        shown.stderr
    );
    let shown = rewind(&home, &[&id[..], &at, "--files", "--preview", "--json"], 0);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["warnings"].as_array().unwrap().len(), 1, "{shown}");
}

#[test]
fn a_preview_names_commands_that_run() {
    let home = calling(&[(
        "bash",
        json!({ "command": "sleep 1000; echo over", "background": true }),
    )]);
    fs::write(home.path("a"), "old\n").unwrap();
    let (id, at) = played(&home);
    let shown = rewind(&home, &[&id, &at, "--files", "--preview"], 0);
    let runs = home.run(["ps"]).expect(0).stdout;
    let run = runs.split_whitespace().next().unwrap().to_string();
    home.run(["ps", "stop", &run]).expect(0);
    assert!(
        shown
            .stderr
            .contains("a command runs and may write meanwhile: sleep 1000; echo over"),
        "{}",
        shown.stderr
    );
}

/// What two clones of one repository are before anything is done in them.
#[test]
fn a_folder_with_the_same_files_as_another_is_set_back_alone() {
    let home = calling(&[bash("echo new > f")]);
    let other = home.workspace().with_file_name("other");
    fs::create_dir(&other).unwrap();
    for folder in [&home.workspace(), &other] {
        fs::write(folder.join("f"), "old\n").unwrap();
    }
    let in_other = |args: &[&str]| {
        let mut command = home.rewake(args);
        command.current_dir(&other);
        support::run(command, crate::cli::LIMIT).expect(0)
    };
    home.run(["-p", "go", "--yolo"]).expect(0);
    in_other(&["-p", "go", "--yolo"]);
    let listed = in_other(&["history"]).stdout;
    let id = listed.split_whitespace().next().unwrap().to_string();
    let at = begin(&home, &id);
    in_other(&["rewind", &id, &at, "--files", "--yes"]);
    assert_eq!(fs::read_to_string(other.join("f")).unwrap(), "old\n");
    assert_eq!(home.read("f"), "new\n");
}

/// Returns the text that the model got for its first call.
fn first_result(home: &Home, id: &str) -> String {
    let export = home.run(["export", id, "--json"]).expect(0).stdout;
    let export: Value = serde_json::from_str(&export).unwrap();
    let entries = export["records"].as_array().unwrap();
    let finished = entries.iter().find(|r| r["entry"]["kind"] == "finished");
    let text = &finished.unwrap()["entry"]["outcome"]["output"]["text"];
    text.as_str().unwrap().to_string()
}

#[test]
fn a_failed_command_names_what_changed_and_how_it_comes_back() {
    let home = calling(&[bash("echo new > 'made it'; echo new > keep; exit 3")]);
    fs::write(home.path("keep"), "mine\n").unwrap();
    let (id, _) = played(&home);
    let told = first_result(&home, &id);
    let begin = "[exit code 3]\n[changed since it started: keep, 'made it'; `rewake restore keep 'made it' --at ";
    assert!(told.starts_with(begin), "{told}");
    let at = told.split_once("--at ").unwrap().1;
    let at = at.split_once('`').unwrap().0;
    home.run(["restore", "keep", "made it", "--at", at, "--yes"])
        .expect(0);
    assert_eq!(home.read("keep"), "mine\n");
    assert!(!home.path("made it").exists());
}

#[test]
fn a_failed_command_does_not_name_files_that_a_rule_hides() {
    let home = calling(&[bash("echo new > seen; echo new > a.private; exit 3")]);
    let rules = "[permissions]\ndeny = [\"Read(**/*.private)\"]\n";
    home.write_config(&format!("{SCRIPTED}{rules}"));
    let (id, _) = played(&home);
    let told = first_result(&home, &id);
    let named = "[changed since it started: seen; `rewake restore seen --at ";
    assert!(told.contains(named), "{told}");
    assert!(!told.contains("a.private"), "{told}");
}

#[test]
fn all_of_many_changed_files_come_back_with_the_command_of_the_result() {
    let home = calling(&[bash(
        "for n in $(seq 200); do echo new > f$n; done; kill -9 $$",
    )]);
    fs::write(home.path("f7"), "mine\n").unwrap();
    let (id, _) = played(&home);
    let told = first_result(&home, &id);
    assert!(
        told.contains(" and 190 more; `rewake restore . --at "),
        "{told}"
    );
    let at = told.split_once("--at ").unwrap().1;
    let at = at.split_once('`').unwrap().0;
    home.run(["restore", ".", "--at", at, "--yes"]).expect(0);
    assert_eq!(home.read("f7"), "mine\n");
    assert!(!home.path("f1").exists());
}

#[test]
fn a_command_that_works_or_changes_nothing_names_nothing() {
    for command in ["echo new > made", "test -e missing", "exit 3"] {
        let home = calling(&[bash(command)]);
        let (id, _) = played(&home);
        let told = first_result(&home, &id);
        assert!(!told.contains("changed since"), "{command}: {told}");
    }
}

#[test]
fn an_offer_names_a_file_with_an_odd_name_itself() {
    let home = calling(&[bash("touch \"$(printf 'o\\nd')\"")]);
    let (id, at) = played(&home);
    fs::write(home.path("\"o\\nd\""), "mine\n").unwrap();
    let shown = rewind(&home, &[&id, &at, "--files", "--preview"], 0);
    let offered = "hint: to remove what appeared while a command ran: --take $'o\\x0ad'\n";
    assert!(shown.stderr.contains(offered), "{}", shown.stderr);
    rewind(&home, &[&id, &at, "--files", "--yes", "--take", "o\nd"], 0);
    assert!(!home.path("o\nd").exists());
    assert_eq!(home.read("\"o\\nd\""), "mine\n");
}

#[test]
fn a_preview_offers_to_remove_what_appeared_while_a_command_ran_and_nothing_else() {
    let home = calling(&[bash("echo new > made; echo new > edited")]);
    let (id, at) = played(&home);
    // Not as the command left it.
    fs::write(home.path("edited"), "mine\n").unwrap();
    fs::write(home.path("mine"), "mine\n").unwrap();
    let shown = rewind(&home, &[&id, &at, "--files", "--preview"], 1);
    let offered = "hint: to remove what appeared while a command ran: --take made\n";
    assert!(shown.stderr.contains(offered), "{}", shown.stderr);
    let shown = rewind(&home, &[&id, &at, "--files", "--preview", "--json"], 1);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let kept = shown["kept"].as_array().unwrap();
    let offered = kept.iter().filter(|kept| kept["take"] == "remove");
    let offered: Vec<&Value> = offered.map(|kept| &kept["path"]).collect();
    assert_eq!(offered, ["made"], "{shown}");
    assert_eq!(shown["changes"], json!([]), "{shown}");
    rewind(&home, &[&id, &at, "--files", "--yes", "--take", "made"], 1);
    assert!(!home.path("made").exists());
    assert_eq!(
        (home.read("edited"), home.read("mine")),
        ("mine\n".into(), "mine\n".into())
    );
}

#[test]
fn what_appeared_while_a_command_ran_does_not_fail_a_rewind() {
    let home = calling(&[bash("echo new > made; echo new > a")]);
    fs::write(home.path("a"), "old\n").unwrap();
    let (id, at) = played(&home);
    rewind(&home, &[&id, &at, "--files", "--yes"], 0);
    assert_eq!(
        (home.read("a"), home.read("made")),
        ("old\n".into(), "new\n".into())
    );
}
