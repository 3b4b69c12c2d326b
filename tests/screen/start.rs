//! What a start shows: unfinished work, the question of trust, and a first run.

use rewake::config::mcp::ServerSource;
use rewake::config::{Content, Difference, Project, ProjectTrust, TrustedValue};
use rewake::core::entry::Mode;
use rewake::core::signal::Signal;
use rewake::engine::Command;
use rewake::session::{Details, Finished, Offer, SessionSelector, StillRunning};
use rewake::store::SessionInfo;
use rewake::ui::app::{Begin, Intent, Msg, Phase};
use rewake::ui::live::{LiveEvent, NotOpened};
use rewake::ui::overlay::{FirstRun, For, Picker, PickerItem, Provider};
use rewake::ui::transcript::Tone;

use crate::log::{FOLDER, NOON_MS, entry};
use crate::stage::{ID, Stage, scene};

pub fn offer(n: u8, title: &str) -> Offer {
    Offer {
        info: SessionInfo {
            id: ID.replace("01a1fc18", &format!("01a1fc{}8", n + 1)),
            workspace: FOLDER.into(),
            folder: FOLDER.into(),
            title: Some(title.into()),
            entries: 41,
            forked_from: None,
            parent: None,
            created_ms: NOON_MS - 9_000_000,
            updated_ms: NOON_MS - i64::from(n) * 3_600_000 - 180_000,
            unfinished: true,
            dismissed: false,
            version: Some("0.1.0".into()),
            model: Some("anthropic/claude-sonnet-4-5".into()),
            usage: Default::default(),
            bytes: 0,
            replica: None,
            shared: None,
        },
        held_by: None,
        details: None,
    }
}

fn details() -> Details {
    Details {
        how: "killed".into(),
        since_ms: NOON_MS - 5_000,
        failure: None,
        mode: Mode::Default,
        request: Some("mend the parser, then test it".into()),
        typed: Some("and mention the rounding".into()),
        doing: Some("running bash cargo test --workspace".into()),
        plan_step: Some("mend the loop".into()),
        plan_at: Some((2, 3)),
        running: vec![StillRunning {
            command: "cargo test --workspace".into(),
            age_ms: 252_000,
            last_line: Some("test parser::last_token ... ok".into()),
        }],
        recovered: vec![
            "120 words of an answer that was streaming".into(),
            "1 queued message".into(),
        ],
        in_doubt: vec!["write notes.md".into()],
    }
}

pub fn offers(stage: &mut Stage, offers: Vec<Offer>) {
    let begin = Begin::Offers {
        offers,
        prompt: None,
    };
    stage.send(Msg::Begin(Box::new(begin)));
}

#[test]
fn unfinished_work_is_offered() {
    scene!("offer", |stage: &mut Stage| {
        offers(stage, vec![offer(0, "mend the parser")]);
        stage.send(Msg::Details(offer(0, "").info.id, Some(details())));
    });
    scene!("offer_three", |stage: &mut Stage| {
        let three = [
            "mend the parser",
            "write the docs",
            "a title that is much too long to be shown in a narrow terminal without being cut",
        ];
        offers(
            stage,
            three
                .iter()
                .enumerate()
                .map(|(n, t)| offer(n as u8, t))
                .collect(),
        );
        stage.send(Msg::Details(offer(0, "").info.id, Some(details())));
        stage.answers("<Down>");
    });
    scene!("offer_held", |stage: &mut Stage| {
        let held = Offer {
            held_by: Some(4242),
            ..offer(0, "mend the parser")
        };
        offers(stage, vec![held]);
    });
}

/// What is opened by a key on the card.
fn opened_by(key: &str, held: bool) -> Option<(SessionSelector, bool)> {
    let mut stage = Stage::new(80, 24);
    let held_by = held.then_some(4242);
    offers(
        &mut stage,
        vec![Offer {
            held_by,
            ..offer(0, "mend it")
        }],
    );
    match key {
        "<Enter>" => stage.confirms(),
        letter => stage.chooses(letter),
    }
    stage.wanted.into_iter().find_map(|intent| match intent {
        Intent::Open { which, take_over } => Some((which, take_over)),
        _ => None,
    })
}

#[test]
fn each_key_of_the_card_does_what_it_says() {
    let named = |fork| SessionSelector::Named {
        id: ID.into(),
        fork,
    };
    assert_eq!(opened_by("<Enter>", false), Some((named(false), false)));
    assert_eq!(opened_by("f", false), Some((named(true), false)));
    assert_eq!(opened_by("n", false), Some((SessionSelector::New, false)));
    assert_eq!(opened_by("t", true), Some((named(false), true)));
    assert_eq!(opened_by("t", false), None, "nobody has it");
    assert_eq!(
        opened_by("<Enter>", true),
        None,
        "one that is held is looked at"
    );
}

