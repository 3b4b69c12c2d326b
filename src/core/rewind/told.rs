//! Texts about a restore: the paths that stay, and the note for the model.

use std::collections::BTreeMap;

use crate::core::entry::{Entry, KeptWhy, MAX_KEPT, UnrestoredPath};
use crate::core::file_name::path_text;
use crate::core::text::count;
use crate::core::tree::PathBytes;

/// Maximum number of paths in the note for the model.
const MAX_TOLD: usize = 20;

/// Returns the first of the paths that stay, and the number of the others.
pub fn kept(kept: &BTreeMap<PathBytes, KeptWhy>) -> (Vec<UnrestoredPath>, u64) {
    // Expected ones come last.
    let mut all: Vec<(&PathBytes, KeptWhy)> = kept.iter().map(|(p, why)| (p, *why)).collect();
    all.sort_by_key(|(_, why)| *why == KeptWhy::Yours);
    let more = all.len().saturating_sub(MAX_KEPT) as u64;
    let named = all
        .into_iter()
        .take(MAX_KEPT)
        .map(|(path, why)| UnrestoredPath {
            path: path_text(path),
            why,
        });
    (named.collect(), more)
}

/// Returns the note for the model after a session was copied into a separate folder.
pub fn folder_copy_note(folder: &str) -> String {
    format!(
        "This session was copied, and works in a folder of its own from here on: {folder}. The files in it are \
         copies of those that you know. Use paths in it, and read a file there before you change it; \
         ignored files, secrets and large files are not in it."
    )
}

/// Returns the note for the model about a restore. `None`: there is none.
pub fn told(entry: &Entry) -> Option<String> {
    let Entry::Restored {
        new_folder,
        written,
        removed,
        paths,
        kept,
        more_kept,
        why,
        ..
    } = entry
    else {
        return None;
    };
    if *new_folder {
        return (why.as_ref())
            .map(|why| format!("The files could not be put into the new folder: {why}"));
    }
    if let Some(why) = why {
        return Some(format!(
            "The user wanted to set files back to what they were before. Nothing was changed: {why}"
        ));
    }
    let all = written + removed;
    let named = |paths: Vec<String>, all: u64| {
        let shown = paths.len() as u64;
        let more = all.saturating_sub(shown);
        let more = (more > 0).then(|| format!(" and {more} more"));
        format!("{}{}", paths.join(", "), more.unwrap_or_default())
    };
    let mut text = match all {
        0 => {
            "The user set files back to what they were before; none had to be changed.".to_string()
        }
        _ => format!(
            "The user set {} back to what they were before: {}. Read them again before you change them.",
            count(usize::try_from(all).unwrap_or(usize::MAX), "file"),
            named(paths.iter().take(MAX_TOLD).cloned().collect(), all)
        ),
    };
    let differ: Vec<&UnrestoredPath> = kept.iter().filter(|k| k.why != KeptWhy::Yours).collect();
    if !differ.is_empty() {
        let words = differ.iter().take(MAX_TOLD);
        let words = words
            .map(|k| format!("{} ({})", k.path, k.why.words()))
            .collect();
        let all = differ.len() as u64 + more_kept;
        text.push_str(&format!("\nLeft as they are: {}.", named(words, all)));
    }
    Some(text)
}
