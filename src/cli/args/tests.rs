//! Parsing of command lines: accepted and rejected arguments.

use super::super::diff::{DiffArgs, Range};
use super::super::doctor::DoctorArgs;
use super::super::export::ExportArgs;
use super::super::fork::ForkArgs;
use super::super::gc::GcArgs;
use super::super::history::HistoryArgs;
use super::super::ps::{PsAction, PsArgs};
use super::super::run::OutputFormat;
use super::super::shared::SharedFlag;
use super::super::stats::StatsArgs;
use super::super::unblock::UnblockArgs;
use super::*;
use crate::session::SessionSelector;

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

/// Returns the arguments of a run.
fn meant(argv: &str) -> RunArgs {
    let cli = parse(argv).unwrap();
    cli.check().unwrap();
    assert_eq!(cli.command, None, "{argv}");
    cli.run
}

fn refused(argv: &str) -> String {
    let err = parse(argv).and_then(|cli| cli.check()).unwrap_err();
    assert_eq!(err.exit_code(), 2, "{argv}");
    err.to_string()
}

#[test]
fn clap_finds_no_fault_in_the_definition() {
    tree::command().debug_assert();
}

#[test]
fn a_run_is_read_as_meant() {
    use OutputFormat::{Json, StreamJson, Text};
    let newest = |fork| SessionSelector::Newest { fork };
    let named = |id: &str, fork| SessionSelector::Named {
        id: id.to_string(),
        fork,
    };
    let table = [
        ("", None, None, SessionSelector::New),
        ("'fix it'", Some("fix it"), None, SessionSelector::New),
        (
            "-p 'fix it'",
            Some("fix it"),
            Some(Text),
            SessionSelector::New,
        ),
        ("-p", None, Some(Text), SessionSelector::New),
        ("-c", None, None, newest(false)),
        ("-p -c", None, Some(Text), newest(false)),
        ("-c -p", None, Some(Text), newest(false)),
        ("-p -c 'go on'", Some("go on"), Some(Text), newest(false)),
        ("-c -p 'go on'", Some("go on"), Some(Text), newest(false)),
        (
            "-p x --output-format json",
            Some("x"),
            Some(Json),
            SessionSelector::New,
        ),
        (
            "-p --output-format stream-json x",
            Some("x"),
            Some(StreamJson),
            SessionSelector::New,
        ),
        ("-r 0197", None, None, named("0197", false)),
        (
            "-r 0197 -p x --fork-session",
            Some("x"),
            Some(Text),
            named("0197", true),
        ),
        ("-c --fork-session", None, None, newest(true)),
        ("-- history", Some("history"), None, SessionSelector::New),
        (
            "-p history",
            Some("history"),
            Some(Text),
            SessionSelector::New,
        ),
        (
            "-p -- '-x is wrong'",
            Some("-x is wrong"),
            Some(Text),
            SessionSelector::New,
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
            SessionSelector::New,
        ),
        (
            "'history of this file'",
            Some("history of this file"),
            None,
            SessionSelector::New,
        ),
        ("-C /tmp -m a/b x", Some("x"), None, SessionSelector::New),
        ("-p -c go", Some("go"), Some(Text), newest(false)),
        (
            "-p --output-format json go",
            Some("go"),
            Some(Json),
            SessionSelector::New,
        ),
    ];
    for (argv, prompt, format, which) in table {
        let run = meant(argv);
        assert_eq!(run.prompt().as_deref(), prompt, "{argv}");
        assert_eq!(run.format(), format, "{argv}");
        assert_eq!((run.which(), run.picks()), (which, false), "{argv}");
    }
    let run = meant("-r --fork-session");
    assert_eq!((run.which(), run.picks()), (SessionSelector::New, true));
    assert!(run.fork_session);
}

#[test]
fn a_subcommand_wins_over_the_prompt() {
    let history = |query: &[&str]| {
        Command::History(HistoryArgs {
            query: query.iter().map(ToString::to_string).collect(),
            ..HistoryArgs::default()
        })
    };
    let id = || "0197".to_string();
    let table = [
        ("history", history(&[])),
        ("history the parser", history(&["the", "parser"])),
        ("-C /tmp history", history(&[])),
        ("history -C /tmp", history(&[])),
        (
            "fork 0197 --at 7",
            Command::Fork(ForkArgs {
                id: id(),
                at: Some(7),
                ..ForkArgs::default()
            }),
        ),
        (
            "diff 0197 3..9 --stat",
            Command::Diff(DiffArgs {
                id: id(),
                range: Some(Range {
                    from: Some(3),
                    to: Some(9),
                }),
                stat: true,
            }),
        ),
        (
            "gc --yes --older-than 7",
            Command::Gc(GcArgs {
                older_than: Some(7),
                yes: true,
            }),
        ),
        (
            "export --json -o out.json --force 0197",
            Command::Export(ExportArgs {
                shared: SharedFlag::default(),
                files: None,
                ids: vec![id()],
                json: true,
                bundle: None,
                all: false,
                output: Some("out.json".into()),
                force: true,
            }),
        ),
        (
            "unblock @here",
            Command::Unblock(UnblockArgs {
                id: "@here".to_string(),
                ..UnblockArgs::default()
            }),
        ),
        (
            "ps",
            Command::Ps(PsArgs {
                action: None,
                json: false,
            }),
        ),
        (
            "ps stop 0197",
            Command::Ps(PsArgs {
                action: Some(PsAction::Stop { run: id() }),
                json: false,
            }),
        ),
        (
            "stats --since 7d --project . --json",
            Command::Stats(StatsArgs {
                since: Some("7d".to_string()),
                project: Some(".".into()),
                json: true,
            }),
        ),
        (
            "doctor --repair --from a --from b --set log.level=debug",
            Command::Doctor(DoctorArgs {
                as_is: false,
                repair: true,
                from: vec!["a".into(), "b".into()],
                same_machine: false,
                scrub: false,
            }),
        ),
        ("demo", Command::Demo),
    ];
    for (argv, command) in table {
        let cli = parse(argv).unwrap();
        cli.check().unwrap();
        assert_eq!(cli.command, Some(command), "{argv}");
    }
}

#[cfg(feature = "fleet")]
#[test]
fn the_usage_of_a_subcommand_with_a_shared_flag_names_all_arguments() {
    let error = refused("history --shared --json --shared=1");
    assert!(error.contains("<--shared|QUERY|--json|"), "{error}");
}

#[test]
fn contradictory_arguments_are_refused() {
    let table = [
        ("-c -r", "cannot be used with"),
        ("--fork-session", "required arguments were not provided"),
        ("--output-format json x", "--print"),
        ("--yolo --permission-mode plan", "cannot be used with"),
        ("-p one two", "there are two prompts, \"one\" and \"two\""),
        ("-- -p '- x'", "unexpected argument"),
        ("-c --all", "cannot be used with"),
        ("-p x --all", "cannot be used with"),
        ("rewind 0197 3", "choose what to rewind"),
        ("deny 0197 not this", "\"this\" is another"),
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
fn an_unknown_word_is_a_prompt_and_so_is_a_typo_after_a_flag() {
    for argv in ["hey", "fix", "refactor", "test", "'histroy of it'"] {
        let word = argv.trim_matches('\'');
        assert_eq!(meant(argv).prompt().as_deref(), Some(word));
    }
    for argv in ["-- histroy", "-c histroy", "-p histroy"] {
        assert_eq!(meant(argv).prompt().as_deref(), Some("histroy"), "{argv}");
    }
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
