//! The workspace's files around calls: what is kept, what `rewake diff` shows of it, and what
//! keeps nobody waiting.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::cli::{LIMIT, SCRIPTED, asking, bash, calling, newest, scripted, step, tool_results};
use support::{Home, run};

/// What the program prints.
#[track_caller]
fn output(home: &Home, args: &[&str]) -> String {
    home.run(args).expect(0).stdout
}

/// Plays the script, and gives what changed in the session.
#[track_caller]
fn changed(home: &Home) -> String {
    home.run(["-p", "go", "--yolo"]).expect(0);
    output(home, &["diff", &newest(home), "--stat"])
}

fn configure(home: &Home, files: &str) {
    home.write_config(&format!("{SCRIPTED}[files]\n{files}\n"));
}

#[test]
fn a_diff_shows_what_calls_and_commands_changed() {
    let home = calling(&[
        bash("echo new > untracked; printf 'a\\nc\\n' > tracked; rm gone; chmod 755 tool"),
        ("write", json!({"path": "out/ignored", "content": "1\n2\n"})),
    ]);
    for (name, content) in [("tracked", "a\nb\n"), ("gone", "x\n"), ("tool", "t\n")] {
        fs::write(home.path(name), content).unwrap();
    }
    // Whatever the umask is.
    fs::set_permissions(home.path("tool"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(home.path(".gitignore"), "out/\n").unwrap();
    fs::create_dir_all(home.path("nested/.git")).unwrap();
    fs::write(home.path("nested/.git/config"), "theirs").unwrap();
    let stat = changed(&home);
    for line in [
        "gone  +0 −1",
        "tool  +0 −0 mode 0644 → 0755",
        "tracked  +1 −1",
        "untracked  +1 −0",
        "out/ignored  +2 −0",
        "5 files changed, +4 −2",
    ] {
        assert!(stat.contains(line), "{line}: {stat}");
    }
    let diff = output(&home, &["diff", &newest(&home)]);
    assert!(
        diff.contains("--- a/tracked\n+++ b/tracked\n@@ -1,2 +1,2 @@\n a\n-b\n+c"),
        "{diff}"
    );
    assert!(diff.contains("--- a/gone\n+++ /dev/null\n"), "{diff}");
    assert_eq!(home.read("nested/.git/config"), "theirs");
    // Nothing had been done by then: they were as before the first call.
    assert_eq!(output(&home, &["diff", &newest(&home), "0..1"]), "");
}

#[test]
fn a_diff_says_who_made_each_change() {
    let lines: Vec<String> = (1..=30).map(|n| format!("{n}\n")).collect();
    let home = scripted(&[
        step(
            "",
            &[
                ("write", json!({"path": "both", "content": lines.concat()})),
                ("write", json!({"path": "by-tool", "content": "1\n"})),
            ],
        ),
        step(
            "",
            &[bash("sed -i 's/^15$/fifteen/' both; echo 1 > by-command")],
        ),
        step("done", &[]),
        step("", &[bash("echo 2 > by-second")]),
        step("done", &[]),
    ]);
    fs::write(home.path("both"), "0\n").unwrap();
    fs::write(home.path("by-hand"), "0\n").unwrap();
    let read = ("read", json!({"path": "both"}));
    let script = home.rewake_home().join("script.toml");
    let played = fs::read_to_string(&script).unwrap();
    fs::write(&script, step("", &[read]) + &played).unwrap();
    home.run(["-p", "go", "--yolo"]).expect(0);
    let by_hand = home.read("both").replace("\n30\n", "\nthirty\n");
    fs::write(home.path("both"), by_hand).unwrap();
    fs::write(home.path("by-hand"), "1\n").unwrap();
    home.run(["-p", "-c", "more", "--yolo"]).expect(0);
    let stat = output(&home, &["diff", &newest(&home), "--stat"]);
    for line in [
        "both  +30 −1  by tool, by command, by hand\n",
        "by-command  +1 −0  by command\n",
        "by-hand  +1 −1  by hand\n",
        "by-second  +1 −0  by command\n",
        "by-tool  +1 −0  by tool\n",
    ] {
        assert!(stat.contains(line), "{line}: {stat}");
    }
    // Hunk by hunk, from the entry at which the tools had written.
    let export = output(&home, &["export", &newest(&home), "--json"]);
    let export: serde_json::Value = serde_json::from_str(&export).unwrap();
    let written = export["records"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|record| record["entry"]["kind"] == "finished")
        .nth(2)
        .unwrap();
    let range = format!("{}", written["seq"]);
    let diff = output(&home, &["diff", &newest(&home), &range]);
    for part in [
        "both: by command, by hand\n--- a/both\n+++ b/both\n",
        "@@ -12,7 +12,7 @@ by command\n",
        "@@ -27,4 +27,4 @@ by hand\n",
        "by-hand: by hand\n--- a/by-hand\n+++ b/by-hand\n@@ -1 +1 @@\n",
    ] {
        assert!(diff.contains(part), "{part}: {diff}");
    }
    assert!(!diff.contains("by tool"), "{diff}");
}

#[test]
fn an_edit_by_hand_between_two_calls_is_kept_apart_from_them() {
    let home = calling(&[bash("echo 1 > by-call")]);
    home.run(["-p", "go", "--yolo"]).expect(0);
    fs::write(home.path("by-hand"), "2\n").unwrap();
    // The script plays on: it is at its end. So a second session goes on from the same files.
    let script = [
        crate::cli::step("", &[bash("echo 3 > by-second")]),
        crate::cli::step("done", &[]),
    ];
    crate::cli::play(&home, &script);
    home.run(["-p", "more", "--yolo"]).expect(0);
    let second = newest(&home);
    let stat = output(&home, &["diff", &second, "--stat"]);
    assert!(
        stat.contains("by-second") && !stat.contains("by-hand"),
        "{stat}"
    );
}

#[test]
fn a_secret_is_named_and_its_content_is_nowhere() {
    let home = calling(&[bash(
        "echo KEY=fourtytwo >> .env; mkfifo pipe; ln -s /dev/zero link",
    )]);
    fs::write(home.path(".env"), "KEY=seventeen\n").unwrap();
    let stat = changed(&home);
    assert!(
        stat.contains(".env: a secret (14 bytes) → a secret (28 bytes)"),
        "{stat}"
    );
    assert!(stat.contains("pipe: nothing → a FIFO"), "{stat}");
    assert!(
        stat.contains("link: nothing → a link to /dev/zero"),
        "{stat}"
    );
    let diff = output(&home, &["diff", &newest(&home)]);
    assert!(!diff.contains("seventeen"), "{diff}");
}

#[test]
fn a_snapshot_timeout_is_reported_and_the_effect_still_runs() {
    let home = calling(&[bash("echo 1 > a")]);
    configure(&home, "wait_ms = 0");
    for n in 0..3_000 {
        fs::write(home.path(format!("{n}")), format!("{n}")).unwrap();
    }
    home.run(["-p", "go", "--yolo"]).expect(0);
    assert_eq!(home.read("a"), "1\n");
    let shown = output(&home, &["show", &newest(&home)]);
    assert!(
        shown.contains("the state of the files before this was not saved: it took over 0 ms"),
        "{shown}"
    );
}

#[test]
fn with_too_many_files_only_what_tools_write_is_kept() {
    let home = calling(&[
        bash("echo 1 > a"),
        ("write", json!({"path": "b", "content": "2\n"})),
    ]);
    configure(&home, "max_files = 3");
    for n in 0..9 {
        fs::write(home.path(format!("{n}")), "").unwrap();
    }
    let stat = changed(&home);
    assert!(
        stat.contains("/b  +1 −0") && !stat.contains("a  "),
        "{stat}"
    );
    let shown = output(&home, &["show", &newest(&home)]);
    assert!(shown.contains("over 3 files (files.max_files)"), "{shown}");
}

#[test]
fn at_its_limit_nothing_more_is_kept_until_it_is_tidied_up() {
    let home = calling(&[bash("echo 1 > a")]);
    configure(&home, "max_bytes = 0");
    fs::write(home.path("b"), "2").unwrap();
    home.run(["-p", "go", "--yolo"]).expect(0);
    let shown = output(&home, &["show", &newest(&home)]);
    assert!(
        shown.contains("(files.max_bytes): rewake gc makes room"),
        "{shown}"
    );
}

#[test]
fn snapshots_can_be_disabled_but_not_by_an_untrusted_workspace() {
    let home = calling(&[bash("echo 1 > a")]);
    fs::create_dir_all(home.path(".rewake")).unwrap();
    fs::write(
        home.path(".rewake/config.toml"),
        "[files]\nsnapshots = \"off\"\n",
    )
    .unwrap();
    assert!(changed(&home).contains("a  +1 −0"));
    let home = calling(&[bash("echo 1 > a")]);
    configure(&home, "snapshots = \"off\"");
    home.run(["-p", "go", "--yolo"]).expect(0);
    let unknown = home.run(["diff", &newest(&home)]).expect(2);
    assert!(
        unknown
            .stderr
            .contains("are not known in this session: it has no snapshot"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn the_doctor_says_what_is_kept_and_what_it_takes() {
    let home = calling(&[bash("echo 1 > a")]);
    fs::write(home.path("b"), "2").unwrap();
    let doctor = |home: &Home| home.run(["doctor"]).stdout;
    assert!(doctor(&home).contains("up to 200,000 files of at most 8 MiB each"));
    changed(&home);
    let shown = doctor(&home);
    assert!(
        shown.contains("the last snapshot has 2 files, 3 B"),
        "{shown}"
    );
    let watched = match cfg!(target_os = "linux") {
        true => "watching for changes in 1 folder",
        false => {
            "not watching for changes, so every file is checked each time: this system has no inotify"
        }
    };
    assert!(shown.contains(watched), "{shown}");
    assert!(shown.contains("of 2 GiB"), "{shown}");
    configure(&home, "max_bytes = 1");
    let shown = doctor(&home);
    assert!(shown.contains("no more snapshots are taken"), "{shown}");
    assert!(shown.contains("hint: rewake gc frees space"), "{shown}");
    configure(&home, "watch = \"off\"");
    let shown = doctor(&home);
    assert!(
        shown.contains("every file is checked each time: files.watch is off"),
        "{shown}"
    );
    configure(&home, "snapshots = \"off\"");
    assert!(doctor(&home).contains("snapshots are off (files.snapshots)"));
}

/// The same command, whose files may have 2 MB at most.
fn limited(agent: &Command) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$@\"", "sh"])
        .arg(agent.get_program())
        .args(agent.get_args())
        .env_clear()
        .stdin(Stdio::null())
        .current_dir(agent.get_current_dir().unwrap());
    for (name, value) in agent.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command
}

#[test]
fn a_full_disk_for_a_pack_is_reported_and_delays_no_effect() {
    let home = calling(&[bash("echo 1 > a")]);
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    })
    .take(4 << 20)
    .collect();
    fs::write(home.path("big"), noise).unwrap();
    let agent = home.rewake(["-p", "go", "--yolo"]);
    run(limited(&agent), LIMIT).expect(0);
    assert_eq!(home.read("a"), "1\n");
    let shown = output(&home, &["show", &newest(&home)]);
    assert!(
        shown.contains("the state of the files before this was not saved: "),
        "{shown}"
    );
    assert!(shown.contains("File too large"), "{shown}");
    // With room again all is kept, the large file too.
    crate::cli::play(
        &home,
        &[step("", &[bash("echo 2 > big")]), step("done", &[])],
    );
    let stat = changed(&home);
    assert!(stat.contains("4194304 bytes → "), "{stat}");
}

