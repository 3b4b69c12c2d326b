//! Tables of files and of rules. Properties compare a translated rule with the original meaning.

use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;
use crate::core::permission::PathUse;
use crate::core::rule::{Bases, Likeness, Rule};
use crate::core::shell;

/// Writes a file in a new folder and returns what is found there.
fn found(name: &str, text: impl AsRef<[u8]>) -> Vec<ForeignFile> {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), name, text);
    find(dir.path(), None)
}

fn write(folder: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Name, text, agent, hooks, deny and ask rules of a file.
type Case<'a> = (&'a str, &'a str, Agent, usize, &'a [&'a str], &'a [&'a str]);

const GUARD: &str = r#"{"type": "command", "command": "./guard.sh"}"#;

#[test]
fn each_format_is_counted() {
    let claude = r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [G, G]}, {"hooks": [G]}], "Stop": []},
        "permissions": {"allow": ["Bash(ls:*)"], "deny": ["Read(./.env)"], "ask": ["Bash(git push:*)", "Edit"]}}"#;
    let codex = "model = 3\n[permissions.x]\ndeny = 7\n[[hooks.PreToolUse]]\nmatcher = \"Bash\"\n\
        [[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \"x\"\n[hooks.state.\"a:b\"]\nenabled = true\n";
    let gemini = r#"{ // a comment
        "hooks": {"enabled": true, "disabled": ["a"], "BeforeTool": [{"matcher": "x", "hooks": [G]}]},
        "tools": {"core": ["ls"], "exclude": ["run_shell_command(rm)"]}, "excludeTools": ["write_file"],}"#;
    let cursor =
        r#"{"version": 1, "hooks": {"beforeShellExecution": [G, {"command": "x"}], "stop": [G]}}"#;
    let opencode = r#"{ /* { */ "permission": {"bash": {"rm *": "deny", "ls": "allow", "*": "ask"}, "edit": "deny"},
        "agent": {"build": {"permission": {"webfetch": "ask"}}, "plan": {"permission": "deny"}, "x": 3},
        "url": "https://x" }"#;
    let second = r#"{"permissions": [{"action": "shell", "resource": "git *", "effect": "ask"}],
        "agents": {"a": {"permissions": [{"action": "read", "resource": "*.env", "effect": "deny"}]}}}"#;
    let one = r#"{"permission": "ask"}"#;
    let cases: [Case<'_>; 12] = [
        (
            ".claude/settings.json",
            claude,
            Agent::Claude,
            3,
            &["Read(./.env)"],
            &["Bash(git push:*)", "Edit"],
        ),
        (
            ".claude/settings.local.json",
            claude,
            Agent::Claude,
            3,
            &["Read(./.env)"],
            &["Bash(git push:*)", "Edit"],
        ),
        (".codex/hooks.json", claude, Agent::Codex, 3, &[], &[]),
        (".codex/config.toml", codex, Agent::Codex, 1, &[], &[]),
        (
            ".gemini/settings.json",
            gemini,
            Agent::Gemini,
            1,
            &["run_shell_command(rm)", "write_file"],
            &[],
        ),
        (".cursor/hooks.json", cursor, Agent::Cursor, 3, &[], &[]),
        (
            "opencode.json",
            opencode,
            Agent::OpenCode,
            0,
            &[
                "permission: bash: rm *",
                "permission: edit",
                "plan: permission",
            ],
            &["permission: bash: *", "build: permission: webfetch"],
        ),
        (
            "opencode.jsonc",
            one,
            Agent::OpenCode,
            0,
            &[],
            &["permission"],
        ),
        (
            ".opencode/opencode.json",
            second,
            Agent::OpenCode,
            0,
            &["a: read: *.env"],
            &["shell: git *"],
        ),
        (
            ".opencode/opencode.jsonc",
            one,
            Agent::OpenCode,
            0,
            &[],
            &["permission"],
        ),
        (
            ".claude/settings.json",
            "\u{feff}{\"permissions\": {\"deny\": [\"\\u001b\"]}}",
            Agent::Claude,
            0,
            &["\u{1b}"],
            &[],
        ),
        (
            ".claude/settings.json",
            r#"{"disableAllHooks": true, "hooks": {"Stop": [{"hooks": [G]}]}, "permissions": {"deny": ["Edit"]}}"#,
            Agent::Claude,
            0,
            &["Edit"],
            &[],
        ),
    ];
    for (name, text, agent, hooks, deny, ask) in cases {
        let text = text.replace('G', GUARD);
        let found = found(name, &text);
        let [file] = &found[..] else {
            panic!("{name}: {found:?}");
        };
        assert_eq!(file.fault, None, "{name}");
        assert_eq!(
            (&*file.shown, file.agent, file.hooks),
            (name, agent, hooks),
            "{name}"
        );
        assert_eq!(
            (&file.deny[..], &file.ask[..]),
            (&strings(deny)[..], &strings(ask)[..])
        );
        assert!(file.is_of_workspace && file.path.ends_with(name));
        let text = text.trim_start_matches('\u{feff}');
        assert_eq!(file.hash, blake3::hash(text.as_bytes()).to_hex().as_str());
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_string()).collect()
}

