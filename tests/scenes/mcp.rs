//! The server `far`, as its run folder has it.

use rewake::command::server::Servers;
use support::Home;
pub use support::scenes::mcp::*;

pub use super::until;

pub fn servers(home: &Home) -> Servers {
    let root = home.rewake_home().join("servers");
    Servers::new(root, env!("CARGO_BIN_EXE_rewake"), None)
}

pub fn live_servers(home: &Home) -> Vec<String> {
    let all = servers(home).list().into_iter();
    all.filter(|info| info.is_kept)
        .map(|info| info.run)
        .collect()
}

pub fn is_in_the_call(home: &Home) -> bool {
    let runs = live_servers(home);
    runs.iter().any(|run| {
        let input = servers(home).path(run).unwrap().join("in.0");
        std::fs::read_to_string(input).is_ok_and(|text| text.contains("tools/call"))
    })
}
