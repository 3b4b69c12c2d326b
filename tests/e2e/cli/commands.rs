//! The subcommands: what they print, and that they need no more than they use.

use std::process::{Command, Stdio};

use crate::cli::{LIMIT, bash, calling, newest, quiet, refused, scripted, shell, step};
use support::{Home, run};

#[test]
fn history_finds_what_tools_were_called_with_and_says_where_and_how_often() {
    let command = "true # git push origin main";
    let home = calling(&[bash(command), bash("true; true # git push --tags")]);
    home.run(["-p", "publish it", "--yolo"]).expect(0);
    let found = home.run(["history", "git push"]).expect(0);
    let lines: Vec<&str> = found.stdout.lines().collect();
    assert_eq!(lines.len(), 1, "{}", found.stdout);
    assert!(lines[0].contains(" of 2, 2× "), "{}", lines[0]);
    assert!(
        lines[0].ends_with(&format!("bash {command}")),
        "{}",
        lines[0]
    );
    assert_eq!(found.stderr.trim(), "1 entry in 1 session");
}

#[test]
fn show_prints_what_was_said_done_and_told() {
    let home = calling(&[bash("echo out; exit 3")]);
    home.run(["-p", "first line\nsecond line", "--yolo"])
        .expect(0);
    let id = newest(&home);
    let shown = home.run(["show", &id]).expect(0).stdout;
    for word in [
        "title     first line\n",
        "model     s/play  mode: bypassPermissions",
        "you: first line\n       second line\n",
        "[bash {\"command\":\"echo out; exit 3\"}]",
        "  2.0 bash echo out; exit 3: done\n       out\n       [exit code 3]\n",
        ": done\n",
    ] {
        assert!(shown.contains(word), "{word:?} in\n{shown}");
    }
}

#[test]
fn export_writes_a_session_to_stdout_or_into_a_file() {
    let home = calling(&[bash("printf '\\033[31mred'")]);
    home.run(["-p", "make it red", "--yolo"]).expect(0);
    let id = newest(&home);
    let markdown = home.run(["export", &id]).expect(0).stdout;
    for word in [
        "# make it red\n",
        "\n## You, ",
        "### `bash printf",
        "\n␛[31mred",
    ] {
        assert!(markdown.contains(word), "{word:?} in\n{markdown}");
    }
    assert!(!markdown.contains('\u{1b}'), "{markdown:?}");
    let none = home
        .run(["export", &id, "--json", "-o", "out.json"])
        .expect(0);
    assert_eq!(none.stdout, "");
    let json = std::fs::read_to_string(home.path("out.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["session"]["title"], "make it red");
    assert_eq!(value["records"][0]["entry"]["kind"], "opened");
    // What is there is not lost.
    std::fs::write(home.path("notes.md"), "mine").unwrap();
    let args = ["export", id.as_str(), "-o", "notes.md"];
    refused(home.run(args), 2, &["notes.md exists", "hint:", "--force"]);
    assert_eq!(home.read("notes.md"), "mine");
    let args = ["export", id.as_str(), "-o", "notes.md", "--force"];
    home.run(args).expect(0);
    assert!(home.read("notes.md").contains("make it red"));
    refused(home.run(["export", "ffff"]), 2, &["no session \"ffff\""]);
    let args = ["export", id.as_str(), "-o", "no/such/folder/x.md"];
    refused(home.run(args), 1, &["cannot write", "no/such/folder"]);
}

#[test]
fn ps_says_that_nothing_runs_and_what_it_does_not_know() {
    let home = scripted(&[]);
    let none = home.run(["ps"]).expect(0);
    assert_eq!(
        (none.stdout.as_str(), none.stderr.as_str()),
        ("", "no running commands\n")
    );
    refused(
        home.run(["ps", "stop", "ffff"]),
        2,
        &["\"ffff\"", "rewake ps"],
    );
    refused(home.run(["ps", "stop", "../.."]), 2, &["../.."]);
}

#[test]
fn trust_says_what_it_did() {
    let home = scripted(&[]);
    let says = |args: &[&str], word: &str| {
        let run = home.run(args).expect(0);
        assert!(run.stdout.contains(word), "{args:?}: {}", run.stdout);
    };
    refused(home.run(["trust"]), 2, &["no terminal", "--yes"]);
    says(&["trust", "--yes"], "is trusted now");
    says(&["trust", "--yes"], "was trusted already");
    says(&["trust", "--remove"], "no longer");
    says(&["trust", "--remove"], "was not trusted");
    let new = Home::new();
    std::fs::remove_dir(new.rewake_home()).unwrap();
    new.run(["trust", "--yes"]).expect(0);
}

#[test]
fn completion_needs_no_home_and_its_shells_take_it() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let mut command = home.rewake(["completion", shell]);
        command.env_clear();
        let script = run(command, LIMIT).expect(0).stdout;
        assert!(
            script.contains("rewake") && script.contains("history"),
            "{shell}"
        );
        check_syntax(&home, shell, &script);
    }
    home.run(["completion"]).expect(2);
    home.run(["completion", "tcsh"]).expect(2);
}

