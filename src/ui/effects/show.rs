//! Look-ups for the screen: details of offers, earlier entries, running commands, changes.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ratatui::text::Line;

use super::Effects;
use crate::core::custom::Template;
use crate::core::entry::{CallId, MemoryKind, Seq};
use crate::core::marks::title_line;
use crate::core::text::{clip, count, one_line, session_name};
use crate::session::hook_list::{HookList, hook_list};
use crate::session::{
    Details, EditQuery, FilesRow, GLANCE_ENTRIES, Offer, ProcessObject, ServerRow, SessionError,
    ago, changed_by_call, clock, dismiss, edit_places, glance, now_ms, short_id, still_running,
};
use crate::store::{MemoryQuery, Scope, SessionFilter, SessionInfo};
use crate::ui::Wake;
use crate::ui::app::{App, Begin, Msg};
use crate::ui::commands::{Custom, CustomList};
use crate::ui::files::Files;
use crate::ui::overlay::{For, Picker, PickerItem};
use crate::ui::text::clean;
use crate::ui::transcript::{Span, Tone};
use crate::workspace::CustomCommand;

/// Maximum size of the shown end of an output.
const TAIL_BYTES: u64 = 16 << 10;

/// Maximum size of a diff or a report.
const REPORT_BYTES: usize = 1 << 20;

const MAX_SESSIONS: u32 = 200;
const LABEL_CHARS: usize = 100;

/// Maximum size of a file for an approval. The edit of a larger file is shown without the lines
/// around it.
const MAX_ASKED_BYTES: u64 = 1 << 20;

impl Effects {
    /// Runs work in a separate thread and sends its result to the screen.
    pub(super) fn aside<W: Into<Wake>>(&self, work: impl FnOnce() -> Option<W> + Send + 'static) {
        let sender = self.to_screen.clone();
        let work = move || {
            if let Some(wake) = work() {
                let _ = sender.send(wake.into());
            }
        };
        let spawned = std::thread::Builder::new().name("aside".into()).spawn(work);
        if let Err(e) = spawned {
            self.notify(Tone::Bad, format!("cannot start a thread: {e}"));
        }
    }

    pub(super) fn details(&self, offers: Vec<Offer>) {
        let ctx = Arc::clone(&self.ctx);
        let sender = self.to_screen.clone();
        std::thread::spawn(move || {
            let Ok(store) = ctx.open_store() else {
                return;
            };
            let details = |info: &SessionInfo| -> Result<Details, SessionError> {
                let running = (&ctx.runs()?, &ctx.servers()?);
                ctx.session_list().details(&store, info, running)
            };
            for offer in offers.into_iter().filter(|o| o.held_by.is_none()) {
                let details = details(&offer.info)
                    .inspect_err(|error| tracing::warn!(%error, "an offer cannot be read"))
                    .ok();
                let msg = Msg::Details(offer.info.id, details);
                if sender.send(Wake::Msg(msg)).is_err() {
                    return;
                }
            }
        });
    }

