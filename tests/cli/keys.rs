//! `rewake key`: a key that is kept, and who may see it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::support::{Home, Run, run};
use crate::{LIMIT, refused, step};

const SECRET: &str = "sk-very-secret-0123456789";

fn keep(home: &Home, args: &[&str], typed: &str) -> Run {
    let file = home.user().join("typed");
    std::fs::write(&file, typed).unwrap();
    let mut command = home.rewake(args);
    command.stdin(std::fs::File::open(file).unwrap());
    run(command, LIMIT)
}

#[test]
fn a_key_is_kept_named_and_removed_and_never_shown() {
    let home = Home::new();
    let kept = keep(&home, &["key", "openai"], &format!("{SECRET}\n")).expect(0);
    let file = home.rewake_home().join("keys/openai");
    assert!(kept.stdout.contains(&file.display().to_string()));
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let doctor = home.run(["doctor"]);
    assert!(
        doctor.stdout.contains("openai: from the key kept in"),
        "{}",
        doctor.stdout
    );
    for run in [&kept, &doctor] {
        assert!(!format!("{}{}", run.stdout, run.stderr).contains("very-secret"));
    }
    // The variable goes before it, and that is said.
    let mut command = home.rewake(["doctor"]);
    command.env("OPENAI_API_KEY", "sk-of-the-environment");
    let doctor = run(command, LIMIT);
    assert!(
        doctor
            .stdout
            .contains("openai: from environment variable OPENAI_API_KEY")
    );
    home.run(["key", "openai", "--remove"]).expect(0);
    assert!(!file.exists());
    assert!(
        home.run(["key", "openai", "--remove"])
            .expect(0)
            .stdout
            .contains("no key")
    );
}

#[test]
fn a_key_file_that_others_can_read_is_not_used_and_that_is_said() {
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
fn what_cannot_be_a_key_is_refused() {
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
