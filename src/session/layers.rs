//! Layers 1 and 2 of every request, rendered once: the system prompt and the tools, and what
//! the folder says to the model.
//!
//! In a small window the short forms are used, and each part of layer 2 is cut to its share.

use std::path::PathBuf;

use super::skills::skill_list;
use super::{AppContext, VERSION, sandbox};
use crate::config::InstructionsConfig;
use crate::core::budget::Budget;
use crate::core::entry::{Layers, Mode};
use crate::core::policy::Sandbox;
use crate::core::text::head_tail;
use crate::core::told;
use crate::tools;
use crate::workspace::{Here, instructions, skills};

const SYSTEM: &str = include_str!("../../assets/prompts/system.md");
const SYSTEM_SHORT: &str = include_str!("../../assets/prompts/system_short.md");

/// Instructions get this part of the window at most, and in a small one this.
const INSTRUCTIONS_PART: u64 = 8;
const INSTRUCTIONS_PART_SMALL: u64 = 10;
/// So do the list of skills and the end of the last session, each.
const LIST_PART: u64 = 32;

/// All that layers are rendered from.
#[derive(Debug, Clone)]
pub(super) struct Renderer {
    here: Here,
    config_dir: PathBuf,
    instructions: InstructionsConfig,
    shell: PathBuf,
    mode: Mode,
    is_attended: bool,
    sandbox: Sandbox,
}

impl Renderer {
    /// `is_attended`: a person answers questions.
    pub(super) fn new(ctx: &AppContext, is_attended: bool) -> Renderer {
        Renderer {
            here: ctx.here.clone(),
            config_dir: ctx.paths.config_dir.clone(),
            instructions: ctx.config().instructions.clone(),
            shell: ctx.config().shell.program(&ctx.env),
            mode: ctx.config().permission_mode,
            is_attended,
            sandbox: sandbox::given(ctx),
        }
    }

    /// The layers for a window of this size, and what the user should know of them.
    pub(super) fn render(&self, budget: &Budget, now_ms: i64) -> (Layers, Vec<String>) {
        let mut warnings = Vec::new();
        let parts = [
            self.instructions(budget, &mut warnings),
            self.skills(budget, &mut warnings),
        ];
        let (system, tools) = match budget.is_small() {
            true if budget.is_tiny() => (SYSTEM_SHORT, tools::fewest_specs()),
            true => (SYSTEM_SHORT, tools::short_specs()),
            false => (SYSTEM, tools::specs()),
        };
        let layers = Layers {
            system: format!("{}\n\n{}", system.trim_end(), self.environment(now_ms)),
            tools,
            instructions: joined(parts),
        };
        (layers, warnings)
    }

    fn instructions(&self, budget: &Budget, warnings: &mut Vec<String>) -> String {
        let found = instructions(&self.here, &self.config_dir, &self.instructions);
        warnings.extend(found.warnings);
        let part = match budget.is_small() {
            true => INSTRUCTIONS_PART_SMALL,
            false => INSTRUCTIONS_PART,
        };
        let room = budget.bytes(budget.window / part);
        let text = head_tail(
            &found.text,
            room,
            "\n[… cut: too long for this model's context window …]\n",
        );
        if text.len() < found.text.len() {
            let files: Vec<String> = found
                .sources
                .iter()
                .map(|s| s.display().to_string())
                .collect();
            warnings.push(format!(
                "the instructions ({} bytes, of {}) are cut to {room} bytes: the context window has {} tokens",
                found.text.len(),
                files.join(", "),
                budget.window
            ));
        }
        text.into_owned()
    }

    fn skills(&self, budget: &Budget, warnings: &mut Vec<String>) -> String {
        let found = skills(&self.here, &self.config_dir);
        warnings.extend(found.warnings);
        let list = skill_list(&found.found, &self.here, list_bytes(budget));
        if !list.left_out.is_empty() {
            warnings.push(format!(
                "{} not listed, there is room for {} in a context window of {} tokens: {}",
                match list.left_out.len() {
                    1 => "1 skill is".to_string(),
                    n => format!("{n} skills are"),
                },
                found.found.len() - list.left_out.len(),
                budget.window,
                list.left_out.join(", ")
            ));
        }
        list.text
    }

    /// What the model should know of where it works. The date is that of the rendering: a
    /// request never changes because time goes by.
    fn environment(&self, now_ms: i64) -> String {
        let date = jiff::Timestamp::from_millisecond(now_ms)
            .map(|t| t.to_zoned(jiff::tz::TimeZone::system()).date().to_string())
            .unwrap_or_default();
        format!(
            "<environment>\nfolder: {}\nworkspace root: {}{}\nsystem: {} {}\nshell: {}\ndate: {date}\nrewake: {VERSION}\n{}\ncommands: {}\n</environment>",
            self.here.folder.display(),
            self.here.root.display(),
            if self.here.is_git {
                " (git)"
            } else {
                " (not a git repository)"
            },
            std::env::consts::OS,
            std::env::consts::ARCH,
            self.shell.display(),
            told::lines(self.mode, self.is_attended),
            unasked(self.sandbox),
        )
    }
}

/// What commands may do here without a question, in each mode.
fn unasked(sandbox: Sandbox) -> &'static str {
    match (sandbox.available, sandbox.read, sandbox.workspace) {
        (true, true, true) => {
            "sandboxed; unasked: access read (acceptEdits: workspace; plan: no more)"
        }
        (true, true, false) => "sandboxed; unasked: access read (plan: no more)",
        (true, false, _) => "sandboxed; unasked: plain commands that only look",
        (false, ..) => {
            "no sandbox (`access` means nothing); unasked: plain commands that only look"
        }
    }
}

/// Room for a list of a line each.
pub(super) fn list_bytes(budget: &Budget) -> usize {
    budget.bytes(budget.window / LIST_PART)
}

/// The parts of layer 2, those that are empty left out.
pub(super) fn joined(parts: impl IntoIterator<Item = String>) -> String {
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every request pays for these words.
    #[test]
    fn the_prompt_and_the_tools_are_short() {
        let tools = serde_json::to_string(&tools::specs()).unwrap();
        let bytes = SYSTEM.len() + tools.len();
        let tokens = Budget::new(100_000, 1_000, None).tokens(bytes);
        assert!(tokens <= 2_500, "{tokens} tokens");
    }

    #[test]
    fn the_model_is_told_what_runs_unasked() {
        let whole = Sandbox {
            available: true,
            read: true,
            workspace: true,
            hides: true,
        };
        let told = |sandbox| unasked(sandbox);
        assert!(told(whole).contains("acceptEdits: workspace"));
        assert!(
            !told(Sandbox {
                workspace: false,
                ..whole
            })
            .contains("workspace")
        );
        assert!(
            told(Sandbox {
                read: false,
                ..whole
            })
            .contains("only look")
        );
        assert!(told(Sandbox::default()).starts_with("no sandbox"));
    }
}
