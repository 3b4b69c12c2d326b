//! `rewake doctor`: checks the installation and reports problems.
//!
//! Without a repair option it changes nothing. A failed check does not stop the others.

mod journal;
mod repair;
mod servers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use clap::Args;

use super::place::SessionPlace;
use super::table::{broken, terminal_columns};
use crate::command::{self, How, RunState, Runs};
use crate::config::{
    self, Env, FilesConfig, Loaded, NetworkUse, Origin, Paths, Project, ProjectTrust, SandboxUse,
    hint_of, is_usable,
};
use crate::core::check;
use crate::core::entry::{About, CheckEnding, Entry, Record};
use crate::core::text::{count, size_text};
use crate::model::{Figures, discover, retirement};
use crate::report::{CliError, exit, line};
use crate::sandbox::{Kernel, child, namespace_setting};
use crate::session::sandbox::ask_kernel;
use crate::session::{
    self, AppContext, Grade, MissingSessions, checks, hooks, journal_place, looking_git, short_id,
    with_journal_count, worktree_rows,
};
use crate::store::now_ms;
use crate::store::{
    SessionFilter, SessionInfo, SessionLock, Store, StoreError, database, is_purged, refuse_shared,
};
use crate::ui;
use crate::workspace::StartFolder;
use crate::workspace::hooks::HookState;

/// Maximum number of sessions whose lock is checked.
const MAX_SESSIONS: u32 = 1_000;

/// Check config, keys, store, git, shell and sandbox
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct DoctorArgs {
    /// Accept a database with missing entries and unlock its sessions
    ///
    /// The journal and the record of the newest entry are renamed, not deleted.
    #[arg(long, conflicts_with_all = ["repair", "scrub"])]
    pub as_is: bool,
    /// Rebuild a damaged or lost database from its rows and the journal
    ///
    /// The old file is renamed, not deleted.
    #[arg(long)]
    pub repair: bool,
    /// Also read another data folder, database or journal
    #[arg(long, value_name = "PATH", requires = "repair")]
    pub from: Vec<PathBuf>,
    /// Take what --from names for sessions of this machine, not as copies
    #[arg(long, requires = "from")]
    pub same_machine: bool,
    /// Read all stored data and report damage
    #[arg(long, conflicts_with = "repair")]
    pub scrub: bool,
}

/// The findings, which are printed line by line.
pub(super) struct Report {
    pub(super) wrong: u32,
}

impl Report {
    pub(super) fn new() -> Report {
        Report { wrong: 0 }
    }

    pub(super) fn ok(&self, what: &str, text: impl AsRef<str>) {
        put(&format!("ok     {what:<8} "), text.as_ref());
    }

    pub(super) fn note(&self, what: &str, text: impl AsRef<str>) {
        put(&format!("note   {what:<8} "), text.as_ref());
    }

    pub(super) fn wrong(&mut self, what: &str, text: impl AsRef<str>, hint: Option<&str>) {
        self.wrong += 1;
        put(&format!("WRONG  {what:<8} "), text.as_ref());
        if let Some(hint) = hint {
            put(&" ".repeat(INDENT), &format!("hint: {hint}"));
        }
    }
}

/// Columns before the text of a finding.
const INDENT: usize = 16;

/// Prints a finding. On a terminal its lines end between words.
fn put(head: &str, text: &str) {
    let columns = terminal_columns().map(|columns| columns.saturating_sub(INDENT).max(INDENT));
    let mut head = head.to_string();
    for part in broken(text, columns).split('\n') {
        line(&format!("{head}{part}"));
        head = " ".repeat(INDENT);
    }
}

