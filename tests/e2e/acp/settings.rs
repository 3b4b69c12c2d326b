//! Modes, models and efforts, as the editor chooses them and as other processes do.

use serde_json::{Value, json};

use crate::acp::editor::Editor;
use crate::acp::{entries, play, scripted, step, write, writes};
use crate::scenes::calling;

fn option(options: &Value, id: &str) -> Value {
    let all = options["configOptions"].as_array().unwrap().iter();
    all.clone()
        .find(|option| option["id"] == id)
        .unwrap()
        .clone()
}

#[test]
fn a_chosen_mode_applies_and_is_recorded() {
    let home = writes();
    let mut editor = Editor::start(&home);
    let params = json!({ "cwd": home.workspace(), "mcpServers": [] });
    let opened = editor.call("session/new", params).unwrap();
    let id = opened["sessionId"].as_str().unwrap().to_string();
    assert_eq!(opened["modes"]["currentModeId"], "default");
    let modes = opened["modes"]["availableModes"].as_array().unwrap();
    let modes: Vec<_> = modes.iter().map(|mode| &mode["id"]).collect();
    assert_eq!(modes, ["default", "acceptEdits", "plan"]);
    assert_eq!(option(&opened, "mode")["currentValue"], "default");
    let chosen = json!({ "sessionId": id, "modeId": "acceptEdits" });
    editor.call("session/set_mode", chosen).unwrap();
    editor.effect("current_mode_update", |update| {
        update["currentModeId"] == "acceptEdits"
    });
    assert_eq!(editor.say(&id, "write it"), "end_turn");
    assert_eq!(home.read("f"), "written\n");
    editor.finish();
    let chose = entries(&home, &id, "chose");
    assert_eq!(chose[0]["mode"], "acceptEdits");
    assert_eq!(chose[0]["origin"], "acp");
}

#[test]
fn options_are_chosen_and_change_elsewhere() {
    let home = scripted(&[step("ok", &[])]);
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    let effort = json!({ "sessionId": id, "configId": "effort", "value": "high" });
    let result = editor.call("session/set_config_option", effort).unwrap();
    assert_eq!(option(&result, "effort")["currentValue"], "high");
    editor.effect("config_option_update", |update| {
        option(update, "effort")["currentValue"] == "high"
    });
    home.run(["set", &id, "--mode", "plan"]).expect(0);
    editor.update("current_mode_update", |update| {
        update["currentModeId"] == "plan"
    });
    let model = json!({ "sessionId": id, "configId": "model", "value": "s/play" });
    editor.call("session/set_config_option", model).unwrap();
    for (option, value, code) in [
        ("effort", json!("enormous"), -32602),
        ("model", json!("nobody/nothing"), -32602),
        ("colour", json!("red"), -32602),
        ("mode", json!("bypassPermissions"), -32602),
        ("mode", json!(true), -32602),
    ] {
        let params = json!({ "sessionId": id, "configId": option, "value": value });
        let error = editor
            .call("session/set_config_option", params)
            .unwrap_err();
        assert_eq!(error["code"], code, "{option}: {error}");
    }
    editor.finish();
}

#[test]
fn an_additional_folder_counts_as_part_of_the_workspace() {
    let home = scripted(&[]);
    let other = home.user().join("other");
    std::fs::create_dir(&other).unwrap();
    let file = other.join("f");
    let path = file.to_str().unwrap();
    play(&home, &[step("", &[write(path)]), step("done", &[])]);
    let mut editor = Editor::start(&home);
    let params = json!({
        "cwd": home.workspace(), "mcpServers": [], "additionalDirectories": [other],
    });
    let opened = editor.call("session/new", params).unwrap();
    let id = opened["sessionId"].as_str().unwrap().to_string();
    let chosen = json!({ "sessionId": id, "modeId": "acceptEdits" });
    editor.call("session/set_mode", chosen).unwrap();
    assert_eq!(editor.say(&id, "write it"), "end_turn");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "written\n");
    for bad in [json!(["other"]), json!(["/"]), json!([home.rewake_home()])] {
        let params = json!({
            "cwd": home.workspace(), "mcpServers": [], "additionalDirectories": bad,
        });
        let error = editor.call("session/new", params).unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
    }
    editor.finish();
}

#[test]
fn only_yolo_offers_to_bypass_permissions() {
    let home = calling(&[write("f")]);
    let mut editor = Editor::start(&home);
    let id = editor.new_session(&home);
    let bypass = json!({ "sessionId": id, "modeId": "bypassPermissions" });
    let error = editor.call("session/set_mode", bypass).unwrap_err();
    assert_eq!(error["code"], -32602);
    editor.finish();
    let mut editor = Editor::with(&home, &["--yolo"], json!({}));
    let loaded = editor.load(&home, &id).unwrap();
    assert_eq!(loaded["modes"]["currentModeId"], "bypassPermissions");
    assert_eq!(editor.say(&id, "write it"), "end_turn");
    assert_eq!(home.read("f"), "written\n");
    editor.finish();
    // Without the flag the session asks again, also where the config says otherwise.
    let config = format!(
        "permission_mode = \"bypassPermissions\"\n{}",
        crate::acp::SCRIPTED
    );
    home.write_config(&config);
    let mut editor = Editor::start(&home);
    let loaded = editor.load(&home, &id).unwrap();
    assert_eq!(loaded["modes"]["currentModeId"], "default");
    let params = json!({ "cwd": home.workspace(), "mcpServers": [] });
    let opened = editor.call("session/new", params).unwrap();
    assert_eq!(opened["modes"]["currentModeId"], "default");
    editor.finish();
}

#[test]
fn a_login_is_offered_to_clients_with_a_terminal() {
    let home = scripted(&[]);
    let offered = |capabilities: Value| {
        let mut editor = Editor::with(&home, &[], capabilities);
        let methods = editor.seen[0]["result"]["authMethods"].clone();
        let unknown = json!({ "methodId": "magic" });
        assert!(editor.call("authenticate", unknown).is_err());
        editor
            .call("authenticate", json!({ "methodId": "key-s" }))
            .unwrap();
        editor.finish();
        methods
    };
    assert_eq!(offered(json!({})), json!([]));
    let methods = offered(json!({ "auth": { "terminal": true } }));
    assert_eq!(methods[0]["args"], json!(["key", "s"]));
    // The client adds the arguments to its own.
    let run = home.run(["acp", "key", "nobody"]).expect(2);
    assert!(run.stderr.contains("nobody"), "{}", run.stderr);
}

#[test]
fn a_missing_key_has_its_own_code() {
    let home = support::Home::new();
    home.write_config("model = \"anthropic/claude-sonnet-4-5\"\n");
    let mut editor = Editor::start(&home);
    let params = json!({ "cwd": home.workspace(), "mcpServers": [] });
    let error = editor.call("session/new", params).unwrap_err();
    assert_eq!(error["code"], -32000, "{error}");
    assert!(
        error["data"]["hint"]
            .as_str()
            .unwrap()
            .contains("rewake key anthropic")
    );
    editor.finish();
}
