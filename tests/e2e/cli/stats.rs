//! `rewake stats`: what models were asked for, and what it cost.

use serde_json::{Value, json};

use crate::cli::{SCRIPTED, refused};
use support::Home;

const PRICES: &str = "[models.\"s/play\"]\n\
    input_price = 10.0\ncached_price = 1.0\ncache_write_price = 0.0\noutput_price = 100.0\n";

/// Each answer has 1,000 tokens in, 2,000 of a cache, and 10 out: 0.013 US dollars for `s/play`.
fn home() -> Home {
    let home = Home::new();
    let step = "[[step]]\ntext = \"fine\"\nusage = { input = 1000, cached = 2000, output = 10 }\n";
    std::fs::write(home.rewake_home().join("script.toml"), step.repeat(3)).unwrap();
    home.write_config(&format!("{SCRIPTED}{PRICES}"));
    home
}

fn stats(home: &Home, args: &[&str]) -> Value {
    let args = [&["stats", "--json"], args].concat();
    serde_json::from_str(&home.run(args).expect(0).stdout).unwrap()
}

fn near(found: &Value, want: f64) -> bool {
    found
        .as_f64()
        .is_some_and(|found| (found - want).abs() < 1e-9)
}

#[test]
fn stats_sum_usage_by_day_project_and_model() {
    let home = home();
    home.run(["-p", "one"]).expect(0);
    home.run(["-p", "-c", "more"]).expect(0);
    home.run(["-p", "two", "-m", "s/other"]).expect(0);
    let elsewhere = home.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let elsewhere = elsewhere.to_str().unwrap();
    home.run(["-p", "three", "-C", elsewhere]).expect(0);

    let all = stats(&home, &[]);
    let total = &all["total"];
    assert_eq!(
        (&total["sessions"], &total["answers"]),
        (&json!(3), &json!(4))
    );
    assert_eq!(
        (&total["input"], &total["cached"]),
        (&json!(4_000), &json!(8_000))
    );
    // The one without a price is no part of the cost.
    assert!(near(&total["cost_usd"], 0.039), "{total}");
    assert_eq!(total["unpriced_answers"], 1);
    assert_eq!(total["unpriced_tokens"], 3_010);
    let days = all["days"].as_array().unwrap();
    let answers = days.iter().map(|d| d["answers"].as_u64().unwrap());
    assert_eq!(answers.sum::<u64>(), 4);

    let models = all["models"].as_array().unwrap();
    assert_eq!(models.len(), 2);
    assert_eq!(models[0]["model"], "s/other");
    assert_eq!(models[0]["cost_usd"], Value::Null);
    assert_eq!(
        (&models[1]["answers"], &models[1]["sessions"]),
        (&json!(3), &json!(2))
    );
    let projects = all["projects"].as_array().unwrap();
    assert_eq!(projects.len(), 2);

    let there = stats(&home, &["--project", elsewhere]);
    assert_eq!(there["total"]["answers"], 1);
    assert_eq!(stats(&home, &["--project", "."])["total"]["answers"], 3);
    assert_eq!(stats(&home, &["--since", "1d"])["total"]["answers"], 4);
    assert_eq!(
        stats(&home, &["--since", "2999-01-01"])["total"]["answers"],
        0
    );
}

#[test]
fn a_fork_counts_only_what_it_asked_itself() {
    let home = home();
    home.run(["-p", "one"]).expect(0);
    home.run(["-p", "-c", "--fork-session", "another way"])
        .expect(0);
    let total = &stats(&home, &[])["total"];
    assert_eq!(
        (&total["sessions"], &total["answers"]),
        (&json!(2), &json!(2))
    );
}

#[test]
fn the_tables_say_what_has_no_price() {
    let home = home();
    let none = home.run(["stats"]).expect(0);
    assert_eq!(none.stdout, "");
    assert!(
        none.stderr.contains("no model was called"),
        "{}",
        none.stderr
    );
    home.run(["-p", "one"]).expect(0);
    home.run(["-p", "two", "-m", "s/other"]).expect(0);
    let shown = home.run(["stats"]).expect(0);
    let row = |name: &str| {
        let mut rows = shown.stdout.lines();
        rows.find(|l| l.starts_with(name))
            .unwrap_or_default()
            .to_string()
    };
    assert!(row("s/play").ends_with("$0.01"), "{}", shown.stdout);
    assert!(
        row("s/other").ends_with("price not known"),
        "{}",
        shown.stdout
    );
    assert!(
        shown.stdout.contains("$0.01 + 1 unpriced"),
        "{}",
        shown.stdout
    );
    assert!(
        shown.stderr.contains("1 answer with 3k tokens"),
        "{}",
        shown.stderr
    );
    refused(
        home.run(["stats", "--since", "soon"]),
        2,
        &["--since \"soon\"", "7d"],
    );
}
