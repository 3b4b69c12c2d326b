//! `rewake restore`: restores single files as they were at an entry of a session.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use super::diff::{tree, unknown_files};
use super::rewind::{Manner, PathChoices, files, refuse_copy, spelled};
use crate::core::entry::Seq;
use crate::core::tree::{Item, PathBytes, tree_at, why_unknown};
use crate::engine::{Back, Rewind};
use crate::report::{CliError, exit, raw};
use crate::session::AppContext;

/// Restore single files as they were at an entry of a session
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct RestoreArgs {
    /// Files or folders
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Session and entry, as `rewake show` numbers them
    #[arg(long, value_name = "ID:ENTRY")]
    at: At,
    /// Write the file to FILE (- for stdout) and change nothing else
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Skip the confirmation
    #[arg(long)]
    yes: bool,
}

/// A session and one of its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct At {
    id: String,
    entry: Seq,
}

impl FromStr for At {
    type Err = String;

    /// Parses `0199c2:40`.
    fn from_str(text: &str) -> Result<At, String> {
        let parts = text.rsplit_once(':').filter(|(id, _)| !id.is_empty());
        let parts = parts.and_then(|(id, entry)| Some((id, entry.parse().ok()?)));
        let (id, entry) =
            parts.ok_or("it is the id of a session, a colon and an entry: 0199c2:40")?;
        Ok(At {
            id: id.to_string(),
            entry,
        })
    }
}

pub(super) fn run(ctx: &AppContext, args: &RestoreArgs) -> Result<u8, CliError> {
    let at = &args.at;
    let named = args.paths.iter().flat_map(|path| spelled(ctx, path));
    let named: BTreeSet<PathBytes> = named.collect();
    if let Some(output) = &args.output {
        return print_one(ctx, &named, at, output);
    }
    refuse_copy(ctx, &at.id).map_err(|error| {
        error.with_hint("rewake restore PATH --at ID:ENTRY -o FILE writes one file as it was there")
    })?;
    let manner = Manner {
        preview: false,
        yes: args.yes,
        json: false,
    };
    let none = PathChoices::default();
    files(ctx, &at.id, Back::To(at.entry), manner, &none, |rewind| {
        Rewind {
            whole: true,
            only: Some(named.clone()),
            ..rewind
        }
    })
}

/// Writes the former content of one file, and changes nothing else.
fn print_one(
    ctx: &AppContext,
    named: &BTreeSet<PathBytes>,
    at: &At,
    output: &Path,
) -> Result<u8, CliError> {
    let store = ctx.open_store()?;
    let info = store.history().find(&at.id)?;
    let (_, records) = store.load(&info.id)?;
    let Some(name) = tree_at(&records, at.entry) else {
        let why = why_unknown(&records, at.entry);
        return Err(unknown_files(&format!("at entry {}: {why}", at.entry)));
    };
    let tree = tree(&store, name)?;
    let found = named.iter().find_map(|path| tree.0.get(path));
    let content = match found {
        Some(Item::File { hash, .. }) => store.snapshots().content(hash)?,
        Some(Item::Link { target }) => Some(target.clone()),
        Some(Item::Marker { .. }) | None => None,
    };
    let Some(content) = content else {
        let why = format!("no content of it is kept at entry {}", at.entry);
        let hint = "rewake show ID lists the entries; rewake diff ID says what changed when";
        return Err(CliError::usage(why).with_hint(hint));
    };
    match output == Path::new("-") {
        true => raw(&content),
        false => std::fs::write(output, &content)
            .map_err(|e| CliError::failed(format!("cannot write {}: {e}", output.display())))?,
    }
    Ok(exit::DONE)
}
