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
            let trials = some.iter();
            let trials = trials.map(|found| scope.spawn(move || try_server(ctx, found)));
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
    let note = |text: String| report.note(&found.name, text);
    let tools = &tried.listing.tools;
    let offered = || tools.iter().filter(|tool| found.server.offers(&tool.name));
    let tokens: u64 = offered().map(|tool| cost(&found.name, tool).1).sum();
    report.ok(
        &found.name,
        format!(
            "{}, answered in {} ms; {}, about {}",
            tried.summary(),
            tried.took.as_millis(),
            count(offered().count() as u64, "tool"),
            count(tokens, "token"),
        ),
    );
    let filters = found.server.enabled_tools.iter().flatten();
    for tool in filters.chain(&found.server.disabled_tools) {
        if !tools.iter().any(|known| known.name == *tool) {
            note(format!("it has no tool {tool:?}, which the config names"));
        }
    }
    for (tool, name) in apart(&found.name, offered().map(|tool| tool.name.as_str())) {
        note(format!(
            "the tool {tool} is {name} for the model: another tool has its usual name"
        ));
    }
    tried.notes().for_each(note);
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
