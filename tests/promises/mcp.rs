//! A call of an MCP server survives a kill.

use crate::scenes::mcp::*;
use crate::scenes::{LIMIT, results, streamed};
use support::Live;

#[test]
fn a_call_survives_an_agent_kill_and_resume_gets_its_result() {
    let home = appending_until_go();
    let mut live = Live::spawn(home.rewake(["-p", "go"]));
    until(|| is_in_the_call(&home));
    assert!(live.kill());
    live.wait(LIMIT);
    assert_eq!(home.read("effects"), "");
    std::fs::write(home.path("go"), "").unwrap();
    let run = streamed(&home, &["-p", "-c"]).expect(0);
    let (kind, text) = results(&run).pop().expect("a result");
    assert_eq!(
        (kind.as_str(), home.read("effects").as_str()),
        ("done", "one\n"),
        "{text}"
    );
    assert!(text.starts_with("done\n"), "{text}");
    until(|| live_servers(&home).is_empty());
}