#[test]
fn the_manual_page_has_all_subcommands() {
    let home = Home::new();
    let mut command = home.rewake(["man"]);
    command.env_clear();
    let page = run(command, LIMIT).expect(0).stdout;
    assert!(page.starts_with(".ie") || page.starts_with(".TH"), "{page}");
    for word in ["rewake", "history", "doctor", "permission"] {
        assert!(page.contains(word), "{word}");
    }
}

/// By the shell itself, where there is one.
fn check_syntax(home: &Home, shell: &str, script: &str) {
    let file = home.path(format!("completion.{shell}"));
    std::fs::write(&file, script).unwrap();
    let checked = Command::new(shell)
        .arg("-n")
        .arg(&file)
        .stdin(Stdio::null())
        .output();
    if let Ok(output) = checked {
        assert!(output.status.success(), "{shell}: {output:?}");
    }
}

#[test]
fn help_and_version_need_nothing() {
    let home = Home::new();
    let bare = |arg: &str| {
        let mut command = home.rewake([arg]);
        command.env_clear();
        run(command, LIMIT).expect(0).stdout
    };
    assert!(bare("--version").starts_with("rewake "));
    let help = bare("--help");
    for word in [
        "history",
        "--fork-session",
        "--output-format",
        "75 stopped, can be resumed",
    ] {
        assert!(help.contains(word), "{help}");
    }
}

#[test]
fn a_reader_of_a_subcommand_may_go_away() {
    let home = scripted(&[step("fine", &[])]);
    home.run(["-p", "x"]).expect(0);
    for what in ["history", "--help", "completion bash", "doctor"] {
        let line = format!("\"$0\" {what} | true");
        quiet(&run(shell(&home, &line), LIMIT).expect(0));
    }
}

#[test]
fn models_that_are_known_are_listed_with_the_date_of_the_list() {
    let home = Home::new();
    let all = home.run(["models"]).expect(0);
    assert!(
        all.stdout.contains("claude-sonnet-4-5") && all.stdout.contains("gpt-5"),
        "{}",
        all.stdout
    );
    let date = all.stderr.rsplit("as of ").next().unwrap().trim();
    assert!(date.len() == 10 && date.starts_with("20"), "{}", all.stderr);
    let of = home.run(["models", "gemini"]).expect(0).stdout;
    assert!(
        of.contains("gemini-2.5-pro") && !of.contains("claude"),
        "{of}"
    );
    let json = home.run(["models", "gemini-2.5-pro", "--json"]).expect(0);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["list_of"], date);
    let model = &json["models"][0];
    assert_eq!(model["provider"], "gemini");
    assert!(
        model["context_window"].as_u64().unwrap() > 100_000,
        "{model}"
    );
    assert!(model["prices"]["output"].as_f64().unwrap() > 0.0, "{model}");
    // Any model of these may be named, and none is in the list.
    let groq = home.run(["models", "groq"]).expect(0);
    assert!(
        groq.stdout.is_empty() && groq.stderr.contains("-m groq/MODEL"),
        "{}",
        groq.stderr
    );
    let unknown = home.run(["models", "antropic"]).expect(2);
    assert!(
        unknown.stderr.contains("did you mean \"anthropic\"?"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn a_provider_that_lacks_something_says_what_to_set() {
    let home = Home::new();
    let says = |model: &str, code: i32, words: &[&str]| {
        let run = home.run(["-p", "x", "-m", model]).expect(code);
        for word in words {
            assert!(run.stderr.contains(word), "{model}: {}", run.stderr);
        }
    };
    says(
        "groq/llama",
        2,
        &["there is no key for groq: GROQ_API_KEY is not set"],
    );
    says("grok/llama", 2, &["did you mean \"groq\"?"]);
    says(
        "azure/gpt",
        2,
        &["has no base_url", "AZURE_OPENAI_ENDPOINT"],
    );
    says(
        "azure",
        2,
        &["after azure/ stands the name of your deployment"],
    );
    says("bedrock/claude", 2, &["is not spoken to", "gateway"]);
    home.write_config("[providers.azure]\nbase_url = \"https://r.openai.azure.com\"\n");
    says(
        "azure/gpt",
        2,
        &["has no api_version", "AZURE_OPENAI_API_VERSION"],
    );
}

/// Commands of the model do not get the variable either.
#[test]
fn doctor_starts_the_shell_as_commands_are_started() {
    let home = scripted(&[]);
    std::fs::write(home.path("env.sh"), "echo NOISE; exit 3\n").unwrap();
    let mut doctor = home.rewake(["doctor"]);
    doctor.env("BASH_ENV", home.path("env.sh"));
    let said = run(doctor, LIMIT).stdout;
    assert!(said.contains("ok     shell"), "{said}");
    assert!(!said.contains("NOISE"), "{said}");
}

#[test]
fn a_run_whose_commands_cannot_start_fails_and_says_why() {
    let home = calling(&[bash("echo hi")]);
    // It may not be executed.
    std::fs::write(home.path("shell"), "").unwrap();
    let shell = format!("shell.path={}", home.path("shell").display());
    let ran = home.run(["-p", "go", "--yolo", "--set", &shell]).expect(1);
    assert!(
        ran.stderr
            .contains("no command could start: it never ran: "),
        "{}",
        ran.stderr
    );
}
