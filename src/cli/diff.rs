//! `rewake diff ID`: shows the changes of the workspace's files between two entries of a session,
//! tracked by git or not, and the author of each: a call, a shell command or a person.

use clap::Args;

use crate::core::entry::{Record, Seq};
use crate::core::text::count;
use crate::core::tree::{Change, Tree, diff, named, path_text, place_at, why_unknown};
use crate::engine::NotRewound;
use crate::report::{CliError, exit, line, note};
use crate::session::{AppContext, FileAuthors, FileChange};
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
    let (_, records) = store.load(&info.id)?;
    let from_place = place(&records, range.from, true)?;
    let to_place = place(&records, range.to, false)?;
    // The first entry may be the later one. The authors between the two are the same.
    let is_forward = from_place.0 <= to_place.0;
    let (first, last) = match is_forward {
        true => (from_place, to_place),
        false => (to_place, from_place),
    };
    let authors = FileAuthors::between(&store, &records, first, last.0).map_err(not_read)?;
    let (from, to) = (tree(&store, from_place.1)?, tree(&store, to_place.1)?);
    let delta = diff(&from, &to);
    let mut sums = (0, 0);
    for (path_bytes, change) in &delta.0 {
        let now = match change {
            Change::Put { item, .. } => Some(item),
            Change::Gone { .. } => None,
        };
        let path = path_text(path_bytes);
        let changed = FileChange::of(&store, from.0.get(path_bytes), now)?;
        let author = authors.of_file(path_bytes);
        if stat || changed.lines.is_none() {
            line(&format!("{}  {author}", changed.stat(&path)));
        } else {
            let of_lines = match is_forward {
                true => authors.of_lines(&store, path_bytes)?,
                false => None,
            };
            let by = |lines: &[_]| {
                of_lines
                    .as_ref()
                    .map_or(String::new(), |of| of.of_hunk(lines))
            };
            line(&format!("{path}: {author}"));
            line(changed.unified_by(&path, by).trim_end());
        }
        let (added, removed) = changed.lines.unwrap_or_default();
        sums = (sums.0 + added, sums.1 + removed);
    }
    if delta.0.is_empty() && !stat {
        note("no file differs between these two places of the session");
    }
    if stat {
        let files = count(delta.0.len(), "file");
        line(&format!("{files} changed, +{} −{}", sums.0, sums.1));
    }
    Ok(exit::DONE)
}

fn not_read(error: NotRewound) -> CliError {
    CliError::new(exit::FAILED, error.to_string())
}

/// Returns the tree at an entry, and the place of the entry that names it. Without an entry,
/// returns the first or the last tree of the session.
fn place(records: &[Record], at: Option<Seq>, is_from: bool) -> Result<(usize, &str), CliError> {
    let mut all = records.iter().enumerate();
    fn its((place, record): (usize, &Record)) -> Option<(usize, &str)> {
        Some((place, named(&record.entry)?))
    }
    let found = match at {
        Some(seq) => place_at(records, seq),
        None if is_from => all.find_map(its),
        None => all.rev().find_map(its),
    };
    found.ok_or_else(|| {
        let why = match at {
            Some(seq) => format!("at entry {seq}: {}", why_unknown(records, seq)),
            None => "in this session: it has no snapshot".to_string(),
        };
        unknown_files(&why)
    })
}

/// Returns the error for a place where the files are unknown.
pub(super) fn unknown_files(place: &str) -> CliError {
    CliError::new(exit::USAGE, format!("the files are not known {place}")).with_hint(
        "rewake show ID lists the entries: at others the files may be known; rewake doctor says what is kept",
    )
}

pub(super) fn tree(store: &Store, name: &str) -> Result<Tree, CliError> {
    match store.snapshots().tree(name)? {
        Some(known) => Ok(known.tree),
        None => Err(CliError::new(
            exit::USAGE,
            "what the files were there is not kept any more",
        )
        .with_hint("rewake gc removes it from old sessions (files.keep_sec)")),
    }
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
