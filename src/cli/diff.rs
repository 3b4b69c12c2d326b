//! `rewake diff ID`: shows the changes of the workspace's files between two entries of a session,
//! tracked by git or not, and the author of each: a call, a shell command or a person.

use clap::Args;

use crate::core::entry::Seq;
use crate::core::text::count;
use crate::core::tree::Tree;
use crate::report::{CliError, exit, line, note};
use crate::session::{AppContext, FileDiff, NoDiff, session_diff};
use crate::store::Store;

/// Show the file changes of a session and who made each
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct DiffArgs {
    /// Session ID or its beginning
    pub id: String,
    /// Entries to compare, as `rewake show` numbers them (default: all)
    #[arg(value_name = "FROM[..TO]")]
    pub range: Option<Range>,
    /// Print only file names, line counts and authors
    #[arg(long)]
    pub stat: bool,
}

/// A range of entries. `None`: the first or the last one of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Range {
    pub from: Option<Seq>,
    pub to: Option<Seq>,
}

impl std::str::FromStr for Range {
    type Err = String;

    /// Parses `12` or `12..40`.
    fn from_str(text: &str) -> Result<Range, String> {
        let entry = |text: &str| match text {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| format!("{text:?} is not the number of an entry")),
        };
        let (from, to) = text.split_once("..").unwrap_or((text, ""));
        Ok(Range {
            from: entry(from)?,
            to: entry(to)?,
        })
    }
}

pub(super) fn run(ctx: &AppContext, args: &DiffArgs) -> Result<u8, CliError> {
    let (range, stat) = (args.range.unwrap_or_default(), args.stat);
    let store = super::open_store_for_reading(ctx)?;
    let info = store.history().find(&args.id)?;
    let changed = session_diff(&store, &info.id, (range.from, range.to), stat).map_err(no_diff)?;
    let mut sums = (0, 0);
    for file in &changed {
        let FileDiff { path, figures, .. } = file;
        let author = file.author.as_deref().unwrap_or_default();
        match (&file.diff, file.lines) {
            (Some(diff), _) => {
                line(&format!("{path}: {author}"));
                line(diff.trim_end());
            }
            (None, Some(_)) => line(&format!("{path}  {figures}  {author}")),
            (None, None) => line(&format!("{path}: {figures}  {author}")),
        }
        let (added, removed) = file.lines.unwrap_or_default();
        sums = (sums.0 + added, sums.1 + removed);
    }
    if changed.is_empty() && !stat {
        note("no file differs between these two places of the session");
    }
    if stat {
        let files = count(changed.len(), "file");
        line(&format!("{files} changed, +{} −{}", sums.0, sums.1));
    }
    Ok(exit::DONE)
}

fn no_diff(error: NoDiff) -> CliError {
    let (said, hint) = (error.to_string(), error.hint());
    let trouble = match error {
        NoDiff::Store(error) => return error.into(),
        NoDiff::Authors(_) => CliError::failed(said),
        NoDiff::Unknown(_) | NoDiff::Forgotten => CliError::usage(said),
    };
    trouble.with_any_hint(hint)
}

/// Returns the error for a place where the files are unknown.
pub(super) fn unknown_files(place: &str) -> CliError {
    no_diff(NoDiff::Unknown(place.to_string()))
}

pub(super) fn tree(store: &Store, name: &str) -> Result<Tree, CliError> {
    let known = store.snapshots().tree(name)?;
    let known = known.ok_or_else(|| no_diff(NoDiff::Forgotten))?;
    Ok(known.tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_one_entry_or_two() {
        let range = |from, to| Ok(Range { from, to });
        assert_eq!("12".parse(), range(Some(12), None));
        assert_eq!("12..40".parse(), range(Some(12), Some(40)));
        assert_eq!("..40".parse(), range(None, Some(40)));
        assert!("a..b".parse::<Range>().is_err());
    }
}
