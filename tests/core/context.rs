//! Context without end, as a property: for any history and any window of 4,000 tokens or
//! more, the request that is sent fits, is valid, and holds what the model cannot do without.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on says so by panicking"
)]

use proptest::prelude::*;
use rewake::config::Config;
use rewake::core::budget::Budget;
use rewake::core::compacting::{self, Summary};
use rewake::core::entry::*;
use rewake::core::freeing;
use rewake::core::next::{BackgroundSummary, Pending, Step, next, recall_point};
use rewake::core::policy::Decision;
use rewake::core::prompt::{self, KeptMessages};
use rewake::core::request::{Message, MessagePart, Request};
use rewake::core::settings::Policy;
use rewake::core::state::State;
use rewake::core::summary;
use rewake::core::turn::TurnRange;
use rewake::core::window::{self, CompactionSettings, CompactionStep};

pub(crate) const MODEL: &str = "test/model";
/// The answer's room in these tests.
pub(crate) const ANSWER: u64 = 1_000;

fn layers() -> PromptPrefix {
    let spec = |name: &str| ToolSpec {
        name: name.into(),
        description: "d".repeat(300),
        schema: serde_json::json!({"type": "object"}),
    };
    // As much as the short forms may have: 1,200 tokens.
    PromptPrefix {
        system: "s".repeat(3_000),
        tools: ["read", "bash", "plan"].map(spec).to_vec(),
        instructions: String::new(),
    }
}

/// As the config has them where nobody says anything.
pub(crate) fn windows() -> CompactionSettings {
    rewake::session::context::windows(&Config::default())
}

fn policy(window: u64, windows: CompactionSettings) -> Policy {
    Policy {
        served_check: std::sync::Arc::new(|_| Ok(())),
        permission_check: std::sync::Arc::new(|_, _, _| Decision::Allow.into()),
        interactive: false,
        background: Default::default(),
        sandbox: Default::default(),
        checks: Vec::new(),
        max_turns: None,
        // The calls of these tests are all alike.
        loop_guard: false,
        budget: std::sync::Arc::new(move |_, limit, _| {
            Budget::new(limit.unwrap_or(window), ANSWER, None)
        }),
        windows,
        price: std::sync::Arc::new(|_, _| None),
    }
}

/// How the summary model behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Summariser {
    Works,
    /// Or hangs: for the log it is the same.
    Fails,
    TooLong,
    Nonsense,
    /// A line stands for what leaves.
    LeavesOut,
}

pub(crate) struct Session {
    pub(crate) state: State,
    pub(crate) policy: Policy,
    pub(crate) summariser: Summariser,
    pub(crate) records: Vec<Record>,
    pub(crate) kept: KeptMessages,
}

impl Session {
    pub(crate) fn new(window: u64, windows: CompactionSettings, summariser: Summariser) -> Session {
        let mut session = Session {
            state: State::new(rewake::tools::describe),
            policy: policy(window, windows),
            summariser,
            records: Vec::new(),
            kept: KeptMessages::default(),
        };
        session.push(Entry::Opened {
            folder: "/w".into(),
            version: "0".into(),
            model: MODEL.into(),
            mode: Mode::Default,
            layers: layers(),
            imported: None,
        });
        session
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        let seq = self.state.next_seq();
        let record = Record {
            seq,
            at_ms: seq as i64 * 1_000,
            entry,
        };
        self.state.fold(&record).expect("a legal entry");
        self.records.push(record);
    }

    pub(crate) fn budget(&self) -> Budget {
        self.policy.budget_of(&self.state, MODEL)
    }

    /// Returns them as the engine reads them: also those that left without a summary.
    fn to_summarise(&self, range: TurnRange) -> Vec<Record> {
        let left = compacting::unsummarised(&self.state);
        let left = left.map_or(&[][..], |range| {
            &self.records[*range.start() as usize..=*range.end() as usize]
        });
        [left, &compacting::leaving(&self.state, range)].concat()
    }