#[test]
fn dismissing_the_last_offer_starts_a_new_session() {
    let asks = |stage: &mut Stage| {
        stage.chooses("x");
        let wanted = std::mem::take(&mut stage.wanted);
        wanted.into_iter().find_map(|intent| match intent {
            Intent::Dismiss(id) => Some(id),
            _ => None,
        })
    };
    let done = |stage: &mut Stage, id: String, outcome: Result<(), String>| {
        stage.send(Msg::Dismissed(id, outcome));
    };
    let mut stage = Stage::new(80, 24);
    offers(&mut stage, vec![offer(0, "mend it"), offer(1, "the docs")]);
    let id = asks(&mut stage).expect("it is dismissed");
    assert_eq!(id, offer(0, "").info.id);
    stage.sees("mend it");
    done(&mut stage, id.clone(), Err("the disk is full".into()));
    stage.sees("mend it");
    done(&mut stage, id, Ok(()));
    stage.does_not_see("mend it");
    stage.sees("the docs");
    let id = asks(&mut stage).expect("so is the other");
    done(&mut stage, id, Ok(()));
    let opens = |i: &Intent| {
        matches!(
            i,
            Intent::Open {
                which: SessionSelector::New,
                ..
            }
        )
    };
    assert!(stage.wanted.iter().any(opens));
    // In one that another process has it means nothing.
    let mut stage = Stage::new(80, 24);
    let held = Offer {
        held_by: Some(4242),
        ..offer(0, "mend it")
    };
    offers(&mut stage, vec![held]);
    assert_eq!(asks(&mut stage), None);
}

#[test]
fn keys_typed_before_the_card_is_armed_go_to_the_box() {
    let mut stage = Stage::new(80, 24);
    offers(&mut stage, vec![offer(0, "mend it")]);
    stage.keys("f<Enter>n");
    stage.waits(5_000);
    stage.keys("q<Enter>");
    let opens = |i: &Intent| matches!(i, Intent::Open { .. } | Intent::Quit);
    assert!(!stage.wanted.iter().any(opens));
    stage.sees("Unfinished sessions in this folder");
    stage.sees("in the box: fnq");
    // Words in the box keep it from being armed; Tab puts them aside, and they stay.
    stage.keys("<Tab>");
    stage.answers("<Enter>");
    assert!(stage.wanted.iter().any(opens));
    assert_eq!(stage.app.input.composer.text(), "fnq");
}

/// A session of this mode is opened from the card.
fn resumed(mode: Mode, forked: bool) -> Stage {
    let mut stage = Stage::new(80, 24);
    stage.log.push(entry::said("mend it"));
    stage.log.push(entry::chose(mode));
    offers(&mut stage, vec![offer(0, "mend it")]);
    match forked {
        true => stage.chooses("f"),
        false => stage.confirms(),
    }
    stage.open_found(mode, forked);
    stage.rest();
    stage
}

fn goes_on(stage: &Stage) -> bool {
    let goes_on = |i: &Intent| matches!(i, Intent::Engine(Command::Signal(Signal::GoOn)));
    stage.wanted.iter().any(goes_on)
}

#[test]
fn a_session_without_approvals_continues_only_when_confirmed() {
    scene!("confirm_bypass", |stage: &mut Stage| {
        stage.log.push(entry::said("mend it"));
        stage.open_found(Mode::BypassPermissions, false);
        stage.rest();
    });
    let mut stage = resumed(Mode::BypassPermissions, false);
    stage.sees("This session runs without asking");
    stage.keys("y<Enter><Backspace>");
    assert!(!goes_on(&stage), "typed ahead");
    stage.chooses("y");
    assert!(goes_on(&stage));
    stage.does_not_see("runs without asking");
    // No is preselected.
    for no in ["n", ""] {
        let mut stage = resumed(Mode::BypassPermissions, false);
        stage.chooses(no);
        assert!(!goes_on(&stage));
        stage.sees("waiting · Enter continues");
    }
    // A copy waits for words, or for Enter on the box.
    let mut stage = resumed(Mode::BypassPermissions, true);
    stage.chooses("y");
    assert!(!goes_on(&stage));
    stage.keys("<Enter>");
    assert!(goes_on(&stage));
    resumed(Mode::AcceptEdits, false).does_not_see("runs without asking");
}

#[test]
fn a_session_named_at_start_needs_no_bypass_confirmation() {
    let mut stage = Stage::new(80, 24);
    let begin = Begin::Open {
        which: SessionSelector::Newest { fork: false },
        prompt: None,
    };
    stage.send(Msg::Begin(Box::new(begin)));
    assert!(stage.app.named);
    stage.open_found(Mode::BypassPermissions, false);
    stage.does_not_see("runs without asking");
    // But not the next one.
    assert!(!stage.app.named);
    stage.open_found(Mode::BypassPermissions, false);
    stage.sees("runs without asking");
}

