//! `rewake export --bundle` and `rewake import FILE`: sessions move between two homes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::{LIMIT, newest};
use crate::scenes::bundles::*;
use support::{Answer, Home, Live, Protocol, Server, run, skip_everywhere};

/// Number of kills of the agent. `REWAKE_BUNDLE_KILLS` sets another one.
const KILLS: u64 = 3;

#[test]
fn no_open_call_is_run_elsewhere() {
    let kills = std::env::var("REWAKE_BUNDLE_KILLS").ok();
    let kills: u64 = kills.and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    for n in 0..kills {
        let server = worker();
        let there = Home::with(&server, Protocol::Chat);
        let args = [
            "-p",
            "please work",
            "--permission-mode",
            "bypassPermissions",
        ];
        let mut live = Live::spawn(there.rewake(args));
        // Any moment counts: what was recorded until then is exported.
        std::thread::sleep(Duration::from_millis(30 + n * 37 % 700));
        live.kill();
        live.wait(LIMIT);
        if there.run(["history"]).expect(0).stdout.is_empty() {
            continue;
        }
        let id = newest(&there);
        let bytes = bundle_of(&there, &id);
        let other = speaker();
        let here = Home::with(&other, Protocol::Chat);
        let folder = here.workspace();
        let ids = imported(&here, &bytes, &["--folder", folder.to_str().unwrap()]);
        assert_eq!(ids, std::slice::from_ref(&id));
        here.run(["-p", "go on", "-r", &id]).expect(0);
        assert_eq!(here.read("effects"), "", "kill {n}");
        assert!(!here.path("made").exists(), "kill {n}");
        other.assert_no_violations();
        // The journal by hand gives a copy, too.
        let by_hand = Home::with(&other, Protocol::Chat);
        let journal = there.rewake_home().join("journal");
        let repaired = by_hand.run(["doctor", "--repair", "--from", journal.to_str().unwrap()]);
        assert!(
            repaired.code() == Some(0),
            "{} {}",
            repaired.stdout,
            repaired.stderr
        );
        by_hand
            .run([
                "-p",
                "go on",
                "-r",
                &id,
                "-C",
                by_hand.workspace().to_str().unwrap(),
            ])
            .expect(0);
        assert_eq!(by_hand.read("effects"), "", "kill {n}");
        assert!(!by_hand.path("made").exists(), "kill {n}");
        // Nor is anything repeated where it came from.
        let count = |text: &str| there.read("effects").matches(text).count();
        assert!(count("one") <= 1 && count("two") <= 1, "kill {n}");
    }
}

#[test]
fn a_fork_has_a_folder_and_a_model_of_this_machine() {
    let (there, id) = killed(&worker());
    let bytes = bundle_of(&there, &id);
    let server = speaker();
    let here = Home::new();
    here.write_config(&format!(
        "model = \"near/one\"\n[providers.near]\nprotocol = \"openai-chat\"\nbase_url = \"{}\"\napi_key_env = \"LOCAL_KEY\"\n",
        server.base_url(Protocol::Chat)
    ));
    imported(&here, &bytes, &[]);
    // The other machine is out of reach.
    let gone = there.workspace();
    drop(there);
    assert!(!gone.exists());
    let refused = here.run(["-p", "go on", "-r", &id]).expect(2);
    assert!(refused.stderr.contains("-C"), "{}", refused.stderr);
    let work = here.workspace();
    let went = here
        .run(["-C", work.to_str().unwrap(), "-p", "go on", "-r", &id])
        .expect(0);
    assert!(
        went.stderr
            .contains("local/test-model of the session cannot be used"),
        "{}",
        went.stderr
    );
    let forked = here.run(["history"]).expect(0).stdout;
    assert!(forked.lines().next().unwrap().contains("⑂"), "{forked}");
    let other = Home::with(&server, Protocol::Chat);
    let folder = other.user().join("project");
    std::fs::create_dir(&folder).unwrap();
    imported(&other, &bytes, &["--folder", folder.to_str().unwrap()]);
    let unconfirmed = other.run(["-p", "go on", "-r", &id]).expect(2).stderr;
    assert!(unconfirmed.contains("was not confirmed"), "{unconfirmed}");
    other
        .run(["-C", folder.to_str().unwrap(), "-p", "go on", "-r", &id])
        .expect(0);
    let show = other.run(["history", "--json", "--all"]).stdout;
    assert!(
        !show.contains("please work") || show.contains(folder.to_str().unwrap()),
        "{show}"
    );
}

