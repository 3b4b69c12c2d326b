//! `rewake diff ID`: what changed in the workspace's files between two places of a session, by
//! calls, by shell commands and by hand, tracked by git or not.

use std::fmt::Write;

use similar::TextDiff;

use crate::core::entry::{Record, Seq};
use crate::core::text::count;
use crate::core::tree::{Change, Item, Tree, diff, named, path_text, tree_at};
use crate::report::{Trouble, exit, line, note};
use crate::session::AppContext;
use crate::store::Store;

/// A larger file is only named.
const MAX_DIFF_BYTES: usize = 2 * 1024 * 1024;

/// Git looks at so much of a file to see that it is no text.
const LOOKED_AT: usize = 8_000;

/// Between which entries. `None`: from the first of the session, to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Range {
    pub from: Option<Seq>,
    pub to: Option<Seq>,
}

impl std::str::FromStr for Range {
    type Err = String;

    /// `12` or `12..40`.
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

pub(super) fn run(ctx: &AppContext, id: &str, range: Range, stat: bool) -> Result<u8, Trouble> {
    let store = ctx.open_store()?;
    let info = store.find(id)?;
    let (_, records) = store.load(&info.id)?;
    let from = name(&records, range.from, true)?;
    let to = name(&records, range.to, false)?;
    let (from, to) = (tree(&store, from)?, tree(&store, to)?);
    let delta = diff(&from, &to);
    let mut sums = (0, 0);
    for (path, change) in &delta.0 {
        let now = match change {
            Change::Put { item, .. } => Some(item),
            Change::Gone { .. } => None,
        };
        let shown = Shown {
            path: path_text(path),
            before: from.0.get(path),
            now,
        };
        let (added, removed) = shown.print(&store, stat)?;
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

/// The name of the tree at an entry; of the first or the last that the session names.
fn name(records: &[Record], at: Option<Seq>, is_from: bool) -> Result<&str, Trouble> {
    let found = match at {
        Some(seq) => tree_at(records, seq),
        None if is_from => records.iter().find_map(|record| named(&record.entry)),
        None => records.iter().rev().find_map(|record| named(&record.entry)),
    };
    let place = match at {
        Some(seq) => format!("at entry {seq}"),
        None => "in this session".to_string(),
    };
    found.ok_or_else(|| {
        Trouble::new(exit::USAGE, format!("the files are not known {place}")).with_hint(
            "they are known from the first command or edit on; rewake show ID lists the entries",
        )
    })
}

pub(super) fn tree(store: &Store, name: &str) -> Result<Tree, Trouble> {
    match store.tree(name)? {
        Some(known) => Ok(known.tree),
        None => Err(Trouble::new(
            exit::USAGE,
            "what the files were there is not kept any more",
        )
        .with_hint("rewake gc removes it from old sessions (files.keep_days)")),
    }
}

/// One path and what became of it.
pub(super) struct Shown<'a> {
    pub path: String,
    pub before: Option<&'a Item>,
    pub now: Option<&'a Item>,
}

impl Shown<'_> {
    /// The lines that were added and removed.
    pub(super) fn print(&self, store: &Store, stat: bool) -> Result<(usize, usize), Trouble> {
        let Shown { path, before, now } = self;
        let old = self.text(store, *before)?;
        let new = self.text(store, *now)?;
        let (Text::Text(old), Text::Text(new)) = (&old, &new) else {
            line(&format!("{path}: {} → {}", old.words(), new.words()));
            return Ok((0, 0));
        };
        let diff = TextDiff::from_lines(old.as_str(), new.as_str());
        let tags = || diff.iter_all_changes().map(|change| change.tag());
        let added = tags().filter(|t| *t == similar::ChangeTag::Insert).count();
        let removed = tags().filter(|t| *t == similar::ChangeTag::Delete).count();
        if stat {
            line(&format!("{path}  +{added} −{removed}{}", self.mode()));
            return Ok((added, removed));
        }
        let side = |side: char, item: Option<&Item>| match item {
            // One that a tool wrote elsewhere has its whole path.
            Some(_) if path.starts_with('/') => path.clone(),
            Some(_) => format!("{side}/{path}"),
            None => "/dev/null".to_string(),
        };
        let mut text = String::new();
        if !self.mode().is_empty() {
            let _ = writeln!(text, "{path}:{}", self.mode());
        }
        if (added, removed) != (0, 0) || before.is_none() || now.is_none() {
            let names = (side('a', *before), side('b', *now));
            let _ = write!(text, "{}", diff.unified_diff().header(&names.0, &names.1));
        }
        line(text.trim_end());
        Ok((added, removed))
    }

    /// Another mode, in words.
    fn mode(&self) -> String {
        match (self.before, self.now) {
            (Some(Item::File { mode: a, .. }), Some(Item::File { mode: b, .. })) if a != b => {
                format!(" mode {a:04o} → {b:04o}")
            }
            _ => String::new(),
        }
    }

    fn text(&self, store: &Store, item: Option<&Item>) -> Result<Text, Trouble> {
        Ok(match item {
            None => Text::Text(String::new()),
            Some(Item::Link { target }) => Text::Other(format!("a link to {}", path_text(target))),
            Some(Item::Marker { why, bytes, .. }) => match bytes {
                0 => Text::Other(why.words().to_string()),
                bytes => Text::Other(format!("{} ({bytes} bytes)", why.words())),
            },
            Some(Item::File { hash, bytes, .. }) => match store.content(hash)? {
                None => Text::Other("a content that is not kept any more".to_string()),
                Some(content) if content.len() > MAX_DIFF_BYTES => {
                    Text::Other(format!("{bytes} bytes"))
                }
                Some(content) if content.iter().take(LOOKED_AT).any(|byte| *byte == 0) => {
                    Text::Other(format!("binary, {bytes} bytes"))
                }
                Some(content) => Text::Text(String::from_utf8_lossy(&content).into_owned()),
            },
        })
    }
}

/// What is shown of one side.
enum Text {
    Text(String),
    /// In words.
    Other(String),
}

impl Text {
    fn words(&self) -> String {
        match self {
            Text::Text(text) if text.is_empty() => "nothing".to_string(),
            Text::Text(text) => count(text.lines().count(), "line"),
            Text::Other(words) => words.clone(),
        }
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
