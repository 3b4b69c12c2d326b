//! The rules of the config and the bounds of the workspace, as a check of calls, and as the list of
//! files that searching tools must not show.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{AppContext, said, sandbox, served};
use crate::command::Runs;
use crate::config::{ConfigError, PermissionsConfig};
use crate::core::entry::{Mode, Verdict};
use crate::core::exfiltration;
use crate::core::permission::Permission;
use crate::core::policy::{Disk, PageFacts, Rule, Rules, Workspace, judge};
use crate::core::rule::grants::lacking_notice;
use crate::core::settings::PermissionCheck;
use crate::core::state::State;
use crate::mcp::catalogue::SessionCatalogue;
use crate::sandbox::Repository;
use crate::tools::{Hidden, matches, real_path};
use crate::workspace::{is_plain, skill_folders_of_user};

/// The disk of this machine.
pub const DISK: Disk = Disk {
    resolve: real_path,
    matches,
    is_folder: |path| Path::new(path).is_dir(),
    repository: is_plain,
};

pub(super) fn permission_check(
    ctx: &AppContext,
    folder: &Path,
    hook_files: &[PathBuf],
    runs: Runs,
    catalogue: SessionCatalogue,
) -> Result<(PermissionCheck, Arc<Hidden>), ConfigError> {
    let rules = rules(&ctx.config().permissions)?;
    let workspace = Workspace {
        folder: text(folder),
        root: text(&ctx.here.root),
        project: ctx.project().map(|project| text(&project)),
        home: ctx.env.home().map(text),
        added: Vec::new(),
        readable: skills_of_user(ctx),
        rewakes_own: protected_own_paths(ctx, hook_files),
        obeyed: Vec::new(),
        keys: Some(text(&ctx.paths.keys_dir())),
        sandbox: sandbox::given(ctx),
        served: None,
        page: PageFacts::default(),
    };
    let hidden = Arc::new(Hidden {
        bases: workspace.bases(&real_path),
        keys: hidden_keys(ctx),
        rules,
    });
    Ok((
        check_by(Arc::clone(&hidden), workspace, runs, catalogue),
        hidden,
    ))
}

/// Returns the notices about the sandbox, each once for a user. In the mode that uses none there
/// are none.
pub(super) fn notices(ctx: &AppContext, hidden: &Hidden, mode: Mode) -> Vec<String> {
    if mode == Mode::BypassPermissions {
        return Vec::new();
    }
    let notices = if sandbox::given(ctx).available {
        [
            Some(SANDBOXED.to_string()),
            sandbox::namespace_setting(ctx),
            lacking_notice(&hidden.rules.lacking()),
        ]
    } else {
        [Some(NO_SANDBOX.to_string()), None, None]
    };
    let unsaid = notices.into_iter().flatten();
    unsaid
        .filter_map(|notice| said::once(&ctx.paths.state_dir, notice))
        .collect()
}

/// Fits on a line of 80 columns. The manual has the rest.
const SANDBOXED: &str =
    "The model's commands run in a sandbox, with no network unless you allow it";
const NO_SANDBOX: &str =
    "no sandbox: approved commands reach all your files and keys; see rewake doctor";

fn check_by(
    rules: Arc<Hidden>,
    workspace: Workspace,
    runs: Runs,
    catalogue: SessionCatalogue,
) -> PermissionCheck {
    Arc::new(move |permission, state, granted| {
        let mut workspace = workspace.clone();
        if let Permission::Foreign { name } = permission {
            // A verdict for one call also counts, until that call is made.
            let allowed = state.calls.iter();
            let allowed = allowed.filter(|open| open.decided == Some(Verdict::Allow));
            let once = allowed.filter_map(|open| {
                let rule = open.asked.as_ref()?.rule.as_deref()?;
                Rule::parse(rule).ok()
            });
            let once: Vec<Rule> = once.collect();
            let always = rules.rules.allow.iter().chain(&state.session_rules);
            workspace.served = served::judged(&catalogue, name, always.chain(&once));
        }
        if let Some((host, url)) = exfiltration::address_of(permission) {
            workspace.page = PageFacts {
                host_is_approved: state.approved_hosts.contains(&host),
                carries: exfiltration::reason_to_ask(&host, &url, &state.page_log()),
            };
        }
        workspace.readable.extend(readable(&runs, state));
        workspace.added.clone_from(&state.added_folders);
        workspace.obeyed = obeyed(&workspace);
        if state.session_rules.is_empty() && granted.is_empty() {
            return judge(permission, state.mode, &rules.rules, &workspace, &DISK);
        }
        let mut rules = rules.rules.clone();
        rules
            .allow
            .extend(state.session_rules.iter().chain(granted).cloned());
        judge(permission, state.mode, &rules, &workspace, &DISK)
    })
}