    pub(crate) fn compact(&mut self, range: TurnRange) {
        let budget = self.budget();
        let max_bytes = budget.bytes(self.policy.windows.summary_tokens(&budget));
        let leaving = compacting::leaving(&self.state, range);
        // What is asked of the summary model fits, too.
        let ask = summary::request(
            MODEL,
            "summarise",
            None,
            &leaving,
            &self.state.freed,
            &budget,
            500,
        );
        assert!(
            bytes(&ask) as u64 / 4 <= budget.hard(),
            "the summary's own request fits"
        );
        let made = match self.summariser {
            Summariser::Works => summary::accept("it was done", max_bytes),
            Summariser::TooLong => {
                let lines = (0..5_000).map(|n| format!("many words in row {n}\n"));
                summary::accept(&lines.collect::<String>(), max_bytes)
            }
            Summariser::Nonsense => summary::accept(" \n .", max_bytes),
            Summariser::Fails | Summariser::LeavesOut => None,
        };
        let summary = match made {
            Some(text) => Summary::Model(text),
            None if matches!(self.summariser, Summariser::LeavesOut) => Summary::Placeholder,
            None => Summary::Digest(self.to_summarise(range)),
        };
        let entries = compacting::compacted(
            &self.state,
            &budget,
            &self.policy.windows,
            range,
            summary,
            Vec::new(),
        );
        for entry in entries {
            if let Entry::Compacted { summary, .. } = &entry {
                assert!(
                    summary.len() <= max_bytes * 5 / 4 + 200,
                    "{}",
                    summary.len()
                );
            }
            self.push(entry);
        }
    }

    /// What is due before the context is full, as the engine does it at once.
    pub(crate) fn do_due(&mut self) -> Option<CompactionStep> {
        let due = window::due(&self.state, &self.budget(), &self.policy.windows)?;
        match &due {
            CompactionStep::Free(results) => self.free(results),
            CompactionStep::Summarise(range) => self.compact(*range),
        }
        Some(due)
    }

    fn free(&mut self, results: &[u64]) {
        let freed = freeing::entry(&self.state, results).expect("results of the context");
        self.push(freed);
    }

    /// Does what `next` says of the context, until the model is to be asked.
    pub(crate) fn make_room(&mut self) -> Request {
        for _ in 0..10 {
            // Only what the hard limit asks for: nothing is summarised in the background.
            let pending = Pending {
                summary: BackgroundSummary::Running,
                recalled: recall_point(&self.state),
                ..Pending::default()
            };
            match next(&self.state, &self.policy, &pending) {
                Step::Free(results) => self.free(&results),
                Step::Compact(range) => self.compact(range),
                Step::Continue => {
                    let budget = self.budget();
                    let exists = |_: &str| true;
                    let note = compacting::continued(&self.state, &budget, None, &exists, vec![]);
                    self.push(note);
                }
                Step::CallModel => {
                    let (budget, windows) = (self.budget(), &self.policy.windows);
                    let make = |kept: &mut KeptMessages| {
                        prompt::request(&self.state, &budget, windows.inline_max_bytes, kept)
                    };
                    let request = make(&mut self.kept);
                    assert_eq!(request, make(&mut KeptMessages::default()));
                    return request;
                }
                step => panic!("an answer is owed, but next says {step:?}"),
            }
        }
        panic!("there is no end to making room");
    }

    pub(crate) fn reply(&mut self, blocks: Vec<Block>) {
        self.push(Entry::Replied {
            blocks,
            usage: Usage::default(),
            stop: StopReason::ToolUse,
            model: MODEL.into(),
            took_ms: 0,
            asked_bytes: 0,
            source_usage: None,
        });
    }
}

/// Returns the prompt in the order in which servers put it together.
fn read(request: &Request) -> String {
    let mut text = format!(
        "{:?}{}{}",
        request.tools, request.system, request.instructions
    );
    for message in &request.messages {
        for part in message.parts.iter() {
            text.push_str(&format!("{:?} {part:?}\n", message.role));
        }
    }
    text
}

/// How much of the text no earlier one begins with, in tokens.
fn new_tokens(text: &str, before: &[String]) -> usize {
    let same = |other: &String| {
        let both = text.bytes().zip(other.bytes());
        both.take_while(|(a, b)| a == b).count()
    };
    (text.len() - before.iter().map(same).max().unwrap_or(0)) / 4
}

