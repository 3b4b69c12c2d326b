//! Keys for overlays: offers, questions, lists, the search, the history.

use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::questions::UNREAD;
use super::{App, Intent, OpenSession, Overlay, Phase, Prompts, Yes};
use crate::core::next::Why;
use crate::core::signal::Signal;
use crate::engine::Command;
use crate::model::provider::Secret;
use crate::session::SessionSelector;
use crate::ui::history;
use crate::ui::overlay::{Picked, ResumeChoice, Reviewed, Setup, Typed};

impl App {
    pub(super) fn over_key(&mut self, key: &KeyEvent, at: Instant) -> Vec<Intent> {
        match &mut self.prompts.overlay {
            Overlay::None => Vec::new(),
            Overlay::Card(card) => {
                let chosen = card.key(key);
                self.prompts.card_chosen(chosen)
            }
            Overlay::FirstRun(first) => match first.key(key) {
                Setup::Typed => self.key_under(key, at),
                setup => self.prompts.set_up(setup),
            },
            Overlay::Key(entry) => {
                let typed = entry.key(key);
                self.key_typed(typed)
            }
            Overlay::Trust(_) if is_ctrl_c(key) => vec![Intent::Quit],
            Overlay::Trust(_) | Overlay::Confirm { .. } => match self.prompts.yes_or_no_key(key) {
                Some(is_yes) => self.answered(is_yes),
                None => Vec::new(),
            },
            Overlay::History(pane) => {
                let did = pane.key(key);
                self.prompts.history_did(did, &self.session)
            }
            Overlay::Picker(picker) => match picker.key(key) {
                Picked::Nothing => Vec::new(),
                Picked::Closed => {
                    self.prompts.overlay = Overlay::None;
                    Vec::new()
                }
                Picked::Value(value) => {
                    let what = picker.what;
                    self.prompts.overlay = Overlay::None;
                    self.picked(what, value)
                }
                Picked::Stop(value) => {
                    self.prompts.overlay = Overlay::None;
                    vec![Intent::StopRun(value)]
                }
            },
            Overlay::Viewer(viewer) => {
                if !viewer.key(key) {
                    self.prompts.overlay = Overlay::None;
                }
                Vec::new()
            }
            Overlay::Review(review) => match review.key(key) {
                Reviewed::Nothing => Vec::new(),
                Reviewed::Edit(path, line) => vec![Intent::EditAt(path, line)],
                Reviewed::Closed => {
                    self.prompts.overlay = Overlay::None;
                    Vec::new()
                }
            },
            Overlay::Rewind(pane) => {
                let did = pane.key(key);
                let done = self.prompts.rewind_did(did);
                self.with_hint(done)
            }
            Overlay::Search(search) => {
                let mut layout = self.look.layout(self.now_ms);
                let found = self.conversation.search_key(search, key, &mut layout);
                found.unwrap_or_else(|| {
                    self.prompts.overlay = Overlay::None;
                    Vec::new()
                })
            }
        }
    }

    pub(super) fn key_typed(&mut self, typed: Typed) -> Vec<Intent> {
        if typed == Typed::Nothing {
            return Vec::new();
        }
        let Overlay::Key(entry) = std::mem::replace(&mut self.prompts.overlay, Overlay::None)
        else {
            return Vec::new();
        };
        match typed {
            Typed::Keep(key) => vec![Intent::KeepKey {
                provider: entry.provider,
                key: Secret::new(key),
                model: entry.model,
            }],
            Typed::Back | Typed::Nothing => {
                if let Some(first) = entry.back {
                    self.raise(Overlay::FirstRun(first));
                }
                Vec::new()
            }
        }
    }

