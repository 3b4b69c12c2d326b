//! `rewake trust`: what the config of a folder may say.

use crate::config::{Paths, trust};
use crate::report::{Trouble, exit, line};
use crate::workspace::Here;

/// As many keys are listed.
const MAX_LISTED: usize = 50;

pub(super) fn trust(paths: &Paths, here: &Here) -> Result<u8, Trouble> {
    let root = here.root.display();
    let content = trust::content(&here.root).map_err(|error| match error.hint() {
        Some(_) => error,
        None => error.with_hint("repair the file first: what cannot be read cannot be trusted"),
    })?;
    if !trust::trust(paths, &here.root, &content)? {
        line(&format!(
            "{root} was trusted already, with what it says now"
        ));
        return Ok(exit::DONE);
    }
    line(&format!(
        "{root} is trusted now: its .rewake/config.toml is read whole, until it says something else"
    ));
    for text in content.lines(MAX_LISTED) {
        line(&format!("  {text}"));
    }
    Ok(exit::DONE)
}

pub(super) fn untrust(paths: &Paths, here: &Here) -> Result<u8, Trouble> {
    let root = here.root.display();
    match trust::untrust(paths, &here.root)? {
        true => line(&format!("{root} is trusted no longer")),
        false => line(&format!("{root} was not trusted")),
    }
    Ok(exit::DONE)
}
