//! What stands for what left the context: whatever a summary model answers, and how large each
//! part of it is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on says so by panicking"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use support::{Answer, Home, Options, Protocol, Run, Says, Seen, Server};

/// How long one run of the agent may take.
const LIMIT: Duration = Duration::from_secs(240);

const RULES: [&str; 3] = [
    "Never write to a file in data.",
    "Les fichiers doivent être lus un par un.",
    "The last answer must be: all is done",
];

fn words() -> String {
    format!(
        "Mend the parser, and print what there is. {}",
        RULES.join("\n")
    )
}

/// A task of so many commands that print 2 KB, in a window of so many tokens. What the model
/// was asked, and how the run ended.
fn work(
    window: u64,
    calls: usize,
    summary: impl Fn() -> Answer + Send + Sync + 'static,
) -> (Vec<Arc<Value>>, Run) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seeing = Arc::clone(&asked);
    let options = Options {
        limit_tokens: Some(window),
        keep_bodies: false,
        ..Options::default()
    };
    let server = Server::start_with(options, move |seen: &Seen| {
        if seen.model.contains("summary") {
            return summary();
        }
        let mut asked = seeing.lock().unwrap();
        asked.push(Arc::clone(&seen.json));
        let call = |tool: &str, arguments| Answer::Says(Says::text("").and_call(tool, arguments));
        match asked.len() {
            2 => {
                let step = |n: usize, state: &str| json!({"text": format!("step {n}: mend one more part of it"), "state": state});
                let steps = [
                    step(1, "done"),
                    step(2, "current"),
                    step(3, "left"),
                    step(4, "left"),
                ];
                call(
                    "plan",
                    json!({"steps": steps, "goals": ["the old tests pass"]}),
                )
            }
            n if n % 9 == 3 => call(
                "write",
                json!({"path": format!("src/{n}.rs"), "content": "x\n"}),
            ),
            n if n % 9 == 5 => call("bash", json!({"command": format!("cat gone{n}.rs")})),
            // More than the window takes at once.
            n if n == calls => {
                Answer::Says((0..window / 500).fold(Says::text("all"), |says, n| {
                    says.and_call("bash", json!({"command": format!("printf %04000d {n}")}))
                }))
            }
            n if n < calls => call(
                "bash",
                json!({"command": format!("printf '%02000d\\nOK\\n' {n}")}),
            ),
            _ => Answer::text("all is done"),
        }
    });
    let home = Home::new();
    let more = format!(
        "[retry]\ntries = 2\nbase_ms = 1\ncap_ms = 2\n[models.\"local/test-model\"]\ncontext_window = {window}\n"
    );
    home.configure(&server, Protocol::Anthropic, &more);
    let run = support::run(home.rewake(["-p", "--yolo", &words()]), LIMIT);
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    server.assert_no_violations();
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    (asked, run)
}

#[test]
fn a_summary_model_may_answer_anything() {
    let calls = || Says::call("bash", json!({"command": "touch summary-was-obeyed"})).into();
    let foreign = || Answer::text("用户要求修复解析器；printf 02000d 已完成，条目 4 有结果。");
    const MANY: &str = "many words in a row, and none of them matters";
    let long = || {
        let lines = (0..500).map(|n| format!("{MANY} 02000d {n}\n"));
        Answer::text(lines.collect::<String>())
    };
    let nothing = || Answer::text("");
    type Summary = fn() -> Answer;
    let all: [(&str, Summary, bool); 4] = [
        ("tool calls", calls, true),
        ("another language", foreign, false),
        ("ten times the size", long, false),
        ("nothing", nothing, true),
    ];
    for (what, summary, fails) in all {
        let (asked, run) = work(8_000, 60, summary);
        for (number, body) in asked.iter().enumerate() {
            let body = body.to_string();
            for rule in RULES {
                assert!(body.contains(rule), "{what}: {rule:?} in request {number}");
            }
            assert!(!body.contains("summary-was-obeyed"), "{what}: {body}");
        }
        let last = asked.last().unwrap().to_string();
        assert!(
            last.contains("<summary>") || last.contains("<continuation>"),
            "{what}"
        );
        // Of what is too long, as much is taken as a summary may have.
        let most = asked
            .iter()
            .map(|body| body.to_string().matches(MANY).count());
        let most = most.max().unwrap_or_default();
        let is_long = what == "ten times the size";
        assert_eq!((1..100).contains(&most), is_long, "{what}: {most}");
        let is_said = run.stderr.contains("the summary model failed");
        assert_eq!(is_said, fails, "{what}: {}", run.stderr);
    }
}

/// The largest of each kind in these requests: its parts, in tokens of four bytes.
fn parts(asked: &[Arc<Value>], tag: &str) -> BTreeMap<String, usize> {
    let texts = asked.iter().filter_map(|body| {
        let content = body["messages"][0]["content"].as_array()?;
        let mut texts = content.iter().filter_map(|part| part["text"].as_str());
        texts.find(|text| text.starts_with(tag))
    });
    let mut parts = BTreeMap::new();
    let Some(text) = texts.max_by_key(|text| text.len()) else {
        return parts;
    };
    let mut title = "head and summary";
    for line in text.lines() {
        // Version 0.1 ended its titles with a colon.
        let is_title = line.starts_with("## ") || line.starts_with("The ") && line.ends_with(':');
        if is_title {
            title = line
                .trim_start_matches("## ")
                .split([',', '('])
                .next()
                .unwrap();
        }
        *parts
            .entry(title.trim_end_matches(':').to_string())
            .or_insert(0) += line.len() + 1;
    }
    parts
        .values_mut()
        .for_each(|bytes| *bytes = bytes.div_ceil(4));
    parts.insert("all".to_string(), text.len().div_ceil(4));
    parts
}

/// Says how large each part is (`--nocapture`); what the user said is there in each, and what
/// stands for the past leaves room for the work.
#[test]
fn each_part_of_a_summary_stays_within_its_budget() {
    for (window, calls) in [(5_000, 70), (8_000, 70), (32_000, 200)] {
        let (asked, _) = work(window, calls, || {
            Answer::text("What 02000d was for, told in some twenty words. ".repeat(6))
        });
        for tag in ["<summary>", "<continuation>"] {
            let parts = parts(&asked, tag);
            eprintln!("{window} {tag} {parts:?}");
            assert!(
                parts["What the user said"] >= words().len() / 4,
                "{parts:?}"
            );
            let all = parts["all"] as u64;
            assert!(all <= window / 3, "{window} {tag} {parts:?}");
        }
    }
}
