//! What a start shows: unfinished work, the question of trust, and a first run.

use rewake::config::{Content, Difference, Given, Project, Standing};
use rewake::session::{Details, Offer, StillRunning, Which};
use rewake::store::SessionInfo;
use rewake::ui::app::{Begin, Intent, Msg};
use rewake::ui::overlay::{FirstRun, Provider};

use crate::log::{FOLDER, NOON_MS};
use crate::stage::{ID, Stage, scene};

fn offer(n: u8, title: &str) -> Offer {
    Offer {
        info: SessionInfo {
            id: ID.replace("01a1fc18", &format!("01a1fc{}8", n + 1)),
            workspace: FOLDER.into(),
            folder: FOLDER.into(),
            title: Some(title.into()),
            entries: 41,
            forked_from: None,
            created_ms: NOON_MS - 9_000_000,
            updated_ms: NOON_MS - i64::from(n) * 3_600_000 - 180_000,
            unfinished: true,
            version: Some("0.1.0".into()),
            model: Some("anthropic/claude-sonnet-4-5".into()),
            usage: Default::default(),
            bytes: 0,
        },
        held_by: None,
        details: None,
    }
}

fn details() -> Details {
    Details {
        how: "killed".into(),
        doing: Some("bash cargo test --workspace".into()),
        plan_step: Some("mend the loop".into()),
        running: vec![StillRunning {
            command: "cargo test --workspace".into(),
            age_ms: 252_000,
            last_line: Some("test parser::last_token ... ok".into()),
        }],
        recovered: vec![
            "120 words of an answer that was streaming".into(),
            "1 queued message(s)".into(),
        ],
        in_doubt: vec!["write notes.md".into()],
    }
}

fn offers(stage: &mut Stage, offers: Vec<Offer>) {
    let begin = Begin::Offers {
        offers,
        prompt: None,
    };
    stage.tell(Msg::Begin(Box::new(begin)));
}

#[test]
fn unfinished_work_is_offered() {
    scene!("offer", |stage: &mut Stage| {
        offers(stage, vec![offer(0, "mend the parser")]);
        stage.tell(Msg::Details(offer(0, "").info.id, Some(details())));
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
        stage.tell(Msg::Details(offer(0, "").info.id, Some(details())));
        stage.keys("<Down>");
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
fn opened_by(key: &str, held: bool) -> Option<(Which, bool)> {
    let mut stage = Stage::new(80, 24);
    let held_by = held.then_some(4242);
    offers(
        &mut stage,
        vec![Offer {
            held_by,
            ..offer(0, "mend it")
        }],
    );
    stage.keys(key);
    stage.wanted.into_iter().find_map(|intent| match intent {
        Intent::Open { which, take_over } => Some((which, take_over)),
        _ => None,
    })
}

#[test]
fn each_key_of_the_card_does_what_it_says() {
    let named = |fork| Which::Named {
        id: ID.into(),
        fork,
    };
    assert_eq!(opened_by("<Enter>", false), Some((named(false), false)));
    assert_eq!(opened_by("f", false), Some((named(true), false)));
    assert_eq!(opened_by("n", false), Some((Which::New, false)));
    assert_eq!(opened_by("t", true), Some((named(false), true)));
    assert_eq!(opened_by("t", false), None, "nobody has it");
    assert_eq!(
        opened_by("<Enter>", true),
        None,
        "one that is held is looked at"
    );
}

#[test]
fn one_that_is_held_is_watched() {
    let mut stage = Stage::new(80, 24);
    offers(
        &mut stage,
        vec![Offer {
            held_by: Some(7),
            ..offer(0, "mend it")
        }],
    );
    stage.keys("<Enter>");
    let watched = stage
        .wanted
        .iter()
        .any(|i| matches!(i, Intent::Watch(id) if id == ID));
    assert!(watched);
}

/// A config of the workspace's own that sets so many models' windows, and a server.
fn greedy(models: usize, standing: Standing) -> Box<Project> {
    let given = |shown: &str| Given {
        shown: shown.into(),
        ..Given::default()
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
        broken: None,
    })
}

#[test]
fn trust_is_asked_for_before_anything_else() {
    let begin = |project: Box<Project>| {
        let then = Box::new(Begin::Open {
            which: Which::New,
            prompt: None,
        });
        Begin::Trust { project, then }
    };
    scene!("trust", |stage: &mut Stage| {
        let project = greedy(12, Standing::Untrusted);
        stage.tell(Msg::Begin(Box::new(begin(project))));
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
        let project = greedy(0, Standing::Changed(differences));
        stage.tell(Msg::Begin(Box::new(begin(project))));
    });
    for (key, trusts) in [("y", true), ("n", false)] {
        let mut stage = Stage::new(80, 24);
        let project = greedy(1, Standing::Untrusted);
        stage.tell(Msg::Begin(Box::new(begin(project.clone()))));
        stage.keys("x<Enter>");
        assert!(stage.wanted.is_empty(), "only y and n are answers");
        stage.keys(key);
        match &stage.wanted[0] {
            Intent::Trust(content) => assert!(trusts && *content == project.content),
            Intent::Distrust => assert!(!trusts),
            _ => panic!("no answer"),
        }
        assert!(matches!(stage.wanted[1], Intent::Open { .. }));
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
    };
    FirstRun::new(
        "no model is named, and no key of a provider is set".into(),
        vec![
            provider(
                "anthropic",
                "no key: ANTHROPIC_API_KEY is not set",
                false,
                "export ANTHROPIC_API_KEY=…",
            ),
            provider(
                "openai",
                "no key: OPENAI_API_KEY is not set",
                false,
                "export OPENAI_API_KEY=…",
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
fn a_first_run_says_what_was_looked_for() {
    scene!("first_run", |stage: &mut Stage| {
        stage.tell(Msg::Begin(Box::new(Begin::FirstRun(first_run()))));
    });
    let mut stage = Stage::new(40, 12);
    stage.tell(Msg::Begin(Box::new(Begin::FirstRun(first_run()))));
    stage.sees("▸ use ollama/qwen3");
    stage.keys("<Enter>");
    assert!(matches!(&stage.wanted[0], Intent::ChooseModel(model) if model == "ollama/qwen3"));
    let mut stage = Stage::new(80, 24);
    stage.tell(Msg::Begin(Box::new(Begin::FirstRun(first_run()))));
    stage.keys("<Down><Enter>");
    assert!(matches!(stage.wanted[0], Intent::Demo));
}

#[test]
fn a_new_session_greets() {
    scene!("welcome", |stage: &mut Stage| {
        stage.open();
        stage.rest();
    });
}