#[test]
fn old_sessions_are_tidied_up_when_it_is_asked_for() {
    let home = calling(&[bash("echo 1 > a")]);
    fs::write(home.path("b"), "2").unwrap();
    changed(&home);
    let kept = output(&home, &["gc"]);
    assert!(kept.contains("to remove  nothing"), "{kept}");
    let would = output(&home, &["gc", "--older-than", "0"]);
    assert!(would.contains("of 1 session"), "{would}");
    output(&home, &["diff", &newest(&home)]);
    let removed = output(&home, &["gc", "--older-than", "0", "--yes"]);
    assert!(
        removed.contains("removed") && removed.contains("of 1 session"),
        "{removed}"
    );
}

/// What is played when the last message has this in it.
fn step_when(when: &str, calls: &str) -> String {
    format!(
        "[[step]]\nwhen = {}\ntext = \"ok\"\ncalls = [{calls}]\n",
        json!(when)
    )
}

#[test]
fn the_model_is_told_which_files_it_read_were_changed_by_hand() {
    let home = crate::cli::scripted(&[
        step(
            "",
            &[
                ("read", json!({"path": "a"})),
                ("read", json!({"path": "sub/gone"})),
                ("read", json!({"path": "ours"})),
                ("read", json!({"path": "same"})),
            ],
        ),
        step("", &[bash("echo 2 > ours")]),
        step("done", &[]),
        step_when(
            "changed outside of rewake since you read them: a, sub/gone .removed.; read them again",
            "",
        ),
        step("no", &[]),
    ]);
    fs::create_dir(home.path("sub")).unwrap();
    for name in ["a", "b", "sub/gone", "ours", "same"] {
        fs::write(home.path(name), "1\n").unwrap();
    }
    home.run(["-p", "go", "--yolo"]).expect(0);
    for name in ["a", "b", "new"] {
        fs::write(home.path(name), "3\n").unwrap();
    }
    fs::remove_file(home.path("sub/gone")).unwrap();
    let next = home.run(["-p", "-c", "and now"]).expect(0);
    assert_eq!(next.stdout, "ok\n");
    let said = "· changed outside of rewake, so the model is told: a, sub/gone (removed)\n";
    assert!(next.stderr.contains(said), "{}", next.stderr);
    // Each content once.
    let next = home.run(["-p", "-c", "and now"]).expect(0);
    assert_eq!(next.stdout, "no\n");
    assert!(!next.stderr.contains("changed outside"), "{}", next.stderr);
    let shown = output(&home, &["show", &newest(&home)]);
    assert_eq!(
        shown.matches("changed outside of rewake").count(),
        1,
        "{shown}"
    );
    // A stream has it as data.
    fs::write(home.path("a"), "4\n").unwrap();
    let stream = home
        .run(["-p", "-c", "x", "--output-format", "stream-json"])
        .expect(0)
        .stdout;
    let noted = stream
        .lines()
        .find(|line| line.contains("files_changed"))
        .unwrap();
    let noted: serde_json::Value = serde_json::from_str(noted).unwrap();
    assert_eq!(
        noted["about"],
        json!({"about": "files_changed", "paths": ["a"]}),
        "{noted}"
    );
}

