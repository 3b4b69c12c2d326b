//! `rewake trust`: what the config of a folder may say.

use super::output;
use super::trouble::Trouble;
use crate::config::{Paths, trust};
use crate::headless::exit;
use crate::workspace::Here;

/// As many keys are listed.
const MAX_LISTED: usize = 50;

pub fn trust(paths: &Paths, here: &Here) -> Result<u8, Trouble> {
    let root = here.root.display();
    let content = trust::content(&here.root).map_err(|error| match error.hint() {
        Some(_) => error,
        None => error.with_hint("repair the file first: what cannot be read cannot be trusted"),
    })?;
    if !trust::trust(paths, &here.root, &content)? {
        output::line(&format!(
            "{root} was trusted already, with what it says now"
        ));
        return Ok(exit::DONE);
    }
    output::line(&format!(
        "{root} is trusted now: its .rewake/config.toml is read whole, until it says something else"
    ));
    for line in content.lines(MAX_LISTED) {
        output::line(&format!("  {line}"));
    }
    Ok(exit::DONE)
}

pub fn untrust(paths: &Paths, here: &Here) -> Result<u8, Trouble> {
    let root = here.root.display();
    match trust::untrust(paths, &here.root)? {
        true => output::line(&format!("{root} is trusted no longer")),
        false => output::line(&format!("{root} was not trusted")),
    }
    Ok(exit::DONE)
}
