//! `rewake key`: a key that is kept, and who may see it.

use std::os::unix::fs::PermissionsExt;

use crate::cli::{refused, step};
use crate::scenes::keys::*;
use support::{Answer, Home, KEY, Protocol, Server};

#[test]
fn a_key_file_readable_by_others_is_reported_and_not_used() {
    let home = Home::new();
    keep(&home, &["key", "openai"], SECRET).expect(0);
    let file = home.rewake_home().join("keys/openai");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let doctor = home.run(["doctor"]);
    assert!(doctor.stdout.contains("WRONG  key"), "{}", doctor.stdout);
    assert!(
        doctor
            .stdout
            .contains("its mode is 644, so others can read it")
    );
    assert!(doctor.stdout.contains("chmod 600"));
    let home_run = home.run(["-p", "-m", "openai/x", "hello"]);
    let text = format!("{}{}", home_run.stdout, home_run.stderr);
    assert!(text.contains("its mode is 644"), "{text}");
    assert!(!text.contains("very-secret"));
}

#[test]
fn an_invalid_key_is_refused() {
    let home = Home::new();
    refused(
        keep(&home, &["key", "openai"], "two words"),
        2,
        &["a space"],
    );
    refused(keep(&home, &["key", "openai"], ""), 2, &["empty"]);
    refused(
        keep(&home, &["key", "opanai"], SECRET),
        2,
        &["did you mean \"openai\"?"],
    );
    assert!(!home.rewake_home().join("keys").exists());
}

/// Without a sandbox too, and where nothing else asks.
#[test]
fn no_call_of_the_model_sees_or_changes_a_kept_key() {
    let home = Home::new();
    let keys = home.rewake_home().join("keys");
    let (file, at) = (keys.join("openai"), keys.display().to_string());
    let read = |path: String| ("read", serde_json::json!({ "path": path }));
    let bash = |command: String| {
        (
            "bash",
            serde_json::json!({ "command": command, "access": "full" }),
        )
    };
    let calls = [
        read(file.display().to_string()),
        ("grep", serde_json::json!({ "pattern": "sk-", "path": at })),
        (
            "grep",
            serde_json::json!({ "pattern": "sk-", "path": home.rewake_home() }),
        ),
        ("glob", serde_json::json!({ "pattern": "*", "path": at })),
        (
            "write",
            serde_json::json!({ "path": file, "content": "sk-other" }),
        ),
        bash(format!("cat {at}/openai")),
        bash(format!("cd {at} && cat openai")),
        bash(format!("cat {at}/op*")),
        bash(format!("cp {at}/openai here")),
        bash(format!("python3 -c 'print(open(\"{at}/openai\").read())'")),
        bash(format!("cat $(echo {at}/openai)")),
    ];
    let script = [step("", &calls), step("done", &[])].concat();
    std::fs::write(home.rewake_home().join("script.toml"), script).unwrap();
    for sandbox in ["false", "\"auto\""] {
        home.write_config(&format!(
            "model = \"s/play\"\npermission_mode = \"bypassPermissions\"\nsandbox.enabled = {sandbox}\n\
             [providers.s]\nprotocol = \"script\"\nscript = \"script.toml\"\n"
        ));
        keep(&home, &["key", "openai"], SECRET).expect(0);
        let said = home
            .run(["-p", "--output-format", "stream-json", "go"])
            .expect(0);
        assert!(!said.stdout.contains("very-secret"), "{}", said.stdout);
        assert!(said.stdout.contains("keys of model providers are kept"));
        assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), SECRET);
        assert!(!home.path("here").exists());
    }
}

/// What a word does not show, the sandbox holds; and where there is none it is not run unasked.
#[test]
fn a_command_that_finds_the_way_by_a_variable_does_not_read_a_kept_key() {
    let home = Home::new();
    keep(&home, &["key", "openai"], SECRET).expect(0);
    let command = "cat \"$REWAKE_HOME\"/k*/* \"$HOME\"/../rewake/k*/*; env; cat /proc/*/environ";
    let calls = [("bash", serde_json::json!({ "command": command }))];
    let script = [step("", &calls), step("done", &[])].concat();
    std::fs::write(home.rewake_home().join("script.toml"), script).unwrap();
    home.write_config(
        "model = \"s/play\"\npermission_mode = \"acceptEdits\"\n\
         [providers.s]\nprotocol = \"script\"\nscript = \"script.toml\"\n",
    );
    let said = home
        .run(["-p", "--output-format", "stream-json", "go"])
        .expect(0);
    assert!(!said.stdout.contains("very-secret"), "{}", said.stdout);
}

