//! `rewake fork ID`: a copy that goes its own way.

use super::output;
use super::trouble::Trouble;
use crate::headless::{exit, note};
use crate::session::{Surroundings, now_ms, short_id};

pub fn run(around: &Surroundings, id: &str) -> Result<u8, Trouble> {
    let mut store = around.open_store()?;
    let info = store.find(id)?;
    let (fork, _lock, warning) = around.fork(&mut store, &info.id, now_ms())?;
    if let Some(warning) = warning {
        note(&warning);
    }
    output::line(&fork);
    note(&format!(
        "files are not copied; to go on: rewake -p -r {}",
        short_id(&fork)
    ));
    Ok(exit::DONE)
}