pub(super) fn run(place: &SessionPlace, args: &DoctorArgs) -> Result<u8, CliError> {
    let SessionPlace {
        env,
        paths,
        here,
        settings,
    } = place;
    let load = || config::load(env, paths, &here.root, settings);
    match args {
        DoctorArgs { as_is: true, .. } => return journal::take_as_is(&load()?, paths),
        DoctorArgs { repair: true, .. } => {
            return repair::repair(&load()?, paths, &args.from, args.same_machine);
        }
        DoctorArgs { scrub: true, .. } => return repair::scrub(&load()?, paths),
        _ => {}
    }
    let mut report = Report::new();
    report.ok(
        "folder",
        format!(
            "{} (workspace {})",
            here.folder.display(),
            here.root.display()
        ),
    );
    folders(&mut report, paths, here);
    let loaded = load();
    match &loaded {
        Ok(loaded) => {
            config_of(&report, loaded);
            keys(&mut report, env, loaded);
            running(&report, loaded);
            shell(&mut report, env, loaded);
            sandbox(&mut report, env, loaded);
            files(&mut report, env, paths, here, &loaded.config.files);
        }
        Err(error) => report.wrong("config", error.to_string(), error.hint()),
    }
    if let Ok(loaded) = &loaded {
        let ctx = context(place, loaded);
        for warning in ui::style::warnings(&ctx) {
            report.note("config", warning);
        }
        hooks_of(&mut report, &ctx);
    }
    store(&mut report, loaded.as_ref().ok(), paths, here);
    runs(&mut report, paths);
    if let Ok(loaded) = loaded {
        servers::servers(&mut report, env, paths, here, loaded);
    }
    git(&report, env, &here.root);
    if report.wrong == 0 {
        line("no problems found");
        return Ok(exit::DONE);
    }
    line(&format!("{} found", count(report.wrong, "problem")));
    Ok(exit::FAILED)
}

fn folders(report: &mut Report, paths: &Paths, here: &StartFolder) {
    let all = [
        ("config", &paths.config_dir),
        ("data", &paths.data_dir),
        ("logs", &paths.state_dir),
    ];
    inside(report, &all, here);
    for (what, dir) in all {
        match std::fs::metadata(dir) {
            Ok(found) if !found.is_dir() => {
                report.wrong(
                    "folder",
                    format!("{} ({what}) is not a folder", dir.display()),
                    None,
                );
            }
            Ok(found) if is_usable(dir, &found) => {
                let warning = paths.shared_folder().unwrap_or_default();
                report.note("folder", warning);
            }
            Ok(found) => match open_to_others(&found, what == "config") {
                Some(access) => report.wrong(
                    "folder",
                    format!("{} ({what}) can be {access} by others", dir.display()),
                    Some(&format!("chmod 700 {}", dir.display())),
                ),
                None => report.ok("folder", format!("{} ({what})", dir.display())),
            },
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                report.note(
                    "folder",
                    format!("{} ({what}) is created by the first run", dir.display()),
                );
            }
            Err(e) => report.wrong(
                "folder",
                format!("{} ({what}): {e}", dir.display()),
                hint_of(dir, &e).as_deref(),
            ),
        }
    }
    if let Err(error) = paths.check_rights(true) {
        report.wrong("folder", error.to_string(), error.hint());
    }
}

/// Warns if the workspace contains rewake's folders: then the model may read the user's rules and
/// all sessions.
fn inside(report: &Report, all: &[(&str, &PathBuf)], here: &StartFolder) {
    let is_inside = |dir: &Path| {
        let real = dir.canonicalize();
        real.as_deref().unwrap_or(dir).starts_with(&here.root)
    };
    let inside = all.iter().filter(|(_, dir)| is_inside(dir));
    let names: Vec<&str> = inside.map(|(what, _)| *what).collect();
    if !names.is_empty() {
        report.note(
            "folder",
            format!(
                "rewake's own folders ({}) lie inside the workspace {}: the model may read them, \
                 including all sessions; work in a folder below, or set REWAKE_HOME to a folder outside",
                names.join(", "),
                here.root.display()
            ),
        );
    }
}

/// Returns what others may do with a folder. `may_read`: it has neither sessions nor typed keys, and
/// other programs make such folders readable.
fn open_to_others(found: &std::fs::Metadata, may_read: bool) -> Option<&'static str> {
    use std::os::unix::fs::PermissionsExt;
    match found.permissions().mode() {
        mode if mode & 0o022 != 0 => Some("changed"),
        mode if mode & 0o077 != 0 && !may_read => Some("read"),
        _ => None,
    }
}

fn config_of(report: &Report, loaded: &Loaded) {
    let set: Vec<String> = loaded
        .origins
        .iter()
        .filter(|(_, origin)| !matches!(origin, Origin::Default))
        .map(|(key, origin)| format!("{key} ({origin})"))
        .collect();
    match set.is_empty() {
        true => report.ok("config", "all defaults"),
        false => report.ok("config", format!("set: {}", set.join(", "))),
    }
    for warning in &loaded.warnings {
        report.note("config", &warning.text);
    }
    trust(report, &loaded.project);
}

