//! The effects of the slash commands.

use crate::core::marks::MAX_TITLE_CHARS;
use ratatui::text::{Line, Span};
use serde_json::Value;

use super::open_session::choose_mode;
use super::rewind::rewind_part_picker;
use super::{App, Intent, OutgoingMessage, Overlay, Phase, Prompts, Yes};
use crate::core::choice::Effort;
use crate::core::entry::{Choice, Mode, Plan, PlanStep, Seq, StepState};
use crate::core::rule::RuleScope;
use crate::core::signal::Signal;
use crate::core::text::one_line;
use crate::engine::{Back, Command};
use crate::session::{CommandLine, ForkFolder, SessionSelector, SettingsChange, TEMPERATURE_RANGE};
use crate::ui::commands::SlashCommand;
use crate::ui::overlay::{For, Picker, PickerItem, RulePlace, Viewer};
use crate::ui::rewind::RewindWhat;
use crate::ui::text::clean_line;
use crate::ui::theme::Theme;
use crate::ui::transcript::Tone;
use crate::ui::view::{context_lines, cost_lines};

/// Shown until the older part is summarised, or is not.
pub(super) const COMPACTING: &str = "the older part will be summarised when no call is open";

impl App {
    pub(super) fn command(&mut self, command: SlashCommand, argument: &str) -> Vec<Intent> {
        let words = argument.to_string();
        match command {
            SlashCommand::Help => self.prompts.show_help(&self.input),
            SlashCommand::New => return self.open_new(words),
            SlashCommand::Resume if words.is_empty() => return vec![Intent::Sessions],
            SlashCommand::Resume => {
                return vec![Intent::open(SessionSelector::Named {
                    id: words,
                    fork: false,
                })];
            }
            SlashCommand::Fork => match fork_command(&words, self.session.id.clone()) {
                Ok(done) => return self.with_hint(done),
                Err(why) => self.hint = Some(why),
            },
            SlashCommand::Rewind => super::rewind::pick_rewind(self),
            SlashCommand::Undo => {
                let asked = self.prompts.undo(&self.session, &self.conversation);
                return self.or_hint(asked);
            }
            SlashCommand::Redo => {
                let (session, conversation) = (&self.session, &self.conversation);
                let (what, back) = (RewindWhat::Redo, Back::Undo);
                let asked = self
                    .prompts
                    .show_rewind_changes(what, back, session, conversation);
                return self.or_hint(asked);
            }
            SlashCommand::History => return self.prompts.open_history(&words),
            SlashCommand::Compact => {
                self.hint = Some(COMPACTING.into());
                return vec![Intent::Engine(Command::Signal(Signal::Compact))];
            }
            SlashCommand::Context => {
                let lines = context_lines(self);
                self.prompts.view("context", lines);
            }
            SlashCommand::Cost => {
                let lines = cost_lines(self);
                self.prompts.view("cost", lines);
            }
            SlashCommand::Plan => {
                let lines = plan_lines(self.session.now.plan.as_ref(), &self.look.theme);
                self.prompts.view("plan", lines);
            }
            SlashCommand::Model if narrows_models(&words) => return vec![Intent::Models(words)],
            SlashCommand::Model => return self.or_hint(choose_model(&words)),
            SlashCommand::Schema => {
                let (schema, theme) = (self.session.now.schema.as_ref(), &self.look.theme);
                let done = self.prompts.schema(&words, schema, theme);
                return self.or_hint(done);
            }
            SlashCommand::Key => {
                return self.or_hint(key_command(&words, &self.session.now.model));
            }
            SlashCommand::Permissions if words.is_empty() => return vec![Intent::Permissions],
            SlashCommand::Permissions => match mode_named(&words) {
                // Typed by hand, and still asked.
                Ok(Mode::BypassPermissions) => self.raise(bypass_question()),
                Ok(mode) => return choose_mode(mode),
                Err(why) => self.hint = Some(why),
            },
            SlashCommand::Memory => return vec![Intent::Memory(words)],
            SlashCommand::Skills => return vec![Intent::Skills],
            SlashCommand::Mcp => return vec![Intent::Mcp],
            SlashCommand::Hooks => return vec![Intent::Hooks],
            SlashCommand::Ps => return vec![Intent::Ps],
            SlashCommand::Init => {
                let command = CommandLine {
                    name: "init".to_string(),
                    arguments: words,
                    trusts: None,
                };
                return self.say(OutgoingMessage::of_command(command));
            }
            SlashCommand::Diff => return vec![Intent::Diff],
            SlashCommand::Files => return vec![Intent::Files],
            SlashCommand::Export => return self.session.export(&words),
            SlashCommand::Rename => {
                return vec![Intent::Engine(Command::Signal(Signal::Name {
                    title: one_line(&words, MAX_TITLE_CHARS),
                }))];
            }
            SlashCommand::Theme if words.is_empty() => return vec![Intent::Themes],
            SlashCommand::Theme => return vec![Intent::Theme(words)],
            SlashCommand::Vim => {
                let is_on = !self.input.composer.is_vim();
                self.input.composer.set_vim(is_on);
                let hint = match is_on {
                    true => "vim's keys are on: Esc goes to normal mode, i to insert mode",
                    false => "vim's keys are off",
                };
                self.hint = Some(hint.into());
            }
            SlashCommand::Reload => return vec![Intent::Reload],
            SlashCommand::Status => return vec![Intent::Status],
            SlashCommand::Doctor => return vec![Intent::Doctor],
            SlashCommand::Stop => {
                let (intents, hint) = self.session.stop();
                self.hint = hint.map(str::to_string);
                return intents;
            }
            SlashCommand::Quit => return vec![Intent::Quit],
        }
        Vec::new()
    }

