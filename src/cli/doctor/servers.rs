//! The rows of `rewake doctor` about MCP servers: configured, running, and remaining after their
//! session. It does not start servers: `rewake mcp doctor` does.

use super::Report;
use crate::config::mcp::{ServerSource, ServerState, server_states};
use crate::config::{Env, Loaded, Paths};
use crate::core::text::count;
use crate::session::AppContext;
use crate::store::{Store, database};
use crate::workspace::StartFolder;

pub(super) fn servers(
    report: &mut Report,
    env: &Env,
    paths: &Paths,
    here: &StartFolder,
    loaded: Loaded,
) {
    configured(report, env, &loaded);
    let ctx = AppContext {
        env: env.clone(),
        paths: paths.clone(),
        here: here.clone(),
        loaded,
        flags: Vec::new(),
        given: Default::default(),
    };
    let Ok(all) = ctx.servers().map(|servers| servers.list()) else {
        return;
    };
    let running = all.iter().filter(|info| info.is_kept).count();
    if running > 0 {
        let running = count(running as u64, "MCP server");
        report.ok(
            "servers",
            format!("{running} running; rewake ps lists them"),
        );
    }
    for info in &all {
        if let (false, Some(group)) = (info.is_kept, info.group) {
            let run = crate::session::short_id(&info.run);
            report.wrong(
                "servers",
                format!(
                    "process group {group} of an MCP server still runs, but its keeper is gone"
                ),
                Some(&format!("rewake ps stop {run}")),
            );
        }
    }
    if all.is_empty() || !database::exists(&paths.data_dir) {
        return;
    }
    let Ok(store) = Store::open_read_only(&paths.data_dir) else {
        return;
    };
    let folders = ctx.server_folders();
    let left = folders.map_or(0, |folders| folders.left(&store).len() as u64);
    if left > 0 {
        report.note(
            "servers",
            format!(
                "{} of MCP servers that nobody needs; rewake gc --yes removes them",
                count(left, "run folder")
            ),
        );
    }
}

fn configured(report: &mut Report, env: &Env, loaded: &Loaded) {
    let states = server_states(env, loaded);
    let with = |is: fn(&ServerState) -> bool| states.iter().filter(|(_, s)| is(s)).count() as u64;
    let all = with(|state| !matches!(state, ServerState::Shadowed(_)));
    let wrong = with(|state| matches!(state, ServerState::Wrong(..)));
    let untrusted = with(|state| matches!(state, ServerState::Untrusted));
    let off = with(|state| matches!(state, ServerState::Off));
    if states.is_empty() {
        report.ok("servers", "no MCP server is configured");
        return;
    }
    let mut text = format!("{} configured", count(all, "MCP server"));
    for (many, how) in [(untrusted, "not trusted"), (off, "off"), (wrong, "wrong")] {
        if many > 0 {
            text.push_str(&format!(", {many} of them {how}"));
        }
    }
    report.ok("servers", format!("{text}; rewake mcp doctor tries them"));
    for (defined, state) in &states {
        match state {
            ServerState::Wrong(why, hint) => {
                let why = format!("{:?} of {}: {why}", defined.name, defined.origin);
                match defined.source {
                    ServerSource::User => report.wrong("servers", why, hint.as_deref()),
                    // An error in a repository's config is not a fault of this installation.
                    ServerSource::Project | ServerSource::McpJson => report.note("servers", why),
                }
            }
            ServerState::Shadowed(by) => report.note(
                "servers",
                format!(
                    "{:?}: the one of {by} is used, not the one of {}",
                    defined.name, defined.origin
                ),
            ),
            ServerState::Usable(_) | ServerState::Off | ServerState::Untrusted => {}
        }
    }
}