#[test]
fn running_commands_on_the_card_are_polled() {
    let mut stage = Stage::new(80, 24);
    let id = offer(0, "").info.id;
    offers(&mut stage, vec![offer(0, "mend it"), offer(1, "the docs")]);
    stage.send(Msg::Details(id.clone(), Some(details())));
    let looks = |stage: &Stage| {
        let again = |i: &&Intent| matches!(i, Intent::LookAgain(of) if *of == [id.as_str()]);
        stage.wanted.iter().filter(again).count()
    };
    stage.waits(999);
    assert_eq!(looks(&stage), 0);
    stage.waits(1);
    stage.waits(1_000);
    // One look at a time.
    assert_eq!(looks(&stage), 1);
    let running = StillRunning {
        command: format!("cargo test {}", "--package parser ".repeat(20)),
        age_ms: 300_000,
        last_line: Some("test parser::wide ... ok".into()),
    };
    stage.send(Msg::StillRunning(Some(vec![(id.clone(), vec![running])])));
    stage.sees("test parser::wide ... ok");
    stage.does_not_see("last_token");
    // However long it is, the command has one line, with its time at the end.
    stage.sees("--package parser…        5 min");
    stage.waits(1_000);
    assert_eq!(looks(&stage), 2);
    stage.send(Msg::StillRunning(Some(vec![(id.clone(), vec![])])));
    stage.does_not_see("still running");
    stage.waits(5_000);
    assert_eq!(looks(&stage), 2);
}

#[test]
fn the_card_says_what_is_asked_for_in_a_session() {
    for (mode, want) in [
        (Mode::Plan, " · plan · "),
        (Mode::BypassPermissions, "it runs without asking"),
    ] {
        let mut stage = Stage::new(80, 24);
        offers(&mut stage, vec![offer(0, "mend it")]);
        let details = Details { mode, ..details() };
        stage.send(Msg::Details(offer(0, "").info.id, Some(details)));
        stage.sees(want);
    }
}

#[test]
fn the_box_keeps_both_the_saved_draft_and_new_input() {
    let mut stage = Stage::new(80, 24);
    offers(&mut stage, vec![offer(0, "mend it")]);
    stage.keys("and more");
    stage.keys("<Tab>");
    stage.answers("<Enter>");
    stage.open_with(|opening| opening.input = Some("half a thought".into()));
    assert_eq!(stage.app.input.composer.text(), "half a thought\nand more");
}

#[test]
fn a_prompt_of_the_command_line_waits_for_the_card() {
    let mut stage = Stage::new(80, 24);
    let begin = Begin::Offers {
        offers: vec![offer(0, "mend it")],
        prompt: Some("and the docs".into()),
    };
    stage.send(Msg::Begin(Box::new(begin)));
    stage.sees("in the box: and the docs");
    stage.chooses("n");
    assert!(matches!(stage.wanted.last(), Some(Intent::Open { .. })));
    assert_eq!(stage.app.input.composer.text(), "and the docs");
}

#[test]
fn messages_sent_during_start_lookup_are_sent_or_in_the_box() {
    let starting = || {
        let mut stage = Stage::new(80, 24);
        stage.app.session.phase = Phase::Starting;
        stage.sees("looking for unfinished sessions");
        stage.keys("hello<Enter>");
        stage.sees("sent when the session is open");
        assert!(stage.wanted.is_empty());
        stage
    };
    let mut stage = starting();
    let begin = Begin::Offers {
        offers: vec![offer(0, "mend it")],
        prompt: Some("and the docs".into()),
    };
    stage.send(Msg::Begin(Box::new(begin)));
    stage.sees("mend it");
    assert_eq!(stage.app.input.composer.text(), "hello\nand the docs");
    let mut stage = starting();
    let begin = Begin::Open {
        which: SessionSelector::New,
        prompt: Some("mend it".into()),
    };
    stage.send(Msg::Begin(Box::new(begin)));
    assert!(matches!(stage.wanted[..], [Intent::Open { .. }]));
    stage.open();
    stage.does_not_see("your words are said when it is open");
    assert_eq!(stage.sent(), ["mend it", "hello"]);
}

#[test]
fn a_late_start_lookup_does_not_open_a_second_session() {
    let mut stage = Stage::new(80, 24);
    stage.app.session.phase = Phase::Starting;
    stage.keys("/new<Enter>");
    stage
        .wanted
        .retain(|intent| !matches!(intent, Intent::Commands));
    assert!(matches!(stage.wanted[..], [Intent::Open { .. }]));
    stage.app.session.phase = Phase::Opening;
    let begin = Begin::Open {
        which: SessionSelector::Newest { fork: false },
        prompt: Some("mend it".into()),
    };
    stage.send(Msg::Begin(Box::new(begin)));
    assert_eq!(stage.wanted.len(), 1, "a second session is opened");
    assert_eq!(stage.app.input.composer.text(), "mend it");
}