#[test]
fn a_file_without_guards_is_not_listed() {
    for (name, text) in [
        (".claude/settings.json", "{}"),
        (".claude/settings.json", " \n"),
        (
            ".claude/settings.json",
            r#"{"permissions": {"allow": ["Bash"], "deny": []}}"#,
        ),
        (
            ".claude/settings.json",
            r#"{"hooks": null, "permissions": null}"#,
        ),
        (
            ".claude/settings.json",
            r#"{"hooks": {"PreToolUse": [{"matcher": "x", "hooks": []}]}}"#,
        ),
        (
            ".claude/settings.json",
            r#"{"disableAllHooks": true, "hooks": {"Stop": [{"hooks": [{}]}]}}"#,
        ),
        (".codex/config.toml", "model = \"x\"\nhooks.state = {}\n"),
        ("opencode.json", r#"{"permission": {"bash": "allow"}}"#),
        (".cursor/settings.json", r#"{"hooks": {"stop": [{}]}}"#),
        (".claude", "a file, not a folder"),
    ] {
        assert_eq!(found(name, text), [], "{name} {text}");
    }
    assert_eq!(
        find(Path::new("/no/such/folder"), Some(Path::new("/no/other"))),
        []
    );
}

#[test]
fn a_file_that_cannot_be_understood_is_a_fault() {
    let deep = format!(r#"{{"hooks": {}"#, "[".repeat(100_000));
    let keys = format!("{}a = 1\n", "a.".repeat(300_000));
    let table = format!("[{}a]\n", "a.".repeat(300_000));
    let array = format!("hooks = {}", "[".repeat(300_000));
    let rules = |number: usize| {
        format!(
            r#"{{"permissions": {{"deny": [{}"Edit"]}}}}"#,
            r#""Edit","#.repeat(number - 1)
        )
    };
    let large = format!("{{{}}}", " ".repeat(1024 * 1024));
    let (too_many, enough) = (rules(1001), rules(1000));
    let many = format!(
        r#"{{"permission": {{"{}": {{{}"x": "ask"}}}}}}"#,
        "k".repeat(400_000),
        (0..20_000)
            .map(|n| format!(r#""{n}": "ask","#))
            .collect::<String>()
    );
    for (name, text, why) in [
        (
            ".claude/settings.json",
            "{\n\"hooks\": x}",
            "not JSON: line 2, column 10",
        ),
        (".claude/settings.json", "[]", "it is not a JSON object"),
        (".claude/settings.json", "null", "it is not a JSON object"),
        (".claude/settings.json", "{} // x", "not JSON: line 1"),
        (".claude/settings.json", &*deep, "not JSON: line 1"),
        (
            ".claude/settings.json",
            &large,
            "it is larger than 1048576 bytes",
        ),
        (
            ".claude/settings.json",
            &too_many,
            "it has more than 1000 rules",
        ),
        (".claude/settings.json", r#"{"hooks": []}"#, "`hooks` in it"),
        (
            ".claude/settings.json",
            r#"{"hooks": {"A": {}}}"#,
            "`hooks` in it",
        ),
        (
            ".claude/settings.json",
            r#"{"hooks": {"A": [3]}}"#,
            "`hooks` in it",
        ),
        (
            ".claude/settings.json",
            r#"{"hooks": {"A": [{"hooks": 3}]}}"#,
            "`hooks` in it",
        ),
        (
            ".claude/settings.json",
            r#"{"permissions": "x"}"#,
            "`permissions` in it",
        ),
        (
            ".claude/settings.json",
            r#"{"hooks": {"A": [{}]}, "permissions": {"deny": "x"}}"#,
            "`deny` in it",
        ),
        (
            ".claude/settings.json",
            r#"{"permissions": {"ask": ["x", 3]}}"#,
            "`ask` in it",
        ),
        (".codex/hooks.json", r#"{"hooks": {"A": "#, "not JSON"),
        (".codex/config.toml", "a = 1\n\nb", "not TOML: line 3"),
        (".codex/config.toml", "hooks = 3", "`hooks` in it"),
        (
            ".codex/config.toml",
            "[hooks.PreToolUse]\nx = 1",
            "`hooks` in it",
        ),
        (".codex/config.toml", &keys, "not TOML"),
        (".codex/config.toml", &table, "not TOML"),
        (".codex/config.toml", &array, "not TOML"),
        (".gemini/settings.json", r#"{"tools": []}"#, "`tools` in it"),
        (
            ".gemini/settings.json",
            r#"{"excludeTools": 3}"#,
            "`excludeTools` in it",
        ),
        (
            ".cursor/hooks.json",
            r#"{"hooks": {"stop": ["x"]}}"#,
            "`hooks` in it",
        ),
        (
            "opencode.json",
            r#"{"permission": 3}"#,
            "`permission` in it",
        ),
        (
            "opencode.json",
            r#"{"permission": {"bash": {"x": [1]}}}"#,
            "`permission` in it",
        ),
        (
            "opencode.json",
            r#"{"permissions": {}}"#,
            "`permissions` in it",
        ),
        (
            "opencode.json",
            r#"{"permissions": [{"action": "x"}]}"#,
            "`permissions` in it",
        ),
        ("opencode.json", r#"{"agent": []}"#, "`agent` in it"),
        ("opencode.json", &many, "it has more than 1000 rules"),
        ("opencode.json", "{ /*", "not JSON"),
    ] {
        let found = found(name, text);
        let [file] = &found[..] else {
            panic!("{name}: {found:?}");
        };
        let fault = file.fault.as_deref().unwrap_or_default();
        assert!(fault.contains(why), "{name} {why}: {fault}");
        assert_eq!((file.hooks, file.deny.len(), file.ask.len()), (0, 0, 0));
        assert!(file.line().chars().count() <= 160, "{}", file.line());
    }
    let bytes = found(".claude/settings.json", b"\xff");
    assert_eq!(bytes[0].fault.as_deref(), Some("it is not UTF-8 text"));
    assert_eq!(found(".claude/settings.json", enough)[0].deny.len(), 1000);
    let key = format!(r#"{{"permission": {{"{}": "ask"}}}}"#, "k".repeat(400_000));
    assert!(found("opencode.json", key)[0].ask[0].len() < 300);
}

#[test]
fn links_do_not_lead_out_of_the_workspace() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"{"permissions": {"deny": ["Edit"]}}"#;
    let (root, home) = (dir.path().join("w"), dir.path().join("h"));
    write(&root, "real.json", text);
    write(&home, "dotfiles/claude.json", text);
    for folder in [
        root.join(".claude"),
        home.join(".claude"),
        root.join(".codex"),
    ] {
        fs::create_dir_all(folder).unwrap();
    }
    symlink("../real.json", root.join(".claude/settings.json")).unwrap();
    symlink(
        home.join("dotfiles/claude.json"),
        root.join(".claude/settings.local.json"),
    )
    .unwrap();
    symlink(
        "../dotfiles/claude.json",
        home.join(".claude/settings.json"),
    )
    .unwrap();
    symlink("nowhere", root.join(".codex/hooks.json")).unwrap();
    symlink("config.toml", root.join(".codex/config.toml")).unwrap();
    symlink(&home, root.join(".cursor")).unwrap();
    write(&home, "hooks.json", r#"{"hooks": {"stop": [{}]}}"#);
    let made = std::process::Command::new("mkfifo")
        .arg(root.join("opencode.json"))
        .status();
    assert!(made.unwrap().success());
    fs::create_dir_all(root.join("opencode.jsonc")).unwrap();

    let found = find(&root, Some(&home));
    let found: Vec<_> = found
        .iter()
        .map(|file| {
            (
                &*file.shown,
                file.fault.as_deref().unwrap_or("read"),
                file.is_of_workspace,
            )
        })
        .collect();
    let out = "it is a link that leads out of the workspace";
    assert_eq!(
        found,
        [
            (".claude/settings.json", "read", true),
            (".claude/settings.local.json", out, true),
            (".codex/hooks.json", "it is a link that leads nowhere", true),
            (
                ".codex/config.toml",
                "Too many levels of symbolic links (os error 40)",
                true
            ),
            (".cursor/hooks.json", out, true),
            ("opencode.json", "it is not a regular file", true),
            ("opencode.jsonc", "it is not a regular file", true),
            ("~/.claude/settings.json", "read", false),
        ]
    );
}

#[test]
fn a_home_folder_that_is_the_workspace_is_listed_once() {
    let dir = tempfile::tempdir().unwrap();
    let (home, link) = (dir.path().join("home"), dir.path().join("link"));
    write(
        &home,
        ".claude/settings.json",
        r#"{"permissions": {"deny": ["Edit"]}}"#,
    );
    write(&home, ".gemini/settings.json", r#"{"excludeTools": ["x"]}"#);
    symlink(&home, &link).unwrap();
    let shown = |root: &Path| {
        let found = find(root, Some(&home));
        let shown = found
            .iter()
            .map(|file| (file.shown.clone(), file.anchor().to_path_buf()));
        shown.collect::<Vec<_>>()
    };
    let both = [".claude/settings.json", ".gemini/settings.json"];
    assert_eq!(
        shown(&home),
        both.map(|name| (name.to_string(), home.clone()))
    );
    assert_eq!(
        shown(&link),
        both.map(|name| (name.to_string(), link.clone()))
    );
    let own = ("~/.claude/settings.json".to_string(), home.join(".claude"));
    assert_eq!(shown(dir.path()), [own]);
}

#[test]
fn a_line_says_what_is_not_in_force() {
    let file = |agent, hooks, rules: usize, fault: Option<&str>| ForeignFile {
        path: "/w/.claude/settings.json".into(),
        shown: ".claude/settings.json".to_string(),
        agent,
        hooks,
        deny: vec!["Edit".to_string(); rules],
        ask: Vec::new(),
        is_of_workspace: true,
        hash: String::new(),
        fault: fault.map(str::to_string),
    };
    let (claude, gemini) = (Agent::Claude, Agent::Gemini);
    for (file, want) in [
        (
            file(claude, 2, 3, None),
            ".claude/settings.json has 2 hooks and 3 deny or ask rules that are not in force; `rewake hooks import` shows them",
        ),
        (
            file(claude, 1, 0, None),
            ".claude/settings.json has 1 hook that is not in force; `rewake hooks import` shows it",
        ),
        (
            file(gemini, 0, 2, None),
            ".claude/settings.json has 2 deny or ask rules that are not in force; rewake cannot use them",
        ),
        (
            file(claude, 0, 0, Some("not JSON: line 3, column 1")),
            ".claude/settings.json cannot be read (not JSON: line 3, column 1), so its hooks and rules are not in force",
        ),
        (
            file(claude, 0, 0, Some("a\u{1b}b")),
            ".claude/settings.json cannot be read (a␛b), so its hooks and rules are not in force",
        ),
    ] {
        assert_eq!(file.line(), want);
    }
}

fn translated(rule: &str) -> Result<String, String> {
    translate(Agent::Claude, rule, Path::new("/home/u/w"))
}

#[test]
fn rules_of_claude_are_translated() {
    for (theirs, ours) in [
        ("Bash", "Bash"),
        ("Bash()", "Bash"),
        ("WebFetch", "WebFetch"),
        ("WebSearch", "WebSearch"),
        ("WebFetch(domain:x.test)", "WebFetch(domain:x.test)"),
        ("Bash(*)", "Bash"),
        ("Bash(:*)", "Bash"),
        ("Bash(npm run build)", "Bash(npm run build)"),
        ("Bash(npm run test:*)", "Bash(npm run test:*)"),
        ("Bash(git push *)", "Bash(git push:*)"),
        ("Bash(git push*)", "Bash(git push*:*)"),
        ("Bash(rm*)", "Bash(rm*:*)"),
        ("Bash(rm -rf /*)", "Bash(rm -rf /*:*)"),
        ("Bash(rm *.log)", "Bash(rm * *.log)"),
        ("Bash(* install)", "Bash(* install)"),
        ("Bash(git * main)", "Bash(git * main)"),
        ("Bash(* --help *)", "Bash(* --help:*)"),
        ("Bash(*sudo*)", "Bash(* *sudo*:*)"),
        ("Bash(timeout:*)", "Bash(timeout:*)"),
        ("Bash(a && b)", "Bash(a && b)"),
        (":Read", ""),
        ("Read", "Read"),
        ("Read()", "Read"),
        ("Read(./.env)", "Read(.env)"),
        ("Read(.env.*)", "Read(.env.*)"),
        ("Read(**/*.pem)", "Read(**/*.pem)"),
        ("Read(secrets/**)", "Read(**/secrets/**)"),
        ("Read(./secrets/**)", "Read(**/secrets/**)"),
        ("Read(./a/b/**)", "Read(a/b/**)"),
        ("Read(secrets/)", "Read(secrets/)"),
        ("Read(./**)", "Read(./**)"),
        ("Read(**)", "Read(./**)"),
        ("Read(.//x)", "Read(.//x)"),
        ("Read(./~/x)", "Read(./~/x)"),
        ("Edit(/src/**)", "Edit(//home/u/w/src/**)"),
        ("Read(//etc/**)", "Read(//etc/**)"),
        ("Read(~/.ssh/**)", "Read(~/.ssh/**)"),
        ("Write", "Write"),
        ("Write(docs/x)", "Edit(docs/x)"),
        ("MultiEdit", "Edit"),
        ("MultiEdit(*.lock)", "Edit(*.lock)"),
        ("NotebookEdit", "Edit(*.ipynb)"),
        ("NotebookEdit(/a)", "Edit(//home/u/w/a)"),
        ("Grep", "Grep"),
        ("Grep(x)", "Read(x)"),
        ("Glob", "Glob"),
        ("Glob(x)", "Read(x)"),
        ("LS", "Glob"),
        ("mcp__server", "mcp__server"),
        ("mcp__server__tool", "mcp__server__tool"),
        ("mcp__server__*", "mcp__server__*"),
        ("mcp__*", "mcp__*"),
    ] {
        match ours {
            "" => assert!(translated(theirs).is_err(), "{theirs}"),
            ours => assert_eq!(translated(theirs).as_deref(), Ok(ours), "{theirs}"),
        }
    }
    let root = translate(Agent::Claude, "Read(/x)", Path::new("/"));
    assert_eq!(root.as_deref(), Ok("Read(//x)"));
    assert_eq!(edit_rule("Read(//x)").as_deref(), Some("Edit(//x)"));
    assert_eq!((edit_rule("Read"), edit_rule("Edit(x)")), (None, None));
}

#[test]
fn a_rule_without_an_equivalent_says_why() {
    let long = format!("Bash({})", "x".repeat(5000));
    for (rule, why) in [
        ("WebFetch(x)", "only `domain:HOST`"),
        ("WebSearch(x)", "write `WebSearch`"),
        ("Task(x)", "no rules for Task"),
        ("Agent(Explore)", "no rules for Agent"),
        ("Skill(x)", "no rules for Skill"),
        ("Network", "no rules for Network"),
        ("Full(rm:*)", "no rules for Full"),
        ("Memory(all)", "no rules for Memory"),
        ("bash", "no rules for bash"),
        ("*", "no rules for *"),
        ("", "no rules for"),
        ("mcp__", "name of the server"),
        ("mcp__a__b(x:1)", "no rules for mcp__a__b"),
        ("Bash(ls", "closing `)`"),
        ("Bash(a\nb)", "control characters"),
        ("Bash(git push\n*)", "control characters"),
        ("Bash(a \\* b)", "a backslash"),
        ("Read(\\[a\\])", "a backslash"),
        ("Bash(run_in_background:true)", "an argument"),
        ("Bash(run_in_background:*)", "an argument"),
        ("Bash(command:rm *)", "an argument"),
        ("Bash(timeout:5)", "an argument"),
        ("Edit(replace_all : true)", "an argument"),
        ("Bash(curl * | sh)", "one simple command"),
        ("Bash(a && b:*)", "one simple command"),
        ("Bash(echo x > /etc/passwd)", "one simple command"),
        ("Bash(echo $(cat x))", "one simple command"),
        ("Bash(echo \"a:*)", "one simple command"),
        ("Bash(a\u{a0}*b)", "one simple command"),
        ("Bash(echo \"a*\")", "beside quotes"),
        ("Bash(git push*--force)", "inside a word"),
        ("Bash(git:* push)", "`:*` may only be at its end"),
        ("Bash(/usr/bin/*)", "a folder of programs"),
        ("Read(app/[id]/x)", "a set of characters"),
        ("Read(a/../b)", "`..` has no meaning"),
        ("Read(*.{a,b})", "one rule for each"),
        ("Read(!x)", "one rule for each"),
        ("Read(~bob/x)", "another user"),
        (&long, "longer than 4096 bytes"),
    ] {
        let error = translated(rule).unwrap_err();
        assert!(error.contains(why) && error.len() < 200, "{rule}: {error}");
    }
    let hostile = translated("\u{202e}x").unwrap_err();
    assert_eq!(hostile, "rewake has no rules for <U+202E>x");
    for agent in [Agent::Codex, Agent::Gemini, Agent::Cursor, Agent::OpenCode] {
        assert!(translate(agent, "Bash(rm:*)", Path::new("/w")).is_err());
    }
    let no_folder = translate(Agent::Claude, "Read(/x)", Path::new("w"));
    assert!(no_folder.is_err());
}

fn bases() -> Bases {
    Bases {
        folders: vec!["/home/u/w".into()],
        roots: vec!["/home/u/w".into()],
        homes: vec!["/home/u".into()],
        ..Bases::default()
    }
}

fn refuses_line(rule: &str, line: &str) -> bool {
    let rule = Rule::parse(rule).unwrap();
    let commands = shell::split(line).unwrap_or_default();
    let refuses = |words: &[shell::Word]| rule.refuses_words(words) == Likeness::Yes;
    rule.is_line(line) || commands.iter().any(|command| refuses(&command.spelled()))
}

#[test]
fn a_translated_rule_refuses_the_command_that_is_meant() {
    for (rule, line, want) in [
        ("Bash", "ls", true),
        ("Bash(npm run build)", "npm run build", true),
        ("Bash(npm run build)", "npm run build x", false),
        ("Bash(npm run test:*)", "npm run test --watch", true),
        ("Bash(npm run test:*)", "npm run test", true),
        ("Bash(npm run test:*)", "npm run testx", false),
        ("Bash(npm run test*)", "npm run test:unit", true),
        ("Bash(git push *)", "git push -f origin", true),
        ("Bash(git push *)", "ls; git push", true),
        ("Bash(git push *)", "git pull", false),
        ("Bash(rm*)", "rmdir x", true),
        ("Bash(rm -rf /*)", "rm -rf /etc /usr", true),
        ("Bash(rm *.log)", "rm x y.log", true),
        ("Bash(rm *.log)", "rm x", false),
        ("Bash(git * main)", "git push origin main", true),
        ("Bash(git * main)", "git push origin dev", false),
        ("Bash(* --help *)", "rm --help x", true),
        ("Bash(*sudo*)", "sudo ls", true),
        ("Bash(*sudo*)", "env X=1 /bin/sudo ls", true),
        ("Bash(*.env*)", "cat a/.env.local b", true),
        ("Bash(*.env*)", "cat a", false),
        ("Bash(a && b)", "a && b", true),
    ] {
        let ours = translated(rule).unwrap();
        assert_eq!(refuses_line(&ours, line), want, "{rule} {ours}: {line}");
    }
}

#[test]
fn a_translated_rule_refuses_the_path_that_is_meant() {
    for (rule, path, want) in [
        ("Read(./.env)", "/home/u/w/.env", true),
        ("Read(./.env)", "/home/u/w/a/.env", true),
        ("Read(./.env)", "/home/u/w/.env.example", false),
        ("Read(secrets/**)", "/home/u/w/secrets/a/b", true),
        ("Read(secrets/**)", "/home/u/w/a/secrets/b", true),
        ("Read(secrets/**)", "/home/u/w/a/b", false),
        ("Read(src/a/**)", "/home/u/w/src/a/b", true),
        ("Read(src/a/**)", "/home/u/w/x/src/a/b", false),
        ("Read(/src/**)", "/home/u/w/src/b", true),
        ("Read(/src/**)", "/home/u/w/x/src/b", false),
        ("Read(//etc/**)", "/etc/passwd", true),
        ("Read(~/.ssh/**)", "/home/u/.ssh/id", true),
        ("Read(**)", "/home/u/w/a", true),
        ("Read(**)", "/home/u/a", false),
        ("Read(*.pem)", "/home/u/w/a/b.pem", true),
    ] {
        let ours = translated(rule).unwrap();
        let refuses = |text: &str, path_use| {
            let rule = Rule::parse(text).unwrap();
            rule.refuses_path(path_use, path, &bases())
        };
        for path_use in [PathUse::Read, PathUse::Grep, PathUse::Glob] {
            assert_eq!(refuses(&ours, path_use), want, "{rule} {ours}: {path}");
        }
        let edit = translated(&rule.replace("Read", "Edit")).unwrap();
        assert_eq!(Some(&edit), edit_rule(&ours).as_ref());
        for path_use in [PathUse::Edit, PathUse::Write] {
            assert_eq!(refuses(&edit, path_use), want, "{edit}: {path}");
        }
    }
}

/// Returns whether Claude Code's pattern matches a command: `*` is any text, and at the end, after
/// a blank, also nothing.
fn matches_theirs(pattern: &str, command: &str) -> bool {
    let any = |pattern: &str| crate::core::path::text_matches(pattern, command);
    match pattern
        .strip_suffix(":*")
        .or_else(|| pattern.strip_suffix(" *"))
    {
        Some(first) => any(first.trim_end()) || any(&format!("{} *", first.trim_end())),
        None => any(pattern),
    }
}

proptest! {
    #[test]
    fn a_translated_rule_refuses_every_command_of_the_original(
        pattern in "[ab*]{1,3}( ([ab*]{1,2}|-f)){0,3}(:\\*)?",
        command in "[ab]{1,3}( ([ab]{1,2}|-f)){0,4}",
    ) {
        let Ok(ours) = translated(&format!("Bash({pattern})")) else { return Ok(()) };
        if matches_theirs(&pattern, &command) {
            prop_assert!(refuses_line(&ours, &command), "{pattern} {ours}: {command}");
        }
    }

    #[test]
    fn a_translated_rule_refuses_every_path_of_the_original(
        pattern in "(/|\\./)?([ab*]|\\*\\*)(/([ab*?]{1,2}|\\*\\*)){0,3}/?",
        path in "[ab]{1,2}(/[ab]{1,2}){0,4}",
    ) {
        let Ok(ours) = translated(&format!("Read({pattern})")) else { return Ok(()) };
        // Without `/**` a single folder matches at any depth, as in Claude Code.
        let theirs = pattern.trim_start_matches("./");
        let folder = theirs.strip_suffix("/**").filter(|folder| !folder.contains('/'));
        let mut builder = ignore::gitignore::GitignoreBuilder::new("/home/u/w");
        builder.add_line(None, folder.unwrap_or(theirs)).unwrap();
        let theirs = builder.build().unwrap();
        let path = format!("/home/u/w/{path}");
        if theirs.matched_path_or_any_parents(&path, false).is_ignore() {
            let rule = Rule::parse(&ours).unwrap();
            prop_assert!(rule.refuses_path(PathUse::Read, &path, &bases()), "{pattern} {ours}: {path}");
        }
    }

    #[test]
    fn no_text_makes_a_panic(text in "\\PC{0,40}", rule in "[A-Z][a-z]{3}\\(\\PC{0,20}\\)") {
        for (agent, name) in FILES {
            let found = found(name, &text);
            prop_assert!(found.iter().all(|file| file.line().chars().count() <= 160));
            if let Ok(ours) = translate(agent, &rule, Path::new("/w")) {
                prop_assert!(Rule::parse(&ours).is_ok());
            }
        }
    }
}