    pub(super) fn look_again(&self, sessions: Vec<String>) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let found = ctx
                .runs()
                .map(|runs| still_running(&runs, sessions))
                .inspect_err(|error| tracing::warn!(%error, "running commands cannot be read"));
            Some(Msg::StillRunning(found.ok()))
        });
    }

    /// Reads the file of an edit that needs approval. Without it the edit is shown without the
    /// lines around it.
    pub(super) fn read_asked(&self, call: CallId, path: PathBuf) {
        self.aside(move || {
            let found = std::fs::symlink_metadata(&path).map_err(|e| e.kind());
            if found.err() == Some(std::io::ErrorKind::NotFound) {
                return Some(Msg::AskedFile(call, None));
            }
            let text = crate::config::read_exact_text(&path, MAX_ASKED_BYTES).ok()?;
            Some(Msg::AskedFile(call, Some(text)))
        });
    }

    pub(super) fn earlier(&self, range: RangeInclusive<Seq>, app: &App) {
        let Some(id) = app.session.id.clone() else {
            return;
        };
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let records = ctx.open_store().and_then(|store| store.records(&id, range));
            Some(Msg::Earlier(id, records.map_err(|e| e.to_string())))
        });
    }

    /// Finds the changes that calls made to files. Unreadable ones are reported as unknown.
    pub(super) fn call_changes(&self, session: String, spans: Vec<Span>) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let store = ctx.open_store();
            let known = spans.into_iter().map(|span| {
                let store = store.as_ref().ok();
                let changed = store.map(|store| changed_by_call(store, &session, span));
                let files = changed.transpose().unwrap_or_else(|error| {
                    tracing::warn!(%error, "what a call changed cannot be read");
                    None
                });
                (span, files.flatten())
            });
            let known = known.collect();
            Some(Msg::CallChanges(session, known))
        });
    }

    /// Finds the places of edits. Unreadable ones are reported as unknown.
    pub(super) fn edit_places(&self, edits: Vec<EditQuery>) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let store = ctx.open_store().ok();
            Some(Msg::EditPlaces(edit_places(store.as_ref(), edits)))
        });
    }

    /// Shows the storage of files.
    pub(super) fn files(&self) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let rows = ctx.files_rows();
            let text: Vec<String> = rows.iter().map(FilesRow::text).collect();
            Some(Msg::Show("files".into(), plain_lines(&text.join("\n\n"))))
        });
    }

    /// Shows the configured servers, and the known facts about them.
    pub(super) fn mcp(&self, app: &App) {
        let (ctx, session) = (Arc::clone(&self.ctx), app.session.id.clone());
        self.aside(move || {
            let rows = ctx.server_rows(session.as_deref());
            Some(Msg::Show(
                "servers".into(),
                plain_lines(&ServerRow::text(&rows)),
            ))
        });
    }

    /// Shows the hooks of this folder, and the guards of other agents that are not in force.
    pub(super) fn hooks(&self) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            Some(match hook_list(&ctx) {
                Ok(HookList { lines, notes }) => {
                    let mut text = match lines.is_empty() {
                        true => {
                            vec!["there are no hooks or checks; docs/hooks.md and docs/checks.md describe the files".into()]
                        }
                        false => lines,
                    };
                    text.extend(notes);
                    Msg::Show("hooks".into(), plain_lines(&text.join("\n")))
                }
                Err(error) => Msg::Notice(Tone::Bad, error.to_string()),
            })
        });
    }

    /// Shows the running commands of all sessions, and what commands left running.
    pub(super) fn ps(&self) {
        let Some(runs) = self.runs.clone() else {
            return;
        };
        self.aside(move || {
            let running = runs.list().into_iter().filter_map(|info| {
                let one = ProcessObject::of_run(info)?;
                let age = clock(now_ms() - one.since_ms);
                Some(PickerItem {
                    label: one_line(&one.command, 100),
                    detail: format!(
                        "{} · {age} · session {}",
                        one.state(),
                        short_id(&one.session)
                    ),
                    value: one.id,
                })
            });
            let mut picker = Picker::new(For::Run, "running commands", running.collect());
            picker.note = Some("Enter shows its output · Ctrl+X stops it".into());
            Some(Msg::Pick(picker))
        });
    }

    pub(super) fn stop_run(&self, run: &str) {
        let Some(runs) = self.runs.clone() else {
            return;
        };
        let run = run.to_string();
        self.aside(move || {
            let (tone, text) = match runs.stop(&run) {
                Ok(_) => (Tone::Calm, "it is being stopped".to_string()),
                Err(e) => (Tone::Bad, format!("cannot stop it: {e}")),
            };
            Some(Msg::Notice(tone, text))
        });
    }

    /// Reads the last output of a run, for the viewer that is attached to it.
    pub(super) fn tail(&self, run: &str) {
        let Some(runs) = self.runs.clone() else {
            return;
        };
        let run = run.to_string();
        self.aside(move || {
            let text = match runs.tail(&run, TAIL_BYTES) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(e) => format!("(nothing more can be read: {e})"),
            };
            Some(Msg::Output(run, text))
        });
    }

    /// Reads the live output of the commands that the conversation shows.
    pub(crate) fn tails(&self, app: &App) {
        let running = app.conversation.transcript.running();
        let of_user: Vec<String> = app
            .user_commands
            .list
            .iter()
            .filter_map(|c| c.run.clone())
            .collect();
        let is_none = running.is_empty() && of_user.is_empty();
        let Some(runs) = self.runs.clone().filter(|_| !is_none) else {
            return;
        };
        // Only one read at a time, also on a slow disk.
        if self.is_tailing.swap(true, Ordering::SeqCst) {
            return;
        }
        let is_tailing = Arc::clone(&self.is_tailing);
        let to_screen = self.to_screen.clone();
        self.aside(move || {
            let tail = |run: &str| {
                let bytes = runs.tail(run, 4_096).ok()?;
                Some(String::from_utf8_lossy(&bytes).into_owned())
            };
            let of_user = of_user
                .into_iter()
                .filter_map(|run| Some((tail(&run)?, run)));
            let of_user: Vec<_> = of_user.map(|(text, run)| (run, text)).collect();
            if !of_user.is_empty() {
                let _ = to_screen.send(Wake::Msg(Msg::UserTails(of_user)));
            }
            let tails = running
                .into_iter()
                .filter_map(|(call, run)| Some((call, tail(&run)?)));
            let tails = tails.collect();
            is_tailing.store(false, Ordering::SeqCst);
            Some(Msg::Tails(tails))
        });
    }

    /// Shows the report of `rewake doctor`.
    pub(super) fn doctor(&self) {
        let folder = self.ctx.here.folder.clone();
        self.aside(move || {
            let exe = crate::command::own_exe().ok()?;
            let output = crate::sandbox::child(exe)
                .arg("doctor")
                .current_dir(folder)
                .stdin(Stdio::null())
                .output();
            Some(match output {
                Ok(output) => {
                    let text = String::from_utf8_lossy(&output.stdout).into_owned();
                    Msg::Show("doctor".into(), plain_lines(&text))
                }
                Err(e) => Msg::Notice(Tone::Bad, format!("cannot run the doctor: {e}")),
            })
        });
    }

    /// Lists the newest sessions of this folder, to choose from.
    pub(super) fn sessions(&self, open: Option<String>) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let workspace = ctx.workspace();
            let filter = SessionFilter::of(&workspace);
            let found = ctx.open_store().and_then(|store| {
                let sessions = store.history().sessions(filter, MAX_SESSIONS)?;
                Ok((store, sessions))
            });
            let (store, sessions) = match found {
                Ok(found) => found,
                Err(e) => return Some(Msg::Notice(Tone::Bad, e.to_string())),
            };
            let now = now_ms();
            // The open session is left out.
            let others = sessions
                .into_iter()
                .filter(|info| open.as_ref() != Some(&info.id));
            let items = others.map(|info| {
                let seen = glance(&store, &info, GLANCE_ENTRIES);
                let state = ctx.session_list().standing(&info, &seen).word();
                let fork = match info.forked_from {
                    Some(_) => "⑂ ",
                    None => "",
                };
                PickerItem {
                    label: format!(
                        "{fork}{}",
                        title_line(session_name(info.title.as_deref()), LABEL_CHARS)
                    ),
                    detail: format!(
                        "{state} · {} ago · {} · {}",
                        ago(now - info.updated_ms),
                        count(info.entries, "entry"),
                        short_id(&info.id)
                    ),
                    value: info.id,
                }
            });
            let items: Vec<PickerItem> = items.collect();
            Some(match items.is_empty() {
                true => Msg::Notice(
                    Tone::Calm,
                    "there is no other session in this folder; F2 shows those of all folders"
                        .to_string(),
                ),
                false => Msg::Pick(Picker::new(For::Resume, "resume", items)),
            })
        });
    }
}