/// A summary asks at the end of the last request: a provider's cache has all but the instruction.
/// After summaries that failed, too, once another request could not show much more.
#[test]
fn a_summary_begins_with_the_last_request() {
    let all = |_, apart| apart == 0;
    let most = |in_place, apart| in_place > 1 && apart <= 1;
    // A line says nothing of what it stands for.
    let first = |in_place, apart| in_place == 1 && apart > 1;
    type Expected = fn(u32, u32) -> bool;
    let table: [(u64, usize, Summariser, Expected); 5] = [
        (4_096, 900, Summariser::Works, all),
        (32_000, 4_000, Summariser::Works, all),
        (4_096, 900, Summariser::Fails, most),
        (17_000, 8_000, Summariser::Fails, all),
        (4_096, 900, Summariser::LeavesOut, first),
    ];
    for (window, results, summariser, is_expected) in table {
        let mut session = Session::new(window, windows(), summariser);
        let (mut before, mut main, mut summaries) = (Vec::new(), 0, 0);
        let (mut in_place, mut apart) = (0, 0);
        session.push(said("repair the parser"));
        for n in 0..80 {
            while let Some(CompactionStep::Summarise(range)) =
                window::due(&session.state, &session.budget(), &session.policy.windows)
            {
                let last: &String = before.last().unwrap();
                let (state, budget) = (&session.state, session.budget());
                let records = session.to_summarise(range);
                let tokens = session.policy.windows.summary_tokens(&budget);
                let ask_about = |records: &[Record]| {
                    summary::request_in_place(state, records, &budget, 16_384, range.last, tokens)
                };
                // A digest has less than a transcript that is short, and is enough in a small window.
                let preface = state.preface.as_ref();
                let is_sound = preface.is_none_or(|p| p.unsound_from.is_none());
                let is_enough = budget.is_small() && matches!(summariser, Summariser::Fails);
                let is_asked = ask_about(&session.records[1..2]).is_some();
                assert_eq!(is_asked, is_sound || is_enough);
                let ask = ask_about(&records);
                if let Some(ask) = &ask {
                    in_place += 1;
                    assert!(is_in_place(ask) && read(ask).starts_with(last), "{ask:?}");
                } else {
                    apart += 1;
                }
                let ask = ask.unwrap_or_else(|| {
                    let (freed, none) = (&state.freed, None);
                    summary::request(MODEL, "summarise", none, &records, freed, &budget, tokens)
                });
                crate::valid::assert_valid(&ask.messages);
                let all = budget.tokens(bytes(&ask)) + ask.max_tokens;
                assert!(all <= window, "{all} tokens in a window of {window}");
                summaries += new_tokens(&read(&ask), &before);
                before.push(read(&ask));
                session.compact(range);
            }
            let request = read(&session.make_room());
            main += new_tokens(&request, &before);
            before.push(request);
            let path = format!(r#"{{"path":"src/file{n}.rs"}}"#);
            session.reply(vec![Block::call("read", path)]);
            finish(
                &mut session,
                vec![Outcome::done("word ".repeat(results / 5))],
                None,
            );
        }
        let found = format!("{in_place} in place, {apart} apart: {summaries} of {main}");
        assert!(
            in_place > 0 && is_expected(in_place, apart),
            "{window}: {found}"
        );
        let is_cheap = summaries * 100 <= main * 15;
        assert!(is_cheap || apart > 1, "{window}: {found}");
    }
}

/// Everything in a request that costs tokens.
pub(crate) fn bytes(request: &Request) -> usize {
    let tools: usize = request
        .tools
        .iter()
        .map(|t| t.name.len() + t.description.len() + t.schema.to_string().len())
        .sum();
    let parts = request.messages.iter().flat_map(|m| m.parts.iter());
    let parts: usize = parts
        .map(|p| match p {
            MessagePart::Text { text, .. } => text.len(),
            MessagePart::Thinking { text, sealed } => {
                text.len() + sealed.as_ref().map_or(0, |s| s.to_string().len())
            }
            MessagePart::Call {
                id,
                name,
                arguments,
                ..
            } => id.len() + name.len() + arguments.to_string().len(),
            MessagePart::Result {
                id, text, images, ..
            } => id.len() + text.len() + images.len() * 6_000,
            MessagePart::Image { .. } => 6_000,
        })
        .sum();
    request.system.len() + request.instructions.len() + tools + parts
}

/// Whether a summary is asked for at the end of the last request.
pub(crate) fn is_in_place(request: &Request) -> bool {
    let last = request.messages.last().map(std::slice::from_ref);
    all_text(last.unwrap_or_default()).contains("<note>\nDo not continue the task")
}

pub(crate) fn all_text(messages: &[Message]) -> String {
    let mut all = String::new();
    for part in messages.iter().flat_map(|m| m.parts.iter()) {
        match part {
            MessagePart::Text { text, .. } | MessagePart::Result { text, .. } => all.push_str(text),
            MessagePart::Call { arguments, .. } => all.push_str(&arguments.to_string()),
            MessagePart::Thinking { .. } | MessagePart::Image { .. } => {}
        }
        all.push('\n');
    }
    all
}

/// One turn of a history.
#[derive(Debug, Clone)]
enum Turn {
    Says { text: String, images: usize },
    Calls(Vec<usize>),
    Plans,
    Words(usize),
}

pub(crate) fn any_size() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..200usize, 3 => 200..5_000usize, 2 => 5_000..40_000usize, 1 => 40_000..200_000usize]
}

