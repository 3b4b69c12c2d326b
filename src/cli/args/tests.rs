//! What is read from command lines, and what is refused.

use super::*;

fn parse(argv: &str) -> Result<Cli, clap::Error> {
    // Words between single quotes are one argument, as in a shell.
    let mut args: Vec<OsString> = vec!["rewake".into()];
    for (i, part) in argv.split('\'').enumerate() {
        match i % 2 {
            0 => args.extend(part.split_whitespace().map(OsString::from)),
            _ => args.push(part.into()),
        }
    }
    Cli::read(args)
}

fn meant(argv: &str) -> Invocation {
    parse(argv).and_then(Cli::invocation).unwrap()
}

fn refused(argv: &str) -> String {
    let err = parse(argv).and_then(Cli::invocation).unwrap_err();
    assert_eq!(err.exit_code(), 2, "{argv}");
    err.to_string()
}

fn a_run(prompt: Option<&str>, headless: Option<OutputFormat>, session: Session) -> Invocation {
    Invocation::Run(Run {
        prompt: prompt.map(str::to_string),
        headless,
        session,
        worktree: None,
        all: false,
        no_alt_screen: false,
        no_mouse: false,
        plain: false,
        json_schema: None,
        ask: Ask::Deny,
    })
}

#[test]
fn clap_finds_no_fault_in_the_definition() {
    tree::command().debug_assert();
}

#[test]
fn a_run_is_read_as_meant() {
    use OutputFormat::{Json, StreamJson, Text};
    let newest = |fork| Session::Newest { fork };
    let named = |id: &str, fork| Session::Named {
        id: id.to_string(),
        fork,
    };
    let table = [
        ("", None, None, Session::New),
        ("'fix it'", Some("fix it"), None, Session::New),
        ("-p 'fix it'", Some("fix it"), Some(Text), Session::New),
        ("-p", None, Some(Text), Session::New),
        ("-c", None, None, newest(false)),
        ("-p -c", None, Some(Text), newest(false)),
        ("-c -p", None, Some(Text), newest(false)),
        ("-p -c 'go on'", Some("go on"), Some(Text), newest(false)),
        ("-c -p 'go on'", Some("go on"), Some(Text), newest(false)),
        (
            "-p x --output-format json",
            Some("x"),
            Some(Json),
            Session::New,
        ),
        (
            "-p --output-format stream-json x",
            Some("x"),
            Some(StreamJson),
            Session::New,
        ),
        ("-r", None, None, Session::Pick { fork: false }),
        ("-r 0197", None, None, named("0197", false)),
        (
            "-r 0197 -p x --fork-session",
            Some("x"),
            Some(Text),
            named("0197", true),
        ),
        ("-c --fork-session", None, None, newest(true)),
        ("-- history", Some("history"), None, Session::New),
        ("-p history", Some("history"), Some(Text), Session::New),
        (
            "-p -- '-x is wrong'",
            Some("-x is wrong"),
            Some(Text),
            Session::New,
        ),
        (
            "-p '- a list' -c",
            Some("- a list"),
            Some(Text),
            newest(false),
        ),
        (
            "'--print=- a list'",
            Some("- a list"),
            Some(Text),
            Session::New,
        ),
        (
            "'history of this file'",
            Some("history of this file"),
            None,
            Session::New,
        ),
        ("-C /tmp -m a/b x", Some("x"), None, Session::New),
        ("-p -c go", Some("go"), Some(Text), newest(false)),
        (
            "-p --output-format json go",
            Some("go"),
            Some(Json),
            Session::New,
        ),
    ];
    for (argv, prompt, headless, session) in table {
        assert_eq!(meant(argv), a_run(prompt, headless, session), "{argv}");
    }
}

