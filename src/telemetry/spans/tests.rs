//! Log → spans.

use super::*;
use crate::core::entry::{By, Failure, ForkPoint, Guard, Output, Via};

const SESSION: &str = "0190-a";

fn said(text: &str) -> Entry {
    Entry::Said {
        text: text.into(),
        images: vec![],
        via: Via::Prompt,
        command: None,
        origin: None,
    }
}

fn replied(blocks: Vec<Block>) -> Entry {
    Entry::Replied {
        blocks,
        usage: Usage {
            input: 10,
            cached: 20,
            cache_written: 3,
            output: 5,
            billed_nanos: None,
        },
        stop: StopReason::EndTurn,
        model: "mistral/small".into(),
        took_ms: 40,
        asked_bytes: 0,
        source_usage: None,
    }
}

fn calls(names: &[&str]) -> Entry {
    replied(
        names
            .iter()
            .map(|name| Block::call(*name, "{\"secret\":1}"))
            .collect(),
    )
}

fn answer(text: &str) -> Entry {
    replied(vec![Block::text(text)])
}

fn id(reply: Seq, index: u32) -> CallId {
    CallId { reply, index }
}

fn started(call: CallId) -> Entry {
    Entry::Started {
        call,
        guard: Guard::Opaque,
        access: None,
    }
}

fn finished(call: CallId, outcome: Outcome) -> Entry {
    Entry::Finished {
        call,
        outcome,
        fact: None,
        tree: None,
    }
}

fn done(call: CallId) -> Entry {
    finished(call, Outcome::done("secret result"))
}

fn resumed() -> Entry {
    Entry::Resumed {
        by: By::Start,
        found: String::new(),
        draft: None,
        unrecorded: false,
        at_work: false,
    }
}

fn failed() -> Entry {
    Entry::Failed {
        error: Failure::new(FailureClass::RateLimit, "secret words"),
        draft: None,
    }
}

/// Entry n is recorded at n × 100 ms.
fn records(first: Seq, entries: Vec<Entry>) -> Vec<Record> {
    let record = |(seq, entry)| Record {
        seq,
        at_ms: 100 * seq as i64,
        entry,
    };
    (first..).zip(entries).map(record).collect()
}

fn folded(first: Seq, entries: Vec<Entry>, has_contents: bool) -> Vec<Span> {
    let mut fold = SpanFold::new(SESSION, Trace::of_session(SESSION), has_contents);
    let records = records(first, entries);
    records
        .iter()
        .flat_map(|record| fold.fold(record))
        .collect()
}

/// Each span as a line: name, times, the name of the span above it, and what is special.
fn lines(entries: Vec<Entry>) -> Vec<String> {
    let spans = folded(0, entries, false);
    let name = |id: SpanId| spans.iter().find(|s| s.id == id).map(|s| s.name.as_str());
    let line = |span: &Span| {
        let above = span.parent.map(|id| name(id).unwrap_or("?"));
        let special = span
            .attributes
            .iter()
            .filter(|(key, _)| matches!(*key, "error.type" | "rewake.recovered"));
        let special: Vec<String> = special
            .map(|(key, value)| format!(" {key}={value}"))
            .collect();
        let above = above.map(|above| format!(" < {above}")).unwrap_or_default();
        format!(
            "{} {}-{}{above}{}",
            span.name,
            span.start_ms,
            span.end_ms,
            special.concat()
        )
    };
    spans.iter().map(line).collect()
}

const TURN: &str = "invoke_agent rewake";

#[test]
fn a_turn_has_its_answers_and_calls_below_it() {
    let log = vec![
        said("do it"),
        calls(&["bash", "read"]),
        started(id(1, 0)),
        done(id(1, 0)),
        done(id(1, 1)),
        answer("done"),
        said("again"),
        answer("done"),
    ];
    assert_eq!(
        lines(log),
        [
            format!("chat small 60-100 < {TURN}"),
            format!("execute_tool bash 200-300 < {TURN}"),
            // A call without an effect has no entry at its start.
            format!("execute_tool read 100-400 < {TURN}"),
            format!("chat small 460-500 < {TURN}"),
            format!("{TURN} 0-500"),
            format!("chat small 660-700 < {TURN}"),
            format!("{TURN} 600-700"),
        ]
    );
}

#[test]
fn a_call_that_a_kill_interrupted_is_one_span_with_its_real_times() {
    let log = vec![
        said("do it"),
        calls(&["bash", "edit"]),
        started(id(1, 0)),
        resumed(),
        // Its keeper never began, so it starts again.
        started(id(1, 0)),
        done(id(1, 0)),
        started(id(1, 1)),
        done(id(1, 1)),
        answer("done"),
    ];
    assert_eq!(
        lines(log),
        [
            format!("chat small 60-100 < {TURN}"),
            format!("execute_tool bash 200-500 < {TURN} rewake.recovered=true"),
            format!("execute_tool edit 600-700 < {TURN}"),
            format!("chat small 760-800 < {TURN}"),
            format!("{TURN} 0-800 rewake.recovered=true"),
        ]
    );
}

#[test]
fn a_turn_ends_when_its_last_call_has_ended() {
    let denied = Outcome::Denied {
        reason: "secret reason".into(),
    };
    let interrupted = Outcome::Interrupted {
        output: Output::default(),
        why: "stopped".into(),
    };
    let stopped = Entry::Stopped {
        draft: None,
        origin: None,
    };
    let log = vec![
        said("do it"),
        calls(&["bash", "bash"]),
        started(id(1, 0)),
        stopped,
        finished(id(1, 0), interrupted),
        finished(id(1, 1), denied),
        said("again"),
        failed(),
    ];
    assert_eq!(
        lines(log),
        [
            format!("chat small 60-100 < {TURN}"),
            format!("execute_tool bash 200-400 < {TURN} error.type=\"interrupted\""),
            format!("execute_tool bash 100-500 < {TURN} error.type=\"denied\""),
            format!("{TURN} 0-500"),
            format!("{TURN} 600-700 error.type=\"rate_limit\""),
        ]
    );
}

