//! `rewake hooks import`: uses the hooks of Claude Code and Codex in place, and adds their deny and
//! ask rules. It never takes allow rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::config::foreign_guards::{Agent, ForeignFile, edit_rule, translate};
use crate::config::trust;
use crate::config::write::{WriteTarget, add_rules};
use crate::core::text::{count, one_line};
use crate::core::visible::command;
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;
use crate::session::hooks::{guards_not_in_force, hook_places, hooks};
use crate::workspace::hooks::{HooksToTrust, hooks_to_trust};

const RULE_CHARS: usize = 200;

/// The hooks and rules of a file that can be taken.
struct Offer {
    file: ForeignFile,
    hooks: Option<HooksToTrust>,
    deny: Vec<String>,
    ask: Vec<String>,
}

pub(super) fn show(ctx: &AppContext) -> Result<u8, CliError> {
    let offers = offers(ctx)?;
    offers.iter().for_each(print);
    if offers.is_empty() {
        note("there are no hooks or rules of other agents that are not in force");
        return Ok(exit::DONE);
    }
    note("nothing was taken yet; rewake hooks import --yes takes the hooks and rules");
    Ok(exit::DONE)
}

pub(super) fn take(ctx: &AppContext) -> Result<u8, CliError> {
    let offers = offers(ctx)?;
    offers.iter().for_each(print);
    let target = WriteTarget::project(&ctx.paths, &ctx.here.root);
    let (mut hooks, mut rules, mut taken) = (0, 0, BTreeMap::new());
    let (trusted, mut sandboxed) = (trust::trusted_hooks(&ctx.paths)?, 0);
    for offer in offers {
        if offer.file.fault.is_some() {
            continue;
        }
        for (list, new) in [("deny", &offer.deny), ("ask", &offer.ask)] {
            if !new.is_empty() {
                add_rules(&target, list, new)?;
                rules += new.len();
            }
        }
        if let Some(mut found) = offer.hooks {
            let path = found.path.to_string_lossy();
            let before = trusted.get(path.as_ref()).cloned();
            found.choose_access(before.as_ref(), |_, access| access);
            sandboxed += found
                .hooks
                .values()
                .filter(|hook| hook.access.is_some())
                .count();
            hooks += found.hooks.len();
            trust::trust_hooks(&ctx.paths, &found.path, found.hooks)?;
            taken.extend(named(&offer.file));
        }
    }
    // What has no equivalent was listed above.
    trust::dismiss(&ctx.paths, taken)?;
    line(&format!(
        "{} used in place, and {} added to {}",
        count(hooks, "hook"),
        count(rules, "rule"),
        target.file.display()
    ));
    if sandboxed > 0 {
        note(
            "hooks of the workspace run in the sandbox; `rewake trust` asks for the access of each",
        );
    }
    Ok(exit::DONE)
}

pub(super) fn dismiss(ctx: &AppContext) -> Result<u8, CliError> {
    let found = guards_not_in_force(ctx, &hooks(ctx, &ctx.here.folder)?)?;
    let files: BTreeMap<String, String> = found.iter().filter_map(named).collect();
    let number = files.len();
    trust::dismiss(&ctx.paths, files)?;
    line(&format!(
        "{} not named again until they change",
        count(number, "file")
    ));
    Ok(exit::DONE)
}

/// Returns the path and the hash of a file. `None`: it could not be read, so it stays named.
fn named(file: &ForeignFile) -> Option<(String, String)> {
    let path = file.path.to_string_lossy().into_owned();
    (!file.hash.is_empty()).then(|| (path, file.hash.clone()))
}

fn offers(ctx: &AppContext) -> Result<Vec<Offer>, CliError> {
    let found = guards_not_in_force(ctx, &hooks(ctx, &ctx.here.folder)?)?;
    let is_found = |path: &Path| {
        found
            .iter()
            .any(|file| file.fault.is_none() && file.path == path)
    };
    let hooks = hook_places(ctx, &ctx.here.folder, |places| {
        hooks_to_trust(places, |path, is_own| !is_own && is_found(path))
    })?;
    let mut hooks: BTreeMap<_, _> = hooks
        .into_iter()
        .map(|file| (file.path.clone(), file))
        .collect();
    let offer = |file: ForeignFile| Offer {
        hooks: hooks.remove(&file.path),
        deny: translated(&file, &file.deny, true),
        ask: translated(&file, &file.ask, false),
        file,
    };
    Ok(found.into_iter().map(offer).collect())
}

/// Returns the rules of rewake for those of a file, each once.
fn translated(file: &ForeignFile, rules: &[String], is_deny: bool) -> Vec<String> {
    let of_rule = |rule: &String| translate(file.agent, rule, file.anchor()).ok();
    let translated = rules.iter().filter_map(of_rule);
    // What may not be read may not be edited either, for Claude Code.
    let with_edits = translated.flat_map(|rule| {
        let edit = edit_rule(&rule).filter(|_| is_deny);
        std::iter::once(rule).chain(edit)
    });
    let unique: BTreeSet<String> = with_edits.collect();
    unique.into_iter().collect()
}

fn print(offer: &Offer) {
    let Offer {
        file,
        hooks,
        deny,
        ask,
    } = offer;
    line(&format!("{}:", file.shown));
    if let Some(fault) = &file.fault {
        line(&format!(
            "  cannot be read: {}",
            one_line(fault, RULE_CHARS)
        ));
        return;
    }
    if !matches!(file.agent, Agent::Claude | Agent::Codex) {
        line("  rewake cannot use its hooks and rules; --dismiss stops naming it");
        return;
    }
    match hooks {
        Some(hooks) => {
            for text in hooks.lines() {
                line(&format!("  hook   {}", command(text)));
            }
        }
        None if file.hooks > 0 => {
            line("  its hooks cannot be used in place; copy them to .codex/hooks.json");
        }
        None => {}
    }
    for (list, rules) in [("deny", deny), ("ask", ask)] {
        for rule in rules {
            line(&format!("  {list:<5}  {rule}"));
        }
    }
    for rule in file.deny.iter().chain(&file.ask) {
        if let Err(why) = translate(file.agent, rule, file.anchor()) {
            let rule = one_line(&command(rule), RULE_CHARS);
            line(&format!("  not taken: {rule} ({why})"));
        }
    }
}