/// A project with files that a bundle must not place, and a session that changed two of them.
fn project() -> (Home, String) {
    let server = Server::start(|seen| match seen.turn {
        0 => Answer::call(
            "bash",
            json!({ "command": "echo changed > a; mkdir -p sub; printf '\\377\\000' > sub/raw" }),
        ),
        _ => Answer::text("changed"),
    });
    let home = Home::with(&server, Protocol::Chat);
    let work = home.workspace();
    let write = |path: &str, text: &str| {
        let path = work.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("a", "first");
    write(".vscode/tasks.json", "{}");
    write("AGENTS.md", "obey");
    write(".env", "SECRET=1");
    write("run.sh", "#!/bin/sh");
    let mode = std::fs::Permissions::from_mode(0o4755);
    std::fs::set_permissions(work.join("run.sh"), mode).unwrap();
    for (target, link) in [
        ("a", "inside"),
        ("/etc/passwd", "out"),
        ("sub/../../x", "up"),
    ] {
        std::os::unix::fs::symlink(target, work.join(link)).unwrap();
    }
    let args = [
        "-p",
        "change them",
        "--permission-mode",
        "bypassPermissions",
    ];
    home.run(args).expect(0);
    let id = newest(&home);
    (home, id)
}

#[test]
fn files_come_along_and_protected_ones_are_not_placed() {
    let (there, id) = project();
    let exported = there
        .run(["export", &id, "--bundle", "s.rewake", "--files", "last"])
        .expect(0);
    assert!(
        exported.stderr.contains(".env (a secret)"),
        "{}",
        exported.stderr
    );
    let bytes = std::fs::read(there.path("s.rewake")).unwrap();
    drop(there);
    let server = speaker();
    let here = Home::with(&server, Protocol::Chat);
    imported(&here, &bytes, &[]);
    let taken = here.path("taken");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(taken.join("mine"), "mine").unwrap();
    let refused = here.run(["fork", &id, "--files", "taken"]).expect(2);
    for way in ["rewake diff", "rewake restore"] {
        assert!(refused.stderr.contains(way), "{}", refused.stderr);
    }
    let forked = here.run(["fork", &id, "--files", "new"]).expect(0);
    let new = here.path("new");
    let read = |path: &str| std::fs::read(new.join(path)).unwrap();
    assert_eq!(read("a"), b"changed\n");
    assert_eq!(read("sub/raw"), [0xff, 0]);
    assert_eq!(read("inside"), b"changed\n");
    // Nor the mode of the folder.
    let mode = std::fs::metadata(&new).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    let refused = here.run(["fork", &id, "--worktree"]).expect(2);
    assert!(
        refused.stderr.contains("not a git repository"),
        "{}",
        refused.stderr
    );
    let mode = std::fs::metadata(new.join("run.sh")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o7777, 0o755);
    let all: Vec<String> = std::fs::read_dir(&new)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for absent in [".vscode", "AGENTS.md", ".env", "out", "up"] {
        assert!(!all.iter().any(|name| name == absent), "{all:?}");
        assert!(
            forked.stderr.contains(absent),
            "{absent}: {}",
            forked.stderr
        );
    }
    // The fork works there, and a file must be read before it is changed.
    let fork = forked.stdout.trim().to_string();
    here.run(["-p", "continue", "-r", &fork]).expect(0);
    let body = server.requests()[0].body.clone().unwrap();
    let body = String::from_utf8_lossy(&body).into_owned();
    assert!(body.contains("comes from another machine"), "{body}");
    assert!(body.contains(new.to_str().unwrap()), "{body}");
    // For an existing checkout, single files are taken, and nothing is written by itself.
    let at = format!("{id}:4");
    let mut found = Vec::new();
    for entry in 1..9 {
        let at = format!("{id}:{entry}");
        let one = here.run(["restore", "a", "--at", &at, "-o", "-"]);
        found.push(one.stdout);
    }
    assert!(
        found.iter().any(|text| text == "changed\n"),
        "{at}: {found:?}"
    );
    let before = here.run(["history"]).expect(0).stdout;
    for refused in [
        here.run(["restore", "a", "--at", &at, "--yes"]).expect(2),
        here.run(["rewind", &id, "4", "--files", "--yes"]).expect(2),
        here.run(["rewind", &id, "4", "--both", "--yes"]).expect(2),
    ] {
        assert!(
            refused.stderr.contains("it is a copy"),
            "{}",
            refused.stderr
        );
    }
    assert!(!here.path("a").exists());
    // And no fork is left of it.
    assert_eq!(
        here.run(["history"]).expect(0).stdout.lines().count(),
        before.lines().count()
    );
    // Without files there is nothing to put into a folder.
    let (plain, id) = project();
    let bytes = bundle_of(&plain, &id);
    drop(plain);
    imported(&here, &bytes, &[]);
    let refused = here.run(["fork", &id, "--files", "newer"]).expect(2);
    assert!(refused.stderr.contains("bundle"), "{}", refused.stderr);
    assert!(!here.path("newer").exists());
    // A bundle chooses no repository here.
    let refused = here.run(["fork", &id, "--worktree"]).expect(2);
    assert!(!refused.stderr.is_empty());
}

/// The changes of a command of the other machine after the last snapshot are only there.
#[test]
fn a_killed_session_gets_the_files_of_its_last_snapshot() {
    let (there, id) = killed(&worker());
    there
        .run(["export", &id, "--bundle", "s.rewake", "--files", "last"])
        .expect(0);
    let bytes = std::fs::read(there.path("s.rewake")).unwrap();
    let server = speaker();
    let here = Home::with(&server, Protocol::Chat);
    imported(&here, &bytes, &[]);
    let forked = here.run(["fork", &id, "--files", "new"]).expect(0);
    assert!(
        forked.stderr.contains("the files are those of entry"),
        "{}",
        forked.stderr
    );
    let read = |name: &str| std::fs::read_to_string(here.path("new").join(name)).unwrap();
    assert_eq!(
        (read("effects"), read("made")),
        ("one\n".into(), "made".into())
    );
    here.run(["-p", "go further", "-r", forked.stdout.trim()])
        .expect(0);
    let body = server.requests()[0].body.clone().unwrap();
    let body = String::from_utf8_lossy(&body).into_owned();
    assert!(body.contains("had no result at that time"), "{body}");
    // A session of this machine says where its files are known.
    let refused = there.run(["fork", &id, "--files", "new"]).expect(2);
    assert!(
        refused.stderr.contains("they are known at entry"),
        "{}",
        refused.stderr
    );
}

/// The entry before a fork may belong to the copy, though the session that is asked does not.
#[test]
fn a_fork_of_a_fork_works_in_the_folder_of_the_fork() {
    let (there, id) = killed(&worker());
    let bytes = bundle_of(&there, &id);
    drop(there);
    let server = speaker();
    let here = Home::with(&server, Protocol::Chat);
    let folder = here.user().join("project");
    std::fs::create_dir(&folder).unwrap();
    imported(&here, &bytes, &["--folder", folder.to_str().unwrap()]);
    let first = here.run(["-C", folder.to_str().unwrap(), "fork", &id]);
    let first = first.expect(0).stdout.trim().to_string();
    let second = here.run(["fork", &first, "--at", "1"]).expect(0);
    let second = second.stdout.trim().to_string();
    here.run(["-p", "continue", "-r", &second]).expect(0);
    let requests = server.requests();
    let body = String::from_utf8_lossy(requests[0].body.as_ref().unwrap()).into_owned();
    assert!(
        body.contains("This session comes from another machine"),
        "{body}"
    );
    assert!(
        body.contains(&format!("folder: {}", folder.display())),
        "{body}"
    );
}

/// The folder that a bundle names does not open the home folder of this machine.
#[test]
fn a_bundle_of_the_home_folder_needs_a_folder() {
    let server = speaker();
    let home = Home::with(&server, Protocol::Chat);
    let user = home.user();
    home.run(["-C", user.to_str().unwrap(), "-p", "one"])
        .expect(0);
    let listed = home.run(["-C", user.to_str().unwrap(), "history", "--json"]);
    let listed = listed.expect(0).stdout;
    let id = listed.split("\"id\":\"").nth(1).unwrap()[..36].to_string();
    std::fs::write(home.path("s.rewake"), bundle_of(&home, &id)).unwrap();
    // Another store of a user whose home folder has the same path.
    let here = Home::with(&server, Protocol::Chat);
    let bundle = home.path("s.rewake");
    let as_user = |args: &[&str]| {
        let mut command = here.rewake(args);
        command.env("HOME", &user);
        run(command, LIMIT)
    };
    let imported = as_user(&["import", bundle.to_str().unwrap()]).expect(0);
    assert_eq!(imported.stdout.trim(), id);
    // Also not where the user says so, or by a link.
    let link = home.path("link");
    std::os::unix::fs::symlink(&user, &link).unwrap();
    let ssh = user.join(".ssh");
    std::fs::create_dir(&ssh).unwrap();
    let named = [&user, &link, &ssh, Path::new("/"), &here.rewake_home()].map(Path::to_path_buf);
    for folder in std::iter::once(None).chain(named.into_iter().map(Some)) {
        let shown = folder.as_ref().map(|f| f.to_str().unwrap().to_string());
        let place: Vec<&str> = shown.iter().flat_map(|f| ["-C", f.as_str()]).collect();
        let refused = as_user(&[&place[..], &["-p", "continue", "-r", &id]].concat()).expect(2);
        assert!(
            refused.stderr.contains("is not used for it"),
            "{folder:?}: {}",
            refused.stderr
        );
        assert!(refused.stderr.contains("-C DIR"), "{}", refused.stderr);
    }
}

#[test]
fn files_are_whole_private_and_never_replaced_unasked() {
    let server = speaker();
    let home = Home::with(&server, Protocol::Chat);
    home.run(["-p", "one"]).expect(0);
    home.run(["-p", "two"]).expect(0);
    let all = home
        .run(["export", "--all", "--bundle", "all.rewake"])
        .expect(0);
    assert!(
        all.stderr.contains("2 sessions") && all.stderr.contains("secrets"),
        "{}",
        all.stderr
    );
    let file = home.path("all.rewake");
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let refused = home
        .run(["export", "--all", "--bundle", "all.rewake"])
        .expect(2);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    home.run(["export", "--all", "--bundle", "all.rewake", "--force"])
        .expect(0);
    let left = std::fs::read_dir(home.workspace()).unwrap().count();
    assert_eq!(left, 1, "only the bundle");
    let check = home.run(["import", "--check", "all.rewake"]).expect(0);
    assert_eq!(check.stdout.lines().count(), 2, "{}", check.stdout);
    // Its name does not matter.
    let renamed = home.path("0197");
    std::fs::rename(&file, &renamed).unwrap();
    let json = home.run(["import", "0197", "--json"]).expect(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(json["sessions"][0]["appended"], 0);
    if Command::new("zstd").arg("--version").output().is_err() {
        return skip_everywhere("zstd");
    }
    let lines = Command::new("zstd")
        .arg("-dc")
        .arg(&renamed)
        .output()
        .unwrap();
    assert!(lines.status.success());
    assert!(lines.stdout.starts_with(b"{\"bundle\":1"));
}

#[test]
fn a_bundle_goes_through_age() {
    if Command::new("age-keygen")
        .arg("--version")
        .output()
        .is_err()
    {
        return skip_everywhere("age");
    }
    let server = speaker();
    let home = Home::with(&server, Protocol::Chat);
    home.run(["-p", "one"]).expect(0);
    let id = newest(&home);
    let here = Home::with(&server, Protocol::Chat);
    let script = "age-keygen -o key 2>/dev/null && \
        \"$REWAKE\" export \"$ID\" --bundle - | age -r \"$(age-keygen -y key)\" > x.age && \
        age -d -i key x.age | REWAKE_HOME=\"$OTHER\" \"$REWAKE\" import -";
    let mut command = home.rewake::<&str>([]);
    let mut shell = Command::new("bash");
    shell
        .args(["-o", "pipefail", "-c", script])
        .current_dir(home.workspace())
        .env_clear()
        .env("REWAKE", env!("CARGO_BIN_EXE_rewake"))
        .env("ID", &id)
        .env("OTHER", here.rewake_home());
    for (name, value) in command.stdin(Stdio::null()).get_envs() {
        shell.envs(value.map(|value| (name, value)));
    }
    let ran = run(shell, LIMIT).expect(0);
    assert_eq!(ran.stdout.trim(), id, "{}", ran.stderr);
}

#[test]
fn bad_input_is_named_and_nothing_is_recorded() {
    let server = speaker();
    let there = Home::with(&server, Protocol::Chat);
    there.run(["-p", "one"]).expect(0);
    let id = newest(&there);
    let bytes = bundle_of(&there, &id);
    let here = Home::with(&server, Protocol::Chat);
    let mut changed = bytes.clone();
    changed[100] ^= 1;
    let cut = &bytes[..bytes.len() - 1];
    let longer = [&bytes[..], b"x"].concat();
    for (name, bytes) in [("changed", &changed[..]), ("cut", cut), ("longer", &longer)] {
        std::fs::write(here.path(name), bytes).unwrap();
        let refused = here.run(["import", name]).expect(1);
        assert!(
            refused.stderr.contains("damaged"),
            "{name}: {}",
            refused.stderr
        );
        assert!(
            refused.stderr.contains("--partial"),
            "{name}: {}",
            refused.stderr
        );
        assert!(refused.stdout.is_empty());
        here.run(["import", name, "--check"]).expect(1);
    }
    assert!(here.run(["history"]).expect(0).stdout.is_empty());
    std::fs::write(here.path("good"), &bytes).unwrap();
    for (args, says) in [
        (
            vec!["import", "good", "--folder", "nowhere"],
            "is no folder",
        ),
        (
            vec!["import", "good", "claude"],
            "not imported in one command",
        ),
        (vec!["import", "good", "--branches"], "other agents"),
        (vec!["import", "x", "--partial"], "for bundles"),
        (vec!["export", "--bundle", "x"], "ID"),
        (vec!["export", "a", "--all", "--bundle", "x"], "--all"),
        (vec!["export", &id, "--force"], "--output"),
        (vec!["export", "ffff", "--bundle", "x"], "ffff"),
        (
            vec!["doctor", "--repair", "--from", ".", "--same-machine"],
            "no terminal",
        ),
    ] {
        let refused = here.run(&args).expect(2);
        assert!(
            refused.stderr.contains(says),
            "{args:?}: {}",
            refused.stderr
        );
    }
    let lost = there
        .run(["export", &id, "--bundle", "no/such/folder/x"])
        .expect(1);
    assert!(lost.stderr.contains("no/such/folder"), "{}", lost.stderr);
    let near = there
        .run(["export", &format!("{}zz", &id[..11]), "--bundle", "x"])
        .expect(2);
    assert!(near.stderr.contains(&id[..8]), "{}", near.stderr);
    assert!(!there.path("x").exists());
    // --partial has what comes before the damage. Of one frame that is nothing.
    let partial = here.run(["import", "cut", "--partial"]).expect(0);
    assert!(
        partial.stderr.contains("not all of the bundle"),
        "{}",
        partial.stderr
    );
    assert_eq!(partial.stdout.trim(), id);
}

#[test]
fn a_damaged_session_is_not_exported() {
    let server = speaker();
    let home = Home::with(&server, Protocol::Chat);
    home.run(["-p", "one"]).expect(0);
    let id = newest(&home);
    let database = rusqlite::Connection::open(home.rewake_home().join("rewake.db")).unwrap();
    let changed = database.execute("UPDATE entries SET body = x'00' WHERE seq = 1", []);
    assert_eq!(changed.unwrap(), 1);
    drop(database);
    let refused = home.run(["export", &id, "--bundle", "x"]).expect(1);
    assert!(
        refused.stderr.contains("doctor --repair"),
        "{}",
        refused.stderr
    );
    assert!(!home.path("x").exists());
    assert_eq!(std::fs::read_dir(home.workspace()).unwrap().count(), 0);
}

#[test]
fn two_imports_at_once_both_succeed_and_a_killed_one_is_completed() {
    let server = speaker();
    let there = Home::with(&server, Protocol::Chat);
    for n in 0..4 {
        there
            .run(["-p", &format!("words {n} {}", "x".repeat(20_000))])
            .expect(0);
    }
    there
        .run(["export", "--all", "--bundle", "all.rewake"])
        .expect(0);
    let file = there.path("all.rewake");
    let file = file.to_str().unwrap();
    let here = Home::with(&server, Protocol::Chat);
    let both = [(); 2].map(|()| Live::spawn(here.rewake(["import", file])));
    let [a, b] = both.map(|live| live.wait(LIMIT).expect(0).stdout);
    assert_eq!(a.lines().count(), 4);
    assert_eq!(a, b);
    let whole = here.run(["import", file, "--json"]).expect(0).stdout;
    for n in 0..10_u64 {
        let here = Home::with(&server, Protocol::Chat);
        let mut live = Live::spawn(here.rewake(["import", file]));
        std::thread::sleep(Duration::from_millis(n * 8));
        live.kill();
        live.wait(LIMIT);
        assert_eq!(here.run(["import", file]).expect(0).stdout, a);
        assert_eq!(here.run(["import", file, "--json"]).expect(0).stdout, whole);
        here.run(["doctor", "--scrub"]).expect(0);
    }
    // A killed export makes no file, or a whole one.
    for n in 0..10_u64 {
        let name = format!("killed-{n}.rewake");
        let mut live = Live::spawn(there.rewake(["export", "--all", "--bundle", &name]));
        std::thread::sleep(Duration::from_millis(n * 8));
        live.kill();
        live.wait(LIMIT);
        if there.path(&name).exists() {
            there.run(["import", "--check", &name]).expect(0);
        }
    }
}
