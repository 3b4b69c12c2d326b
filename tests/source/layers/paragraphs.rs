//! Paragraphs of the documentation have at most [`MAX_WORDS`] words. An item of a list counts by itself;
//! tables and code do not count.

use super::root;

const MAX_WORDS: usize = 100;

#[test]
fn no_paragraph_of_the_documentation_is_long() {
    let folder = std::fs::read_dir(root().join("docs")).unwrap();
    let mut pages: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    pages.push(root().join("README.md"));
    pages.retain(|path| path.extension().is_some_and(|e| e == "md"));
    assert!(pages.len() > 25, "only {} pages were found", pages.len());
    let mut long = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for (line, words) in paragraphs(&text) {
            if words > MAX_WORDS {
                long.push(format!("{}:{line}: {words} words", page.display()));
            }
        }
    }
    assert!(
        long.is_empty(),
        "cut these paragraphs:\n{}",
        long.join("\n")
    );
}

/// Returns the line and the number of words of each paragraph.
fn paragraphs(text: &str) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let (mut in_code, mut ended) = (false, true);
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        if in_code || is_fence || line.is_empty() || line.starts_with(['#', '|', '<']) {
            ended = true;
            continue;
        }
        if std::mem::take(&mut ended) || is_item(line) {
            found.push((at + 1, 0));
        }
        if let Some((_, words)) = found.last_mut() {
            *words += line.split_whitespace().count();
        }
    }
    found
}

fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = number.len() < line.len() && number.starts_with(". ");
    is_number || line.starts_with("- ") || line.starts_with("* ")
}

#[test]
fn words_are_counted_by_paragraph_and_item() {
    let text = "# a heading\none two\nthree\n\nfour\n- five six\n  seven\n1. eight\n\n| a | b |\n```sh\nx y z\n```\nnine\n";
    let counted = [(2, 3), (5, 1), (6, 4), (8, 2), (14, 1)];
    assert_eq!(paragraphs(text), counted);
}
