//! Paths as text: joined, cleaned, compared, and matched against patterns.
//!
//! Invariant: nothing here looks at a disk, so a link is not followed. A decision about a path must
//! also check its real path.

/// Joins `path` to `base`. The result is not cleaned, because only the disk knows where `link/..`
/// leads.
pub fn join(base: &str, path: &str) -> String {
    if path.starts_with('/') {
        path.to_string()
    } else {
        format!("{}/{path}", base.trim_end_matches('/'))
    }
}

/// Removes `.`, `..`, empty parts and a trailing `/`, by the text alone.
pub fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Returns the part of a clean `path` below `folder`; empty for the folder itself.
pub(crate) fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(folder.trim_end_matches('/'))?;
    match rest.strip_prefix('/') {
        Some(rest) => Some(rest),
        None => rest.is_empty().then_some(""),
    }
}

/// Folds a name as file systems do that ignore case and, as HFS+, characters without width.
pub fn fold(name: &str) -> String {
    name.chars()
        .filter(|c| {
            !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        })
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns whether a path's parts match a pattern's: `**` is any number of parts, `*` and `?` are
/// characters of one part.
pub(crate) fn parts_match(pattern: &[&str], path: &[&str]) -> bool {
    parts_reached(pattern, path)[path.len()]
}

/// Returns whether the path, or a folder above it, matches.
pub(crate) fn parts_match_above(pattern: &[&str], path: &[&str]) -> bool {
    parts_reached(pattern, path).contains(&true)
}

/// Returns whether a folded name matches a pattern, in which `*` is any number of characters.
pub fn name_matches(pattern: &str, name: &str) -> bool {
    if pattern.contains('*') {
        text_matches(pattern, name)
    } else {
        pattern == name
    }
}

/// Returns whether a text matches a pattern of `*` (any characters) and `?` (one).
pub fn text_matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    reached(&pattern, &text, |p| *p == '*', |p, c| *p == '?' || p == c)[text.len()]
}

fn parts_reached(pattern: &[&str], path: &[&str]) -> Vec<bool> {
    reached(
        pattern,
        path,
        |pattern| *pattern == "**",
        |pattern, part| text_matches(pattern, part),
    )
}

/// Returns the positions at which the whole pattern can end, in time |pattern| × |items|.
fn reached<T>(
    pattern: &[T],
    items: &[T],
    is_any: impl Fn(&T) -> bool,
    is_one: impl Fn(&T, &T) -> bool,
) -> Vec<bool> {
    let mut reached = vec![false; items.len() + 1];
    reached[0] = true;
    for piece in pattern {
        if is_any(piece) {
            for at in 0..items.len() {
                reached[at + 1] |= reached[at];
            }
        } else {
            for at in (0..items.len()).rev() {
                reached[at + 1] = reached[at] && is_one(piece, &items[at]);
            }
            reached[0] = false;
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_cleaned_by_their_text() {
        for (given, want) in [
            ("/a/b/../c/./d//e/", "/a/c/d/e"),
            ("/../../x", "/x"),
            ("/", "/"),
            ("", "/"),
        ] {
            assert_eq!(clean(given), want);
        }
        assert_eq!(join("/w/", "a/../b"), "/w/a/../b");
        assert_eq!(join("/w", "/etc"), "/etc");
    }

    #[test]
    fn a_folder_is_not_its_longer_neighbour() {
        assert_eq!(below("/w/a/b", "/w"), Some("a/b"));
        assert_eq!(below("/w", "/w"), Some(""));
        assert_eq!(below("/work", "/w"), None);
        assert_eq!(below("/etc", "/"), Some("etc"));
    }

    #[test]
    fn patterns_match_parts() {
        for (pattern, path, want) in [
            ("src/**", "src/a/b.rs", true),
            ("src/**", "src", true),
            ("src/**", "srcs/a", false),
            ("src/*", "src/a/b", false),
            ("**/*.pem", "a/b/c.pem", true),
            ("**/*.pem", "c.pem", true),
            ("a/**/b", "a/x/y/b", true),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/c", false),
            ("?.rs", "a.rs", true),
            ("?.rs", "ab.rs", false),
            ("*", "", false),
        ] {
            let parts =
                |t: &'static str| t.split('/').filter(|p| !p.is_empty()).collect::<Vec<_>>();
            assert_eq!(
                parts_match(&parts(pattern), &parts(path)),
                want,
                "{pattern} {path}"
            );
        }
        assert!(parts_match_above(&["a", "*"], &["a", "b", "c"]));
        assert!(!parts_match_above(&["a", "b", "c"], &["a", "b"]));
    }

    #[test]
    fn names_that_some_disks_take_for_the_same_are_the_same() {
        for name in [".GIT", ".Git", ".g\u{200c}it", "\u{feff}.git"] {
            assert_eq!(fold(name), ".git");
        }
        assert_eq!(fold(".\u{17f}SH"), ".ssh");
        assert_eq!(fold(".rewa\u{212a}e"), ".rewake");
    }

    proptest! {
        #[test]
        fn long_patterns_end_soon(stars in 1_usize..60) {
            let pattern = "*a".repeat(stars);
            prop_assert!(!text_matches(&pattern, &"a".repeat(400).replace("aaaa", "aaab").replace('a', "b")));
        }

        #[test]
        fn a_clean_path_stays_clean(path in "[a/.]{0,20}") {
            let once = clean(&path);
            prop_assert_eq!(clean(&once), once.clone());
            prop_assert!(!once.split('/').any(|p| p == ".."));
        }
    }
}