/// With the watch and without it.
#[test]
fn whether_changes_are_watched_changes_nothing_that_is_kept() {
    let stats = ["auto", "off"].map(|watch| {
        let home = calling(&[bash(
            "mkdir -p s/t; echo 1 > s/t/a; mv s u; echo 22 > u/t/a; echo 1 > .gitignore",
        )]);
        configure(&home, &format!("watch = \"{watch}\""));
        fs::write(home.path("b"), "1\n").unwrap();
        changed(&home)
    });
    assert!(stats[0].contains("u/t/a  +1 −0"), "{}", stats[0]);
    assert_eq!(stats[0], stats[1]);
}

/// No effect was begun, so there is no tree of before.
#[test]
fn a_change_of_what_was_only_read_is_told_too() {
    let home = crate::cli::scripted(&[
        step(
            "",
            &[
                ("read", json!({"path": "a"})),
                ("read", json!({"path": "b"})),
            ],
        ),
        step("done", &[]),
        step_when(
            "changed outside of rewake since you read it: a; read it again",
            "",
        ),
    ]);
    for name in ["a", "b", "c"] {
        fs::write(home.path(name), "1\n").unwrap();
    }
    home.run(["-p", "go", "--yolo"]).expect(0);
    fs::write(home.path("a"), "2\n").unwrap();
    fs::write(home.path("c"), "2\n").unwrap();
    assert_eq!(home.run(["-p", "-c", "and now"]).expect(0).stdout, "ok\n");
}

