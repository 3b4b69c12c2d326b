//! `rewake trust`: what the config of a folder may say.

use super::output;
use super::trouble::Trouble;
use crate::config::{Paths, trust};
use crate::headless::exit;
use crate::workspace::Here;

pub fn trust(paths: &Paths, here: &Here) -> Result<u8, Trouble> {
    let root = here.root.display();
    match trust::trust(paths, &here.root)? {
        true => output::line(&format!(
            "{root} is trusted now: its .rewake/config.toml is read whole"
        )),
        false => output::line(&format!("{root} was trusted already")),
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