#[test]
fn messages_typed_while_a_session_opens_are_sent_or_returned() {
    let opening = || {
        let mut stage = Stage::new(80, 24);
        stage.app.session.phase = Phase::Opening;
        stage.keys("first<Enter>second<Enter>third");
        stage
    };
    let mut stage = opening();
    stage.open();
    assert_eq!(stage.sent(), ["first", "second"]);
    assert_eq!(stage.app.input.composer.text(), "third");
    let mut stage = opening();
    stage.engine_event(LiveEvent::NotOpened(NotOpened {
        message: "there is no such session".into(),
        hint: None,
        held: None,
        elsewhere: None,
    }));
    assert_eq!(stage.app.input.composer.text(), "third\nfirst\nsecond");
    // They are not said in whatever is opened next.
    stage.open();
    assert!(stage.sent().is_empty());
}

#[test]
fn quitting_is_shown_and_can_skip_the_engine() {
    let mut stage = Stage::opened(80, 24);
    stage.keys("unsent<F2>");
    let wanted = stage.app.leave();
    assert!(matches!(
        &wanted[..],
        [Intent::Engine(Command::KeepInput(text))] if text.contains("unsent")
    ));
    stage.sees("quitting: saving the last changes");
    stage.wanted.clear();
    stage.keys("x<Enter><Esc>");
    assert!(stage.wanted.is_empty());
    stage.keys("<C-c>");
    assert!(stage.is_over());
}

#[test]
fn enter_watches_a_session_open_in_another_process() {
    let mut stage = Stage::new(80, 24);
    offers(
        &mut stage,
        vec![Offer {
            held_by: Some(7),
            ..offer(0, "mend it")
        }],
    );
    stage.answers("<Enter>");
    let watched = stage
        .wanted
        .iter()
        .any(|i| matches!(i, Intent::Watch(id) if id == ID));
    assert!(watched);
}

/// A config of the workspace's own that sets so many models' windows, and a server.
fn greedy(models: usize, standing: ProjectTrust) -> Box<Project> {
    let given = |shown: &str| TrustedValue {
        shown: shown.into(),
        ..TrustedValue::default()
    };
    let window = |n| {
        let key = format!("models.\"local/{n}\".context_window");
        (key, given("9000"))
    };
    let url = "providers.openai.base_url".to_string();
    let keys = (0..models).map(window);
    Box::new(Project {
        content: Content {
            keys: keys.chain([(url, given("\"http://evil\""))]).collect(),
            ..Content::default()
        },
        standing,
        ..Project::default()
    })
}

#[test]
fn trust_is_asked_for_before_anything_else() {
    let begin = |project: Box<Project>| {
        let then = Box::new(Begin::Open {
            which: SessionSelector::New,
            prompt: None,
        });
        Begin::Trust { project, then }
    };
    scene!("trust", |stage: &mut Stage| {
        let project = greedy(12, ProjectTrust::Untrusted);
        stage.send(Msg::Begin(Box::new(begin(project))));
    });
    scene!("trust-again", |stage: &mut Stage| {
        let difference = |key: &str, shown: Option<&str>, how| Difference {
            key: key.into(),
            shown: shown.map(str::to_string),
            how,
        };
        let differences = vec![
            difference("permissions.allow", Some("[\"Bash\"]"), "new"),
            difference("model", Some("\"evil/x\""), "changed"),
            difference("permissions.deny", None, "gone"),
        ];
        let project = greedy(0, ProjectTrust::Changed(differences));
        stage.send(Msg::Begin(Box::new(begin(project))));
    });
    // A server that is not as it was trusted, in a folder that is.
    scene!("trust-server", |stage: &mut Stage| {
        let shown = "npx -y \"a\\u{1b}[2K\"\n  env TOKEN = \"${TOKEN}\"";
        let given = TrustedValue {
            shown: shown.into(),
            ..TrustedValue::default()
        };
        let project = Project {
            content: Content {
                servers: [((ServerSource::McpJson, "files".to_string()), given)].into(),
                ..Content::default()
            },
            standing: ProjectTrust::Trusted,
            servers: vec![Difference {
                key: "server files (.mcp.json)".into(),
                shown: Some(shown.into()),
                how: "changed",
            }],
            ..Project::default()
        };
        assert!(project.needs_trust());
        stage.send(Msg::Begin(Box::new(begin(Box::new(project)))));
    });
    for (key, trusts) in [("y", true), ("n", false)] {
        let mut stage = Stage::new(80, 24);
        let project = greedy(1, ProjectTrust::Untrusted);
        stage.send(Msg::Begin(Box::new(begin(project.clone()))));
        stage.keys(key);
        assert!(stage.wanted.is_empty(), "typed ahead");
        stage.keys("<Backspace>");
        stage.chooses("x");
        assert!(stage.wanted.is_empty(), "only y and n are answers");
        stage.sees("in the box: x");
        stage.keys("<Backspace>");
        stage.chooses(key);
        match &stage.wanted[0] {
            Intent::Trust(content) => assert!(trusts && *content == project.content),
            Intent::Distrust => assert!(!trusts),
            _ => panic!("no answer"),
        }
        assert_eq!(stage.wanted.len(), 1, "opened with the config of before");
        stage.send(Msg::TrustSettled);
        assert!(matches!(stage.wanted[1], Intent::Open { .. }));
    }
}

