//! Paths of images in pasted or typed text. A terminal pastes the path of a file that is dropped on
//! it: quoted, with escaped blanks, or as a `file://` address.
//!
//! This module only reads the text. Whether there is such an image is looked up on the disk
//! elsewhere: a [`ImageCandidate`] goes out, and returns with the files that were found.

use std::path::{Path, PathBuf};

use super::chips::image_label;
use crate::core::shell;

/// Maximum length of a list of paths.
const MAX_BYTES: usize = 8 * 1024;

/// The folders for relative paths and `~`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathBase<'a> {
    pub folder: &'a Path,
    pub home: Option<&'a Path>,
}

/// A part of the text that may name images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageCandidate {
    /// The part of the text.
    pub text: String,
    /// The ways to read it: the first counts whose files are all images.
    pub ways: Vec<Vec<PathBuf>>,
}

impl ImageCandidate {
    /// Replaces the paths with labels, and adds the images to those that are there.
    pub fn put_in(&self, found: Vec<PathBuf>, text: &mut String, images: &mut Vec<PathBuf>) {
        let Some(at) = text.rfind(&self.text) else {
            return;
        };
        let mut labels = Vec::new();
        for path in found {
            let number = text.matches("[Image #").count() + labels.len() + 1;
            labels.push(image_label(number, &path));
            if !images.contains(&path) {
                images.push(path);
            }
        }
        text.replace_range(at..at + self.text.len(), &labels.join(" "));
    }
}

/// Returns the ways to read a pasted text as paths of images, if it contains nothing else.
pub(crate) fn pasted(text: &str, place: PathBase<'_>) -> Option<Vec<Vec<PathBuf>>> {
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_BYTES || !has_ending(text) {
        return None;
    }
    // First the text as it is, because some terminals do not escape.
    let whole = image(text, place).map(|path| vec![path]);
    let words = words(text)
        .filter(|words| !words.is_empty())
        .and_then(|words| words.iter().map(|word| image(word, place)).collect());
    let mut ways: Vec<Vec<PathBuf>> = whole.into_iter().chain(words).collect();
    ways.dedup();
    Some(ways).filter(|ways| !ways.is_empty())
}

/// The image that may be named by the word at the end of a line, and where the word begins. A
/// name alone is prose: it takes `/`, `~/`, `./`, `../`, `file://` or `@` before it.
pub(crate) fn typed(line: &str, place: PathBase<'_>) -> Option<(usize, PathBuf)> {
    if line.len() > MAX_BYTES || !has_ending(line) {
        return None;
    }
    let start = word_start(line);
    let word = &line[start..];
    let path = word.strip_prefix('@').unwrap_or(word);
    let [plain] = &words(path)?[..] else {
        return None;
    };
    let explicit = ["/", "~/", "./", "../", "file://"]
        .iter()
        .any(|p| plain.starts_with(p));
    if !explicit && path.len() == word.len() {
        return None;
    }
    Some((start, image(plain, place)?))
}

/// Returns the start of the last word, including its quoted or escaped parts.
fn word_start(line: &str) -> usize {
    let mut start = 0;
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (None, '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            // An apostrophe inside a word is none.
            (None, '\'' | '"') if at == start || line[..at].ends_with('@') => quote = Some(c),
            (None, ' ' | '\t' | '\n') => start = at + 1,
            (None, _) => {}
        }
    }
    start
}

fn words(text: &str) -> Option<Vec<String>> {
    let commands = shell::split(text).ok()?;
    let [command] = &commands[..] else {
        return None;
    };
    let plain = command.assignments.is_empty() && command.redirects.is_empty();
    let word = |word: &shell::Word| word.text.clone();
    plain.then(|| command.words.iter().map(word).collect())
}

fn has_ending(text: &str) -> bool {
    let text = text.trim_end_matches(['\'', '"']);
    let ending = text.rsplit('.').next().unwrap_or("").to_ascii_lowercase();
    matches!(ending.as_str(), "png" | "jpg" | "jpeg" | "gif" | "webp")
}

fn image(word: &str, place: PathBase<'_>) -> Option<PathBuf> {
    let path = match word.strip_prefix("file://") {
        Some(address) => decoded(address.strip_prefix("localhost").unwrap_or(address))?,
        None => word.to_string(),
    };
    let path = match path.strip_prefix("~/") {
        Some(below) => place.home?.join(below),
        None => place.folder.join(path),
    };
    has_ending(&path.to_string_lossy()).then_some(path)
}

/// Decodes `%20` and similar escapes (RFC 3986, 2.1).
fn decoded(address: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(address.len());
    let mut rest = address.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}
