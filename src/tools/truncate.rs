//! Truncation of outputs that are too large for an entry. The whole output becomes a blob.

use super::printable;
use crate::core::cut::{cut_output, is_cut};
use crate::core::entry::Output;
use crate::store::blob_ref;

/// Returns a text of about `max` bytes as it is. A longer text becomes plain text. If that is still too
/// long, it is cut to its beginning and its end, around a line that names the omitted lines and the
/// address of the whole. The blob has the whole text, byte for byte.
pub fn truncate_output(text: String, max: usize) -> (Output, Vec<Vec<u8>>) {
    let shown = printable(&text);
    if !is_cut(shown.len(), max) {
        return (Output::text(shown), Vec::new());
    }
    let output = cut_output(&shown, max, blob_ref(text.as_bytes()));
    (output, vec![text.into_bytes()])
}

/// Returns the last char boundary at or before `at`.
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

    use super::super::test_support::hash;
    use super::*;

    #[test]
    fn output_that_fits_is_not_truncated() {
        let (output, blobs) = truncate_output("a\nb".into(), 3);
        assert_eq!(output, Output::text("a\nb"));
        assert!(blobs.is_empty());
    }

    #[test]
    fn a_nul_is_shown_and_kept_in_the_blob() {
        assert_eq!(truncate_output("a\0b".into(), 10).0.text, "a\u{2400}b");
        let whole = "\0".repeat(1_000);
        assert_eq!(
            truncate_output(whole.clone(), 10).1,
            vec![whole.into_bytes()]
        );
    }

    #[test]
    fn truncated_output_is_named_and_kept_whole_in_the_blob() {
        let whole: String = (0..1_000).map(|n| format!("line {n}\n")).collect();
        let (output, blobs) = truncate_output(whole.clone(), 1_000);
        let (head, rest) = output.text.split_once("[lines ").unwrap();
        let (line, tail) = rest.split_once("]\n").unwrap();
        assert!(whole.starts_with(head) && whole.ends_with(tail));
        let blob = output.blob.unwrap();
        assert_eq!(blob.hash, hash(&whole));
        let want = format!(
            "memory_page reads on at address blob:{}, offset {}, limit {}",
            blob.hash,
            head.len(),
            whole.len() - head.len() - tail.len()
        );
        assert!(line.ends_with(&want), "{line}");
        assert_eq!(blobs, vec![whole.into_bytes()]);
    }

    #[test]
    fn frames_of_a_progress_bar_push_out_no_other_line() {
        let bar: String = (0..1_500)
            .map(|n| format!("\r{n:4}/1500 [00:01<00:02] ###"))
            .collect();
        let whole =
            format!("{bar}\n\u{1b}[31mIMPORTANT\u{1b}[0m: 3 tests failed\n{bar}\nthe end\n");
        let (output, blobs) = truncate_output(whole.clone(), 1_000);
        let last = "1499/1500 [00:01<00:02] ###\n";
        let want = format!("{last}IMPORTANT: 3 tests failed\n{last}the end\n");
        assert_eq!(output.text, want);
        assert_eq!(blobs, vec![whole.into_bytes()]);
        // With more lines than fit, the offsets are those of the plain text.
        let lines: String = (0..1_000).map(|n| format!("line {n}\n")).collect();
        let (output, _) = truncate_output(format!("{bar}\n{lines}"), 1_000);
        let head = output.text.split_once("[lines ").unwrap().0;
        assert!(head.starts_with(&format!("{last}line 0\n")), "{head}");
        assert!(
            output
                .text
                .contains(&format!("offset {}, limit", head.len()))
        );
    }

    proptest! {
        #[test]
        fn any_text_is_cut_within_bounds(text in "(\\PC|\n|\0){0,400}", max in 0usize..300) {
            let (output, _) = truncate_output(text, max);
            prop_assert!(!is_cut(output.text.len(), max));
        }
    }
}