fn read(path: &str, offset: u64, limit: u64) -> (&'static str, serde_json::Value) {
    (
        "read",
        json!({"path": path, "offset": offset, "limit": limit}),
    )
}

fn write(path: &str, content: &str) -> (&'static str, serde_json::Value) {
    ("write", json!({"path": path, "content": content}))
}

#[test]
fn a_write_destroys_nothing_that_the_model_never_saw() {
    let edits = json!([{"old": "line 1\n", "new": "one\n"}]);
    let home = calling(&[
        read("long", 1, 3),
        write("long", "new\n"),
        ("edit", json!({"path": "long", "edits": edits})),
        write("long", "new\n"),
        read("long", 11, 20),
        read("long", 1, 5),
        write("long", "new\n"),
        read("long", 6, 5),
        write("long", "new\n"),
        // What it wrote itself, it knows.
        write("long", "newer\n"),
        read("latin", 1, 9),
        write("latin", "# caf\u{fffd}\n"),
        ("grep", json!({"pattern": "x", "path": "found"})),
        write("found", "y\n"),
    ]);
    let long: String = (0..30).map(|n| format!("line {n}\n")).collect();
    fs::write(home.path("long"), &long).unwrap();
    fs::write(home.path("latin"), b"# caf\xe9\n").unwrap();
    fs::write(home.path("found"), "x\n").unwrap();
    let results = tool_results(&home, &["--yolo"]);
    for (n, words) in [
        (
            1,
            "read only in part, without line 4: nothing was changed\nhint: read the rest (offset 4)",
        ),
        (2, "edited long: line 2, +1 −1"),
        (3, "long was read only in part, without line 1: nothing"),
        (
            6,
            "in part, without line 6: nothing was changed\nhint: read the rest (offset 6)",
        ),
        (8, "overwrote long: "),
        (9, "overwrote long: line 1, +1 −1"),
        (11, "latin has bytes that are not text"),
        (13, "was not read in this session"),
    ] {
        assert!(results[n].1.contains(words), "{n}: {results:?}");
    }
    assert_eq!(home.read("long"), "newer\n");
    assert_eq!(fs::read(home.path("latin")).unwrap(), b"# caf\xe9\n");
}