fn context(place: &SessionPlace, loaded: &Loaded) -> AppContext {
    AppContext {
        env: place.env.clone(),
        paths: place.paths.clone(),
        here: place.here.clone(),
        loaded: loaded.clone(),
        flags: place.settings.clone(),
        given: Default::default(),
    }
}

/// Reports the hooks that fail, and the guards of other agents that are not in force.
fn hooks_of(report: &mut Report, ctx: &AppContext) {
    let found = match hooks::hooks(ctx, &ctx.here.folder) {
        Ok(found) => found,
        Err(error) => return report.wrong("hooks", error.to_string(), error.hint()),
    };
    let failed = found.hooks.iter().filter_map(|hook| match &hook.state {
        HookState::Failed(why) => Some(format!("{}: {why}", hook.name())),
        HookState::Used | HookState::Untrusted => None,
    });
    let failed: Vec<String> = failed.collect();
    for text in failed {
        report.wrong("hooks", text, Some("rewake hooks lists them; rewake trust"));
    }
    let used = found
        .hooks
        .iter()
        .filter(|hook| hook.state == HookState::Used);
    report.ok(
        "hooks",
        format!("{} used", count(used.count() as u64, "hook")),
    );
    let checks = checks::list(ctx);
    if !checks.is_empty() {
        let used = checks.iter().filter(|check| check.fault.is_none()).count();
        report.ok("checks", format!("{} used", count(used as u64, "check")));
    }
    for check in checks {
        if let Some(why) = check.fault {
            report.note("checks", format!("{} does not run: {why}", check.name));
        }
    }
    if let Some((file, _)) = checks::untrusted(ctx) {
        report.note(
            "checks",
            format!("{file}: not trusted, so they do not run; `rewake trust`"),
        );
    }
    for warning in &found.warnings {
        report.note("hooks", warning);
    }
    match hooks::guards_not_in_force(ctx, &found) {
        Ok(files) => files
            .iter()
            .for_each(|file| report.note("hooks", file.line())),
        Err(error) => report.wrong("hooks", error.to_string(), error.hint()),
    }
}

fn trust(report: &Report, project: &Project) {
    match &project.standing {
        _ if project.broken.is_some() => {
            report.note(
                "trust",
                "this folder's own config is not used: it has an error",
            );
        }
        ProjectTrust::Trusted => {
            report.ok("trust", "this folder is trusted, with what its config says")
        }
        ProjectTrust::Untrusted => report.note(
            "trust",
            "this folder is not trusted: its own config may only set [context] and theme",
        ),
        ProjectTrust::Changed(_) => report.note(
            "trust",
            "this folder is not trusted any more, because its config changed: only [context] and theme of it are used",
        ),
    }
}

fn keys(report: &mut Report, env: &Env, loaded: &Loaded) {
    let config = &loaded.config;
    let names = config.provider_names();
    let (names, others): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| config.is_expected(name, env));
    for name in names {
        let provider = match config.provider(name) {
            Ok(provider) => provider,
            Err(error) => {
                report.wrong("provider", error.to_string(), error.hint());
                continue;
            }
        };
        match provider.key(env) {
            Ok(Some(key)) => {
                report.ok("key", format!("{name}: from {}", key.origin));
                if let Some(warning) = key.warning {
                    report.wrong("key", &warning.text, warning.hint.as_deref());
                }
            }
            Ok(None) => {
                let script = provider.script.as_ref().map(|s| s.display().to_string());
                let what = script.unwrap_or(provider.base_url);
                report.note("key", format!("{name} needs no key ({what})"));
            }
            // A key exists but cannot be used.
            Err(error) if provider.has_key(env) => {
                report.wrong("key", error.to_string(), error.hint());
            }
            Err(error) => report.note("key", error.to_string()),
        }
    }
    if !others.is_empty() {
        report.note(
            "key",
            format!("these providers have no key either: {}", others.join(", ")),
        );
    }
    match config.model_name(env) {
        Ok(model) => match config
            .provider(&model.provider)
            .and_then(|p| p.key(env).map(|_| ()))
        {
            Ok(()) => {
                report.ok("model", model.to_string());
                let own = model.to_string();
                let names = config.fallback_model.iter().chain(&config.summary_model);
                let names: Vec<&str> = [&own]
                    .into_iter()
                    .chain(names)
                    .map(String::as_str)
                    .collect();
                let today = retirement::date_at(now_ms());
                let figures = Figures::new(config);
                let ending = retirement::warnings(|m| figures.of(m).ends, &names, today);
                ending.iter().for_each(|text| report.note("model", text));
            }
            Err(error) => report.wrong("model", format!("{model}: {error}"), error.hint()),
        },
        Err(error) => report.wrong("model", error.to_string(), error.hint()),
    }
}