#[test]
fn a_folder_is_trusted_when_the_end_of_its_config_was_seen() {
    let mut project = greedy(60, ProjectTrust::Untrusted);
    let address = format!("\"http://{}.evil\"", "a".repeat(100));
    let given = project.content.keys.get_mut("providers.openai.base_url");
    given.unwrap().shown = address;
    let then = Box::new(Begin::Open {
        which: SessionSelector::New,
        prompt: None,
    });
    let mut stage = Stage::new(80, 24);
    stage.send(Msg::Begin(Box::new(Begin::Trust { project, then })));
    stage.sees(".evil\"");
    stage.chooses("y");
    assert!(stage.wanted.is_empty(), "trusted unread");
    stage.sees("scroll to the end");
    stage.keys("<End>");
    stage.chooses("y");
    assert!(matches!(stage.wanted[..], [Intent::Trust(_)]));
}

fn first_begin(first: FirstRun) -> Begin {
    Begin::FirstRun {
        first,
        prompt: None,
    }
}

fn first_run() -> FirstRun {
    let provider = |name: &str, found: &str, is_ready: bool, hint: &str| Provider {
        name: name.into(),
        found: found.into(),
        is_ready,
        models: if is_ready {
            vec![format!("{name}/qwen3")]
        } else {
            Vec::new()
        },
        hint: hint.into(),
        with_key: ["anthropic", "openai"]
            .contains(&name)
            .then(|| format!("{name}/usual")),
        is_usual: true,
    };
    FirstRun::new(
        String::new(),
        vec![
            provider(
                "anthropic",
                "or set ANTHROPIC_API_KEY before you start",
                false,
                "",
            ),
            provider(
                "openai",
                "or set OPENAI_API_KEY before you start",
                false,
                "",
            ),
            provider(
                "ollama",
                "a server at http://127.0.0.1:11434 with 1 models",
                true,
                "",
            ),
            provider(
                "llama.cpp",
                "no server at http://127.0.0.1:8080",
                false,
                "llama-server --jinja -m MODEL.gguf, and [providers.local] in the config",
            ),
        ],
    )
}

#[test]
fn the_resume_prompt_tells_in_a_sentence_what_the_session_was_doing() {
    let mut stage = Stage::new(80, 24);
    offers(&mut stage, vec![offer(0, "")]);
    let details = Details {
        running: Vec::new(),
        ..details()
    };
    stage.send(Msg::Details(offer(0, "").info.id, Some(details)));
    stage.sees("stopped while running bash cargo test --workspace");
}

#[test]
fn the_note_on_the_search_of_a_session_goes_when_it_is_open() {
    let mut stage = Stage::new(80, 24);
    stage.app.hint = Some("looking for the session …".into());
    stage.open();
    stage.does_not_see("looking for the session");
}

#[test]
fn a_first_run_says_what_was_looked_for() {
    scene!("first_run", |stage: &mut Stage| {
        stage.send(Msg::Begin(Box::new(first_begin(first_run()))));
    });
    let mut stage = Stage::new(40, 12);
    stage.send(Msg::Begin(Box::new(first_begin(first_run()))));
    stage.sees("› use ollama/qwen3");
    stage.keys("<Enter>d");
    assert!(stage.wanted.is_empty(), "typed ahead");
    stage.keys("<Backspace>");
    stage.answers("<Enter>");
    assert!(matches!(&stage.wanted[0], Intent::ChooseModel(model) if model == "ollama/qwen3"));
    let mut stage = Stage::new(80, 24);
    stage.send(Msg::Begin(Box::new(first_begin(first_run()))));
    stage.answers("<Down><Down><Down><Enter>");
    assert!(matches!(stage.wanted[0], Intent::Demo));
}

const SECRET: &str = "sk-ant-0123456789abcdefghij";

#[test]
fn a_key_is_typed_on_the_first_screen_and_never_shown() {
    scene!("first_run_key", |stage: &mut Stage| {
        stage.send(Msg::Begin(Box::new(first_begin(first_run()))));
        stage.answers("<Down><Enter>");
        stage.keys(SECRET);
    });
    let mut stage = Stage::new(80, 24);
    stage.send(Msg::Begin(Box::new(first_begin(first_run()))));
    stage.answers("<Down><Enter>");
    stage.keys(SECRET);
    stage.sees(&format!("› {}▏", "•".repeat(SECRET.len())));
    // As fast as it came, none of it went into the box.
    assert_eq!(stage.app.input.composer.text(), "");
    stage.keys("<Esc>");
    stage.sees("type a key for anthropic");
    assert!(!stage.screen().contains("sk-ant"), "{}", stage.screen());
    assert!(stage.wanted.is_empty());
    stage.answers("<Enter>");
    stage.keys(SECRET);
    stage.keys("<Enter>");
    let Intent::KeepKey {
        provider,
        key,
        model,
    } = &stage.wanted[0]
    else {
        panic!("the key is not kept");
    };
    assert_eq!((provider.as_str(), key.expose()), ("anthropic", SECRET));
    assert_eq!(model.as_deref(), Some("anthropic/usual"));
}

