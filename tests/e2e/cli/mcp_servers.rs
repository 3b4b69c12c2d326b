//! Servers in the config: `rewake mcp add`, `list`, `get`, `tools`, `doctor`, `import` and `remove`;
//! what a repository defines; and run folders that nobody needs.

use std::path::{Path, PathBuf};

use rewake::command::server::{Attached, ServerEnv, ServerSpec, Servers};

use crate::cli::keeper_server::SERVER;
use crate::cli::{LIMIT, bash, calling, newest, quiet, refused, runtime, scripted, step, until};
use support::{Home, Live, Run, run, spoken};

/// Shown nowhere and kept in no file.
const SECRET: &str = "sk-of-a-server-0123456789";

/// The words that start the server of the tests.
fn server() -> Vec<String> {
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap().to_string();
    std::iter::once(program)
        .chain(spoken::arguments(SERVER))
        .collect()
}

fn add(home: &Home, name: &str, mode: &str, more: &[&str]) -> Run {
    let env = format!("{}={mode}", spoken::ASKED);
    let mut args: Vec<String> = ["mcp", "add", name, "--env", &env].map(String::from).into();
    args.extend(more.iter().map(ToString::to_string));
    args.push("--".to_string());
    args.extend(server());
    let run = home.run(args);
    quiet(&run);
    run
}

/// The same in the form of `.mcp.json`.
fn mcp_json(home: &Home, name: &str) {
    let words = server();
    let entry = serde_json::json!({ "mcpServers": { name: {
        "command": words[0], "args": words[1..], "env": { spoken::ASKED: "old" },
    }}});
    std::fs::write(home.path(".mcp.json"), entry.to_string()).unwrap();
}

/// The files below a folder that hold this text.
fn holding(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if std::fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(text.len()).any(|w| w == text.as_bytes()))
        {
            found.push(path);
        }
    }
    found
}

fn run_folders(home: &Home) -> usize {
    let folders = std::fs::read_dir(home.rewake_home().join("servers"));
    folders.map_or(0, Iterator::count)
}

#[test]
fn a_server_is_added_tried_listed_and_removed() {
    let home = Home::new();
    home.write_config("# mine\ntheme = \"light\" # bright\n");
    let env = format!("{}=old", spoken::ASKED);
    let mut args = [
        "mcp",
        "add",
        "spoken",
        "--env",
        &env,
        "--env",
        "TOKEN=${TOKEN}",
        "--",
    ]
    .map(String::from)
    .to_vec();
    args.extend(server());
    let mut command = home.rewake(args);
    command.env("TOKEN", SECRET);
    let added = run(command, LIMIT).expect(0);
    assert!(
        added.stdout.contains("spoken was added to "),
        "{}",
        added.stdout
    );
    assert!(
        added
            .stdout
            .contains("protocol 2025-11-25 (initialize), 2 tools, about "),
        "{}",
        added.stdout
    );
    assert!(
        added.stdout.contains("\n  mcp__spoken__"),
        "{}",
        added.stdout
    );
    let config = std::fs::read_to_string(home.rewake_home().join("config.toml")).unwrap();
    assert!(
        config.starts_with("# mine\ntheme = \"light\" # bright\n"),
        "{config}"
    );
    assert!(config.contains("TOKEN = \"${TOKEN}\""), "{config}");

    let with_token = |args: &[&str]| {
        let mut command = home.rewake(args);
        command.env("TOKEN", SECRET);
        let run = run(command, LIMIT);
        quiet(&run);
        assert!(!run.stdout.contains(SECRET) && !run.stderr.contains(SECRET));
        run
    };
    let listed = with_token(&["mcp", "list"]).expect(0).stdout;
    let lines: Vec<&str> = listed.lines().collect();
    assert!(
        lines[0].starts_with("name    state  from             starts"),
        "{listed}"
    );
    assert!(
        lines[1].starts_with("spoken  ok     your own config  /"),
        "{listed}"
    );
    let got = with_token(&["mcp", "get", "spoken"]).expect(0).stdout;
    assert!(
        got.contains("env        REWAKE_TEST_SERVER, TOKEN\n"),
        "{got}"
    );
    assert!(
        got.contains("asks for   TOKEN\n") && got.contains("trust      ask\n"),
        "{got}"
    );
    let tools = with_token(&["mcp", "tools", "spoken"]).expect(0).stdout;
    assert!(tools.contains("mcp__spoken__"), "{tools}");
    let healthy = with_token(&["mcp", "doctor"]).expect(0).stdout;
    assert!(
        healthy.contains("ok     spoken   ") && healthy.contains(" ms; 2 tools, about "),
        "{healthy}"
    );
    assert!(healthy.ends_with("no problems found\n"), "{healthy}");
    assert_eq!(run_folders(&home), 0, "nothing of a trial is left");
    let kept = holding(&home.rewake_home(), SECRET);
    assert!(kept.is_empty(), "{kept:?}");

    // Without the variable it is said, and by no start of anything.
    let listed = home.run(["mcp", "list"]).expect(0);
    assert!(listed.stdout.contains("spoken  wrong"), "{}", listed.stdout);
    assert!(
        listed
            .stderr
            .contains("spoken: the variable TOKEN is not set\nhint: set TOKEN"),
        "{}",
        listed.stderr
    );
    let report = home.run(["doctor"]).stdout;
    let wrong = "servers  1 MCP server configured, 1 of them wrong";
    assert!(report.contains(wrong), "{report}");
    let sick = home.run(["mcp", "doctor"]).expect(1);
    assert!(
        sick.stdout.contains("WRONG  spoken   ") && sick.stdout.contains("hint: set TOKEN"),
        "{}",
        sick.stdout
    );

    refused(
        add(&home, "spoken", "old", &[]),
        2,
        &["has a server spoken already", "rewake mcp remove spoken"],
    );
    home.run(["mcp", "remove", "spoken"]).expect(0);
    let config = std::fs::read_to_string(home.rewake_home().join("config.toml")).unwrap();
    assert_eq!(config, "# mine\ntheme = \"light\" # bright\n");
    refused(
        home.run(["mcp", "remove", "spoken"]),
        2,
        &["there is no server \"spoken\"", "rewake mcp list"],
    );
}

