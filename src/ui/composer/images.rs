//! Paths of images in what is pasted or typed. A terminal pastes the path of a file that is
//! dropped on it: quoted, with escaped blanks, or as a `file://` address.
//!
//! Only looks at the disk; the bytes are read by whoever sends them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::core::image::{START_BYTES, media_type};
use crate::core::shell;
use crate::store::database;

/// Longer texts are no list of paths.
const MAX_BYTES: usize = 8 * 1024;

/// Where relative paths and `~` lead.
#[derive(Debug, Clone, Copy)]
pub struct PathBase<'a> {
    pub folder: &'a Path,
    pub home: Option<&'a Path>,
}

/// The images that a pasted text names, if it names nothing else.
pub fn pasted(text: &str, place: PathBase<'_>) -> Option<Vec<PathBuf>> {
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_BYTES || !has_ending(text) {
        return None;
    }
    // As it is: some terminals escape nothing.
    if let Some(path) = image(text, place) {
        return Some(vec![path]);
    }
    let words = words(text)?;
    words.iter().map(|word| image(word, place)).collect()
}

/// The image that is named by the word at the end of a line, and where the word begins. A
/// name alone is prose: it takes `/`, `~/`, `./`, `../`, `file://` or `@` before it.
pub fn typed(line: &str, place: PathBase<'_>) -> Option<(usize, PathBuf)> {
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

/// Where the last word begins, with what is quoted or escaped in it.
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
    (has_ending(&path.to_string_lossy()) && is_image(&path)).then_some(path)
}

/// By its first bytes; a name says nothing. Only a plain file is opened: a pipe would wait.
fn is_image(path: &Path) -> bool {
    if !std::fs::metadata(path).is_ok_and(|m| m.is_file()) || database::is_open_here(path) {
        return false;
    }
    let mut start = Vec::new();
    let most = START_BYTES as u64;
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut start));
    read.is_ok() && media_type(&start).is_some()
}

/// `%20` and its like (RFC 3986, 2.1).
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

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n1234";

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.png", "b c.PNG", "it's.png", "d (1).png"] {
            std::fs::write(folder.path().join(name), PNG).unwrap();
        }
        std::fs::write(folder.path().join("text.png"), "no image").unwrap();
        folder
    }

    #[test]
    fn what_terminals_paste_on_a_drop() {
        let folder = folder();
        let root = folder.path().to_str().unwrap();
        let place = PathBase {
            folder: folder.path(),
            home: Some(folder.path()),
        };
        for (text, want) in [
            ("R/a.png", &["a.png"][..]),
            ("R/a.png \n", &["a.png"]),
            ("R/b c.PNG", &["b c.PNG"]),
            ("R/b\\ c.PNG", &["b c.PNG"]),
            ("'R/b c.PNG' ", &["b c.PNG"]),
            ("\"R/b c.PNG\"", &["b c.PNG"]),
            ("R/d (1).png", &["d (1).png"]),
            ("R/d\\ \\(1\\).png", &["d (1).png"]),
            ("file://R/b%20c.PNG", &["b c.PNG"]),
            ("file://localhostR/a.png", &["a.png"]),
            ("R/a.png R/b\\ c.PNG", &["a.png", "b c.PNG"]),
            ("~/a.png", &["a.png"]),
            ("R/text.png", &[]),
            ("R/gone.png", &[]),
            ("see R/a.png", &[]),
            ("file://R/%zz.png", &[]),
            ("$(rm x).png", &[]),
            ("", &[]),
        ] {
            let got = pasted(&text.replace('R', root), place).unwrap_or_default();
            let want: Vec<PathBuf> = want.iter().map(|name| folder.path().join(name)).collect();
            assert_eq!(got, want, "{text:?}");
        }
    }

    #[test]
    fn what_is_typed_must_look_like_a_path() {
        let folder = folder();
        let place = PathBase {
            folder: folder.path(),
            home: None,
        };
        for (line, want) in [
            ("look at ./a.png", Some((8, "./a.png"))),
            ("look at @a.png", Some((8, "a.png"))),
            ("@\"b c.PNG\"", Some((0, "b c.PNG"))),
            ("it's ./b\\ c.PNG", Some((5, "./b c.PNG"))),
            ("fix a.png", None),
            ("~/a.png", None),
            ("./a.png.txt", None),
        ] {
            let want = want.map(|(start, name)| (start, folder.path().join(name)));
            assert_eq!(typed(line, place), want, "{line:?}");
        }
    }
}