#[test]
fn a_subcommand_wins_over_the_prompt() {
    let history = |query: &str| Invocation::History {
        query: query.to_string(),
        page: PageArgs::default(),
    };
    let id = || "0197".to_string();
    let table = [
        ("history", history("")),
        ("history the parser", history("the parser")),
        ("-C /tmp history", history("")),
        ("history -C /tmp", history("")),
        (
            "show 0197",
            Invocation::Show {
                id: id(),
                json: false,
            },
        ),
        (
            "fork 0197",
            Invocation::Fork(ForkArgs {
                id: id(),
                ..ForkArgs::default()
            }),
        ),
        (
            "fork 0197 --at 7",
            Invocation::Fork(ForkArgs {
                id: id(),
                at: Some(7),
                ..ForkArgs::default()
            }),
        ),
        (
            "diff 0197 3..9 --stat",
            Invocation::Diff {
                id: id(),
                range: Range {
                    from: Some(3),
                    to: Some(9),
                },
                stat: true,
            },
        ),
        (
            "gc --yes --older-than 7",
            Invocation::Gc(Wanted {
                older_than_days: Some(7),
                yes: true,
            }),
        ),
        (
            "purge 0197 --yes",
            Invocation::Purge {
                id: id(),
                yes: true,
            },
        ),
        ("dismiss 0197", Invocation::Dismiss { id: id() }),
        ("compact 0197", Invocation::Compact { id: id() }),
        (
            "export 0197",
            Invocation::Export {
                id: id(),
                format: Format::Markdown,
                file: None,
                replace: Replace::No,
            },
        ),
        (
            "export --json -o out.json --force 0197",
            Invocation::Export {
                id: id(),
                format: Format::Json,
                file: Some("out.json".into()),
                replace: Replace::Yes,
            },
        ),
        (
            "go @here",
            Invocation::Steer(Steer::Go {
                id: "@here".to_string(),
            }),
        ),
        (
            "deny 0197 3.1 'not this'",
            Invocation::Steer(Steer::Answer {
                id: id(),
                call: Some(CallId { reply: 3, index: 1 }),
                verdict: Verdict::Deny {
                    reason: "the user said no: not this".to_string(),
                },
            }),
        ),
        ("ps", Invocation::Ps),
        ("ps stop 0197", Invocation::PsStop { run: id() }),
        (
            "models --json groq",
            Invocation::Models {
                filter: "groq".to_string(),
                json: true,
            },
        ),
        (
            "stats --since 7d --project . --json",
            Invocation::Stats {
                since: Some("7d".to_string()),
                project: Some(".".into()),
                json: true,
            },
        ),
        ("permissions --json", Invocation::Permissions { json: true }),
        (
            "key openai --remove",
            Invocation::Key {
                provider: "openai".to_string(),
                remove: true,
            },
        ),
        ("trust", Invocation::Trust { yes: false }),
        ("trust --yes", Invocation::Trust { yes: true }),
        ("trust --remove", Invocation::Untrust),
        (
            "doctor --set log.level=debug",
            Invocation::Doctor(Asked::Look),
        ),
        ("doctor --as-is", Invocation::Doctor(Asked::AsIs)),
        ("doctor --scrub", Invocation::Doctor(Asked::Scrub)),
        (
            "doctor --repair --from a --from b",
            Invocation::Doctor(Asked::Repair {
                from: vec!["a".into(), "b".into()],
            }),
        ),
        ("demo", Invocation::Demo),
        (
            "completion zsh",
            Invocation::Completion { shell: Shell::Zsh },
        ),
    ];
    for (argv, invocation) in table {
        assert_eq!(meant(argv), invocation, "{argv}");
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let table = [
        ("-c -r", "cannot be used with"),
        ("--fork-session", "required arguments were not provided"),
        ("--output-format json x", "--print"),
        ("--yolo --permission-mode plan", "cannot be used with"),
        ("-p one two", "there are two prompts, \"one\" and \"two\""),
        ("-- -p '- x'", "unexpected argument"),
        ("-c --all", "cannot be used with"),
        ("-p x --all", "cannot be used with"),
        ("-p -r", "'--resume' needs the id of a session"),
        (
            "-c history",
            "'--continue' cannot be used with the subcommand 'history'",
        ),
        (
            "fix history",
            "the prompt \"fix\" cannot be used with the subcommand 'history'",
        ),
        ("--permission-mode yes", "acceptEdits"),
        ("--max-turns 0", "0 is not in 1..=1000000"),
        ("show", "<ID>"),
        ("--modle x", "'--model'"),
    ];
    for (argv, part) in table {
        let message = refused(argv);
        assert!(message.contains(part), "{argv}: {message}");
    }
}

#[test]
fn a_word_that_is_nearly_a_subcommand_costs_no_call_of_the_model() {
    for (argv, meant) in [
        ("histroy", "history"),
        ("-C /tmp Histori", "history"),
        ("docter", "doctor"),
        ("rewnid", "rewind"),
        ("kye", "key"),
        ("help", "--help"),
    ] {
        let word = argv.rsplit(' ').next().unwrap();
        let message = refused(argv);
        let want = format!("did you mean \"{meant}\"?");
        assert!(message.contains(&want), "{argv}: {message}");
        let how = format!("rewake -- {word}");
        assert!(message.contains(&how), "{argv}: {message}");
    }
}

#[test]
fn any_other_word_is_a_prompt_and_so_is_one_that_is_said_to_be() {
    for argv in ["hey", "fix", "refactor", "test", "'histroy of it'"] {
        let word = argv.trim_matches('\'');
        assert_eq!(meant(argv), a_run(Some(word), None, Session::New));
    }
    let word = Some("histroy");
    assert_eq!(meant("-- histroy"), a_run(word, None, Session::New));
    let newest = Session::Newest { fork: false };
    assert_eq!(meant("-c histroy"), a_run(word, None, newest));
    let text = Some(OutputFormat::Text);
    assert_eq!(meant("-p histroy"), a_run(word, text, Session::New));
}

#[test]
fn flags_become_settings_and_are_over_set() {
    let cli =
        parse("--set model=a/b --set context.keep=12 -m c/d --yolo --max-turns 3 -C /tmp").unwrap();
    assert_eq!(cli.cd(), Some(&PathBuf::from("/tmp")));
    let want = [
        Setting::parse("model=a/b"),
        Setting::parse("context.keep=12"),
        Setting::new("--model", "model", "c/d"),
        Setting::new("--yolo", "permission_mode", "bypassPermissions"),
        Setting::new("--max-turns", "max_turns", 3),
    ]
    .map(Result::unwrap);
    assert_eq!(cli.settings().unwrap(), want);
}

#[test]
fn help_shows_examples_and_exit_codes() {
    let help = tree::command().render_help().to_string();
    assert!(help.contains("rewake -p -c"));
    assert!(help.contains("75 stopped, can be resumed"));
}