#[test]
fn an_unresponsive_server_is_added_with_a_warning() {
    let home = Home::new();
    let run = add(&home, "lame", "exits", &[]).expect(0);
    assert!(
        run.stderr
            .contains("it does not answer, and stays in the config"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr
            .contains("hint: its last words: no licence found"),
        "{}",
        run.stderr
    );
    let sick = home.run(["mcp", "doctor", "lame"]).expect(1);
    assert!(sick.stdout.contains("WRONG  lame "), "{}", sick.stdout);
    assert!(
        sick.stdout
            .contains("hint: its last words: no licence found"),
        "{}",
        sick.stdout
    );
    refused(
        home.run(["mcp", "tools"]),
        1,
        &["1 server did not answer", "last words: no licence"],
    );
    home.run(["mcp", "add", "gone", "--", "no-such-command"])
        .expect(0);
    let sick = home.run(["mcp", "doctor", "gone"]).expect(1).stdout;
    assert!(
        sick.contains("there is no command \"no-such-command\" in PATH"),
        "{sick}"
    );
    assert_eq!(run_folders(&home), 0);
}

#[test]
fn an_invalid_server_is_refused_before_anything_is_written() {
    let home = Home::new();
    for (args, words) in [
        (
            &["add", "a b", "--", "x"][..],
            &["not a server name", "at most 32"][..],
        ),
        (
            &["add", "a"],
            &["neither a command nor a url", "mcp add NAME"],
        ),
        (
            &["add", "a", "http://h", "--", "x"],
            &["both a url and a command"],
        ),
        (
            &["add", "a", "ftp://h"],
            &["not an http:// or https:// address"],
        ),
        (
            &["add", "a", "--env", SECRET, "--", "x"],
            &["--env is not NAME=VALUE"],
        ),
        (
            &["add", "a", "--header", "A: b", "--", "x"],
            &["headers has no place"],
        ),
        (
            &["get", "a"],
            &["there is no server \"a\"", "rewake mcp add"],
        ),
        (&["tools", "a"], &["there is no server \"a\""]),
    ] {
        let run = home.run(["mcp"].iter().chain(args));
        let run = refused(run, 2, words);
        assert!(!run.stderr.contains(SECRET), "{}", run.stderr);
    }
    assert!(!home.rewake_home().join("config.toml").exists());
    let nothing = home.run(["mcp", "list"]).expect(0);
    assert!(
        nothing.stderr.contains("rewake mcp add"),
        "{}",
        nothing.stderr
    );
}

#[test]
fn a_server_of_a_repository_starts_only_once_it_is_trusted() {
    let home = scripted(&[step("fine", &[])]);
    mcp_json(&home, "theirs");
    let run = home.run(["-p", "x"]).expect(0);
    quiet(&run);
    let said: Vec<&str> = run
        .stderr
        .lines()
        .filter(|line| line.contains("MCP servers"))
        .collect();
    assert_eq!(said.len(), 1, "{}", run.stderr);
    assert!(
        said[0].contains("the folder is not trusted: theirs (.mcp.json)"),
        "{}",
        run.stderr
    );
    let listed = home.run(["mcp", "list"]).expect(0);
    assert!(
        listed.stdout.contains("theirs  not trusted  .mcp.json"),
        "{}",
        listed.stdout
    );
    let sick = home.run(["mcp", "doctor"]).expect(0).stdout;
    assert!(sick.contains("note   theirs   it is not trusted"), "{sick}");
    let report = home.run(["doctor"]).stdout;
    assert!(
        report.contains("servers  1 MCP server configured, 1 of them not trusted"),
        "{report}"
    );

    let trusted = home.run(["trust", "--yes"]).expect(0).stdout;
    let (before, after) = trusted.split_once("is trusted now").unwrap();
    assert!(
        before.contains("server theirs (.mcp.json): /") && before.contains(SERVER),
        "{trusted}"
    );
    assert!(!after.contains("server theirs"), "{trusted}");
    let listed = home.run(["mcp", "list"]).expect(0).stdout;
    assert!(listed.contains("theirs  ok     .mcp.json"), "{listed}");
    assert_eq!(
        home.run(["-p", "x"])
            .expect(0)
            .stderr
            .matches("MCP servers")
            .count(),
        0
    );
    home.run(["mcp", "doctor"]).expect(0);

    // Another definition is another server.
    let text = home.read(".mcp.json").replace("old", "new");
    std::fs::write(home.path(".mcp.json"), text).unwrap();
    let run = home.run(["-p", "x"]).expect(0);
    assert!(
        run.stderr
            .contains("theirs (.mcp.json, changed since it was trusted)"),
        "{}",
        run.stderr
    );
    let listed = home.run(["mcp", "list"]).expect(0).stdout;
    assert!(listed.contains("theirs  changed"), "{listed}");

    // What a person writes there themselves is theirs to trust too.
    let added = add(&home, "own", "old", &["--scope", "project"]).expect(0);
    assert!(
        home.read(".rewake/config.toml")
            .contains("[mcp_servers.own]")
    );
    assert!(
        added.stderr.contains("once it is trusted: rewake trust"),
        "{}",
        added.stderr
    );
    assert!(
        added.stderr.contains("in a file of this folder"),
        "{}",
        added.stderr
    );
    refused(
        home.run(["mcp", "remove", "own"]),
        2,
        &["rewake mcp remove own --scope project"],
    );
    refused(
        home.run(["mcp", "remove", "theirs"]),
        2,
        &[".mcp.json:1", "take it out of that file"],
    );
    home.run(["mcp", "remove", "own", "--scope", "project"])
        .expect(0);

    std::fs::write(home.path(".mcp.json"), "{\n\"mcpServers\": {,}}").unwrap();
    let run = home.run(["-p", "x"]).expect(0);
    assert!(
        run.stderr.contains(".mcp.json:2: ") && run.stderr.contains("no server of it is used"),
        "{}",
        run.stderr
    );
    for (action, code) in [("list", 0), ("tools", 0), ("doctor", 1)] {
        let run = home.run(["mcp", action]).expect(code);
        let said = run.stdout + &run.stderr;
        assert!(said.contains(".mcp.json:2: "), "mcp {action}: {said}");
    }
    refused(
        home.run(["trust", "--yes"]),
        2,
        &[".mcp.json:2: ", "repair the file first"],
    );
}

#[test]
fn text_of_a_repository_does_not_drive_the_terminal() {
    let home = Home::new();
    let evil = "\\u001b]0;x\\u0007\\u202e";
    let text = format!(
        "{{\"mcpServers\":{{\"a\":{{\"command\":\"x{evil}\",\"args\":[\"{evil}\"],\"k{evil}\":1}},\"{evil}\":{{}}}}}}"
    );
    std::fs::write(home.path(".mcp.json"), text).unwrap();
    for args in [
        &["mcp", "list"][..],
        &["mcp", "get", "a"],
        &["mcp", "doctor"],
        &["mcp", "import"],
        &["trust", "--yes"],
        &["mcp", "get", "a"],
        &["mcp", "list"],
        &["doctor"],
    ] {
        let run = home.run(args);
        let text = run.stdout + &run.stderr;
        let drives = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(drives), "{args:?}: {text:?}");
    }
}

