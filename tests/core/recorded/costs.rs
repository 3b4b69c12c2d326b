//! What an answer cost, against what its provider says that it took. The counts and the figures
//! are those of answers that providers sent.

use rewake::config::Config;
use rewake::core::entry::Usage;
use rewake::model::Figures;
use rewake::model::wire::Codec;
use serde_json::{Value, json};

use super::read;

/// An answer of one word with these counts.
fn counted(codec: Codec, usage: &Value) -> Usage {
    let events = match codec {
        Codec::OpenaiResponses => vec![
            json!({ "type": "response.output_item.done", "output_index": 0, "item": {
                "type": "message", "role": "assistant",
                "content": [{ "type": "output_text", "text": "Done." }] } }),
            json!({ "type": "response.completed", "response": {
                "status": "completed", "output": [], "usage": usage } }),
        ],
        _ => vec![
            json!({ "choices": [{ "index": 0, "delta": { "content": "Done." }, "finish_reason": "stop" }] }),
            json!({ "choices": [], "usage": usage }),
        ],
    };
    let body: String = events.iter().map(|e| format!("data: {e}\n\n")).collect();
    read(codec, std::iter::once(body.as_bytes())).usage
}

fn cost(model: &str, usage: &Usage) -> Option<f64> {
    Figures::new(&Config::default()).cost(model, usage)
}

#[track_caller]
fn is_within_one_percent(ours: Option<f64>, theirs: f64, what: &str) {
    let ours = ours.unwrap_or_else(|| panic!("{what}: no cost"));
    let off = (ours - theirs).abs() / theirs;
    assert!(off <= 0.01, "{what}: {ours} for {theirs}");
}

/// OpenRouter takes what the makers of the models take, so its figures are a measure of our
/// prices and of how we count.
#[test]
fn prices_and_counts_come_to_what_the_provider_took() {
    for (model, prompt, cached, completion, took) in [
        ("anthropic/claude-sonnet-4-6", 254, 0, 5, 0.000837),
        ("anthropic/claude-haiku-4-5", 635, 0, 113, 0.0012),
        ("openai/gpt-4o", 105, 0, 42, 0.0006825),
        ("openai/gpt-4o-mini", 4597, 4480, 4, 0.00035595),
        ("openai/gpt-4.1-mini", 88, 0, 43, 0.000104),
    ] {
        let usage = counted(
            Codec::OpenaiChat,
            &json!({
                "prompt_tokens": prompt, "completion_tokens": completion,
                "total_tokens": prompt + completion,
                "prompt_tokens_details": { "cached_tokens": cached },
            }),
        );
        assert_eq!(usage.billed_nanos, None);
        is_within_one_percent(cost(model, &usage), took, model);
    }
}

/// A provider that gives its own figure is believed, also where no price is known.
#[test]
fn the_figure_of_the_provider_is_the_cost() {
    let chat = Codec::OpenaiChat;
    for (what, codec, usage, took) in [
        (
            "OpenRouter",
            chat,
            json!({ "prompt_tokens": 8174, "completion_tokens": 30, "total_tokens": 8204,
                    "cost": 0.0133176, "is_byok": false, "cost_details": {
                        "upstream_inference_cost": 0.0133176 },
                    "server_tool_use_details": { "web_search_requests": 1 } }),
            0.0133176,
        ),
        (
            "OpenRouter, with a key of the user's own",
            chat,
            json!({ "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110,
                    "cost": 0.0001, "is_byok": true, "cost_details": {
                        "upstream_inference_cost": 0.002 } }),
            0.0021,
        ),
        (
            "OpenRouter over Responses",
            Codec::OpenaiResponses,
            json!({ "input_tokens": 78, "output_tokens": 37, "total_tokens": 115,
                    "cost": 0.0000113, "is_byok": false }),
            0.0000113,
        ),
        (
            // It does not count the thinking in the answer, and takes money for it.
            "Vercel",
            chat,
            json!({ "prompt_tokens": 63, "completion_tokens": 112, "total_tokens": 175,
                    "cost": 0.00183875, "completion_tokens_details": { "reasoning_tokens": 64 },
                    "market_cost": 0.00183875 }),
            0.00183875,
        ),
        (
            "xAI",
            chat,
            json!({ "prompt_tokens": 361, "completion_tokens": 26, "total_tokens": 622,
                    "prompt_tokens_details": { "cached_tokens": 360 },
                    "completion_tokens_details": { "reasoning_tokens": 235 },
                    "cost_in_usd_ticks": 1_487_000 }),
            0.0001487,
        ),
        (
            "xAI over Responses",
            Codec::OpenaiResponses,
            json!({ "input_tokens": 521, "input_tokens_details": { "cached_tokens": 320 },
                    "output_tokens": 110, "total_tokens": 631, "cost_in_usd_ticks": 5_902_500 }),
            0.00059025,
        ),
        (
            "Perplexity",
            chat,
            json!({ "prompt_tokens": 24, "completion_tokens": 16, "total_tokens": 40,
                    "cost": { "input_tokens_cost": 0.00002, "request_cost": 0.005,
                              "total_cost": 0.00504 } }),
            0.00504,
        ),
        (
            "Hyper",
            chat,
            json!({ "prompt_tokens": 145, "completion_tokens": 41, "total_tokens": 186,
                    "cost": { "usd": 0.00017072, "hypercredits": 0.0034 } }),
            0.00017072,
        ),
    ] {
        let usage = counted(codec, &usage);
        is_within_one_percent(cost("openrouter/no/price", &usage), took, what);
        is_within_one_percent(cost("openai/gpt-5", &usage), took, what);
    }
}

#[test]
fn a_figure_that_cannot_be_true_is_none() {
    for cost in [
        json!(-1.0),
        json!("0.1"),
        json!(1e300),
        json!(null),
        json!({ "eur": 1 }),
    ] {
        let usage =
            json!({ "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "cost": cost });
        assert_eq!(
            counted(Codec::OpenaiChat, &usage).billed_nanos,
            None,
            "{cost}"
        );
    }
    let free = json!({ "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "cost": 0 });
    assert_eq!(counted(Codec::OpenaiChat, &free).billed_nanos, Some(0));
}

/// The sum of several answers is known if each is; else all of them are priced.
#[test]
fn the_cost_of_several_answers_is_their_sum() {
    let one = |billed_nanos| Usage {
        input: 1_000_000,
        billed_nanos,
        ..Usage::default()
    };
    let mut sum = Usage::default();
    sum.add(&one(Some(5)));
    sum.add(&Usage::default());
    sum.add(&one(Some(7)));
    assert_eq!(sum.billed_nanos, Some(12));
    sum.add(&one(None));
    assert_eq!(sum.billed_nanos, None);
    is_within_one_percent(cost("openai/gpt-4o", &sum), 7.5, "three million tokens");
}