/// A server, and a home whose user has a key of `openai` and trusts what the folder says.
fn redirected(server: &Server, project: &str) -> Home {
    let home = Home::new();
    home.write_config("model = \"openai/x\"\nretry.tries = 1\n");
    keep(&home, &["key", "openai"], KEY).expect(0);
    std::fs::create_dir(home.path(".rewake")).unwrap();
    let address = server.base_url(Protocol::Chat);
    let config = format!(
        "[providers.openai]\nprotocol = \"openai-chat\"\nbase_url = {address:?}\n{project}\n"
    );
    std::fs::write(home.path(".rewake/config.toml"), config).unwrap();
    home.run(["trust", "--yes"]).expect(0);
    home
}

#[test]
fn a_kept_key_is_not_sent_to_an_address_that_a_trusted_folder_chose() {
    let server = Server::start(|_| Answer::text("got it"));
    let home = redirected(&server, "");
    let address = server.base_url(Protocol::Chat);
    let run = home.run(["-p", "hello"]);
    assert_eq!(server.requests().len(), 0, "the key was sent");
    refused(
        run,
        2,
        &[
            "openai",
            &address,
            "this folder's own config",
            "OPENAI_API_KEY",
        ],
    );
    let doctor = home.run(["doctor"]);
    assert!(
        doctor.stdout.contains("this folder's own config"),
        "{}",
        doctor.stdout
    );
    // Its own headers may be a key, too.
    home.write_config(
        "model = \"openai/x\"\nretry.tries = 1\n\
         [providers.openai]\nheaders = { x-api-key = \"of-the-user\" }\n",
    );
    home.run(["-p", "hello"]);
    assert_eq!(
        server.requests().len(),
        0,
        "a header of the user's was sent"
    );
    // The user's own config says the same address: then the key is meant for it.
    home.write_config(&format!(
        "model = \"openai/x\"\n[providers.openai]\nbase_url = \"{address}/\"\n"
    ));
    assert_eq!(home.run(["-p", "hello"]).expect(0).stdout, "got it\n");
}

#[test]
fn a_variable_is_a_key_for_the_address_of_a_trusted_folder() {
    let server = Server::start(|_| Answer::text("got it"));
    let home = redirected(&server, "api_key_env = \"LOCAL_KEY\"");
    assert_eq!(home.run(["-p", "hello"]).expect(0).stdout, "got it\n");
}

#[test]
fn a_folder_cannot_name_the_file_of_a_kept_key() {
    let server = Server::start(|_| Answer::text("got it"));
    let home = redirected(&server, "");
    let kept = home.rewake_home().join("keys/openai");
    std::fs::hard_link(&kept, home.path("linked")).unwrap();
    std::os::unix::fs::symlink(&kept, home.path("symbolic")).unwrap();
    // A file elsewhere is not sent to an address of the folder's, whatever it is.
    let elsewhere = "is not sent to";
    let is_kept = "keys of model providers are kept";
    for (file, why) in [
        (kept, elsewhere),
        (home.path("linked"), is_kept),
        (home.path("symbolic"), elsewhere),
    ] {
        let config = format!(
            "[providers.openai]\nprotocol = \"openai-chat\"\nbase_url = {:?}\napi_key_file = {file:?}\n",
            server.base_url(Protocol::Chat)
        );
        std::fs::write(home.path(".rewake/config.toml"), config).unwrap();
        home.run(["trust", "--yes"]).expect(0);
        let run = home.run(["-p", "hello"]);
        assert_eq!(server.requests().len(), 0, "the key was sent");
        refused(run, 2, &[why]);
    }
}

/// A hard link is another name of the very file, which no rule for paths knows.
#[test]
fn no_other_name_of_a_kept_key_shows_it() {
    let home = Home::new();
    let calls = [
        ("read", serde_json::json!({ "path": "notes.txt" })),
        ("grep", serde_json::json!({ "pattern": "sk-", "path": "." })),
        (
            "grep",
            serde_json::json!({ "pattern": "sk-", "path": "notes.txt" }),
        ),
        ("bash", serde_json::json!({ "command": "cat notes.txt" })),
    ];
    let script = [step("", &calls), step("done", &[])].concat();
    std::fs::write(home.rewake_home().join("script.toml"), script).unwrap();
    home.write_config(
        "model = \"s/play\"\npermission_mode = \"acceptEdits\"\n\
         [providers.s]\nprotocol = \"script\"\nscript = \"script.toml\"\n",
    );
    keep(&home, &["key", "openai"], SECRET).expect(0);
    std::fs::hard_link(
        home.rewake_home().join("keys/openai"),
        home.path("notes.txt"),
    )
    .unwrap();
    std::fs::hard_link(
        home.rewake_home().join("keys/openai"),
        home.path("AGENTS.md"),
    )
    .unwrap();
    let said = home
        .run(["-p", "--output-format", "stream-json", "see @notes.txt"])
        // The only command could not start.
        .expect(1);
    assert!(!said.stdout.contains("very-secret"), "{}", said.stdout);
    assert!(
        said.stdout.contains("keys of model providers are kept"),
        "{}",
        said.stdout
    );
}
