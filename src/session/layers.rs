//! Layers 1 and 2 of every request, rendered once.

use std::path::PathBuf;

use super::{Surroundings, VERSION};
use crate::config::InstructionsConfig;
use crate::core::budget::Budget;
use crate::core::entry::Layers;
use crate::core::text::head_tail;
use crate::tools;
use crate::workspace::{Here, instructions};

const SYSTEM: &str = include_str!("../../assets/prompts/system.md");

/// Instructions get this part of the window at most.
const INSTRUCTIONS_PART: u64 = 8;

/// All that layers are rendered from.
#[derive(Debug, Clone)]
pub struct Renderer {
    here: Here,
    config_dir: PathBuf,
    instructions: InstructionsConfig,
    shell: PathBuf,
}

impl Renderer {
    pub fn new(around: &Surroundings) -> Renderer {
        Renderer {
            here: around.here.clone(),
            config_dir: around.paths.config_dir.clone(),
            instructions: around.config().instructions.clone(),
            shell: around.config().shell.program(&around.env),
        }
    }

    /// The layers for a window of this size, and what the user should know of them.
    pub fn render(&self, budget: &Budget, now_ms: i64) -> (Layers, Vec<String>) {
        let found = instructions(&self.here, &self.config_dir, &self.instructions);
        let mut warnings = found.warnings;
        let room = budget.bytes(budget.window / INSTRUCTIONS_PART);
        let instructions = head_tail(
            &found.text,
            room,
            "\n[… cut: too long for this model's context window …]\n",
        );
        if instructions.len() < found.text.len() {
            warnings.push(format!(
                "the instructions ({} bytes) are cut to {room} bytes: the context window has {} tokens",
                found.text.len(),
                budget.window
            ));
        }
        let layers = Layers {
            system: format!("{}\n\n{}", SYSTEM.trim_end(), self.environment(now_ms)),
            tools: tools::specs(),
            instructions: instructions.into_owned(),
        };
        (layers, warnings)
    }

    /// What the model should know of where it works. The date is that of the rendering: a
    /// request never changes because time goes by.
    fn environment(&self, now_ms: i64) -> String {
        let date = jiff::Timestamp::from_millisecond(now_ms)
            .map(|t| t.to_zoned(jiff::tz::TimeZone::system()).date().to_string())
            .unwrap_or_default();
        format!(
            "<environment>\nfolder: {}\nworkspace root: {}{}\nsystem: {} {}\nshell: {}\ndate: {date}\nrewake: {VERSION}\n</environment>",
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
        )
    }
}
