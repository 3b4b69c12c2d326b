//! A key that is typed: the session begins with it, and it is nowhere but in its file and in the
//! request.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use support::{Home, Options, Protocol, Says, Server, Terminal};

const SECRET: &str = "sk-ant-very-secret-0123456789";
const PASTE: [&str; 2] = ["\x1b[200~", "\x1b[201~"];

/// A server that lets this one key in, in the place of a provider that is known by name.
fn server_and_home() -> (Server, Home) {
    let options = Options {
        key: Some(SECRET.into()),
        pages: vec![("/v1/models", serde_json::json!({ "data": [] }))],
        ..Options::default()
    };
    let server = Server::start_with(options, |seen| match seen.user.contains("look") {
        true if seen.results.is_empty() => Says::call(
            "bash",
            serde_json::json!({ "command": "env; cat /proc/self/environ /proc/$PPID/environ" }),
        )
        .into(),
        true => Says::text("Looked.").into(),
        false => Says::text("Hello from the server.").into(),
    });
    let home = Home::new();
    home.write_config(&format!(
        "permission_mode = \"bypassPermissions\"\n[providers.anthropic]\nbase_url = \"{}\"\n",
        server.base_url(Protocol::Anthropic)
    ));
    (server, home)
}

/// All files below a folder that hold the secret.
fn files_with_it(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with_it(&path));
        } else if let Ok(bytes) = std::fs::read(&path) {
            let mut windows = bytes.windows(SECRET.len());
            if windows.any(|w| w == SECRET.as_bytes()) {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn a_session_begins_with_a_key_that_was_pasted_on_the_first_screen() {
    let (server, home) = server_and_home();
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("type a key for anthropic");
    terminal.types(&format!("{}{SECRET}{}", PASTE[0], PASTE[1]));
    terminal.sees("•••••");
    terminal.types("\r");
    terminal.sees("Describe a task");
    terminal.says("hello");
    terminal.sees("Hello from the server.");
    // The model's own commands do not find it.
    terminal.says("look for it");
    terminal.sees("Looked.");
    terminal.types("\x04");
    terminal.ends();
    let file = home.rewake_home().join("keys/anthropic");
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(
        files_with_it(&home.rewake_home()).as_slice(),
        std::slice::from_ref(&file)
    );
    assert!(!terminal.raw().contains("very-secret"));
    server.assert_no_violations();
    let doctor = home.run(["doctor"]);
    assert!(doctor.stdout.contains(&format!(
        "anthropic: from the key kept in {}",
        file.display()
    )));
    let shown = format!("{}{}", doctor.stdout, doctor.stderr);
    assert!(!shown.contains("very-secret"), "{shown}");
    let exported = home
        .run(["export", "--json", &first_session(&home)])
        .expect(0);
    assert!(!exported.stdout.contains("very-secret"));
}

#[test]
fn a_key_that_its_provider_refuses_is_not_stored() {
    let (server, home) = server_and_home();
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("rewake is a coding agent");
    terminal.types(&format!(
        "{}sk-ant-{}{}",
        PASTE[0],
        "x".repeat(30),
        PASTE[1]
    ));
    terminal.sees("•••••");
    terminal.types("\r");
    terminal.sees("the key is not stored");
    terminal.sees("HTTP 401");
    terminal.sees("type a key for anthropic");
    assert!(!home.rewake_home().join("keys/anthropic").exists());
    terminal.types(&format!("{}{SECRET}{}", PASTE[0], PASTE[1]));
    terminal.sees("•••••");
    terminal.types("\r");
    terminal.sees("Describe a task");
    terminal.says("hello");
    terminal.sees("Hello from the server.");
    server.assert_no_violations();
}

fn first_session(home: &Home) -> String {
    let history = home.run(["history"]).expect(0).stdout;
    history.split_whitespace().next().unwrap().to_string()
}

#[test]
fn a_wrong_key_is_changed_without_a_restart() {
    let (server, home) = server_and_home();
    let mut wrong = home.rewake([] as [&str; 0]);
    std::fs::create_dir(home.rewake_home().join("keys")).unwrap();
    let file = home.rewake_home().join("keys/anthropic");
    std::fs::write(&file, "sk-wrong\n").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    wrong.env("LOCAL_KEY", "x");
    let mut terminal = Terminal::of(wrong);
    terminal.sees("Describe a task");
    terminal.says("hello");
    terminal.sees("check the key in");
    terminal.types("/key\r");
    terminal.sees("the key for anthropic");
    terminal.types(SECRET);
    terminal.sees("•••••");
    terminal.types("\r");
    terminal.sees("the key for anthropic is stored in");
    terminal.says("hello again");
    terminal.sees("Hello from the server.");
    drop(server);
}

/// Options of a server whose list has these models.
fn listing(names: &[&str]) -> Options {
    let models: Vec<_> = names
        .iter()
        .map(|name| serde_json::json!({ "id": name, "type": "model" }))
        .collect();
    Options {
        pages: vec![(
            "/v1/models",
            serde_json::json!({ "data": models, "has_more": false }),
        )],
        ..Options::default()
    }
}

fn listed(names: &[&str]) -> (Server, Home) {
    let server = Server::start_with(listing(names), |seen| match seen.model.as_str() {
        "m-old" => support::Answer::Raw {
            status: 404,
            content_type: "application/json",
            body: r#"{"type":"error","error":{"type":"not_found_error","message":"model: m-old"}}"#
                .into(),
        },
        model => Says::text(format!("I am {model}.")).into(),
    });
    let home = Home::new();
    let base_url = server.base_url(Protocol::Anthropic);
    home.write_config(&format!(
        "[providers.anthropic]\nbase_url = \"{base_url}\"\n"
    ));
    (server, home)
}

fn pastes_a_key(home: &Home) -> Terminal {
    let mut terminal = Terminal::start(home, &[]);
    terminal.sees("type a key for anthropic");
    terminal.types(&format!("{}{SECRET}{}", PASTE[0], PASTE[1]));
    terminal.sees("•••••");
    terminal.types("\r");
    terminal
}

#[test]
fn the_first_start_writes_the_first_preference_that_the_list_has() {
    let (_server, home) = listed(&["claude-haiku-5", "claude-sonnet-5-20260630"]);
    let terminal = pastes_a_key(&home);
    terminal.sees("keys/anthropic: the key for anthropic is stored");
    terminal.sees("config.toml: model = \"anthropic/claude-sonnet-5\"");
}

#[test]
fn the_first_start_offers_the_list_if_it_has_no_preference() {
    let (_server, home) = listed(&["claude-next-9", "claude-next-8"]);
    let mut terminal = pastes_a_key(&home);
    terminal.sees("no model is written: anthropic lists none of claude-sonnet-5-5");
    terminal.sees("anthropic/claude-next-8");
    let config = home.rewake_home().join("config.toml");
    assert!(
        !std::fs::read_to_string(&config)
            .unwrap()
            .contains("model =")
    );
    terminal.answers("Enter chooses", "\r");
    terminal.sees("config.toml: model = \"anthropic/claude-next-9\"");
    terminal.says("hello");
    terminal.sees("I am claude-next-9.");
}

#[test]
fn a_session_whose_model_is_gone_asks_for_another() {
    let (server, home) = listed(&["claude-haiku-5", "claude-sonnet-5-5"]);
    let base_url = server.base_url(Protocol::Anthropic);
    home.write_config(&format!(
        "model = \"anthropic/m-old\"\n[providers.anthropic]\nbase_url = \"{base_url}\"\n"
    ));
    let mut rewake = home.rewake([] as [&str; 0]);
    rewake.env("ANTHROPIC_API_KEY", SECRET);
    let mut terminal = Terminal::of(rewake);
    terminal.sees("Describe a task");
    terminal.says("hello");
    terminal.sees("anthropic/m-old is not there: another model?");
    terminal.sees("none for now");
    terminal.sees("anthropic/claude-haiku-5");
    terminal.types("\x1b[B\r");
    // The message is sent again, without being typed again.
    terminal.sees("I am claude-sonnet-5-5.");
    let config = home.rewake_home().join("config.toml");
    assert!(std::fs::read_to_string(&config).unwrap().contains("m-old"));
}