    /// Takes the answer to a yes-or-no question. A yes counts only when the end of the question was
    /// on the screen.
    pub(super) fn answered(&mut self, is_yes: bool) -> Vec<Intent> {
        if is_yes && !self.prompts.page.end_seen {
            self.hint = Some(UNREAD.into());
            return Vec::new();
        }
        let is_stopped = matches!(self.session.phase, Phase::Resting(why) if why != Why::Idle);
        match std::mem::replace(&mut self.prompts.overlay, Overlay::None) {
            Overlay::Trust(project) => {
                // The start continues when the answer is stored and the config is in use.
                self.session.phase = Phase::Starting;
                match is_yes {
                    // Only the content that was shown is trusted, even if the file has changed
                    // since.
                    true => vec![Intent::Trust(project.content)],
                    false => vec![Intent::Distrust],
                }
            }
            Overlay::Confirm { yes, .. } if is_yes => match yes {
                Yes::Do(intents) => intents,
                Yes::Say(words) => self.say(words),
                Yes::GoOn if !is_stopped => vec![Intent::Engine(Command::Signal(Signal::GoOn))],
                Yes::GoOn | Yes::Nothing => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

impl Prompts {
    /// Opens the history. Words narrow it.
    pub(super) fn open_history(&mut self, words: &str) -> Vec<Intent> {
        let (mut pane, ask) = history::Pane::new(&self.workspace);
        let ask = match words.is_empty() {
            true => ask,
            false => match pane.paste(words) {
                history::PaneOutcome::Request(narrowed) => narrowed,
                _ => ask,
            },
        };
        self.overlay = Overlay::History(Box::new(pane));
        vec![Intent::History(ask)]
    }

    pub(super) fn history_did(
        &mut self,
        did: history::PaneOutcome,
        session: &OpenSession,
    ) -> Vec<Intent> {
        let is_open = |id: &str| session.id.as_deref() == Some(id);
        let which = match did {
            history::PaneOutcome::Nothing => return Vec::new(),
            history::PaneOutcome::Request(ask) => return vec![Intent::History(ask)],
            history::PaneOutcome::Close => {
                self.overlay = Overlay::None;
                return match session.phase {
                    // Nothing was chosen yet, so the offers return, or a new session starts.
                    Phase::Nothing => vec![Intent::Offers],
                    _ => Vec::new(),
                };
            }
            history::PaneOutcome::Export { id, file } => {
                return vec![Intent::Export {
                    session: id,
                    file: Some(file),
                }];
            }
            history::PaneOutcome::Rename { id, title } if is_open(&id) => {
                if let Overlay::History(pane) = &mut self.overlay {
                    let outcome = Ok(title.clone());
                    pane.receive(history::HistoryResponse::Renamed { id, outcome });
                }
                return vec![Intent::Engine(Command::Signal(Signal::Name { title }))];
            }
            history::PaneOutcome::Rename { id, title } => {
                return vec![Intent::History(history::HistoryRequest::Rename {
                    id,
                    title,
                })];
            }
            history::PaneOutcome::Resume(id) if is_open(&id) => {
                self.overlay = Overlay::None;
                return Vec::new();
            }
            history::PaneOutcome::Resume(id) => SessionSelector::Named {
                id,
                fork: self.picks_copy,
            },
            history::PaneOutcome::ForkAt { id, seq } => SessionSelector::ForkAt { id, seq },
        };
        self.picks_copy = false;
        self.overlay = Overlay::None;
        vec![Intent::open(which)]
    }

    /// Performs the choice on the resume prompt.
    pub(super) fn card_chosen(&mut self, chosen: ResumeChoice) -> Vec<Intent> {
        let intent = match chosen {
            ResumeChoice::Nothing => return Vec::new(),
            ResumeChoice::Quit => return vec![Intent::Quit],
            ResumeChoice::History => return self.open_history(""),
            ResumeChoice::Dismiss(id) => return vec![Intent::Dismiss(id)],
            ResumeChoice::Watch(id) => Intent::Watch(id),
            ResumeChoice::New => Intent::open(SessionSelector::New),
            ResumeChoice::Resume(id) => Intent::open(SessionSelector::Named { id, fork: false }),
            ResumeChoice::Fork(id) => Intent::open(SessionSelector::Named { id, fork: true }),
            ResumeChoice::TakeOver(id) => Intent::Open {
                which: SessionSelector::Named { id, fork: false },
                take_over: true,
            },
        };
        self.overlay = Overlay::None;
        vec![intent]
    }

    /// Removes an offer from the card. After the last one a new session starts. Returns a hint too.
    pub(super) fn dismissed(
        &mut self,
        id: &str,
        outcome: Result<(), String>,
    ) -> (Vec<Intent>, Option<String>) {
        let Some(card) = self.card() else {
            return (Vec::new(), None);
        };
        match outcome {
            Ok(()) if card.dismissed(id) => (Vec::new(), None),
            Ok(()) => {
                self.overlay = Overlay::None;
                let hint = "dismissed: rewake --all offers it again".into();
                (vec![Intent::open(SessionSelector::New)], Some(hint))
            }
            Err(why) => (Vec::new(), Some(format!("cannot dismiss: {why}"))),
        }
    }

    /// Performs the choice on the first screen.
    pub(super) fn set_up(&mut self, setup: Setup) -> Vec<Intent> {
        match setup {
            Setup::Model(model) => {
                self.overlay = Overlay::None;
                vec![Intent::ChooseModel(model)]
            }
            Setup::Key(provider, model) => {
                self.open_key_entry(&provider, model);
                Vec::new()
            }
            Setup::Demo => vec![Intent::Demo],
            Setup::Quit => vec![Intent::Quit],
            Setup::Nothing | Setup::Typed => Vec::new(),
        }
    }
}

fn is_ctrl_c(key: &KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}
