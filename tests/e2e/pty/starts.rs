//! The ways to begin: a prompt, the newest session, one that is named, the first run, trust.

use crate::pty::{CONFIG, bash, scripted, step, turn_ends};
use support::{ENTER, Home, Terminal, skip};

const RIGHT: &str = "\x1b[C";

fn talked() -> (Home, String) {
    let home = scripted(&[step("First answer.", &[]), step("Second answer.", &[])]);
    let id = talk_once(&home);
    (home, id)
}

fn talk_once(home: &Home) -> String {
    home.run(["-p", "remember me"]).expect(0);
    let history = home.run(["history"]).expect(0).stdout;
    history.split_whitespace().next().unwrap().to_string()
}

#[test]
fn a_prompt_begins_at_once() {
    let home = scripted(&[step("Begun.", &[])]);
    let terminal = Terminal::start(&home, &["begin with this"]);
    terminal.sees("▌ begin with this");
    terminal.sees("Begun.");
}

#[test]
fn a_resumed_session_shows_its_conversation() {
    let (home, id) = talked();
    for args in [vec!["-c"], vec!["-r", &id]] {
        let terminal = Terminal::start(&home, &args);
        terminal.sees("remember me");
        terminal.sees("First answer.");
    }
    let terminal = Terminal::start(&home, &["-c", "and now?"]);
    terminal.sees("First answer.");
    terminal.sees("Second answer.");
}

#[test]
fn resuming_an_unknown_id_is_reported_with_a_hint() {
    let (home, _) = talked();
    let terminal = Terminal::start(&home, &["-r", "ffffffff"]);
    terminal.sees("ffffffff");
    terminal.sees("hint:");
}

fn lose_the_database(home: &Home) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(home.rewake_home().join(format!("rewake.db{suffix}")));
    }
}

#[test]
fn a_lost_database_is_rebuilt_from_the_journal() {
    for is_named in [false, true] {
        let (home, id) = talked();
        lose_the_database(&home);
        let args: &[&str] = if is_named { &["-r", &id] } else { &["-c"] };
        let terminal = Terminal::start(&home, args);
        terminal.sees("First answer.");
        terminal.sees("3 entries of 1 session put back");
    }
}

#[test]
fn a_lost_database_without_a_journal_is_spoken_of() {
    let home = scripted(&[step("First answer.", &[])]);
    home.write_config(&format!("store.journal = false\n{CONFIG}"));
    let id = talk_once(&home);
    lose_the_database(&home);
    let said = "1 session that was recorded here is not in the database";
    let terminal = Terminal::start(&home, &["-c"]);
    terminal.sees("there is no session");
    terminal.sees(said);
    drop(terminal);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees(said);
    terminal.sees(&id);
    terminal.types("\x04");
    terminal.ends();
    let terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    assert!(!terminal.screen().contains("recorded here"));
}

#[test]
fn a_first_run_says_what_was_looked_for() {
    let home = Home::new();
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("rewake has no model yet");
    terminal.sees("type a key for anthropic");
    terminal.sees("set ANTHROPIC_API_KEY");
    terminal.answers("Enter chooses", "q");
    assert_eq!(terminal.ends().code(), Some(0));
    assert!(terminal.is_cooked());
}

/// All that the table of providers knows, on a small screen.
#[test]
fn a_first_run_knows_every_provider_by_name() {
    let home = Home::new();
    let mut terminal = Terminal::start(&home, &[]);
    for usual in [
        "key for anthropic",
        "key for openai",
        "key for gemini",
        "key for openrouter",
        "ollama: ",
    ] {
        terminal.sees(usual);
    }
    terminal.sees("m more providers");
    terminal.answers("Enter chooses", "m");
    for other in [
        "azure",
        "cerebras",
        "deepseek",
        "fireworks",
        "groq",
        "mistral",
    ] {
        terminal.sees(&format!("{other}: export "));
    }
    for other in ["moonshot", "together", "vercel", "xai", "zai"] {
        terminal.sees(&format!("{other}: export "));
    }
    terminal.sees("see the demo");
    terminal.sees("m back");
    terminal.answers("Enter chooses", "q");
    assert_eq!(terminal.ends().code(), Some(0));
}

