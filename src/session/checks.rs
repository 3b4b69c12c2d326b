//! The checks of a session, from the config: those of the user, and those of the workspace that
//! the user trusts. The config leaves out the others.

use std::sync::Arc;

use globset::GlobBuilder;

use super::{AppContext, sandbox};
use crate::config::{CheckConfig, Origin, project_file};
use crate::core::check::{Check, FileMatch};
use crate::core::text::{count, one_line};

/// Maximum number of characters of the name of a check.
const NAME_CHARS: usize = 60;

/// A check of the config in lines for a person.
pub struct ListedCheck<'a> {
    pub name: String,
    pub config: &'a CheckConfig,
    /// The config file, or a flag.
    pub origin: String,
    /// Why it does not run. `None`: it runs.
    pub fault: Option<String>,
}

/// Returns the name of a check, or its command.
pub fn name(config: &CheckConfig) -> String {
    let name = config.name.as_deref().unwrap_or(&config.command);
    one_line(name, NAME_CHARS)
}

/// Returns the checks of the config, those that do not run included.
pub fn list(ctx: &AppContext) -> Vec<ListedCheck<'_>> {
    let sandbox = sandbox::given(ctx);
    let has_sandbox = sandbox.available && sandbox.workspace;
    let mut listed: Vec<ListedCheck<'_>> = Vec::new();
    for (place, config) in ctx.config().check.iter().enumerate() {
        let name = name(config);
        let fault = match listed.iter().any(|other| other.name == name) {
            _ if !has_sandbox => Some(
                "there is no sandbox in which a command may write to the workspace; \
                 `rewake doctor` says why"
                    .to_string(),
            ),
            true => Some("another check has the same name".to_string()),
            false => None,
        };
        let origin = match ctx.loaded.origins.of(&format!("check[{place}]")) {
            Origin::File { path, .. } => path.display().to_string(),
            other => other.to_string(),
        };
        listed.push(ListedCheck {
            name,
            config,
            origin,
            fault,
        });
    }
    listed
}

/// Returns the checks of the workspace that do not run because they are not trusted, as text.
pub fn untrusted(ctx: &AppContext) -> Option<(String, String)> {
    let project = &ctx.loaded.project;
    let used = project.differences().is_empty() && !project.needs_trust();
    let checks = project.content.keys.get("check").filter(|_| !used)?;
    let file = project_file(&ctx.here.root).display().to_string();
    Some((file, checks.shown.clone()))
}

/// Returns the checks that may run. Those that do not are reported.
pub(super) fn checks(ctx: &AppContext, warnings: &mut Vec<String>) -> Vec<Check> {
    let (runs, faulty): (Vec<_>, Vec<_>) = list(ctx).into_iter().partition(|c| c.fault.is_none());
    if let Some(ListedCheck {
        fault: Some(why), ..
    }) = faulty.first()
    {
        let names: Vec<&str> = faulty.iter().map(|check| check.name.as_str()).collect();
        warnings.push(format!(
            "{} not run: {}: {why}",
            count(faulty.len() as u64, "check"),
            names.join(", ")
        ));
    }
    let checks = runs.into_iter().filter_map(|listed| {
        Some(Check {
            matches: file_match(&listed.config.files)?,
            command: listed.config.command.clone(),
            timeout_ms: listed.config.timeout_sec.saturating_mul(1_000),
            name: listed.name,
        })
    });
    checks.collect()
}

/// Returns the match for a glob. `None`: it is not valid, which the config has checked.
fn file_match(glob: &str) -> Option<FileMatch> {
    let glob = match glob.contains('/') {
        true => glob.trim_start_matches("./").to_string(),
        false => format!("**/{glob}"),
    };
    let built = GlobBuilder::new(&glob).literal_separator(true).build();
    let matcher = built.ok()?.compile_matcher();
    Some(Arc::new(move |path| matcher.is_match(path)))
}

#[cfg(test)]
mod tests {
    use super::file_match;

    #[test]
    fn a_glob_is_for_paths_below_the_root_or_for_names() {
        let matches = |glob: &str, path: &str| file_match(glob).is_some_and(|is| is(path));
        for (glob, path, expected) in [
            ("src/**/*.rs", "src/a.rs", true),
            ("src/**/*.rs", "src/b/c/a.rs", true),
            ("src/*.rs", "src/b/a.rs", false),
            ("src/**/*.rs", "tests/a.rs", false),
            ("./src/**", "src/a", true),
            ("*.{ts,tsx}", "web/src/a.tsx", true),
            ("*.ts", "a.ts", true),
            ("*.ts", "a.tsx", false),
        ] {
            assert_eq!(matches(glob, path), expected, "{glob} {path}");
        }
    }
}