    /// Returns the intents, or sets the hint that explains why there are none.
    pub(super) fn or_hint(&mut self, done: Result<Vec<Intent>, String>) -> Vec<Intent> {
        done.unwrap_or_else(|why| {
            self.hint = Some(why);
            Vec::new()
        })
    }

    fn open_new(&mut self, words: String) -> Vec<Intent> {
        let words = Some(words).filter(|w| !w.trim().is_empty());
        if self.session.phase == Phase::Opening {
            self.input.take_words_back(self.now_ms);
        }
        self.input
            .first_words
            .extend(words.map(OutgoingMessage::plain));
        vec![Intent::open(SessionSelector::New)]
    }

    pub(super) fn picked(&mut self, what: For, value: String) -> Vec<Intent> {
        match what {
            For::Rewind => {
                let words = value.parse().ok();
                let words = words.and_then(|seq| self.conversation.words_at(seq));
                if let Some(words) = words {
                    self.prompts.overlay = Overlay::Picker(rewind_part_picker(&value, &words));
                }
                Vec::new()
            }
            For::RewindWhat => self.choose_rewind_part(&value),
            For::Model => self.or_hint(choose_model(&value)),
            For::Replacement if value.is_empty() => Vec::new(),
            For::Replacement => vec![Intent::UseModel {
                choice: Choice::of_model(value),
                goes_on: true,
            }],
            For::Theme => vec![Intent::Theme(value)],
            For::Resume => vec![Intent::open(SessionSelector::Named {
                id: value,
                fork: false,
            })],
            For::Rule => {
                match removal_picker(&value) {
                    Some(Ok(picker)) => self.prompts.overlay = Overlay::Picker(picker),
                    Some(Err(why)) => self.notify(Tone::Warn, why),
                    None => {}
                }
                Vec::new()
            }
            For::RemoveRule => remove_rule(&value),
            For::Run => {
                let mut viewer = Viewer::new("output", Vec::new());
                viewer.run = Some(value.clone());
                self.prompts.overlay = Overlay::Viewer(viewer);
                vec![Intent::Tail(value)]
            }
        }
    }

    /// Returns whether no session is open, or the open one has no entries to show.
    pub fn is_blank(&self) -> bool {
        matches!(self.session.phase, Phase::Starting | Phase::Nothing)
            || self.conversation.transcript.blocks.is_empty()
    }
}