#[test]
fn an_answer_without_a_message_is_its_own_turn_and_a_fork_begins_without_one() {
    let from = ForkPoint {
        session: "other".into(),
        seq: 1,
    };
    let log = vec![
        said("do it"),
        calls(&["bash"]),
        Entry::Forked {
            from,
            folder: None,
            from_replica: None,
        },
        answer("a note asked for this"),
    ];
    assert_eq!(
        lines(log),
        [
            "chat small 60-100 < ?".to_string(),
            format!("chat small 260-300 < {TURN}"),
            format!("{TURN} 260-300"),
        ]
    );
}

/// Whatever entry the last process died at, the next one makes the same spans of the rest.
#[test]
fn a_fold_that_begins_at_what_is_needed_makes_the_same_spans() {
    let log = vec![
        said("one"),
        calls(&["bash", "read"]),
        started(id(1, 0)),
        done(id(1, 1)),
        resumed(),
        done(id(1, 0)),
        answer("done"),
        said("two"),
        calls(&["bash"]),
        started(id(8, 0)),
        resumed(),
        done(id(8, 0)),
        answer("done"),
    ];
    let records = records(0, log.clone());
    let new = || SpanFold::new(SESSION, Trace::of_session(SESSION), true);
    let all = folded(0, log, true);
    for cut in 0..records.len() {
        let mut first = new();
        let mut spans: Vec<Span> = records[..cut].iter().flat_map(|r| first.fold(r)).collect();
        let needs = first.needs(cut as Seq) as usize;
        let mut second = new();
        for record in &records[needs..] {
            let ended = second.fold(record);
            if record.seq >= cut as Seq {
                spans.extend(ended);
            }
        }
        assert_eq!(spans, all, "cut at {cut}");
    }
}

#[test]
fn ids_are_of_the_session_and_the_entry() {
    let log = || {
        vec![
            said("a"),
            calls(&["bash"]),
            done(id(1, 0)),
            answer("b"),
            said("c"),
            answer("d"),
        ]
    };
    let spans = folded(0, log(), false);
    assert_eq!(spans, folded(0, log(), false));
    let mut ids: Vec<SpanId> = spans.iter().map(|span| span.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), spans.len());
    assert!(ids.contains(&call_span(SESSION, id(1, 0))));
    assert_ne!(call_span(SESSION, id(1, 0)), call_span("0190-b", id(1, 0)));
    // They are the same in every later version.
    assert_eq!(
        hex(&Trace::of_session(SESSION).id),
        "26bd0ed7cba9490e626667ec759d95bd"
    );
    assert_eq!(hex(&call_span(SESSION, id(1, 0))), "cb801f02670de7c7");
}

#[test]
fn contents_are_only_there_when_asked_for() {
    let log = || {
        vec![
            said("secret prompt"),
            calls(&["bash"]),
            done(id(1, 0)),
            answer("secret words"),
            said("secret"),
            failed(),
        ]
    };
    let without = format!("{:?}", folded(0, log(), false));
    assert!(!without.contains("secret"), "{without}");
    let with = format!("{:?}", folded(0, log(), true));
    for text in [
        "secret prompt",
        "\"{\\\"secret\\\":1}\"",
        "secret result",
        "secret words",
    ] {
        assert!(with.contains(text), "{text}: {with}");
    }
    let long = folded(0, vec![said(&"x".repeat(1 << 20)), answer("y")], true);
    assert!(format!("{long:?}").len() < 4 * CONTENT_BYTES);
}

#[test]
fn tokens_of_an_answer_are_those_of_the_conventions() {
    let spans = folded(0, vec![said("a"), answer("b")], false);
    let of = |key: &str| {
        spans[0]
            .attributes
            .iter()
            .find(|(k, _)| *k == key)
            .unwrap()
            .1
            .clone()
    };
    assert_eq!(of("gen_ai.provider.name"), "mistral_ai");
    assert_eq!(of("gen_ai.usage.input_tokens"), 33);
    assert_eq!(of("gen_ai.usage.cache_read.input_tokens"), 20);
    assert_eq!(of("gen_ai.usage.output_tokens"), 5);
    assert_eq!(of("gen_ai.response.finish_reasons"), json!(["stop"]));
}

#[test]
fn a_traceparent_is_parsed_and_written() {
    let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace = Trace::parse(text).unwrap();
    assert_eq!(hex(&trace.id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(hex(&trace.parent.unwrap()), "00f067aa0ba902b7");
    let own = trace.traceparent(SESSION, id(1, 0));
    let again = Trace::parse(&own).unwrap();
    assert_eq!(
        (again.id, again.parent),
        (trace.id, Some(call_span(SESSION, id(1, 0))))
    );
    assert!(Trace::parse(&text.replacen("00", "01", 1)).is_some());
    assert!(Trace::parse(&format!("{}-more", text.replacen("00", "01", 1))).is_some());
    for bad in [
        "",
        "00",
        "00-0-0-01",
        &text.to_uppercase(),
        &text.replacen("00", "ff", 1),
        &format!("{text}-more"),
        &text.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
        &text.replace("00f067aa0ba902b7", &"0".repeat(16)),
        &text.replace("4b", "é"),
    ] {
        assert_eq!(Trace::parse(bad), None, "{bad}");
    }
}