/// Returns the files of the workspace to which its repository leads git now.
fn obeyed(workspace: &Workspace) -> Vec<String> {
    let root = Path::new(&workspace.root);
    let home = workspace.home.as_deref().map(Path::new);
    let Some(repository) = Repository::of(root) else {
        return Vec::new();
    };
    let all = repository.obeyed(root, home).into_iter();
    let own = all.filter(|path| path.starts_with(root) && path != root);
    own.map(|path| text(&path)).collect()
}

/// Returns the output files of the session's own background commands, which may be read without
/// approval. Nothing else below the runs may, since they contain the commands and outputs of all
/// other sessions too.
fn readable(runs: &Runs, state: &State) -> Vec<String> {
    let background = state.background.values();
    let files = background.filter_map(|b| runs.output_files(&b.run).ok());
    files.flatten().map(|path| text(&path)).collect()
}

/// Returns the folder of the keys, as it is named and with links resolved.
fn hidden_keys(ctx: &AppContext) -> Vec<PathBuf> {
    let folder = ctx.paths.keys_dir();
    let real = PathBuf::from(real_path(&text(&folder)));
    vec![folder, real]
}

/// Returns the folders of the user's skills. The prompt lists those skills, and they are outside of
/// the workspace.
fn skills_of_user(ctx: &AppContext) -> Vec<String> {
    let folders = skill_folders_of_user(&ctx.paths.config_dir);
    folders.iter().map(|path| text(path)).collect()
}

/// Entries of the config folder that affect decisions. Some people have links there, so the targets
/// of links are protected too.
const IN_CONFIG_FOLDER: [&str; 8] = [
    "config.toml",
    "hooks.json",
    "trusted.toml",
    "AGENTS.md",
    "CLAUDE.md",
    "commands",
    "skills",
    "themes",
];

/// Returns the files and folders of rules, trust, trusted hooks, instructions and records.
fn protected_own_paths(ctx: &AppContext, hook_files: &[PathBuf]) -> Vec<String> {
    let entries = IN_CONFIG_FOLDER.map(|name| text(&ctx.paths.config_dir.join(name)));
    let folders = ctx.own_folders();
    let folders = folders.iter().map(|folder| text(folder));
    let hooks = hook_files.iter().map(|path| text(path));
    let entries = entries.into_iter().chain(hooks);
    let mut own: Vec<String> = folders.chain(entries).chain(skills_of_user(ctx)).collect();
    own.sort();
    own.dedup();
    own
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn rules(permissions: &PermissionsConfig) -> Result<Rules, ConfigError> {
    // Loading the config has parsed them already and reported errors with their places.
    let parse = |texts: &[String]| -> Result<Vec<Rule>, ConfigError> {
        let parsed = texts.iter().map(|text| Rule::parse(text));
        parsed.map(|rule| rule.map_err(ConfigError::new)).collect()
    };
    Ok(Rules {
        allow: parse(&permissions.allow)?,
        ask: parse(&permissions.ask)?,
        deny: parse(&permissions.deny)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::policy::Decision;
    use crate::core::state::Background;
    use crate::tools::describe;

    const OWN: &str = "0197a1b2-c3d4-7000-8000-000000000000";
    const OTHER: &str = "0197a1b2-c3d4-7000-8000-000000000001";

    fn is_allowed(tool: &str, path: &str) -> bool {
        let runs = Runs::new("/data/runs", "/rewake");
        let workspace = Workspace {
            folder: "/w".into(),
            root: "/w".into(),
            ..Workspace::default()
        };
        let mut state = State::new(describe);
        let background = Background {
            run: OWN.into(),
            command: "make".into(),
            child: None,
            searched: 0,
        };
        state.background.insert("bg_2_0".into(), background);
        let arguments = serde_json::json!({ "path": path, "pattern": "key" }).to_string();
        let described = describe(tool, &arguments).unwrap();
        let check = check_by(Arc::default(), workspace, runs, SessionCatalogue::default());
        check(&described.permission, &state, &[]).decision == Decision::Allow
    }

    #[test]
    fn only_the_output_of_runs_of_the_session_is_read_unasked() {
        assert!(is_allowed("read", &format!("/data/runs/{OWN}/output")));
        assert!(is_allowed("read", &format!("/data/runs/{OWN}/tail")));
        assert!(is_allowed("grep", &format!("/data/runs/{OWN}/output")));
        assert!(!is_allowed("read", &format!("/data/runs/{OWN}/spec")));
        assert!(!is_allowed("grep", &format!("/data/runs/{OWN}")));
        assert!(!is_allowed("read", &format!("/data/runs/{OTHER}/output")));
        assert!(!is_allowed("grep", "/data/runs"));
    }
}
