//! The output of `git diff`, file by file and line by line.

use crate::tools::changed_ends;

/// The changes of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileChange {
    pub path: String,
    /// Other changes of the file, in words: new, deleted, renamed, binary, line ends.
    pub notes: Vec<String>,
    pub added: usize,
    pub removed: usize,
    pub lines: Vec<ChangeLine>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `@@ … @@`: the lines after it follow each other.
    Hunk,
    Same,
    Added,
    Removed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeLine {
    pub side: Side,
    /// Number in the old file for a removed line, otherwise in the new file; from 1.
    pub number: usize,
    pub text: String,
}

/// Parses the output of `git diff` with the prefixes `a/` and `b/`.
pub fn parse(diff: &str) -> Vec<FileChange> {
    let mut files: Vec<FileChange> = Vec::new();
    let (mut old, mut new) = (0, 0);
    // The remaining lines of the hunk, in the old and in the new file.
    let (mut old_left, mut new_left) = (0, 0);
    for line in diff.split('\n') {
        if let Some(rest) = line
            .strip_prefix("diff --git ")
            .filter(|_| old_left + new_left == 0)
        {
            files.push(FileChange {
                path: named(rest),
                ..FileChange::default()
            });
            continue;
        }
        let Some(file) = files.last_mut() else {
            continue;
        };
        if old_left + new_left > 0 {
            let (side, number) = match line.as_bytes().first() {
                Some(b'+') => (Side::Added, new),
                Some(b'-') => (Side::Removed, old),
                Some(b'\\') => continue,
                _ => (Side::Same, new),
            };
            let is = |sides: [Side; 2]| usize::from(sides.contains(&side));
            let (of_old, of_new) = (
                is([Side::Same, Side::Removed]),
                is([Side::Same, Side::Added]),
            );
            (old, new) = (old + of_old, new + of_new);
            old_left = usize::saturating_sub(old_left, of_old);
            new_left = usize::saturating_sub(new_left, of_new);
            file.added += usize::from(side == Side::Added);
            file.removed += usize::from(side == Side::Removed);
            let text = line.get(1..).unwrap_or_default().to_string();
            file.lines.push(ChangeLine { side, number, text });
        } else if let Some((from, to)) = hunk(line) {
            ((old, old_left), (new, new_left)) = (from, to);
            file.lines.push(ChangeLine {
                side: Side::Hunk,
                number: new,
                text: line.to_string(),
            });
        } else {
            head(line, file);
        }
    }
    files.iter_mut().for_each(strip_ends);
    files
}

/// Removes the CR of each line, and notes a change of them.
fn strip_ends(file: &mut FileChange) {
    let text = |side| {
        let lines = file.lines.iter().filter(|line| line.side == side);
        lines
            .flat_map(|line| [line.text.as_str(), "\n"])
            .collect::<String>()
    };
    let ends = changed_ends(&text(Side::Removed), &text(Side::Added));
    file.notes.extend(ends);
    for line in &mut file.lines {
        if line.text.ends_with('\r') {
            line.text.pop();
        }
    }
}

/// Parses a line between the name of a file and its first hunk.
fn head(line: &str, file: &mut FileChange) {
    let path = |text: &str, prefix: &str| {
        let path = unquoted(text.trim_end_matches('\t'));
        path.strip_prefix(prefix).map(str::to_string)
    };
    if let Some(text) = line.strip_prefix("+++ ") {
        file.path = path(text, "b/").unwrap_or_else(|| file.path.clone());
    } else if let Some(text) = line.strip_prefix("--- ") {
        file.path = path(text, "a/").unwrap_or_else(|| file.path.clone());
    } else if line.starts_with("new file mode") {
        file.notes.push("new file".into());
    } else if line.starts_with("deleted file mode") {
        file.notes.push("deleted".into());
    } else if let Some(from) = line.strip_prefix("rename from ") {
        file.notes.push(format!("renamed from {}", unquoted(from)));
    } else if let Some(to) = line.strip_prefix("rename to ") {
        file.path = unquoted(to);
    } else if let Some(mode) = line.strip_prefix("new mode ") {
        file.notes.push(format!("mode {mode} now"));
    } else if line.starts_with("Binary files ") {
        file.notes.push("binary: its lines are not shown".into());
    }
}

/// Parses `@@ -1,2 +3,4 @@`: the first lines, and their numbers.
fn hunk(line: &str) -> Option<((usize, usize), (usize, usize))> {
    let ranges = line.strip_prefix("@@ -")?;
    let (old, rest) = ranges.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let range = |text: &str| -> Option<(usize, usize)> {
        let (at, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((at.parse().ok()?, count.parse().ok()?))
    };
    Some((range(old)?, range(new)?))
}

/// Returns the name from `a/x b/x`: both are the same unless other lines name them.
fn named(rest: &str) -> String {
    let half = rest.len() / 2;
    let one = rest.get(half + 1..).unwrap_or(rest);
    let one = unquoted(one);
    one.strip_prefix("b/").unwrap_or(&one).to_string()
}

/// Decodes a name that git quotes because of control characters, quotes or backslashes.
fn unquoted(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) else {
        return text.to_string();
    };
    let mut bytes = Vec::new();
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'r') => bytes.push(b'\r'),
            Some(digit @ b'0'..=b'3') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    let digit = rest.next_if(|b| (b'0'..=b'7').contains(b)).unwrap_or(b'0');
                    value = value * 8 + u32::from(digit - b'0');
                }
                bytes.push(u8::try_from(value).unwrap_or(b'?'));
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_line_ends_is_noted() {
        let head = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n";
        let files = parse(&format!("{head}-x\n-y\n+x\r\n+z\r\n"));
        assert_eq!(files[0].notes, ["line ends changed from LF to CRLF"]);
        assert!(files[0].lines.iter().all(|line| !line.text.contains('\r')));
        let files = parse(&format!("{head} x\r\n-y\r\n+z\r\n"));
        assert!(files[0].notes.is_empty());
    }

    #[test]
    fn each_file_has_its_lines_with_their_numbers() {
        let diff = "diff --git a/a.rs b/a.rs\nindex 1..2 100644\n--- a/a.rs\n+++ b/a.rs\n\
            @@ -4,3 +4,3 @@ fn x()\n same\n--- old\n+++ new\n last\n\\ No newline at end of file\n\
            diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
            diff --git a/b.png b/b.png\nBinary files a/b.png and b/b.png differ\n\
            diff --git \"a/t\\tx\" \"b/t\\tx\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/t\\tx\"\n@@ -0,0 +1 @@\n+y\n";
        let files = parse(diff);
        let of = |f: &FileChange| (f.path.clone(), f.added, f.removed, f.notes.join(", "));
        let seen: Vec<_> = files.iter().map(of).collect();
        let want = [
            ("a.rs", 1, 1, ""),
            ("gone", 0, 1, "deleted"),
            ("b.png", 0, 0, "binary: its lines are not shown"),
            ("t\tx", 1, 0, "new file"),
        ];
        let want = want.map(|(path, a, r, n)| (path.to_string(), a, r, n.to_string()));
        assert_eq!(seen, want);
        let lines: Vec<_> = files[0].lines[1..]
            .iter()
            .map(|l| (l.side, l.number, l.text.as_str()))
            .collect();
        let want = [
            (Side::Same, 4, "same"),
            (Side::Removed, 5, "-- old"),
            (Side::Added, 5, "++ new"),
            (Side::Same, 6, "last"),
        ];
        assert_eq!(lines, want);
    }
}