/// Reports the servers of models that answer on this machine.
fn running(report: &Report, loaded: &Loaded) {
    let servers = discover::running_servers(&loaded.config);
    servers.iter().for_each(|text| report.ok("server", text));
}

fn shell(report: &mut Report, env: &Env, loaded: &Loaded) {
    let path = loaded.config.shell.program(env);
    let mut command = child(&path);
    // As commands of the model are started.
    for name in session::unseen_by_commands(&loaded.config, env) {
        command.env_remove(name);
    }
    let works = command
        .args(["-c", "--", "exit 0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    match works {
        true => report.ok("shell", path.display().to_string()),
        false => report.wrong(
            "shell",
            format!("{} does not run", path.display()),
            Some("set shell.path in the config"),
        ),
    }
}

/// Reports the limits that the sandbox can enforce on commands, and those that it cannot.
fn sandbox(report: &mut Report, env: &Env, loaded: &Loaded) {
    let wanted = loaded.config.sandbox.enabled;
    if wanted == SandboxUse::Never {
        report.note(
            "sandbox",
            "turned off by sandbox.enabled: commands, and trusted hooks and MCP servers of a folder, \
             run with all your rights",
        );
        return;
    }
    let kernel = match ask_kernel(env) {
        Ok(kernel) => kernel,
        Err(error) if wanted == SandboxUse::Always => {
            report.wrong("sandbox", error, Some("set sandbox.enabled to \"auto\""));
            return;
        }
        Err(error) => {
            report.note("sandbox", error);
            return;
        }
    };
    match (kernel.can_sandbox(), wanted) {
        (true, _) => report.ok("sandbox", standing(&kernel)),
        (false, SandboxUse::Always) => report.wrong(
            "sandbox",
            "this system has no sandbox, and sandbox.enabled wants one",
            Some("set sandbox.enabled to \"auto\""),
        ),
        (false, _) => report.note(
            "sandbox",
            "this system has no sandbox: approved commands, and trusted hooks and MCP servers of a \
             folder, run with all your rights",
        ),
    }
    for lack in kernel.lacks() {
        report.note("sandbox", lack);
    }
    if let Some(setting) = namespace_setting(&kernel) {
        report.note("sandbox", setting);
    }
}

fn standing(kernel: &Kernel) -> String {
    let network = match kernel.private_network {
        true => "private loopback network",
        false => "no private network",
    };
    let files = match kernel.mounts {
        true => "protected files are read-only",
        false => "protected files are checked afterwards",
    };
    format!(
        "works, with Landlock version {} and seccomp; {files}; {network} for commands with access workspace",
        kernel.landlock
    )
}

/// Reports the snapshots of the workspace's files, and the obstacles to complete ones.
fn files(report: &mut Report, env: &Env, paths: &Paths, here: &StartFolder, files: &FilesConfig) {
    for row in session::files_rows(env, paths, here, files) {
        match row.grade {
            Grade::Fine => report.ok("files", row.text()),
            Grade::Note => report.note("files", row.text()),
            Grade::Wrong => report.wrong("files", &row.what, row.hint.as_deref()),
        }
    }
}

fn store(report: &mut Report, loaded: Option<&Loaded>, paths: &Paths, here: &StartFolder) {
    if !database::exists(&paths.data_dir) {
        match MissingSessions::without_database(&paths.data_dir, &paths.state_dir, &all_runs(paths))
        {
            Some(lost) => report_lost(report, &lost, loaded, paths),
            None => report.note(
                "store",
                "there is no database yet; the first run creates it",
            ),
        }
        if let Some(loaded) = loaded {
            journal::without_database(report, loaded, paths);
        }
        return;
    }
    let network = loaded.map(|loaded| loaded.config.store.network);
    if let Err(error) = refuse_shared(&paths.data_dir) {
        match network {
            Some(NetworkUse::Allow) => report.note("store", error.to_string()),
            _ => report.wrong("store", error.to_string(), error.hint().as_deref()),
        }
    }
    let opened = match Store::open_current(&paths.data_dir) {
        Ok(Some(store)) => Ok(store),
        // A readable copy of an empty database can be checked.
        Ok(None) => Store::open_read_only(&paths.data_dir),
        Err(error) if error.is_forbidden() => {
            report.wrong("store", error.to_string(), error.hint().as_deref());
            Store::open_read_only(&paths.data_dir)
        }
        Err(error) => Err(error),
    };
    let store = match opened {
        Ok(store) => store,
        Err(error) => {
            damaged(report, "store", error, loaded, paths);
            return;
        }
    };
    match store.check().quick_check() {
        Ok(problems) if problems.is_empty() => {
            let size = size_text(database::bytes(&paths.data_dir));
            report.ok("store", format!("database of {size}, checked: no damage"));
        }
        Ok(problems) => report.wrong("store", problems.join("; "), None),
        Err(error) => damaged(report, "store", error, loaded, paths),
    }
    sessions(report, &store, loaded, paths, here);
    worktrees(report, &store, paths);
    if let Some(loaded) = loaded {
        journal::journal(report, &store, loaded, paths);
    }
    let journals = journals(loaded, paths);
    match MissingSessions::all(
        &paths.data_dir,
        &paths.state_dir,
        &all_runs(paths),
        &journals,
        &store,
    ) {
        Ok(Some(lost)) => report_lost(report, &lost, loaded, paths),
        Ok(None) => {}
        Err(error) => report.wrong("store", error.to_string(), error.hint().as_deref()),
    }
}

/// Reports a damaged database, and the additional data in the journal.
fn damaged(
    report: &mut Report,
    what: &str,
    error: StoreError,
    loaded: Option<&Loaded>,
    paths: &Paths,
) {
    let place = loaded.and_then(|loaded| journal_place(&loaded.config.store, paths));
    let error = with_journal_count(error, place.as_ref());
    report.wrong(what, error.to_string(), error.hint().as_deref());
}

/// Returns the sessions with a journal that were not purged.
fn journals(loaded: Option<&Loaded>, paths: &Paths) -> Vec<String> {
    let place = loaded.and_then(|loaded| journal_place(&loaded.config.store, paths));
    let mut ids = place.map_or_else(Vec::new, |place| place.sessions(usize::MAX));
    ids.retain(|id| !is_purged(&paths.data_dir, id));
    ids
}

fn report_lost(
    report: &mut Report,
    lost: &MissingSessions,
    loaded: Option<&Loaded>,
    paths: &Paths,
) {
    let hint = MissingSessions::hint(&paths.data_dir, &paths.state_dir);
    // The run folder of an existing session may contain a result that the session has not recorded
    // yet.
    let meant = "if you did this on purpose, move the folders runs, locks and log away while no rewake runs \
                 and no session is unfinished";
    report.wrong("store", lost.line(), Some(&format!("{hint}; {meant}")));
    let journals = journals(loaded, paths);
    for row in lost.rows(&paths.data_dir, &all_runs(paths), &journals) {
        report.note("lost", row);
    }
}

/// Returns all run folders, for reading. Starts no command.
fn all_runs(paths: &Paths) -> Runs {
    Runs::new(paths.data_dir.join("runs"), "")
}

fn sessions(
    report: &mut Report,
    store: &Store,
    loaded: Option<&Loaded>,
    paths: &Paths,
    here: &StartFolder,
) {
    let sessions = match store
        .history()
        .sessions(SessionFilter::default(), MAX_SESSIONS)
    {
        Ok(sessions) => sessions,
        Err(error) => {
            damaged(report, "store", error, loaded, paths);
            return;
        }
    };
    let mut unreadable = 0;
    let is_here = |info: &SessionInfo| {
        let is_ours = info.replica.is_none() && info.shared.is_none();
        is_ours && Path::new(&info.workspace) == here.root
    };
    // The newest run of each check of this folder, with its time and session.
    let mut runs: BTreeMap<String, (i64, &str, About)> = BTreeMap::new();
    for info in &sessions {
        match store.load(&info.id) {
            Err(error) => {
                unreadable += 1;
                damaged(report, "session", error, loaded, paths);
            }
            Ok((_, records)) if is_here(info) => {
                for (at_ms, check, about) in records.into_iter().filter_map(check_run) {
                    let newest = runs
                        .entry(check)
                        .or_insert((at_ms, &info.id, about.clone()));
                    if newest.0 <= at_ms {
                        *newest = (at_ms, &info.id, about);
                    }
                }
            }
            Ok(_) => {}
        }
        if let Some(pid) = SessionLock::holder(&paths.data_dir, &info.id) {
            let id = short_id(&info.id);
            report.note("lock", format!("{id} is in use by process {pid}"));
        }
    }
    for check in loaded.iter().flat_map(|loaded| &loaded.config.check) {
        if let Some((_, session, about)) = runs.get(&checks::name(check))
            && let Some(line) = check::line(about)
            && !matches!(
                about,
                About::CheckEnded {
                    ending: CheckEnding::Exited { .. },
                    ..
                }
            )
        {
            let session = short_id(session);
            report.note(
                "checks",
                format!("newest run, in session {session}: {line}"),
            );
        }
    }
    let unfinished = sessions.iter().filter(|s| s.unfinished).count();
    if unreadable == 0 {
        report.ok(
            "sessions",
            format!(
                "{}, all readable; {unfinished} unfinished",
                count(sessions.len() as u64, "session")
            ),
        );
    }
}

/// Returns time, name and end of a check that nobody stopped.
fn check_run(record: Record) -> Option<(i64, String, About)> {
    let Entry::Noted {
        about: Some(about), ..
    } = record.entry
    else {
        return None;
    };
    match &about {
        About::CheckEnded { check, ending, .. } if *ending != CheckEnding::Stopped => {
            Some((record.at_ms, check.clone(), about))
        }
        _ => None,
    }
}

/// Reports the worktrees that rewake created. Users would not find them otherwise.
fn worktrees(report: &mut Report, store: &Store, paths: &Paths) {
    let rows = match worktree_rows(&paths.data_dir, store) {
        Ok(rows) => rows,
        Err(error) => {
            report.wrong("worktree", error.to_string(), error.hint().as_deref());
            return;
        }
    };
    let left = rows.iter().filter(|row| row.is_left).count();
    if !rows.is_empty() {
        report.ok(
            "worktree",
            format!("{}, {left} without a session", rows.len()),
        );
    }
    for row in rows.iter().filter(|row| row.is_left) {
        let folder = row.folder.display();
        report.note(
            "worktree",
            format!(
                "{folder}, branch {}: no session works in it; rewake gc --yes removes it if nothing \
                 would be lost",
                row.branch
            ),
        );
    }
}

fn runs(report: &mut Report, paths: &Paths) {
    let exe = match command::own_exe() {
        Ok(exe) => exe,
        Err(error) => {
            report.wrong(
                "keeper",
                format!("cannot find this program's own file: {error}"),
                None,
            );
            return;
        }
    };
    let all = Runs::new(paths.data_dir.join("runs"), exe).list();
    let running = all
        .iter()
        .filter(|r| matches!(r.state, RunState::Running { .. }))
        .count();
    report.ok(
        "commands",
        match running {
            0 => "no running commands".to_string(),
            _ => format!("{} running", count(running as u64, "command")),
        },
    );
    for info in &all {
        if let RunState::Ended(ended) = &info.state
            && let How::Lost { group: Some(group) } = ended.how
        {
            report.wrong(
                "commands",
                format!("process group {group} still runs, but its keeper is gone"),
                Some(&format!("rewake ps stop {}", short_id(&info.run))),
            );
        }
    }
}

fn git(report: &Report, env: &Env, root: &Path) {
    let command = looking_git(env, root);
    let output = command.map(|mut git| git.arg("--version").stdin(Stdio::null()).output());
    match output {
        Some(Ok(output)) if output.status.success() => {
            report.ok("git", String::from_utf8_lossy(&output.stdout).trim());
        }
        _ => report.note("git", "not found; rewake works without it"),
    }
}
