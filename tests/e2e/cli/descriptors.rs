//! Few file descriptors: what rewake does with 256 of them, and whose limit it raises.

use std::fs;

use serde_json::json;

use crate::cli::{LIMIT, SCRIPTED, bash, calling, play, results, step};
use support::{Home, Run, limited, run, spoken};

fn few(home: &Home, args: &[&str]) -> Run {
    run(limited(&home.rewake(args), 256, 256), LIMIT)
}

#[test]
fn more_files_than_descriptors_are_rewound() {
    const FILES: usize = 600;
    let home = calling(&[bash("for f in d*/f*; do echo new > $f; done")]);
    let names = || (0..FILES).map(|n| format!("d{}/f{n}", n % 300));
    for name in names() {
        fs::create_dir_all(home.path(&name).parent().unwrap()).unwrap();
        fs::write(home.path(&name), "old").unwrap();
    }
    few(&home, &["-p", "go", "--yolo"]).expect(0);
    let listed = home.run(["history"]).expect(0).stdout;
    let id = listed.split_whitespace().next().unwrap();
    let rewound = few(&home, &["rewind", id, "3", "--files", "--yes"]).expect(0);
    assert!(
        rewound.stderr.contains("600 files restored"),
        "{}",
        rewound.stderr
    );
    assert!(names().all(|name| home.read(name) == "old"));
}

#[test]
fn the_limit_is_raised_for_rewake_and_not_for_what_it_starts() {
    let home = Home::new();
    let server = std::env::current_exe().unwrap();
    let (of_server, of_hook) = (home.user().join("server"), home.user().join("hook"));
    let line = format!("ulimit -n > {}; exec \"$0\" \"$@\"", of_server.display());
    let mut args = vec!["-c".to_string(), line, server.display().to_string()];
    args.extend(spoken::arguments(spoken::ITSELF));
    home.write_config(&format!(
        "{SCRIPTED}[mcp_servers.far]\ncommand = \"sh\"\nargs = {args:?}\n\
         [mcp_servers.far.env]\n{} = \"old\"\n",
        spoken::ASKED
    ));
    let hook = format!("ulimit -n > {}", of_hook.display());
    let hooks = json!({ "hooks": { "PostToolUse": [{
        "matcher": "Bash", "hooks": [{ "type": "command", "command": hook, "timeout": 60 }],
    }]}});
    fs::write(home.rewake_home().join("hooks.json"), hooks.to_string()).unwrap();
    // The parent of a command is its keeper, and the keeper's is rewake.
    let command = "ulimit -n; cat /proc/$(awk '/^PPid/ {print $2}' /proc/$PPID/status)/limits";
    play(
        &home,
        &[
            step("", &[("mcp_find", json!({ "query": "" }))]),
            step(
                "",
                &[("bash", json!({ "command": command, "access": "full" }))],
            ),
            step("done", &[]),
        ],
    );
    let args = ["-p", "go", "--yolo", "--output-format", "stream-json"];
    let went = run(limited(&home.rewake(args), 300, 1000), LIMIT).expect(0);
    let shown = results(&went);
    let (_, limits) = shown.last().unwrap();
    assert!(limits.starts_with("300\n"), "{limits}");
    let of_rewake = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let words: Vec<&str> = of_rewake.unwrap().split_whitespace().collect();
    assert_eq!(words[3..5], ["1000", "1000"], "{limits}");
    for file in [of_server, of_hook] {
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            "300\n",
            "{}",
            file.display()
        );
    }
}

/// Each imported session has a journal.
#[test]
fn more_sessions_than_descriptors_are_imported() {
    const SESSIONS: usize = 150;
    let home = Home::new();
    let folder = home.user().join(".claude/projects/-w");
    fs::create_dir_all(&folder).unwrap();
    for n in 0..SESSIONS {
        let id = format!("00000000-0000-4000-8000-{n:012}");
        let line = json!({
            "parentUuid": null, "isSidechain": false, "userType": "external", "cwd": home.workspace(),
            "sessionId": id, "version": "1.0.0", "type": "user", "uuid": id,
            "message": { "role": "user", "content": format!("hello {n}") },
            "timestamp": "2025-06-01T10:00:00.000Z",
        });
        fs::write(folder.join(format!("{id}.jsonl")), format!("{line}\n")).unwrap();
    }
    let command = home.rewake(["import", "--all", "--yes"]);
    let imported = run(limited(&command, 100, 100), LIMIT).expect(0);
    let journals = fs::read_dir(home.rewake_home().join("journal")).unwrap();
    assert_eq!(journals.count(), SESSIONS, "{}", imported.stderr);
}