impl Prompts {
    /// Shows the JSON Schema that applies, or drops it.
    fn schema(
        &mut self,
        words: &str,
        schema: Option<&Value>,
        theme: &Theme,
    ) -> Result<Vec<Intent>, String> {
        let schema = schema.ok_or("no JSON Schema applies")?;
        match words.trim() {
            "" => {
                let lines = format!("{schema:#}");
                let lines = lines
                    .lines()
                    .map(|line| Line::from(clean_line(line).into_owned()));
                let how = Line::styled("/schema drop removes it", theme.dim);
                let lines = lines.chain([Line::default(), how]).collect();
                self.view("the next answer must match this JSON Schema", lines);
                Ok(Vec::new())
            }
            "drop" => {
                let choice = Choice {
                    without_schema: true,
                    ..Choice::default()
                };
                Ok(vec![Intent::Engine(Command::Signal(Signal::Choose(
                    choice,
                )))])
            }
            other => Err(format!(
                "{other:?} is not understood: /schema, or /schema drop"
            )),
        }
    }
}

fn mode_named(name: &str) -> Result<Mode, String> {
    let is_it = |mode: &Mode| mode.name().eq_ignore_ascii_case(name.trim());
    let names = || Mode::ALL.map(Mode::name).join(", ");
    let found = Mode::ALL.into_iter().find(is_it);
    found.ok_or_else(|| format!("the modes are {}", names()))
}

fn bypass_question() -> Overlay {
    let question = "This mode skips all approvals and runs commands WITHOUT the sandbox. Deny rules still apply.";
    Overlay::Confirm {
        question: question.to_string(),
        about: Vec::new(),
        answers: ("use this mode", "keep the mode"),
        yes: Yes::Do(choose_mode(Mode::BypassPermissions)),
    }
}

/// Asks whether a rule is removed, or says why it cannot be. `None`: the value names no rule.
fn removal_picker(value: &str) -> Option<Result<Picker, String>> {
    let (place, list, rule) = RulePlace::parse(value)?;
    if let RulePlace::Elsewhere(origin) = &place {
        return Some(Err(format!(
            "{rule} cannot be removed here: it comes from {origin}"
        )));
    }
    let item = |value: &str, label: &str| PickerItem {
        value: value.to_string(),
        label: label.to_string(),
        detail: String::new(),
    };
    let items = vec![item("", "no, keep it"), item(value, "yes, remove it")];
    let title = format!("remove {list} {rule}?");
    let mut picker = Picker::new(For::RemoveRule, &title, items);
    picker.note = Some(place.words());
    Some(Ok(picker))
}

/// Forks a session. Returns a hint too.
fn fork_command(
    at: &str,
    session: Option<String>,
) -> Result<(Vec<Intent>, Option<String>), String> {
    let id = session.ok_or("there is nothing to fork yet")?;
    let (intent, hint) = match parse_fork_argument(at)? {
        (at, Some(folder)) => (
            Intent::ForkInto { id, at, folder },
            Some("the fork gets its files …".into()),
        ),
        (None, None) => (
            Intent::open(SessionSelector::Named { id, fork: true }),
            None,
        ),
        (Some(seq), None) => (Intent::open(SessionSelector::ForkAt { id, seq }), None),
    };
    Ok((vec![intent], hint))
}

/// Words that name no model, effort or temperature: a list is narrowed by them.
fn narrows_models(words: &str) -> bool {
    let chooses = |word: &str| {
        word.contains('/') || word.starts_with("temperature=") || Effort::named(word).is_some()
    };
    !words.split_whitespace().any(chooses)
}

/// Parses the entry at which a fork starts, and the folder for its files: `812 --files ../copy`.
fn parse_fork_argument(argument: &str) -> Result<(Option<Seq>, Option<ForkFolder>), String> {
    let argument = argument.trim();
    let (entry, option) = match argument.find("--") {
        Some(at) => argument.split_at(at),
        None => (argument, ""),
    };
    let at = match entry.trim() {
        "" => None,
        entry => Some(
            (entry.parse()).map_err(|_| format!("{entry:?} is no entry: /fork, or /fork 812"))?,
        ),
    };
    let (name, folder) = option
        .split_once(char::is_whitespace)
        .unwrap_or((option, ""));
    let folder = match (name, folder.trim()) {
        ("", _) => None,
        ("--files", "") => return Err("which folder? /fork --files ../copy".to_string()),
        ("--files", folder) => Some(ForkFolder::Folder(folder.into())),
        ("--worktree", "") => Some(ForkFolder::Worktree(None)),
        ("--worktree", folder) => Some(ForkFolder::Worktree(Some(folder.into()))),
        (other, _) => {
            return Err(format!(
                "{other} is none of them: --files DIR, or --worktree [DIR]"
            ));
        }
    };
    Ok((at, folder))
}