/// A person finds again what was written for them.
#[test]
fn a_key_that_is_typed_at_the_first_start_says_what_was_written() {
    let home = Home::new();
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("key for anthropic");
    terminal.answers("Enter chooses", "\r");
    terminal.sees("type or paste the key for anthropic");
    terminal.types("sk-typed-0123456789");
    terminal.sees("••••");
    terminal.types("\r");
    terminal.sees("keys/anthropic: the key for anthropic");
    terminal.sees("config.toml: model = \"anthropic/claude-");
    assert!(!terminal.raw().contains("sk-typed"));
    terminal.types("/status\r");
    terminal.sees("mode default");
}

/// Also by a terminal that marks what is pasted; and nothing is left for the shell to show.
#[test]
fn a_key_that_is_pasted_is_kept_without_the_marks_of_the_paste() {
    let home = Home::new();
    let file = home.rewake_home().join("keys/openai");
    let mut terminal = Terminal::start(&home, &["key", "openai"]);
    terminal.sees("key for openai (Esc or Ctrl+C: none)");
    terminal.types("\x1b[200~sk-pasted-0123456789\x1b[201~");
    terminal.sees("••••");
    terminal.types("\r");
    assert_eq!(terminal.ends().code(), Some(0));
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "sk-pasted-0123456789\n"
    );
    let mut terminal = Terminal::start(&home, &["key", "openai"]);
    terminal.sees("key for openai (Esc or Ctrl+C: none)");
    terminal.types("\x1b[31msk-other\r");
    terminal.sees("holds a control character or an escape sequence");
    assert_eq!(terminal.ends().code(), Some(2));
    assert!(!terminal.raw().contains("sk-"), "{}", terminal.screen());
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .contains("sk-pasted")
    );
}

#[test]
fn figures_fit_the_terminal() {
    let home = scripted(&[step("one", &[]), step("two", &[])]);
    home.run(["-p", "x"]).expect(0);
    for columns in [80, 40] {
        let rewake = home.rewake::<&str>([]);
        let mut command = std::process::Command::new("/bin/sh");
        let line = format!("stty cols {columns} && exec \"$0\" stats");
        command.args(["-c", &line]).arg(rewake.get_program());
        let env = rewake.get_envs().filter_map(|(k, v)| Some((k, v?)));
        command.env_clear().envs(env).current_dir(home.workspace());
        let mut terminal = Terminal::of(command);
        terminal.sees("prices as of");
        assert_eq!(terminal.ends().code(), Some(0));
        let screen = terminal.screen();
        let widest = screen.lines().map(|l| l.trim_end().chars().count()).max();
        assert!(widest <= Some(columns), "{columns}: {widest:?}\n{screen}");
        let has_row = |l: &str| l.contains("s/play") && l.split_whitespace().count() >= 4;
        assert!(screen.lines().any(has_row), "{screen}");
    }
}

#[test]
fn the_terminal_is_asked_for_its_background_and_its_answer_is_never_typed() {
    let home = scripted(&[step("Hello.", &[])]);
    let mut command = home.rewake::<&str>([]);
    command.env("COLORTERM", "truecolor");
    let mut terminal = Terminal::of(command);
    terminal.sees("Describe a task");
    assert!(terminal.raw().contains("\u{1b}]11;?"));
    // The answer comes long after the first frame, in two pieces.
    terminal.types("\x1b]11;rgb:ffff/ff");
    std::thread::sleep(std::time::Duration::from_millis(400));
    terminal.types("ff/ffff\x1b\\");
    terminal.types("words");
    terminal.sees("words");
    assert!(
        terminal.raw().contains("38;2;95;99;112;"),
        "dim is not the light theme's"
    );
    for piece in ["ff/", "rgb", "]11"] {
        assert!(!terminal.screen().contains(piece), "{}", terminal.screen());
    }
    terminal.kill();
}