#[test]
fn a_key_pasted_on_the_first_screen_does_not_enter_the_box() {
    let mut stage = Stage::new(80, 24);
    stage.send(Msg::Begin(Box::new(first_begin(first_run()))));
    stage.pastes(&format!("{SECRET}\n"));
    stage.sees("the key for anthropic");
    assert!(!stage.screen().contains("sk-ant"), "{}", stage.screen());
    assert_eq!(stage.app.input.composer.text(), "");
    stage.pastes("two\nlines");
    stage.sees("paste the key alone");
    stage.keys("<Enter>");
    assert!(matches!(&stage.wanted[0], Intent::KeepKey { key, .. } if key.expose() == SECRET));
    // The selected row needs no key.
    let mut stage = Stage::new(80, 24);
    stage.send(Msg::Begin(Box::new(first_begin(first_run()))));
    stage.pastes("unknown-0123456789abcdef");
    stage.sees("choose a provider");
    assert!(!stage.screen().contains("0123456789"), "{}", stage.screen());
    // A key among other words or lines.
    for text in ["my key:\nKEY\n", "export ANTHROPIC_API_KEY=\"KEY\" # mine"] {
        let mut stage = Stage::new(80, 24);
        stage.send(Msg::Begin(Box::new(first_begin(first_run()))));
        stage.pastes(&text.replace("KEY", SECRET));
        stage.sees("then paste the key alone");
        assert!(!stage.screen().contains("sk-ant"), "{}", stage.screen());
        assert_eq!(stage.app.input.composer.text(), "");
    }
    // Words are for the box.
    let mut stage = Stage::new(80, 24);
    stage.send(Msg::Begin(Box::new(first_begin(first_run()))));
    stage.pastes("fix the parser");
    stage.sees("in the box: fix the parser");
}

#[test]
fn a_key_is_changed_in_a_session() {
    let mut stage = Stage::new(80, 24);
    stage.open();
    stage.rest();
    stage.keys("/key openai<Enter>");
    assert!(matches!(&stage.wanted.last(), Some(Intent::AskKey(p)) if p == "openai"));
    stage.send(Msg::AskKey("openai".into()));
    stage.keys("sk-x");
    stage.sees("••••▏");
    stage.keys("<Enter>");
    let Some(Intent::KeepKey {
        provider,
        model: None,
        ..
    }) = stage.wanted.last()
    else {
        panic!("the key is not kept");
    };
    assert_eq!(provider, "openai");
    stage.keys("/key openai remove<Enter>");
    assert!(matches!(&stage.wanted.last(), Some(Intent::RemoveKey(p)) if p == "openai"));
}

#[test]
fn the_other_providers_are_a_key_away() {
    let mut first = first_run();
    let names = ["cerebras", "deepseek", "groq", "mistral", "xai", "zai"];
    first.providers.extend(names.map(|name| {
        let variable = format!("{}_API_KEY", name.to_uppercase());
        Provider {
            name: name.into(),
            found: format!("no key: {variable} is not set"),
            is_ready: false,
            models: Vec::new(),
            hint: format!("export {variable}=…, then rewake -m {name}/MODEL"),
            with_key: None,
            is_usual: false,
        }
    }));
    let mut stage = Stage::new(80, 24);
    stage.send(Msg::Begin(Box::new(first_begin(first))));
    stage.sees("m more providers");
    assert!(!stage.screen().contains("groq"), "{}", stage.screen());
    stage.answers("m");
    stage.sees("groq: export GROQ_API_KEY=…, then rewake -m groq/MODEL");
    stage.sees("zai: export");
    stage.sees("› use ollama/qwen3");
    assert!(!stage.screen().contains("llama.cpp"), "{}", stage.screen());
    stage.keys("m");
    stage.sees("llama.cpp: no server");
    stage.sees("m more providers");
    stage.keys("m");
    stage.sees("groq: export");
    stage.keys("<Esc>");
    stage.sees("llama.cpp: no server");
    assert!(!stage.is_over());
}

#[test]
fn a_new_session_greets() {
    scene!("welcome", |stage: &mut Stage| {
        stage.open();
        stage.rest();
    });
}

/// The conversation takes the place of what was shown before it.
#[test]
fn faults_reported_while_a_session_opens_are_shown_in_it() {
    let mut stage = Stage::new(100, 30);
    stage.send(Msg::Edited(Err("the editor ended badly".into())));
    stage.send(Msg::Notice(Tone::Bad, "nothing was written".into()));
    stage.open();
    stage.sees("the editor ended badly");
    stage.sees("nothing was written");
}