/// Returns the intents that remove a rule. Empty: the value does not name a removable rule.
fn remove_rule(value: &str) -> Vec<Intent> {
    match RulePlace::parse(value) {
        Some((RulePlace::Own(RuleScope::Session, _), _, rule)) => {
            vec![Intent::Engine(Command::TakeBackRule(rule))]
        }
        Some((RulePlace::Own(scope, _), list, rule)) => {
            vec![Intent::RemoveRule { scope, list, rule }]
        }
        Some((RulePlace::Elsewhere(_), ..)) | None => Vec::new(),
    }
}

/// Returns the lines of a plan.
fn plan_lines(plan: Option<&Plan>, theme: &Theme) -> Vec<Line<'static>> {
    let Some(plan) = plan else {
        return vec![Line::raw("there is no plan yet")];
    };
    let step = |step: &PlanStep| {
        let (mark, style) = match step.state {
            StepState::Done => ("✓ ", theme.ok),
            StepState::Current => ("▸ ", theme.text),
            StepState::Left => ("· ", theme.dim),
        };
        let text = clean_line(&step.text).into_owned();
        Line::from(vec![
            Span::styled(mark, style),
            Span::styled(text, theme.text),
        ])
    };
    let goal = |goal: &String| Line::styled(format!("◎ {}", clean_line(goal)), theme.dim);
    let steps = plan.steps.iter().map(step);
    steps.chain(plan.goals.iter().map(goal)).collect()
}

/// Asks for a key, or removes it: of a provider, or of the one of the session. The key itself is
/// never a part of a line.
fn key_command(words: &str, model: &str) -> Result<Vec<Intent>, String> {
    let mut words = words.split_whitespace();
    let of_session = model.split('/').next().unwrap_or_default();
    match (words.next(), words.next(), words.next()) {
        (Some(provider), Some("remove"), None) => Ok(vec![Intent::RemoveKey(provider.to_string())]),
        (Some("remove"), None, None) => Ok(vec![Intent::RemoveKey(of_session.to_string())]),
        (Some(provider), None, None) => Ok(vec![Intent::AskKey(provider.to_string())]),
        (None, ..) => Ok(vec![Intent::AskKey(of_session.to_string())]),
        _ => Err("/key PROVIDER asks for the key, /key PROVIDER remove removes it".into()),
    }
}

/// Chooses a model: `provider/model`, an effort, `temperature=0.2`, or several of them.
fn choose_model(words: &str) -> Result<Vec<Intent>, String> {
    let mut change = SettingsChange::default();
    for word in words.split_whitespace() {
        let number = word.strip_prefix("temperature=").map(str::parse::<f64>);
        match (Effort::named(word), number) {
            (Some(effort), _) => change.effort = Some(effort),
            (None, Some(Ok(number))) => change.temperature = Some(number),
            (None, Some(Err(_))) => return Err(TEMPERATURE_RANGE.into()),
            (None, None) if word.contains('/') => change.model = Some(word.to_string()),
            (None, None) => {
                let efforts: Vec<&str> = Effort::ALL.iter().map(|e| e.name()).collect();
                return Err(format!(
                    "{word:?} is neither provider/model nor an effort ({})",
                    efforts.join(", ")
                ));
            }
        }
    }
    let signals = change.signals().map_err(|refused| refused.with_hint())?;
    Ok(match change.model {
        Some(_) => vec![Intent::UseModel {
            choice: change.choice(),
            goes_on: false,
        }],
        None => (signals.into_iter())
            .map(|signal| Intent::Engine(Command::Signal(signal)))
            .collect(),
    })
}