#[test]
fn trust_is_asked_once() {
    let home = scripted(&[step("Hello.", &[])]);
    std::fs::create_dir(home.path(".rewake")).unwrap();
    let config = |text: &str| std::fs::write(home.path(".rewake/config.toml"), text).unwrap();
    config("theme = \"light\"\n");
    let mut terminal = Terminal::start(&home, &[]);
    // Nothing in it needs trust.
    terminal.sees("Describe a task");
    terminal.types("\x04");
    terminal.ends();
    config("theme = \"light\"\nmax_turns = 9\n");
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Do you trust this folder?");
    terminal.sees("max_turns = 9");
    terminal.chooses("n");
    terminal.sees("since the folder is not trusted: max_turns");
    terminal.types("\x04");
    terminal.ends();
    let terminal = Terminal::start(&home, &[]);
    terminal.sees("since the folder is not trusted: max_turns");
    assert!(!terminal.screen().contains("Do you trust"));
}

/// A folder with a server and a hook, for a machine with a sandbox.
fn with_programs(sandbox: &str) -> Home {
    let home = scripted(&[step("Hello.", &[])]);
    home.write_config(&CONFIG.replace("sandbox.enabled = false\n", sandbox));
    std::fs::create_dir(home.path(".rewake")).unwrap();
    let server = r#"{"mcpServers": {"tracker": {"command": "./serve.sh", "args": ["--all"]}}}"#;
    std::fs::write(home.path(".mcp.json"), server).unwrap();
    let hook = r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks":
        [{"type": "command", "command": "sh guard.sh --strict"}]}]}}"#;
    std::fs::write(home.path(".rewake/hooks.json"), hook).unwrap();
    std::fs::write(home.path("guard.sh"), "exit 0\n").unwrap();
    home
}

#[test]
fn a_server_of_the_folder_is_shown_with_its_access_before_it_is_trusted() {
    for (sandbox, says) in [
        (
            "sandbox.enabled = true\n",
            "access in the sandbox: workspace",
        ),
        (
            "sandbox.enabled = false\n",
            "its servers run with all your rights",
        ),
    ] {
        let home = with_programs(sandbox);
        let mut terminal = Terminal::start(&home, &[]);
        terminal.sees("trust it with this");
        terminal.sees("server tracker (.mcp.json): ./serve.sh --all");
        terminal.sees(says);
        terminal.chooses("y");
        terminal.sees("this folder is trusted with this content");
        // The yes is for what was shown: the hook needs its own.
        terminal.sees("1 hook of .rewake/hooks.json not run, because not trusted");
        terminal.types("\x04");
        terminal.ends();
        let listed = home.run(["mcp", "get", "tracker"]).expect(0).stdout;
        assert!(listed.contains("state      ok"), "{listed}");
    }
}

#[test]
fn the_trust_command_asks_for_the_access_of_each_server_and_hook() {
    let home = with_programs("");
    if !home.run(["doctor"]).stdout.contains("sandbox  works") {
        return skip("Landlock and seccomp");
    }
    let mut terminal = Terminal::start(&home, &["trust"]);
    terminal.sees("server tracker (.mcp.json): ./serve.sh --all");
    terminal
        .sees("hooks, which run in the sandbox, with access workspace unless you choose another:");
    terminal.sees(".rewake/hooks.json PreToolUse Bash: sh guard.sh --strict");
    terminal.sees("trust it with this?");
    terminal.types("y\r");
    terminal.sees("access of server tracker: workspace or network? [workspace]");
    terminal.types("network\r");
    terminal.sees("sh guard.sh --strict: workspace or network? [workspace]");
    terminal.types("\r");
    terminal.sees("is trusted now");
    terminal.ends();
    let trusted = home.rewake_home().join("trusted.toml");
    let trusted = std::fs::read_to_string(trusted).unwrap();
    assert!(trusted.contains("tracker = \"network\""), "{trusted}");
    assert!(trusted.contains("access = \"workspace\""), "{trusted}");
    // A no trusts nothing.
    let home = with_programs("");
    let mut terminal = Terminal::start(&home, &["trust"]);
    terminal.sees("trust it with this?");
    terminal.types("n\r");
    terminal.sees("nothing was trusted");
    terminal.ends();
    assert!(!home.rewake_home().join("trusted.toml").exists());
}

