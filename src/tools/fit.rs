//! Outputs that are too big for an entry: head, tail, and the whole in a blob.

use super::{file, printable};
use crate::core::entry::{BlobRef, Output};

/// A cut moves to a line's end when one is within this many bytes.
const LINE_BYTES: usize = 400;

/// At most about `max` bytes of text; over that, 60 % head and the rest tail around a line
/// that says where the whole is. The blob holds the whole, byte for byte.
pub fn fit(text: String, max: usize) -> (Output, Vec<Vec<u8>>) {
    let shown = printable(&text);
    if shown.len() <= max {
        return (Output::text(shown), Vec::new());
    }
    let blob = BlobRef {
        hash: file::hash(text.as_bytes()),
        bytes: text.len() as u64,
    };
    let head = head_end(&shown, max / 5 * 3);
    let tail = tail_start(&shown, shown.len() - max / 5 * 2).max(head);
    let hash = &blob.hash;
    let cut = format!(
        "{}\n[Result stored at blob:{hash}, {} bytes; memory_page reads it]\n{}",
        shown[..head].trim_end_matches('\n'),
        text.len(),
        &shown[tail..]
    );
    let output = Output {
        text: cut,
        blob: Some(blob),
        images: Vec::new(),
    };
    (output, vec![text.into_bytes()])
}

fn head_end(text: &str, wanted: usize) -> usize {
    let end = floor(text, wanted);
    match text[..end].rfind('\n') {
        Some(at) if end - at <= LINE_BYTES => at + 1,
        _ => end,
    }
}

fn tail_start(text: &str, wanted: usize) -> usize {
    let mut start = wanted.min(text.len());
    while !text.is_char_boundary(start) {
        start += 1;
    }
    match text[start..].find('\n') {
        Some(at) if at < LINE_BYTES => start + at + 1,
        _ => start,
    }
}

/// The last char boundary at or before `at`.
pub(super) fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::support::hash;
    use super::*;

    #[test]
    fn what_fits_is_left_alone() {
        let (output, blobs) = fit("a\nb".into(), 3);
        assert_eq!(output, Output::text("a\nb"));
        assert!(blobs.is_empty());
    }

    #[test]
    fn a_nul_is_shown_and_kept_in_the_blob() {
        assert_eq!(fit("a\0b".into(), 10).0.text, "a\u{2400}b");
        let whole = "\0".repeat(100);
        assert_eq!(fit(whole.clone(), 10).1, vec![whole.into_bytes()]);
    }

    #[test]
    fn head_and_tail_end_at_lines() {
        let whole: String = (0..1_000).map(|n| format!("line {n}\n")).collect();
        let (output, blobs) = fit(whole.clone(), 1_000);
        let (head, rest) = output.text.split_once("\n[Result").unwrap();
        let (line, tail) = rest.split_once("]\n").unwrap();
        assert!(whole.starts_with(&format!("{head}\n")));
        assert!(whole.ends_with(&format!("\n{tail}")));
        let blob = output.blob.unwrap();
        assert_eq!(blob.hash, hash(&whole));
        let want = format!(
            " stored at blob:{}, {} bytes; memory_page reads it",
            blob.hash,
            whole.len()
        );
        assert_eq!(line, want);
        assert_eq!(blobs, vec![whole.into_bytes()]);
    }

    proptest! {
        #[test]
        fn any_text_is_cut_within_bounds(text in "(\\PC|\n|\0){0,400}", max in 0usize..300) {
            let (output, _) = fit(text, max);
            let marker = 140;
            prop_assert!(output.text.len() <= max + marker);
        }
    }
}