fn finished(n: i64, title: &str, how: &'static str) -> Finished {
    Finished {
        id: ID.replace("01a1fc18", &format!("01a1fd{n}8")),
        title: title.into(),
        how,
        updated_ms: NOON_MS - n * 3_600_000,
    }
}

/// A new session in a folder where others are finished.
fn start_after_others(stage: &mut Stage) {
    stage.open();
    stage.rest();
    stage.app.now_ms = NOON_MS;
    let sessions = vec![
        finished(2, "Fix the rounding in total()", "done"),
        finished(
            3,
            "Rename report.py and every place that names it, in all folders",
            "stopped",
        ),
        finished(60, "What does this project do?", "failed"),
    ];
    stage.send(Msg::LastHere(sessions));
}

fn opened_ids(stage: &Stage) -> Vec<String> {
    let opened = stage.wanted.iter().filter_map(|intent| match intent {
        Intent::Open {
            which: SessionSelector::Named { id, fork: false },
            ..
        } => Some(id.clone()),
        _ => None,
    });
    opened.collect()
}

#[test]
fn a_recent_session_is_resumed_from_the_start_screen() {
    scene!("last_here", |stage: &mut Stage| {
        start_after_others(stage);
        stage.keys("<Down><Down>");
    });
    let mut stage = Stage::new(80, 24);
    start_after_others(&mut stage);
    stage.sees("Last here  Fix the rounding in total()");
    stage.sees("done 2 h ago");
    stage.sees("↓ chooses one");
    stage.keys("<Down>");
    stage.sees("› Fix the rounding in total()");
    stage.sees("Enter resumes it · Esc back to the box");
    stage.keys("<Down><Down><Down><Up><Enter>");
    assert_eq!(opened_ids(&stage), [finished(3, "", "").id]);
}

#[test]
fn the_list_of_the_start_screen_gives_the_keys_back_to_the_box() {
    for back in ["<Esc>", "<Up>"] {
        let mut stage = Stage::new(80, 24);
        start_after_others(&mut stage);
        stage.keys(&format!("<Down>{back}"));
        stage.does_not_see("› Fix the rounding");
        stage.keys("<Enter>");
        assert!(opened_ids(&stage).is_empty(), "{back}");
    }
    let mut stage = Stage::new(80, 24);
    start_after_others(&mut stage);
    stage.keys("<Down>mend it<Enter>");
    assert!(opened_ids(&stage).is_empty());
    assert_eq!(stage.sent(), ["mend it"]);
    // Words in the box are words: Down is for them.
    let mut stage = Stage::new(80, 24);
    start_after_others(&mut stage);
    stage.keys("words<Down>");
    stage.does_not_see("› Fix the rounding");
    // Nothing is listed where nothing is finished, and once something was said.
    let mut stage = Stage::opened(80, 24);
    stage.does_not_see("Last here");
    start_after_others(&mut stage);
    stage.says("mend it");
    stage.does_not_see("Last here");
    stage.keys("<Down><Enter>");
    assert!(opened_ids(&stage).is_empty());
}

#[test]
fn the_keys_are_shown_over_the_card_and_the_first_screen() {
    let card = |stage: &mut Stage| offers(stage, vec![offer(0, "mend the parser")]);
    let first = |stage: &mut Stage| {
        stage.send(Msg::Begin(Box::new(first_begin(first_run()))));
    };
    type Begins = fn(&mut Stage);
    for (begins, below) in [
        (card as Begins, "mend the parser"),
        (first as Begins, "see the demo"),
    ] {
        // At once, and when keys are heard.
        for is_quiet in [false, true] {
            let mut stage = Stage::new(80, 24);
            begins(&mut stage);
            match is_quiet {
                true => stage.answers("?"),
                false => stage.keys("?"),
            }
            stage.sees("keys and commands");
            assert_eq!(stage.app.input.composer.text(), "");
            stage.keys("<Esc>");
            stage.does_not_see("keys and commands");
            stage.sees(below);
            stage.answers("q");
            if !stage.is_over() {
                stage.confirms();
            }
            assert!(stage.is_over(), "{below}");
        }
        // Behind words it is one of them.
        let mut stage = Stage::new(80, 24);
        begins(&mut stage);
        stage.keys("why?");
        assert_eq!(stage.app.input.composer.text(), "why?");
    }
}

#[test]
fn a_card_below_the_keys_takes_in_what_is_found_out_meanwhile() {
    let mut stage = Stage::new(80, 24);
    offers(&mut stage, vec![offer(0, "mend the parser")]);
    stage.answers("?");
    stage.send(Msg::Details(offer(0, "").info.id, Some(details())));
    stage.keys("<Esc>");
    stage.sees("plan 2/3      mend the loop");
}

