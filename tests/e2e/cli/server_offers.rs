//! What servers have for people, where words are given with `-p`: prompts as `/server:prompt`,
//! resources as `@server:uri`.

use serde_json::{Value, json};

use crate::cli::{SCRIPTED, play, refused, step};
use support::{Home, Run, spoken};

/// A home with the server `far` in this mode.
fn home(mode: &str) -> Home {
    let home = Home::new();
    home.write_config(&format!("{SCRIPTED}\n{}", server(mode)));
    play(&home, &[step("done", &[]), step("done", &[])]);
    home
}

fn server(mode: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let args = spoken::arguments(spoken::ITSELF);
    format!(
        "[mcp_servers.far]\ncommand = {:?}\nargs = {args:?}\n[mcp_servers.far.env]\n{} = {mode:?}\n",
        program.to_str().unwrap(),
        spoken::ASKED,
    )
}

fn said(home: &Home) -> Vec<Value> {
    let history = home.run(["history"]).expect(0).stdout;
    let id = history.split_whitespace().next().unwrap();
    let export = home.run(["export", id, "--json"]).expect(0).stdout;
    let export: Value = serde_json::from_str(&export).unwrap();
    let entries = export["records"].as_array().unwrap().iter();
    let entries = entries.map(|record| record["entry"].clone());
    entries.filter(|entry| entry["kind"] == "said").collect()
}

fn says(home: &Home, prompt: &str) -> Run {
    home.run(["-p", prompt])
}

#[test]
fn a_server_prompt_is_sent_with_its_source_and_roles() {
    let home = home("offers");
    says(&home, "/far:weather 'New York' right now").expect(0);
    let said = said(&home);
    assert_eq!(said.len(), 1);
    assert_eq!(
        said[0]["text"],
        "(from the MCP server far, its prompt weather)\n\n\
         user:\nWeather in \"New York\", \"right now\"?\nassistant:\nSunny."
    );
    assert_eq!(said[0]["command"]["name"], "far:weather");
    assert_eq!(said[0]["command"]["arguments"], "'New York' right now");
}

#[test]
fn a_resource_that_is_mentioned_stands_below_the_words() {
    let home = home("offers");
    says(&home, "read @far:a:b, mail me@far:x and ask @john:doe").expect(0);
    assert_eq!(
        said(&home)[0]["text"],
        "read @far:a:b, mail me@far:x and ask @john:doe\n\n\
         @far:a:b (from the MCP server far):\n```\ninside\n```"
    );
    says(&home, "see @far:a:bytes and @far:a:picture").expect(0);
    let said = said(&home);
    let text = said[0]["text"].as_str().unwrap();
    assert!(
        text.contains("[bytes that are not shown: a:bytes]"),
        "{text}"
    );
    assert!(text.contains("[image 1: image/png, 1 x 1 px,"), "{text}");
    assert_eq!(said[0]["images"][0]["media_type"], "image/png");
}

#[test]
fn unavailable_server_prompts_are_named_and_nothing_is_sent() {
    let home = home("offers");
    for (prompt, words) in [
        (
            "/far:weather",
            ["it needs city", "hint: /far:weather <city> [when]"],
        ),
        (
            "/far:wether x",
            ["no prompt wether", "hint: did you mean /far:weather?"],
        ),
        (
            "/far:stall x",
            [
                "/far:stall was not sent: it takes no arguments",
                "hint: /far:stall",
            ],
        ),
        (
            "/far:die",
            [
                "/far:die was not sent: the server far",
                "exited with code 7",
            ],
        ),
        ("see @far:a:gone", ["@far:a:gone: ", "hint: @far: lists"]),
    ] {
        refused(says(&home, prompt), 2, &words);
        let history = home.run(["history", "--json"]).expect(0).stdout;
        assert!(!history.contains(prompt), "{history}");
    }
}

#[test]
fn a_server_that_cannot_be_asked_says_why() {
    let home = home("exits");
    for prompt in ["/far:weather x", "see @far:a:b"] {
        refused(
            says(&home, prompt),
            2,
            &[
                "was not sent",
                "no licence found",
                "hint: rewake mcp doctor far",
            ],
        );
    }
    home.write_config(&format!(
        "{SCRIPTED}\n{}",
        server("offers").replace(
            "[mcp_servers.far.env]",
            "enabled = false\n[mcp_servers.far.env]"
        )
    ));
    refused(
        says(&home, "/far:weather x"),
        2,
        &["is switched off in the config"],
    );
    // What a repository brings is not started because words name it.
    home.write_config(SCRIPTED);
    let theirs =
        json!({ "mcpServers": { "far": { "command": "touch", "args": ["it-was-started"] } } });
    std::fs::write(home.path(".mcp.json"), theirs.to_string()).unwrap();
    for prompt in ["/far:weather x", "see @far:a:b"] {
        let run = says(&home, prompt).expect(2);
        let told = [
            "far comes with this folder and is not trusted",
            "hint: rewake trust shows it",
        ];
        assert!(
            told.iter().all(|words| run.stderr.contains(words)),
            "{}",
            run.stderr
        );
    }
    assert!(!home.path("it-was-started").exists());
}

#[test]
fn a_server_that_does_not_answer_is_waited_for_no_longer_than_a_start() {
    let home = home("offers");
    home.write_config(&format!(
        "{SCRIPTED}\n{}",
        server("offers").replace(
            "[mcp_servers.far.env]",
            "startup_timeout_sec = 2\n[mcp_servers.far.env]"
        )
    ));
    refused(
        says(&home, "/far:stall"),
        2,
        &["did not answer prompts/get within 2 s"],
    );
}

#[test]
fn oversized_server_content_is_cut_and_marked() {
    let home = home("offers");
    says(&home, "/far:flood").expect(0);
    let said = said(&home);
    let text = said[0]["text"].as_str().unwrap();
    assert!(text.len() < 300_000, "{}", text.len());
    assert!(text.ends_with("[cut here: it has 1000000 bytes]"));
}
