//! `rewake mcp doctor`: starts each server and reports its problems.

use super::trial::{Failed, Tried, cost, try_server};
use super::{note_faults, states};
use crate::cli::doctor::Report;
use crate::config::mcp::names::apart;
use crate::config::mcp::{FoundServer, ServerState};
use crate::core::text::count;
use crate::report::{CliError, exit, line};
use crate::session::AppContext;

/// Maximum number of servers that are tried at the same time.
const AT_ONCE: usize = 8;

pub(super) fn run(ctx: &AppContext, name: Option<&str>) -> Result<u8, CliError> {
    if name.is_some() {
        note_faults(ctx);
    }
    let states = states(ctx, name)?;
    let mut report = Report::new();
    let usable = states.iter().filter_map(|(_, state)| match state {
        ServerState::Usable(found) => Some(&**found),
        _ => None,
    });
    let usable: Vec<&FoundServer> = usable.collect();
    let mut tried = Vec::new();
    for some in usable.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            let trials = some.iter().map(|found| {
                let found = *found;
                scope.spawn(move || try_server(ctx, found))
            });
            let trials: Vec<_> = trials.collect();
            tried.extend(trials.into_iter().map(|trial| trial.join().ok()));
        });
    }
    let mut tried = tried.into_iter();
    for (defined, state) in &states {
        let name = &defined.name;
        match state {
            ServerState::Usable(found) => match tried.next().flatten() {
                Some(Ok(tried)) => works(&report, found, &tried),
                Some(Err(failed)) => fails(&mut report, found, failed),
                None => report.wrong(name, "the trial of it failed", None),
            },
            ServerState::Wrong(why, hint) => {
                let why = format!("{}: {why}", defined.origin);
                report.wrong(name, why, hint.as_deref());
            }
            other => report.note(name, super::list::in_words(other)),
        }
        if let Some(unused) = super::list::unused_keys(defined) {
            report.note(name, unused);
        }
    }
    for fault in ctx.loaded.server_faults.iter().filter(|_| name.is_none()) {
        report.wrong("servers", &fault.text, fault.hint.as_deref());
    }
    if states.is_empty() && report.wrong == 0 {
        report.note("servers", "none is configured; rewake mcp add adds one");
    }
    match report.wrong {
        0 => {
            line("no problems found");
            Ok(exit::DONE)
        }
        wrong => {
            line(&format!("{} found", count(wrong, "problem")));
            Ok(exit::FAILED)
        }
    }
}

fn works(report: &Report, found: &FoundServer, tried: &Tried) {
    let offered = tried.tools.iter();
    let offered = offered.filter(|tool| found.server.offers(&tool.name));
    let costs: Vec<u64> = offered.map(|tool| cost(&found.name, tool).1).collect();
    report.ok(
        &found.name,
        format!(
            "{}, protocol {} ({}), answered in {} ms; {}, about {}",
            tried.name,
            tried.version,
            tried.how,
            tried.took.as_millis(),
            count(costs.len() as u64, "tool"),
            count(costs.iter().sum::<u64>(), "token"),
        ),
    );
    let filters = found.server.enabled_tools.iter().flatten();
    for tool in filters.chain(&found.server.disabled_tools) {
        if !tried.tools.iter().any(|known| known.name == *tool) {
            report.note(
                &found.name,
                format!("it has no tool {tool:?}, which the config names"),
            );
        }
    }
    let offered = tried.tools.iter().map(|tool| tool.name.as_str());
    let offered = offered.filter(|tool| found.server.offers(tool));
    for (tool, name) in apart(&found.name, offered) {
        report.note(
            &found.name,
            format!("the tool {tool} is {name} for the model: another tool has its usual name"),
        );
    }
    for note in &tried.notes {
        report.note(&found.name, note);
    }
}

fn fails(report: &mut Report, found: &FoundServer, failed: Failed) {
    let hint = match failed.printed {
        Some(printed) => format!("its last words: {printed}"),
        None if found.server.command.is_some() => {
            "a server on stdin and stdout speaks JSON-RPC, one object a line; \
             is the command installed, and does it take longer than startup_timeout_sec?"
                .to_string()
        }
        None => "is the address right, and does the server want a token?".to_string(),
    };
    report.wrong(&found.name, failed.why, Some(&hint));
}