fn any_turn() -> impl Strategy<Value = Turn> {
    let text = prop_oneof![
        Just(String::new()),
        "[a-z ]{1,60}",
        any_size().prop_map(|n| "wörd\u{1F600} ".repeat(n / 10)),
        any_size().prop_map(|n| "\"\\\n".repeat(n / 3)),
    ];
    prop_oneof![
        3 => (text, 0..3usize).prop_map(|(text, images)| Turn::Says { text, images }),
        5 => prop::collection::vec(any_size(), 1..6).prop_map(Turn::Calls),
        1 => (60..300usize).prop_map(|n| Turn::Calls(vec![2_000; n])),
        1 => Just(Turn::Plans),
        2 => any_size().prop_map(Turn::Words),
    ]
}

fn said(text: &str) -> Entry {
    Entry::Said {
        text: text.into(),
        images: vec![],
        via: Via::Prompt,
        command: None,
        origin: None,
    }
}

fn play(session: &mut Session, turn: Turn) {
    let image = || Image {
        media_type: "image/png".into(),
        blob: BlobRef {
            hash: "h".into(),
            bytes: 1,
        },
    };
    match turn {
        Turn::Says { text, images } => {
            let images = (0..images).map(|_| image()).collect();
            session.push(Entry::Said {
                text,
                images,
                via: Via::Prompt,
                command: None,
                origin: None,
            });
        }
        Turn::Words(size) => {
            session.make_room();
            session.reply(vec![Block::text(format!(
                "I say {}",
                "word ".repeat(size / 5)
            ))]);
            session.push(said("and then"));
        }
        Turn::Plans => {
            session.make_room();
            session.reply(vec![Block::call("plan", r#"{"steps":[]}"#)]);
            let step = |text: &str, state| PlanStep {
                text: text.into(),
                state,
            };
            let plan = Plan {
                steps: vec![
                    step("find the cause", StepState::Done),
                    step("mend the parser", StepState::Current),
                ],
                goals: vec!["no regressions".into()],
            };
            finish(
                session,
                vec![Outcome::done("planned")],
                Some(Fact::Planned { plan }),
            );
        }
        Turn::Calls(sizes) => {
            session.make_room();
            let blocks = sizes.iter().enumerate().map(|(n, size)| {
                let content = "c".repeat(size / 4);
                Block::call("read", format!(r#"{{"path":"file{n}","x":"{content}"}}"#))
            });
            session.reply(blocks.collect());
            let outcomes = sizes
                .iter()
                .map(|size| Outcome::done(format!("result {}", "r".repeat(*size))));
            finish(session, outcomes.collect(), None);
        }
    }
}

pub(crate) fn finish(session: &mut Session, outcomes: Vec<Outcome>, fact: Option<Fact>) {
    let calls: Vec<CallId> = session.state.calls.iter().map(|c| c.call.id).collect();
    for (call, outcome) in calls.into_iter().zip(outcomes) {
        session.push(Entry::Finished {
            call,
            outcome,
            fact: fact.clone(),
            tree: None,
        });
    }
}

/// What a request must be, whatever came before it.
fn check(session: &Session, request: &Request, window: u64) {
    crate::valid::assert_valid(&request.messages);
    let tokens = bytes(request) as u64 / 4 + request.max_tokens;
    assert!(tokens <= window, "{tokens} tokens in a window of {window}");
    let text = all_text(&request.messages);
    let words = session.state.words.as_ref();
    if let Some((seq, words)) = words.filter(|(_, w)| !w.trim().is_empty()) {
        let head: String = words.chars().take(40).collect();
        assert!(
            text.contains(head.trim()),
            "the user's last message is there"
        );
        let whole = text.contains(words.as_str()) || text.contains(&format!("entry {seq}"));
        assert!(whole, "the user's last message is whole or has its address");
    }
    if session.state.plan.is_some() {
        assert!(
            text.contains("mend the parser") || text.contains("planned"),
            "the plan is there"
        );
    }
    for seq in last_results(&session.records) {
        assert!(
            has_result(session, &text, seq),
            "the result in entry {seq} is there, at least as its address"
        );
    }
}

/// The note of a continuation has no lines of a digest, so the next digest takes them from the log.
#[test]
fn at_4k_with_a_summary_model_that_fails_a_digest_after_a_continuation_has_the_old_lines() {
    let mut session = Session::new(4_000, windows(), Summariser::Fails);
    let text = "the task".to_string();
    play(&mut session, Turn::Says { text, images: 0 });
    // One exchange is too large to be summarised, the ones around it are not.
    play(&mut session, Turn::Calls(vec![300; 2]));
    play(&mut session, Turn::Calls(vec![900; 60]));
    let is_continued = |session: &Session| {
        let mut records = session.records.iter();
        records.rposition(|r| matches!(r.entry, Entry::Continued { .. }))
    };
    session.make_room();
    let continued = is_continued(&session).expect("a continuation");
    let digest = (0..100).find_map(|_| {
        play(&mut session, Turn::Calls(vec![1_500]));
        session.records[continued..]
            .iter()
            .find_map(|r| match &r.entry {
                Entry::Compacted { summary, .. } => Some(summary.clone()),
                _ => None,
            })
    });
    assert_eq!(is_continued(&session), Some(continued));
    let digest = digest.expect("a digest");
    let last = session.records[..continued]
        .iter()
        .rfind(|r| matches!(r.entry, Entry::Finished { .. }));
    let line = format!("[{}] read file59: ", last.expect("a result").seq);
    assert!(digest.contains(&line), "{line}: {digest}");
}

/// The entries of the results of the last answer.
fn last_results(records: &[Record]) -> Vec<u64> {
    let from = records
        .iter()
        .rposition(|r| matches!(r.entry, Entry::Replied { .. }))
        .unwrap_or(0);
    let finished = records[from..]
        .iter()
        .filter(|r| matches!(r.entry, Entry::Finished { .. }));
    finished.map(|r| r.seq).collect()
}

fn has_result(session: &Session, text: &str, seq: u64) -> bool {
    if session.state.context.iter().any(|r| r.seq == seq) {
        return true;
    }
    let in_range = text
        .lines()
        .filter_map(|l| l.strip_prefix("- entries "))
        .any(|l| {
            let range = l.split_whitespace().next().unwrap_or("");
            let ends: Vec<u64> = range.split('-').filter_map(|n| n.parse().ok()).collect();
            matches!(ends[..], [a, b] if (a..=b).contains(&seq))
        });
    in_range || text.contains(&format!("entry {seq} "))
}

pub(crate) fn any_summariser() -> impl Strategy<Value = Summariser> {
    prop_oneof![
        Just(Summariser::Works),
        Just(Summariser::Fails),
        Just(Summariser::TooLong),
        Just(Summariser::Nonsense)
    ]
}

/// The number of histories. `PROPTEST_CASES` gives another, `.ci/run` 300.
fn cases() -> u32 {
    let of = std::env::var("PROPTEST_CASES").ok();
    of.and_then(|n| n.parse().ok()).unwrap_or(100)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_fits_and_holds_what_is_needed(
        turns in prop::collection::vec(any_turn(), 1..25),
        window in prop_oneof![4_000..9_000u64, 9_000..40_000u64, 40_000..300_000u64],
        summariser in any_summariser(),
        background in any::<bool>(),
    ) {
        let mut session = Session::new(window, windows(), summariser);
        session.push(said("the task: mend it"));
        for turn in turns {
            play(&mut session, turn);
            if background {
                session.do_due();
            }
            if session.state.owed {
                let request = session.make_room();
                check(&session, &request, window);
            }
        }
    }
}

/// A model that turns out to have a smaller window than was thought.
#[test]
fn a_window_that_shrinks_is_obeyed_at_once() {
    let mut session = Session::new(200_000, windows(), Summariser::Works);
    session.push(said("the task"));
    for _ in 0..20 {
        play(&mut session, Turn::Calls(vec![4_000]));
    }
    let large = session.make_room();
    assert!(bytes(&large) > 60_000);
    for limit in [32_000, 8_000, 4_000] {
        session.push(Entry::Learned(Learned {
            model: MODEL.into(),
            limit,
            ..Learned::default()
        }));
        let request = session.make_room();
        check(&session, &request, limit);
    }
}

/// The guess after a refusal without a figure ends with a request that is longer than half of the
/// refused one. The limit before applies again, also after several guesses.
#[test]
fn a_guessed_window_lasts_until_a_longer_request_succeeds() {
    let learned = |limit, bytes, guess| {
        Entry::Learned(Learned {
            model: MODEL.into(),
            limit,
            bytes,
            guess,
            ..Learned::default()
        })
    };
    let replied = |asked_bytes| Entry::Replied {
        blocks: vec![Block::text("done")],
        usage: Usage::default(),
        stop: StopReason::EndTurn,
        model: MODEL.into(),
        took_ms: 1,
        asked_bytes,
        source_usage: None,
    };
    for known in [None, Some(40_960)] {
        let mut session = Session::new(200_000, windows(), Summariser::Works);
        session.push(said("the task"));
        if let Some(known) = known {
            session.push(learned(known, 0, false));
        }
        session.push(learned(8_000, 20_000, true));
        session.push(learned(5_000, 10_000, true));
        for (bytes, limit) in [(1_000, Some(5_000)), (5_000, Some(5_000)), (5_001, known)] {
            session.push(replied(bytes));
            assert_eq!(session.state.limits.get(MODEL).copied(), limit, "{bytes}");
            session.push(said("and more"));
        }
        // A limit that a server names is no guess.
        session.push(learned(6_000, 10_000, false));
        session.push(replied(9_000));
        assert_eq!(session.state.limits.get(MODEL), Some(&6_000));
    }
}

#[test]
fn windows_close_in_steps_and_the_newest_exchange_stays() {
    let mut session = Session::new(32_000, windows(), Summariser::Works);
    session.push(said("the task"));
    let (mut closings, mut kept) = (0, 0);
    let mut before: Vec<Message> = Vec::new();
    for _ in 0..200 {
        play(&mut session, Turn::Calls(vec![4_000]));
        if session.do_due().is_some() {
            closings += 1;
            before.clear();
        }
        let now = prompt::messages(&session.state, usize::MAX);
        assert!(session.state.context.len() >= 2);
        if !before.is_empty() {
            assert_eq!(
                before[..before.len() - 1],
                now[..before.len() - 1],
                "the prefix stays between closings"
            );
            kept += 1;
        }
        before = now;
    }
    assert!(
        (5..60).contains(&closings),
        "{closings} closings in 200 exchanges"
    );
    assert!(kept > 120, "{kept}");
}

#[test]
fn by_messages_all_but_the_last_are_closed() {
    let windows = CompactionSettings {
        strategy: window::Strategy::Messages,
        ..windows()
    };
    let mut session = Session::new(200_000, windows, Summariser::Works);
    session.push(said("the task"));
    for exchange in 2..=51 {
        assert_eq!(
            window::due(&session.state, &session.budget(), &session.policy.windows),
            None,
            "at {exchange}"
        );
        play(&mut session, Turn::Calls(vec![10]));
    }
    assert!(
        matches!(session.do_due(), Some(CompactionStep::Summarise(_))),
        "51 exchanges"
    );
    let replies = session
        .state
        .context
        .iter()
        .filter(|r| matches!(r.entry, Entry::Replied { .. }))
        .count();
    assert_eq!(replies, 10);
}

#[test]
fn by_minutes_a_pause_ends_a_window() {
    let windows = CompactionSettings {
        strategy: window::Strategy::Minutes,
        ..windows()
    };
    let mut session = Session::new(200_000, windows, Summariser::Works);
    session.push(said("morning"));
    play(&mut session, Turn::Calls(vec![10]));
    assert_eq!(
        window::due(&session.state, &session.budget(), &session.policy.windows),
        None
    );
    let seq = session.state.next_seq();
    session.make_room();
    session.reply(vec![Block::text("done")]);
    let at_ms = 40 * 60_000;
    let said = said("afternoon");
    let record = Record {
        seq: seq + 1,
        at_ms,
        entry: said,
    };
    session.state.fold(&record).expect("legal");
    let range = window::due(&session.state, &session.budget(), &session.policy.windows);
    assert_eq!(
        range,
        Some(CompactionStep::Summarise(TurnRange {
            first: 1,
            last: seq
        }))
    );
}

/// A server without memory for two requests writes the summary before the next request, not beside it.
#[test]
fn a_server_that_shares_its_memory_gets_one_request_at_a_time() {
    let mut session = Session::new(32_000, windows(), Summariser::Works);
    session.push(said("the task"));
    let range = loop {
        play(&mut session, Turn::Calls(vec![4_000]));
        let due = window::due(&session.state, &session.budget(), &session.policy.windows);
        if let Some(CompactionStep::Summarise(range)) = due {
            break range;
        }
        session.do_due();
    };
    let step = |summary: BackgroundSummary| {
        let pending = Pending {
            summary,
            recalled: recall_point(&session.state),
            ..Pending::default()
        };
        next(&session.state, &session.policy, &pending)
    };
    assert_eq!(step(BackgroundSummary::None), Step::Summarise(range));
    assert_eq!(step(BackgroundSummary::Alone), Step::Compact(range));
}

/// With the summary gone, the context is what the windows are.
#[test]
fn without_its_summary_the_context_is_the_windows() {
    let mut session = Session::new(32_000, windows(), Summariser::Works);
    session.push(said("the task"));
    for _ in 0..30 {
        play(&mut session, Turn::Calls(vec![4_000]));
        session.do_due();
    }
    assert!(session.state.preface.is_some());
    let kept = session
        .records
        .iter()
        .filter(|r| !matches!(r.entry, Entry::Compacted { .. } | Entry::Freed { .. }));
    let renumbered: Vec<Record> = kept
        .enumerate()
        .map(|(seq, r)| Record {
            seq: seq as u64,
            ..r.clone()
        })
        .collect();
    // Calls are named by place, so only logs without closings before an answer keep their names;
    // here the answers are renamed with their places.
    let renamed = rename(&session.records, renumbered);
    let state = State::of(rewake::tools::describe, &renamed).expect("a legal log");
    assert!(state.preface.is_none());
    assert!(state.context.len() > session.state.context.len());
    crate::valid::assert_valid(&prompt::messages(&state, usize::MAX));
}

fn rename(before: &[Record], mut after: Vec<Record>) -> Vec<Record> {
    let kept: Vec<u64> = before
        .iter()
        .filter(|r| !matches!(r.entry, Entry::Compacted { .. } | Entry::Freed { .. }))
        .map(|r| r.seq)
        .collect();
    for record in &mut after {
        if let Entry::Finished { call, .. } = &mut record.entry {
            call.reply = kept
                .iter()
                .position(|s| *s == call.reply)
                .expect("its answer") as u64;
        }
    }
    after
}
