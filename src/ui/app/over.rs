//! Keys for what lies over the conversation: offers, questions, lists, the search, the history.

use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::keys::UNREAD;
use super::{App, Intent, Overlay, Phase, Yes};
use crate::core::next::Why;
use crate::engine::Command;
use crate::model::provider::Secret;
use crate::session::Which;
use crate::ui::history;
use crate::ui::overlay::{Chosen, Picked, Reviewed, Setup, Typed};

impl App {
    pub(super) fn over_key(&mut self, key: &KeyEvent, at: Instant) -> Vec<Intent> {
        match &mut self.prompts.overlay {
            Overlay::None => Vec::new(),
            Overlay::Card(card) => match card.key(key) {
                Chosen::Help => {
                    self.show_help();
                    Vec::new()
                }
                chosen => self.card_chosen(chosen),
            },
            Overlay::FirstRun(first) => match first.key(key) {
                Setup::Nothing => Vec::new(),
                Setup::Model(model) => {
                    self.prompts.overlay = Overlay::None;
                    vec![Intent::ChooseModel(model)]
                }
                Setup::Key(provider, model) => {
                    self.prompts.open_key_entry(&provider, model);
                    Vec::new()
                }
                Setup::Demo => vec![Intent::Demo],
                Setup::Typed => self.key_under(key, at),
                Setup::Help => {
                    self.show_help();
                    Vec::new()
                }
                Setup::Quit => vec![Intent::Quit],
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
                self.history_did(did)
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
                    if let Some(behind) = self.prompts.behind.take() {
                        self.raise(*behind);
                    }
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
                self.rewind_did(did)
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

    pub(super) fn card_chosen(&mut self, chosen: Chosen) -> Vec<Intent> {
        let which = match chosen {
            Chosen::Nothing | Chosen::Help => return Vec::new(),
            Chosen::Quit => return vec![Intent::Quit],
            Chosen::History => return self.open_history(""),
            Chosen::Watch(id) => {
                self.prompts.overlay = Overlay::None;
                return vec![Intent::Watch(id)];
            }
            Chosen::Dismiss(id) => return vec![Intent::Dismiss(id)],
            Chosen::New => Which::New,
            Chosen::Resume(id) => Which::Named { id, fork: false },
            Chosen::Fork(id) => Which::Named { id, fork: true },
            Chosen::TakeOver(id) => {
                self.prompts.overlay = Overlay::None;
                let which = Which::Named { id, fork: false };
                return vec![Intent::Open {
                    which,
                    take_over: true,
                }];
            }
        };
        self.prompts.overlay = Overlay::None;
        vec![Intent::Open {
            which,
            take_over: false,
        }]
    }

    /// Takes the answer to a question of yes or no. A yes counts only when the end of what is asked
    /// was on the screen.
    pub(super) fn answered(&mut self, is_yes: bool) -> Vec<Intent> {
        if is_yes && !self.prompts.page.end_seen {
            self.hint = Some(UNREAD.into());
            return Vec::new();
        }
        let is_stopped = matches!(self.session.phase, Phase::Resting(why) if why != Why::Idle);
        match std::mem::replace(&mut self.prompts.overlay, Overlay::None) {
            Overlay::Trust(project) => {
                // What follows waits until the answer is kept and its content is in use.
                self.session.phase = Phase::Starting;
                match is_yes {
                    // What was shown is trusted, not what is there by now.
                    true => vec![Intent::Trust(project.content)],
                    false => vec![Intent::Distrust],
                }
            }
            Overlay::Confirm { yes, .. } if is_yes => match yes {
                Yes::Do(intents) => intents,
                Yes::Say(words) => self.say(words),
                Yes::GoOn if !is_stopped => vec![Intent::Engine(Command::GoOn)],
                Yes::GoOn | Yes::Nothing => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    pub(super) fn history_did(&mut self, did: history::Did) -> Vec<Intent> {
        let which = match did {
            history::Did::Nothing => return Vec::new(),
            history::Did::Request(ask) => return vec![Intent::History(ask)],
            history::Did::Close => {
                self.prompts.overlay = Overlay::None;
                return match self.session.phase {
                    // Nothing was chosen yet: the offers come back, or a new session.
                    Phase::Nothing => vec![Intent::Offers],
                    _ => Vec::new(),
                };
            }
            history::Did::Export { id, file } => {
                return vec![Intent::Export {
                    session: id,
                    file: Some(file),
                }];
            }
            history::Did::Rename { id, title } => {
                return match self.session.id.as_deref() == Some(id.as_str()) {
                    true => {
                        if let Overlay::History(pane) = &mut self.prompts.overlay {
                            let outcome = Ok(title.clone());
                            pane.receive(history::HistoryResponse::Renamed { id, outcome });
                        }
                        vec![Intent::Engine(Command::Name(title))]
                    }
                    false => vec![Intent::History(history::HistoryRequest::Rename {
                        id,
                        title,
                    })],
                };
            }
            history::Did::Resume(id) if self.session.id.as_deref() == Some(id.as_str()) => {
                self.prompts.overlay = Overlay::None;
                return Vec::new();
            }
            history::Did::Resume(id) => Which::Named {
                id,
                fork: self.picks_copy,
            },
            history::Did::ForkAt { id, seq } => Which::ForkAt { id, seq },
        };
        self.picks_copy = false;
        self.prompts.overlay = Overlay::None;
        vec![Intent::Open {
            which,
            take_over: false,
        }]
    }
}

fn is_ctrl_c(key: &KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}