#[test]
fn the_card_says_when_and_why_it_ended() {
    let mut stage = Stage::new(80, 24);
    offers(&mut stage, vec![offer(0, "mend it")]);
    let id = offer(0, "").info.id;
    stage.send(Msg::Details(id.clone(), Some(details())));
    // Not since its last entry: it was alive after that.
    stage.sees("killed 5 s ago");
    let failed = Details {
        how: "failed".into(),
        failure: Some("the key in MOCK_KEY was refused (401)".into()),
        request: Some("mend it".into()),
        ..details()
    };
    stage.send(Msg::Details(id, Some(failed)));
    stage.sees("failed 5 s ago: the key in MOCK_KEY was refused (401)");
    // What the title says is not said again.
    stage.does_not_see("last message  mend it");
}

#[test]
fn words_given_at_the_start_are_in_the_box_of_every_first_screen() {
    let prompt = || Some("and the docs".to_string());
    let first = first_run();
    let begins = [
        Begin::FirstRun {
            first,
            prompt: prompt(),
        },
        Begin::History {
            fork: false,
            prompt: prompt(),
        },
    ];
    for begin in begins {
        let mut stage = Stage::new(80, 24);
        stage.send(Msg::Begin(Box::new(begin)));
        assert_eq!(stage.app.input.composer.text(), "and the docs");
    }
}

#[test]
fn start_notices_are_shown_below_the_greeting() {
    let mut stage = Stage::new(80, 24);
    let notice = "The model's commands run in a sandbox";
    stage.open_with(|opening| opening.warnings = vec![notice.into()]);
    stage.rest();
    let rows = stage.rows();
    let place = |text: &str| rows.iter().position(|row| row.contains(text));
    let (greeting, told) = (place("Kill it at any time"), place(notice));
    assert!(greeting.is_some() && greeting < told, "{rows:#?}");
    stage.says("mend it");
    stage.sees(notice);
    stage.does_not_see("Kill it at any time");
}

#[test]
fn the_greeting_is_not_cut_on_a_narrow_screen() {
    let table = [
        (80, "The next start picks up where it stopped."),
        (60, "Kill it at any time."),
    ];
    for (columns, end) in table {
        let mut stage = Stage::new(columns, 24);
        stage.open();
        stage.rest();
        let rows = stage.rows();
        let is_whole = rows.iter().any(|row| row.trim_end().ends_with(end));
        assert!(is_whole, "{rows:#?}");
    }
}

/// One screen of each kind at the smallest size that is drawn.
#[test]
fn the_smallest_terminal_shows_what_matters() {
    type Play = fn(&mut Stage);
    let plays: [(&str, Play); 11] = [
        ("start", start_after_others),
        ("chosen", |stage| {
            start_after_others(stage);
            stage.keys("<Down><Down>");
        }),
        ("first run", |stage| {
            stage.send(Msg::Begin(Box::new(first_begin(first_run()))));
            stage.quiet();
        }),
        ("card", |stage| {
            offers(stage, vec![offer(0, "mend the parser")]);
            stage.send(Msg::Details(offer(0, "").info.id, Some(details())));
            stage.quiet();
        }),
        ("command", |stage| {
            stage.says("go");
            let id = stage.replies(vec![crate::log::bash("make all")])[0];
            stage.open();
            stage.asks(id, "`make` may do more than look", Some("Bash(make:*)"));
            stage.quiet();
        }),
        ("edit", |stage| {
            stage.says("go");
            let id = stage.replies(vec![crate::log::edit("a.rs", "a", "b")])[0];
            stage.open();
            stage.asks(id, "it changes `a.rs`", None);
            stage.quiet();
        }),
        ("picker", |stage| {
            stage.open();
            stage.rest();
            let items = ["anthropic/claude", "openai/gpt"].map(|name| PickerItem {
                value: name.into(),
                label: name.into(),
                detail: "200000 tokens".into(),
            });
            stage.send(Msg::Pick(Picker::new(For::Model, "model", items.into())));
            stage.keys("<Down>");
        }),
        ("palette", |stage| {
            stage.open();
            stage.rest();
            stage.keys("/<Down>");
        }),
        ("help", |stage| {
            stage.open();
            stage.rest();
            stage.keys("?");
        }),
        ("trust", |stage| {
            let project = greedy(2, ProjectTrust::Untrusted);
            let then = Box::new(Begin::History {
                fork: false,
                prompt: None,
            });
            stage.send(Msg::Begin(Box::new(Begin::Trust { project, then })));
            stage.quiet();
        }),
        ("working", |stage| {
            stage.says("go");
            stage.open();
            stage.keys("more");
            stage.waits(4_000);
        }),
    ];
    let mut pages = String::new();
    for (width, height) in [(40, 12), (20, 5)] {
        for (name, play) in plays {
            let mut stage = Stage::new(width, height);
            play(&mut stage);
            let screen = stage.screen();
            pages.push_str(&format!("──── {name} {width}x{height} ────\n{screen}\n"));
        }
    }
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("small", pages);
    });
}
