//! What is looked up to be shown: details of offers, earlier entries, what runs, what changed.

use std::process::{Command as Process, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ratatui::text::{Line, Span};

use super::Effects;
use crate::command::RunState;
use crate::core::entry::{MemoryKind, Seq};
use crate::core::text::{clip, count, one_line};
use crate::session::{Offer, ago, clock, now_ms, short_id};
use crate::store::{Scope, SessionFilter, Sought};
use crate::ui::Wake;
use crate::ui::app::{App, Begin, Msg};
use crate::ui::files::Files;
use crate::ui::overlay::{For, Picker, PickerItem};
use crate::ui::text::clean;
use crate::ui::theme::Theme;
use crate::ui::transcript::Tone;

/// As many earlier entries are fetched at a time.
const EARLIER: u64 = 400;

/// Of what a run printed.
const TAIL_BYTES: u64 = 16 << 10;

/// Of a diff or a report.
const REPORT_BYTES: usize = 1 << 20;

const MAX_SESSIONS: u32 = 200;

impl Effects {
    /// On a thread of its own; what it gives is shown.
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
            for offer in offers.into_iter().filter(|o| o.held_by.is_none()) {
                let details = ctx
                    .details(&store, &offer.info)
                    .inspect_err(|error| tracing::warn!(%error, "an offer cannot be read"))
                    .ok();
                let msg = Msg::Details(offer.info.id, details);
                if sender.send(Wake::Msg(msg)).is_err() {
                    return;
                }
            }
        });
    }

    pub(super) fn earlier(&self, first: Seq, app: &App) {
        let Some(id) = app.id.clone() else {
            return;
        };
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let from = first.saturating_sub(EARLIER);
            let records = ctx
                .open_store()
                .and_then(|store| store.records(&id, from..=first.saturating_sub(1)));
            match records {
                Ok(records) => Some(Msg::Earlier(records)),
                Err(e) => Some(Msg::Notice(
                    Tone::Bad,
                    format!("cannot read earlier entries: {e}"),
                )),
            }
        });
    }

    /// What runs in the background, and what was left behind.
    pub(super) fn ps(&self) {
        let Some(runs) = self.runs.clone() else {
            return;
        };
        self.aside(move || {
            let running = runs.list().into_iter().filter_map(|info| {
                let how = match &info.state {
                    RunState::Running { .. } if info.spec.is_of_user() => "typed by you",
                    RunState::Running { .. } if info.spec.background => "background",
                    RunState::Running { .. } => "running",
                    _ => return None,
                };
                let age = clock(now_ms() - info.since_ms);
                Some(PickerItem {
                    label: one_line(&info.spec.command, 100),
                    detail: format!("{how} {age} · session {}", short_id(&info.spec.session)),
                    value: info.run,
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

    /// The last output of a run, for the viewer that is attached to it.
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

    /// The live output of the commands that the conversation shows.
    pub(crate) fn tails(&self, app: &App) {
        let running = app.transcript.running();
        let of_user: Vec<String> = app
            .user_commands
            .iter()
            .filter_map(|c| c.run.clone())
            .collect();
        let is_none = running.is_empty() && of_user.is_empty();
        let Some(runs) = self.runs.clone().filter(|_| !is_none) else {
            return;
        };
        // One look at a time, also where the disk is slow.
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

    /// What the working tree has that its last commit has not.
    pub(super) fn diff(&self, app: &App) {
        let folder = self.ctx.here.root.clone();
        let theme = app.theme.clone();
        self.aside(move || {
            let output = Process::new("git")
                .args([
                    "-c",
                    "core.pager=cat",
                    "diff",
                    "--no-ext-diff",
                    "--no-color",
                    "HEAD",
                ])
                .current_dir(folder)
                .env("GIT_OPTIONAL_LOCKS", "0")
                .stdin(Stdio::null())
                .output();
            Some(match output {
                Ok(output) if output.status.success() => {
                    let text = String::from_utf8_lossy(&output.stdout);
                    let lines = match text.trim() {
                        "" => vec![Line::raw("no file of the repository is changed")],
                        text => diff_lines(text, &theme),
                    };
                    Msg::Show("changes since the last commit".into(), lines)
                }
                Ok(output) => {
                    let why = String::from_utf8_lossy(&output.stderr).into_owned();
                    Msg::Notice(Tone::Warn, format!("git diff: {}", one_line(&why, 300)))
                }
                Err(e) => Msg::Notice(Tone::Warn, format!("cannot run git: {e}")),
            })
        });
    }

    /// The same report as `rewake doctor`.
    pub(super) fn doctor(&self) {
        let folder = self.ctx.here.folder.clone();
        self.aside(move || {
            let exe = crate::command::own_exe().ok()?;
            let output = Process::new(exe)
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

    /// The newest sessions of this folder, to choose from.
    pub(super) fn sessions(&self) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let workspace = ctx.workspace();
            let filter = SessionFilter {
                workspace: Some(&workspace),
                unfinished: false,
            };
            let sessions = ctx
                .open_store()
                .and_then(|store| store.sessions(filter, MAX_SESSIONS));
            let sessions = match sessions {
                Ok(sessions) => sessions,
                Err(e) => return Some(Msg::Notice(Tone::Bad, e.to_string())),
            };
            let now = now_ms();
            let items = sessions.into_iter().map(|info| {
                let state = match info.unfinished {
                    _ if ctx.is_in_use(&info.id) => "open elsewhere",
                    true => "unfinished",
                    false => "done",
                };
                PickerItem {
                    label: info.title.clone().unwrap_or_else(|| "untitled".into()),
                    detail: format!(
                        "{state} · {} ago · {} · {}",
                        ago(now - info.updated_ms),
                        count(info.entries, "entry"),
                        short_id(&info.id)
                    ),
                    value: info.id,
                }
            });
            Some(Msg::Pick(Picker::new(
                For::Resume,
                "go on with",
                items.collect(),
            )))
        });
    }
}

impl Effects {
    /// What the screen begins with is looked up, and what else it wants to know.
    pub(crate) fn begin(&mut self, start: crate::ui::Start, app: &mut App) {
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
            Ok(files) => app.files = Some(Arc::new(files)),
            Err(error) => tracing::warn!(%error, "files cannot be mentioned"),
        }
        self.branch();
    }

    pub(crate) fn branch(&self) {
        let root = self.ctx.here.root.clone();
        self.aside(move || Some(Msg::Branch(crate::workspace::branch(&root))));
    }

    pub(super) fn offers(&self) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            Some(match crate::ui::begin(&ctx, crate::ui::Start::default()) {
                Ok(begin) => Msg::Begin(Box::new(begin)),
                Err(e) => Msg::Notice(Tone::Bad, e.to_string()),
            })
        });
    }

    /// The skills that the model may read here.
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

    pub(super) fn offer_held(&self, id: String) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let offered = ctx.open_store().and_then(|store| store.find(&id));
            Some(match offered {
                Ok(info) => {
                    let offers = vec![ctx.offer(info)];
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
                "" => store.newest_memories(&workspace, now_ms(), MAX_MEMORIES),
                words => store.memories(&Sought {
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
                        true => format!("nothing that is remembered here speaks of {words:?}; /memory alone lists all"),
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

fn diff_lines(text: &str, theme: &Theme) -> Vec<Line<'static>> {
    let style = |line: &str| match line {
        l if l.starts_with("+++") || l.starts_with("---") || l.starts_with("diff ") => {
            theme.heading()
        }
        l if l.starts_with("@@") => theme.accent,
        l if l.starts_with('+') => theme.diff_add,
        l if l.starts_with('-') => theme.diff_del,
        _ => theme.text,
    };
    clean(&clip(text, REPORT_BYTES))
        .lines()
        .map(|line| Line::from(Span::styled(line.to_string(), style(line))))
        .collect()
}