#[test]
fn a_config_changed_since_it_was_trusted_is_asked_about_again() {
    let home = scripted(&[step("Hello.", &[])]);
    std::fs::create_dir(home.path(".rewake")).unwrap();
    let config = |text: &str| std::fs::write(home.path(".rewake/config.toml"), text).unwrap();
    config("max_turns = 9\n");
    home.run(["trust", "--yes"]).expect(0);
    config("max_turns = 9\n[permissions]\nallow = [\"Bash\"]\n");
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("It differs in:");
    terminal.sees("permissions.allow = [\"Bash\"] (new)");
    assert!(!terminal.screen().contains("max_turns"));
    // It changes again while the question stands: what was shown is what is trusted.
    config("max_turns = 9\n[permissions]\nallow = [\"Bash\", \"Edit\"]\n");
    terminal.chooses("y");
    terminal.sees("this folder is trusted with this content");
    terminal.sees("permissions.allow = [\"Bash\", \"Edit\"] (changed)");
    terminal.types("\x04");
    terminal.ends();
    config("max_turns = 9\n[permissions]\nallow = [\"Bash\"]\n");
    let terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    assert!(!terminal.screen().contains("Do you trust"));
}

#[test]
fn a_broken_config_ends_before_the_screen() {
    let home = scripted(&[]);
    home.write_config(&format!("shel = 1\n{CONFIG}"));
    let mut terminal = Terminal::start(&home, &[]);
    terminal.ends();
    terminal.sees("unknown key");
    assert!(terminal.is_cooked() && !terminal.is_on_other_screen());
}

#[test]
fn the_new_command_starts_a_session_with_its_prompt() {
    let home = scripted(&[step("First answer.", &[])]);
    let mut terminal = Terminal::start(&home, &["hello"]);
    terminal.sees("First answer.");
    terminal.says("/new and again");
    terminal.no_longer_sees("▌ hello");
    terminal.sees("▌ and again");
    terminal.sees("First answer.");
    terminal.types(ENTER);
}

#[test]
fn the_history_opens_and_a_session_is_gone_on_with() {
    let (home, _) = talked();
    let mut terminal = Terminal::start(&home, &["-r"]);
    terminal.sees("remember me");
    terminal.types("nothing like it");
    terminal.no_longer_sees("remember me");
    terminal.types("\x15remember");
    terminal.sees("remember me");
    // Into its checkpoints, and from the last of them on.
    terminal.types(RIGHT);
    terminal.sees("answered: First answer.");
    terminal.types("\x12");
    terminal.no_longer_sees("History");
    terminal.sees("▌ remember me");
    terminal.says("and now?");
    terminal.sees("Second answer.");
}

#[test]
fn a_checkpoint_is_gone_on_from_in_a_copy() {
    let (home, id) = talked();
    home.run(["-p", "-c", "a wrong way"]).expect(0);
    let mut terminal = Terminal::start(&home, &["-r"]);
    terminal.sees("remember me");
    terminal.types(RIGHT);
    terminal.sees("First answer.");
    terminal.types("\x1b[H");
    terminal.types("\x06");
    terminal.sees(&format!("forked from {id}"));
    assert!(!terminal.screen().contains("a wrong way"));
    terminal.says("another way");
    terminal.sees("▌ another way");
}

#[test]
fn a_store_that_cannot_be_opened_ends_the_screen_and_says_why() {
    let home = scripted(&[]);
    std::fs::create_dir(home.rewake_home().join("rewake.db")).unwrap();
    let mut terminal = Terminal::start(&home, &[]);
    assert_eq!(terminal.ends().code(), Some(1));
    terminal.sees("cannot open the session store");
    assert!(terminal.is_cooked() && !terminal.is_on_other_screen());
}