impl Effects {
    /// Looks up the first screen, and the other facts that the screen needs.
    pub(crate) fn begin(&mut self, start: crate::ui::Start, app: &mut App) {
        self.offers_all = start.all;
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            Some(match crate::ui::begin(&ctx, start) {
                Ok(begin) => Wake::Msg(Msg::Begin(Box::new(begin))),
                Err(e) => Wake::NotBegun(e.to_string(), e.hint()),
            })
        });
        let sender = self.to_screen.clone();
        let root = self.ctx.here.folder.clone();
        let files = Files::start(root, move || {
            let _ = sender.send(Wake::Msg(Msg::FilesListed));
        });
        match files {
            Ok(files) => app.input.files = Some(Arc::new(files)),
            Err(error) => tracing::warn!(%error, "files cannot be mentioned"),
        }
        self.commands();
        self.branch();
    }

    pub(crate) fn branch(&self) {
        let root = self.ctx.here.root.clone();
        self.aside(move || Some(Msg::Branch(crate::workspace::branch(&root))));
    }

    pub(super) fn offers(&self) {
        let ctx = Arc::clone(&self.ctx);
        let start = crate::ui::Start {
            all: self.offers_all,
            ..crate::ui::Start::default()
        };
        self.aside(move || {
            Some(match crate::ui::begin(&ctx, start) {
                Ok(begin) => Msg::Begin(Box::new(begin)),
                Err(e) => Msg::Notice(Tone::Bad, e.to_string()),
            })
        });
    }

    /// Lists the custom commands of the user and of the workspace; one listing at a time.
    pub(super) fn commands(&self) {
        if self.is_listing.swap(true, Ordering::SeqCst) {
            return;
        }
        let ctx = Arc::clone(&self.ctx);
        let is_listing = Arc::clone(&self.is_listing);
        self.aside(move || {
            let found = ctx.command_files().commands(crate::ui::commands::is_own);
            is_listing.store(false, Ordering::SeqCst);
            Some(Msg::Commands(CustomList {
                commands: found.found.into_iter().map(listed).collect(),
                warnings: found.warnings,
                servers: ctx
                    .found_servers()
                    .servers
                    .into_iter()
                    .map(|of| of.name)
                    .collect(),
            }))
        });
    }

    /// Shows the skills that the model may read here.
    pub(super) fn skills(&self) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let skills = crate::workspace::skills(&ctx.here, &ctx.paths.config_dir);
            let mut text: Vec<String> = skills
                .found
                .iter()
                .map(|skill| {
                    let heading = &skill.heading;
                    format!("{}\n  {}\n  {}", heading.name, heading.description, skill.path.display())
                })
                .collect();
            text.extend(skills.warnings);
            if text.is_empty() {
                text.push("no skill was found in .rewake/skills, .agents/skills, .claude/skills or your config folder".into());
            }
            Some(Msg::Show("skills".into(), plain_lines(&text.join("\n\n"))))
        });
    }

    pub(super) fn dismiss(&self, id: String) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let dismissed = ctx
                .open_store()
                .and_then(|mut store| dismiss(&mut store, &ctx.paths.data_dir, &id));
            let outcome = dismissed.map(drop).map_err(|e| e.to_string());
            Some(Msg::Dismissed(id, outcome))
        });
    }

    pub(super) fn offer_held(&self, id: String) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let offered = ctx.open_store().and_then(|store| store.history().find(&id));
            Some(match offered {
                Ok(info) => {
                    let offers = vec![ctx.session_list().offer(info)];
                    let prompt = None;
                    Msg::Begin(Box::new(Begin::Offers { offers, prompt }))
                }
                Err(e) => Msg::Notice(Tone::Bad, e.to_string()),
            })
        });
    }

    pub(super) fn memory(&self, words: String) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let workspace = ctx.workspace();
            let words = words.trim();
            let found = ctx.open_store().and_then(|store| match words {
                "" => store.index().newest_memories(&workspace, now_ms(), MAX_MEMORIES),
                words => store.index().memories(&MemoryQuery {
                    query: words,
                    scope: Scope::Workspace(&workspace),
                    kinds: &MEMORY_KINDS.map(MemoryKind::name),
                    now_ms: now_ms(),
                    limit: MAX_MEMORIES,
                }),
            });
            Some(match found {
                Ok(found) => {
                    let text: Vec<String> = found
                        .iter()
                        .map(|m| {
                            let topic = m.topic.as_deref().unwrap_or("no topic");
                            let age = ago(now_ms() - m.at_ms);
                            format!("{} · {topic} · {age} ago\n  {}", m.kind, one_line(&m.text, 1_000))
                        })
                        .collect();
                    let text = match text.is_empty() {
                        true if words.is_empty() => "nothing is remembered here yet; the model keeps facts with memory_insert".to_string(),
                        true => format!("no memory here matches {words:?}; /memory without words lists all"),
                        false => text.join("\n\n"),
                    };
                    Msg::Show("memory of this workspace".into(), plain_lines(&text))
                }
                Err(e) => Msg::Notice(Tone::Bad, e.to_string()),
            })
        });
    }
}

const MAX_MEMORIES: u32 = 100;

const MEMORY_KINDS: [MemoryKind; 3] = [
    MemoryKind::Episodic,
    MemoryKind::Semantic,
    MemoryKind::Procedural,
];

pub(super) fn plain_lines(text: &str) -> Vec<Line<'static>> {
    clean(&clip(text, REPORT_BYTES))
        .lines()
        .map(|line| Line::raw(line.to_string()))
        .collect()
}

/// Converts a custom command for the list of commands.
fn listed(command: CustomCommand) -> Arc<Custom> {
    let whose = match command.of_workspace {
        Some(_) => "project",
        None => "yours",
    };
    let Template {
        description,
        argument_hint,
        ..
    } = command.template;
    Arc::new(Custom {
        name: command.name,
        argument: argument_hint,
        help: format!("{description} ({whose})"),
    })
}
