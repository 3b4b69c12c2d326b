//! The documentation leads somewhere: every relative link of a page names a file that is there,
//! and a heading that the file has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::root;

#[test]
fn every_link_of_the_documentation_leads_somewhere() {
    let pages = pages();
    let broken: Vec<String> = pages.iter().flat_map(|page| broken_links(page)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    let links: usize = pages.iter().map(|page| links(&read(page)).len()).sum();
    assert!(links >= 50, "only {links} links were found");
}

/// The Markdown files of the root and of `docs`.
fn pages() -> Vec<PathBuf> {
    let folders = [root().to_path_buf(), root().join("docs")];
    let files = folders.iter().flat_map(|folder| {
        let entries = std::fs::read_dir(folder).expect("list a folder");
        entries.map(|entry| entry.expect("list a folder").path())
    });
    let is_page = |path: &PathBuf| path.extension().is_some_and(|e| e == "md");
    let mut pages: Vec<PathBuf> = files.filter(is_page).collect();
    pages.sort();
    pages
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("read a page")
}

fn broken_links(page: &Path) -> Vec<String> {
    let folder = page.parent().expect("a file has a folder");
    let is_broken = |link: &String| {
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = match path {
            "" => page.to_path_buf(),
            path => folder.join(path),
        };
        !target.exists() || (!heading.is_empty() && !headings(&read(&target)).contains(heading))
    };
    let broken = links(&read(page)).into_iter().filter(is_broken);
    broken
        .map(|link| format!("{}: {link} leads nowhere", page.display()))
        .collect()
}

/// The lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// The relative targets of `[text](target)`, and of pictures for light and dark pages.
fn links(text: &str) -> Vec<String> {
    let behind = |mark: &'static str, end: char| {
        let parts = prose(text).flat_map(move |line| line.split(mark).skip(1));
        parts.filter_map(move |part| part.split_once(end))
    };
    let found = behind("](", ')').chain(behind("src=\"", '"'));
    found
        .chain(behind("srcset=\"", '"'))
        .map(|(link, _)| link.to_string())
        .filter(|link| !link.contains("://"))
        .collect()
}

/// The headings as links name them: lower case, words joined by `-`, nothing but letters.
fn headings(text: &str) -> BTreeSet<String> {
    let lines = prose(text).filter(|line| line.starts_with('#'));
    lines
        .map(|line| {
            let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
            let words: String = line
                .trim_start_matches('#')
                .trim()
                .chars()
                .filter(kept)
                .collect();
            words.to_lowercase().replace(' ', "-")
        })
        .collect()
}

#[test]
fn links_and_headings_are_found() {
    let text = "# A `b`, c\n[x](y.md) and <source srcset=\"l.svg\"><img src=\"d.svg\"> and [z](#a-b-c), [w](https://w)\n```\n# no\n[no](no)\n```\n";
    assert_eq!(links(text), ["y.md", "#a-b-c", "d.svg", "l.svg"]);
    assert!(headings(text).contains("a-b-c") && headings(text).len() == 1);
}