#[test]
fn sandbox_notice_is_shown_only_at_the_first_start() {
    let home = scripted(&[step("Begun.", &[])]);
    home.write_config(&CONFIG.replace("sandbox.enabled = false\n", "sandbox.enabled = true\n"));
    let terminal = Terminal::start(&home, &["begin"]);
    terminal.sees("The model's commands run in a sandbox");
    terminal.sees("Begun.");
    drop(terminal);
    let terminal = Terminal::start(&home, &["-c"]);
    terminal.sees("Begun.");
    let screen = terminal.screen();
    assert!(!screen.contains("run in a sandbox"), "{screen}");
}

#[test]
fn a_session_picked_with_fork_session_is_forked() {
    let (home, _) = talked();
    let args = ["-r", "--fork-session", "--permission-mode", "plan"];
    let mut terminal = Terminal::start(&home, &args);
    terminal.sees("remember me");
    terminal.types("\x1b[B");
    terminal.types("\x12");
    terminal.sees("forked from");
    terminal.sees(" · plan");
    let history = home.run(["history"]).expect(0).stdout;
    assert_eq!(history.lines().count(), 2, "{history}");
}

#[test]
fn prompts_of_other_sessions_of_the_project_are_there() {
    let (home, _) = talked();
    let mut terminal = Terminal::start(&home, &["begin with this"]);
    terminal.sees("First answer.");
    // What was said before is read beside the start.
    terminal.types("\x12remem");
    terminal.sees("› remember me");
    terminal.types("\x1b");
    terminal.types("\x1b[A\x1b[A");
    terminal.sees("› remember me");
    terminal.types("\x03");
    terminal.says("/resume");
    terminal.sees("resume");
    terminal.sees("remember me");
    // What one is in already is not offered.
    assert!(!terminal.screen().contains("open elsewhere"));
}

#[test]
fn a_finished_session_is_listed_at_the_next_start_and_resumed() {
    let home = scripted(&[step("It is mended.", &[])]);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    let screen = terminal.screen();
    assert!(!screen.contains("Last here"), "{screen}");
    terminal.says("mend the parser");
    turn_ends(&terminal, "It is mended.");
    terminal.types("\x04");
    assert!(terminal.ends().success());
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Last here  mend the parser");
    terminal.types("\x1b[B");
    terminal.sees("Enter resumes it");
    terminal.types(ENTER);
    terminal.sees("It is mended.");
    terminal.sees("resumed");
}

#[test]
fn a_prompt_given_before_a_model_is_set_stays_in_the_box() {
    let home = Home::new();
    let terminal = Terminal::start(&home, &["fix the tests"]);
    terminal.sees("rewake has no model yet");
    terminal.sees("in the box: fix the tests");
}

#[test]
fn the_lines_of_doctor_end_between_words() {
    let home = scripted(&[]);
    let mut terminal = Terminal::start(&home, &["doctor"]);
    terminal.ends();
    let screen = terminal.screen();
    let heads = ["ok  ", "note  ", "WRONG  ", "        "];
    let ends = ["no problems found", "problem found", "problems found"];
    let mut rows = screen.lines().skip(1).filter(|row| !row.trim().is_empty());
    assert!(
        rows.all(|row| heads.iter().any(|head| row.starts_with(head))
            || ends.iter().any(|end| row.trim_end().ends_with(end))),
        "{screen}"
    );
}

/// Nothing was done, so there is nothing to resume; the words are below "Last here".
#[test]
fn a_start_that_never_reached_a_model_is_not_offered() {
    const FAILS: &str = "[[step]]\nfail = { class = \"auth\" }\n";
    let home = scripted(&[FAILS.to_string()]);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.says("hello there");
    terminal.sees("step 1 of the script fails");
    terminal.types("\x04");
    terminal.ends();
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Last here  hello there");
    assert!(!terminal.screen().contains("unfinished"));
    terminal.types("\x04");
    terminal.ends();
    let listed = home.run(["-p", "x"]).stderr;
    assert!(!listed.contains("unfinished here"), "{listed}");
    // Work of a model is offered.
    let home = scripted(&[step("", &[bash("echo 1")]), FAILS.to_string()]);
    home.run(["-p", "do it", "--yolo"]);
    let terminal = Terminal::start(&home, &[]);
    terminal.sees("do it");
    terminal.sees("failed");
}
