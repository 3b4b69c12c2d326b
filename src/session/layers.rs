//! Layers 1 and 2 of every request, rendered once.

use super::{Surroundings, VERSION};
use crate::core::entry::Layers;
use crate::tools;
use crate::workspace::instructions;

const SYSTEM: &str = include_str!("../../assets/prompts/system.md");

/// The layers, and what the user should know of them.
pub fn render(around: &Surroundings, now_ms: i64) -> (Layers, Vec<String>) {
    let found = instructions(
        &around.here,
        &around.paths.config_dir,
        &around.config().instructions,
    );
    let layers = Layers {
        system: format!("{}\n\n{}", SYSTEM.trim_end(), environment(around, now_ms)),
        tools: tools::specs(),
        instructions: found.text,
    };
    (layers, found.warnings)
}

/// What the model should know of where it works. The date is that of the rendering: a
/// request never changes because time goes by.
fn environment(around: &Surroundings, now_ms: i64) -> String {
    let date = jiff::Timestamp::from_millisecond(now_ms)
        .map(|t| t.to_zoned(jiff::tz::TimeZone::system()).date().to_string())
        .unwrap_or_default();
    let here = &around.here;
    let shell = around.config().shell.program(&around.env);
    format!(
        "<environment>\nfolder: {}\nworkspace root: {}{}\nsystem: {} {}\nshell: {}\ndate: {date}\nrewake: {VERSION}\n</environment>",
        here.folder.display(),
        here.root.display(),
        if here.is_git {
            " (git)"
        } else {
            " (not a git repository)"
        },
        std::env::consts::OS,
        std::env::consts::ARCH,
        shell.display(),
    )
}
