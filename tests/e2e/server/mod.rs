//! `rewake serve` as scripts, browsers and people who mean no good meet it: every route, every
//! refusal, streams that go on after kills, and the page in a real browser.

mod attacked;
mod browser;
mod changed;
mod client;
mod described;
mod failing;
mod followed;
mod listens;
mod refused;
mod routes;
mod steered;

use crate::support::Home;
use serde_json::{Value, json};

const SCRIPTED: &str =
    "model = \"s/play\"\n[providers.s]\nprotocol = \"script\"\nscript = \"script.toml\"\n";

/// An answer of the scripted model: words, and calls.
pub fn step(text: &str, calls: &[(&str, Value)]) -> String {
    let call = |(name, arguments): &(&str, Value)| {
        let arguments = json!(arguments.to_string());
        format!("{{ name = {}, arguments = {arguments} }}", json!(name))
    };
    let calls: Vec<String> = calls.iter().map(call).collect();
    format!(
        "[[step]]\ntext = {}\ncalls = [{}]\n",
        json!(text),
        calls.join(", ")
    )
}

/// A home whose model plays these answers.
pub fn scripted(steps: &[String]) -> Home {
    let home = Home::new();
    std::fs::write(home.rewake_home().join("script.toml"), steps.concat()).unwrap();
    home.write_config(SCRIPTED);
    home
}

/// A model that writes the file `f`, which asks, and then says that it is done.
pub fn writes() -> Home {
    let write = ("write", json!({"path": "f", "content": "written\n"}));
    scripted(&[step("I write it.", &[write]), step("done", &[])])
}

/// A session that is done, by its id.
pub fn done_session(home: &Home, prompt: &str) -> String {
    let run = home
        .run(["-p", prompt, "--output-format", "json"])
        .expect(0);
    let result: Value = serde_json::from_str(&run.stdout).expect("a result");
    result["session"].as_str().expect("an id").to_string()
}