#[test]
fn servers_of_other_agents_are_shown_and_taken_when_a_person_says_so() {
    let home = Home::new();
    let user = home.user();
    let write = |file: PathBuf, text: &str| {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write(
        user.join(".claude.json"),
        "{\"mcpServers\":{\"one\":{\"command\":\"a\"},\"mine\":{\"command\":\"b\"}}}",
    );
    write(
        user.join(".codex/config.toml"),
        "[mcp_servers.two]\nurl = \"https://h\"\n[mcp_servers.one]\ncommand = \"other\"\n",
    );
    write(user.join(".gemini/settings.json"), "{\"mcpServers\": [");
    write(
        user.join(".config/opencode/opencode.json"),
        "{\"mcp\":{\"three\":{\"type\":\"local\",\"command\":[\"c\",\"d\"]},\"no name\":{\"command\":[\"e\"]}}}",
    );
    home.write_config("# mine\n[mcp_servers.mine]\ncommand = \"own\"\n");
    let shown = home.run(["mcp", "import"]).expect(0);
    for words in [
        "one",
        "  claude     a  (",
        "taken: stays as it is",
        "two",
        "https://h  (",
        "  opencode   c d  (",
        "not taken: it is not a server name",
    ] {
        assert!(shown.stdout.contains(words), "{words}: {}", shown.stdout);
    }
    assert!(
        shown
            .stderr
            .contains("settings.json: line 1: it is not JSON"),
        "{}",
        shown.stderr
    );
    assert!(
        shown
            .stderr
            .contains("rewake mcp import --yes adds 3 servers"),
        "{}",
        shown.stderr
    );
    let file = home.rewake_home().join("config.toml");
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "# mine\n[mcp_servers.mine]\ncommand = \"own\"\n"
    );
    let added = home.run(["mcp", "import", "--yes"]).expect(0);
    assert!(
        added.stdout.contains("3 servers added to "),
        "{}",
        added.stdout
    );
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("# mine\n[mcp_servers.mine]\ncommand = \"own\"\n"),
        "{text}"
    );
    assert!(
        text.contains("[mcp_servers.one]\ncommand = \"a\"\n"),
        "{text}"
    );
    // What the folder brings is taken only by its name, and never with a key.
    let theirs = "{\"mcpServers\":{\"theirs\":{\"command\":\"t\"},\"keys\":{\"command\":\"k\",\"env\":{\"A\":\"${OPENAI_API_KEY}\"}}}}";
    write(home.path(".mcp.json"), theirs);
    let again = home.run(["mcp", "import", "--yes"]).expect(0);
    assert!(
        again
            .stdout
            .contains("not taken, since it comes with this folder: rewake mcp import theirs --yes"),
        "{}",
        again.stdout
    );
    let keys = home.run(["mcp", "import", "keys", "--yes"]).expect(0);
    assert!(
        keys.stdout
            .contains("asks for OPENAI_API_KEY, which is for the key of a provider"),
        "{}",
        keys.stdout
    );
    refused(
        home.run(["mcp", "import", "nobody"]),
        2,
        &["no other agent has a server \"nobody\" here"],
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    home.run(["mcp", "import", "theirs", "--yes"]).expect(0);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("[mcp_servers.theirs]\ncommand = \"t\"\n"),
        "{text}"
    );
    let again = home.run(["mcp", "import", "--yes"]).expect(0);
    assert!(
        again.stderr.contains("there is nothing to add"),
        "{}",
        again.stderr
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

fn servers_of(home: &Home) -> Servers {
    let root = home.rewake_home().join("servers");
    Servers::new(
        root,
        env!("CARGO_BIN_EXE_rewake"),
        Some(std::env::temp_dir()),
    )
}

fn spec(session: &str, home: &Home) -> ServerSpec {
    let words = server();
    ServerSpec {
        name: "a".into(),
        session: session.into(),
        program: words[0].clone(),
        args: words[1..].to_vec(),
        folder: home.workspace(),
        env: vec![spoken::ASKED.into()],
        linger_ms: 600_000,
        sandbox: None,
        lease: None,
    }
}

fn env() -> ServerEnv {
    let own = [(spoken::ASKED.to_string(), "old".to_string())];
    ServerEnv::new(|name| std::env::var_os(name), &own)
}

#[test]
fn run_folders_that_nobody_needs_are_swept() {
    // A call is open, of which the run folder is named as the run of a server here.
    let home = calling(&[bash("touch begun; sleep 600")]);
    let args = ["-p", "x", "--set", "permissions.allow=[\"Bash\"]"];
    let mut live = Live::spawn(home.rewake(args));
    until(|| home.path("begun").exists());
    let needed = std::fs::read_dir(home.rewake_home().join("runs"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .file_name();
    let session = newest(&home);
    let servers = servers_of(&home);
    let root = home.rewake_home().join("servers");
    let left = servers.prepare(&spec(&session, &home)).unwrap();
    let open = servers.prepare(&spec(&session, &home)).unwrap();
    std::fs::rename(root.join(open), root.join(&needed)).unwrap();
    let trial = servers.prepare(&spec("trial", &home)).unwrap();
    let unknown = servers
        .prepare(&spec("0191d5c8-0000-7000-8000-000000000000", &home))
        .unwrap();
    let runtime = runtime();
    let lives = servers.prepare(&spec(&session, &home)).unwrap();
    let client = runtime.block_on(servers.start(&lives, &env())).unwrap();
    assert!(matches!(client, Attached::Live(_)));

    // While a process works in the session nothing of it goes.
    assert!(!home.run(["gc"]).expect(0).stdout.contains("run folder"));
    live.kill();
    live.wait(LIMIT);
    let shown = home.run(["gc"]).expect(0).stdout;
    assert!(
        shown.contains("1 run folder of MCP servers that nobody needs"),
        "{shown}"
    );
    let report = home.run(["doctor"]).stdout;
    assert!(
        report.contains("note   servers  1 run folder of MCP servers"),
        "{report}"
    );
    assert!(report.contains("1 MCP server running"), "{report}");
    assert!(root.join(&left).exists());
    home.run(["gc", "--yes"]).expect(0);
    assert!(!root.join(&left).exists());
    for stays in [needed.to_str().unwrap(), &trial, &unknown, &lives] {
        assert!(root.join(stays).exists(), "{stays}");
    }
    std::fs::remove_dir_all(root.join(&needed)).unwrap();
    home.run(["ps", "stop", needed.to_str().unwrap()]).expect(0);
    drop(client);
    runtime.block_on(async {
        servers.stop(&lives).unwrap();
    });
}

#[test]
fn a_session_that_is_purged_takes_its_servers_with_it() {
    let home = scripted(&[step("fine", &[])]);
    home.run(["-p", "x"]).expect(0);
    let session = newest(&home);
    let servers = servers_of(&home);
    let over = servers.prepare(&spec(&session, &home)).unwrap();
    let lives = servers.prepare(&spec(&session, &home)).unwrap();
    let other = servers
        .prepare(&spec("0191d5c8-0000-7000-8000-000000000000", &home))
        .unwrap();
    let runtime = runtime();
    drop(runtime.block_on(servers.start(&lives, &env())).unwrap());
    home.run(["purge", &session, "--yes"]).expect(0);
    let root = home.rewake_home().join("servers");
    assert!(!root.join(over).exists());
    assert!(!root.join(lives).exists());
    assert!(root.join(other).exists());
}
