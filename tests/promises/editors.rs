//! An editor loads a session after a kill and sees the real result.

use crate::scenes::acp::*;
use crate::scenes::{scripted, step};

#[test]
fn a_command_that_ended_after_a_kill_has_its_result_in_the_replay() {
    let home = scripted(&[step("", &[gated()]), step("I saw it.", &[])]);
    let (editor, id) = running(&home);
    editor.kill();
    std::fs::write(home.path("gate"), "").unwrap();
    until_command_ended(&home);
    let mut editor = Editor::start(&home);
    editor.load(&home, &id).expect("loaded");
    let statuses: Vec<String> = editor.statuses().into_values().collect();
    assert_eq!(statuses, ["completed"], "{:#?}", editor.seen);
    let results = editor.updates("tool_call_update");
    assert!(
        results
            .iter()
            .any(|update| update.to_string().contains("the-result"))
    );
    assert_eq!(editor.text("user_message_chunk"), "run it");
    // The model is not asked until a prompt comes.
    assert!(editor.text("agent_message_chunk").contains("killed"));
    assert_eq!(editor.say(&id, "/continue"), "end_turn");
    assert!(editor.text("agent_message_chunk").ends_with("I saw it."));
    editor.finish();
    assert_eq!(home.read("effects"), "start\nend\n");
    assert_eq!(entries(&home, &id, "finished").len(), 1);
}