#[test]
fn the_same_content_is_no_change_and_asks_nothing() {
    let home = calling(&[write("a", "same\n")]);
    fs::write(home.path("a"), "same\r\n").unwrap();
    let results = tool_results(&home, &["--on-approval", "wait"]);
    let want = ("done".to_string(), "a already has this content".to_string());
    assert_eq!(results, [want]);
    let stat = output(&home, &["diff", &newest(&home), "--stat"]);
    assert_eq!(stat, "0 files changed, +0 −0\n");
    // Other content waits for a person.
    let home = calling(&[read("a", 1, 9), write("a", "other\n")]);
    fs::write(home.path("a"), "same\n").unwrap();
    let asked = asking(&home, "go");
    assert_eq!(home.read("a"), "same\n");
    drop(asked);
}

#[test]
fn line_ends_stay_and_a_change_of_them_counts_as_in_git() {
    let edits = json!([{"old": "x\ny\nz\nq", "new": "x\ny\nZ\nq"}]);
    let home = calling(&[
        read("a.cs", 1, 9),
        write("a.cs", "class A {\n  // y\n}\n"),
        ("edit", json!({"path": "mixed", "edits": edits})),
        read("lf", 1, 9),
        write("lf", "a\r\nb\r\nc\r\n"),
    ]);
    fs::write(home.path("a.cs"), "\u{feff}class A {\r\n  // x\r\n}\r\n").unwrap();
    fs::write(home.path("mixed"), "x\r\ny\nz\nq\r\n").unwrap();
    fs::write(home.path("lf"), "a\nb\nc\n").unwrap();
    let results = tool_results(&home, &["--yolo"]);
    let note = "[line ends: CRLF; begins with a BOM; edit and write keep that]\n";
    assert!(results[0].1.ends_with(note), "{results:?}");
    for (n, words) in [
        (1, "overwrote a.cs: line 2, +1 −1"),
        (2, "edited mixed: line 3, +1 −1\n"),
        (
            4,
            "overwrote lf: lines 1–3, +3 −3\nline ends changed from LF to CRLF",
        ),
    ] {
        assert!(results[n].1.starts_with(words), "{n}: {results:?}");
    }
    assert_eq!(home.read("a.cs"), "\u{feff}class A {\r\n  // y\r\n}\r\n");
    assert_eq!(home.read("mixed"), "x\r\ny\nZ\nq\r\n");
    let stat = output(&home, &["diff", &newest(&home), "--stat"]);
    for line in ["a.cs  +1 −1", "mixed  +1 −1", "lf  +3 −3"] {
        assert!(stat.contains(line), "{line}: {stat}");
    }
}
