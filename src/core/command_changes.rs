//! The note in the result of a command that failed or was interrupted: the files that changed since
//! it started, and the command line that brings them back.
//!
//! The files are those of the two trees around the command. So the note claims no ignored file, no
//! file outside of the workspace, and not that the command changed them.

use super::file_name::path_text;
use super::shell::one_argument;
use super::text::count;
use super::tree::{Change, Delta, Item, Marked};

/// Maximum number of files that are named.
const MAX_NAMED: usize = 10;

/// Maximum length of the names in the note, in bytes.
const MAX_BYTES: usize = 2_000;

/// Beginning of the note.
const BEGIN: &str = "changed since it started";

/// The place of a command in its session.
#[derive(Debug, Clone, Copy)]
pub struct CommandPlace<'a> {
    /// The short ID of the session.
    pub session: &'a str,
    /// The last entry before the start of the command.
    pub entry: u64,
    /// The root of the workspace.
    pub root: &'a str,
    /// The folder in which the session works: the root, or a folder below it.
    pub folder: &'a str,
    /// Whether other commands or subagents ran meanwhile.
    pub has_others: bool,
}

/// Returns the note about the differences of the files, without brackets. `None`: there are none.
pub fn note(delta: &Delta, place: &CommandPlace<'_>) -> Option<String> {
    let own = delta.0.iter().filter(|(path, change)| {
        let is_only_coverage = matches!(
            change,
            Change::Put { entered: true, .. } | Change::Gone { left: true }
        );
        !is_only_coverage && !path.starts_with(b"/")
    });
    let (mut names, mut restored) = (Vec::new(), Vec::new());
    let (mut all, mut bytes) = (0_usize, 0);
    for (path, change) in own {
        all += 1;
        let name = argument(path, place);
        bytes += name.len();
        if names.len() == MAX_NAMED || bytes > MAX_BYTES {
            continue;
        }
        match marked(change) {
            Some(why) => names.push(format!("{name} ({}: not kept)", why.words())),
            None => {
                names.push(name.clone());
                restored.push(name);
            }
        }
    }
    if all == 0 {
        return None;
    }
    let more = all - names.len();
    let named = match (names.is_empty(), more) {
        (true, _) => count(all, "file"),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    };
    let others = if place.has_others {
        ", by it or by what ran in the background"
    } else {
        ""
    };
    let mut note = format!("{BEGIN}{others}: {named}");
    let paths = match more {
        0 => restored.join(" "),
        _ if place.folder == place.root => ".".to_string(),
        _ => one_argument(place.root),
    };
    if !paths.is_empty() {
        let (session, entry) = (place.session, place.entry);
        note.push_str(&format!(
            "; `rewake restore {paths} --at {session}:{entry}` brings back what was there before"
        ));
    }
    Some(note)
}

/// Returns whether a line of a result, without brackets, is such a note.
pub fn is_note(line: &str) -> bool {
    line.starts_with(BEGIN)
}

/// Returns the lines of a result without the note, which differs each time.
pub fn without_note(result: &str) -> impl Iterator<Item = &str> {
    let is_note = |line: &&str| line.strip_prefix('[').is_some_and(is_note);
    result.lines().filter(move |line| !is_note(line))
}

fn marked(change: &Change) -> Option<Marked> {
    match change {
        Change::Put {
            item: Item::Marker { why, .. },
            ..
        } => Some(*why),
        Change::Put { .. } | Change::Gone { .. } => None,
    }
}

/// Returns the path as a shell word, from the folder of the session.
fn argument(path: &[u8], place: &CommandPlace<'_>) -> String {
    // `None`: the folder was named by a link, or the path is not below it.
    let rest = match place.folder.strip_prefix(place.root) {
        Some("") => Some(path),
        Some(below) => below
            .strip_prefix('/')
            .and_then(|below| path.strip_prefix(below.as_bytes()))
            .and_then(|rest| rest.strip_prefix(b"/")),
        None => None,
    };
    match rest {
        Some(rest) => shell_word(rest),
        None => shell_word(&[place.root.as_bytes(), b"/", path].concat()),
    }
}

/// Returns a path as a shell word that no program takes for an option.
pub fn shell_word(path: &[u8]) -> String {
    let named = [b"./", path].concat();
    let path: &[u8] = if path.starts_with(b"-") { &named } else { path };
    let shown = path_text(path);
    if shown.as_bytes() == path {
        one_argument(&shown)
    } else {
        // Bytes that are not text, in the quotes of bash and zsh.
        format!("$'{}'", escaped(path))
    }
}

fn escaped(path: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    let byte = |byte: &u8| match byte {
        b'\\' | b'\'' => format!("\\{}", char::from(*byte)),
        byte if is_plain(byte) => char::from(*byte).to_string(),
        byte => format!("\\x{byte:02x}"),
    };
    path.iter().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: CommandPlace<'_> = CommandPlace {
        session: "01a22e55-35b0",
        entry: 4,
        root: "/w",
        folder: "/w",
        has_others: false,
    };

    fn file() -> Change {
        Change::put(Item::File {
            mode: 0o644,
            hash: [0; 32],
            bytes: 1,
        })
    }

    fn secret() -> Change {
        Change::put(Item::Marker {
            why: Marked::Secret,
            bytes: 1,
            mtime_ms: 1,
            hash: None,
        })
    }

    fn delta<'a>(changes: impl IntoIterator<Item = (&'a [u8], Change)>) -> Delta {
        let changes = changes.into_iter();
        Delta(changes.map(|(path, c)| (path.to_vec(), c)).collect())
    }

    #[test]
    fn the_note_names_the_files_and_the_command_that_restores_them() {
        let changes: [(&[u8], Change); 2] = [
            (b"half.txt", file()),
            (b"keep.txt", Change::Gone { left: false }),
        ];
        let told = note(&delta(changes), &PLACE).unwrap();
        assert_eq!(
            told,
            "changed since it started: half.txt, keep.txt; `rewake restore half.txt keep.txt --at \
             01a22e55-35b0:4` brings back what was there before"
        );
        assert!(is_note(&told));
        let result = format!("out\n[exit code 3]\n[{told}]");
        let left: Vec<&str> = without_note(&result).collect();
        assert_eq!(left, ["out", "[exit code 3]"]);
    }

    #[test]
    fn nothing_is_claimed_outside_of_the_workspace_or_of_coverage() {
        let entered = match file() {
            Change::Put { item, .. } => Change::Put {
                item,
                entered: true,
            },
            gone => gone,
        };
        let changes: [(&[u8], Change); 3] = [
            (b"/etc/hosts", file()),
            (b"entered", entered),
            (b"left", Change::Gone { left: true }),
        ];
        assert_eq!(note(&delta(changes), &PLACE), None);
    }

    #[test]
    fn of_many_files_ten_are_named() {
        let names: Vec<String> = (0..3_000).map(|n| format!("f{n:04}")).collect();
        let many = names.iter().map(|name| (name.as_bytes(), file()));
        let told = note(&delta(many), &PLACE).unwrap();
        assert!(
            told.contains("f0009 and 2990 more; `rewake restore . --at 01a2"),
            "{told}"
        );
        assert!(!told.contains("f0010"), "{told}");
        let long: Vec<String> = (0..9).map(|n| format!("{n}{}", "x".repeat(900))).collect();
        let told = note(
            &delta(long.iter().map(|name| (name.as_bytes(), file()))),
            &PLACE,
        );
        let told = told.unwrap();
        assert!(told.contains(" and 7 more; `rewake restore . "), "{told}");
        assert!(told.len() < MAX_BYTES + 200, "{}", told.len());
    }

    #[test]
    fn odd_names_are_shell_words_and_a_secret_is_not_restored() {
        let changes: [(&[u8], Change); 5] = [
            (b"-rf", file()),
            (b".env", secret()),
            (b"a b, c", file()),
            (b"it's\xff\n", file()),
            (b"plain", file()),
        ];
        let told = note(&delta(changes), &PLACE).unwrap();
        let words = r"./-rf 'a b, c' $'it\'s\xff\x0a' plain --at ";
        assert!(told.contains(words), "{told}");
        assert!(told.contains(".env (a secret: not kept), "), "{told}");
        let only = note(&delta([(&b".env"[..], secret())]), &PLACE).unwrap();
        assert_eq!(only, "changed since it started: .env (a secret: not kept)");
    }

    #[test]
    fn a_shell_word_is_the_file_itself() {
        assert_eq!(shell_word(b"-a"), "./-a");
        assert_eq!(shell_word(b"a\nb"), r"$'a\x0ab'");
        assert_eq!(shell_word(br#""a\nb""#), r#"$'"a\\nb"'"#);
    }

    #[test]
    fn names_begin_in_the_folder_of_the_session() {
        let place = CommandPlace {
            folder: "/w/sub",
            has_others: true,
            ..PLACE
        };
        let changes: [(&[u8], Change); 2] = [(b"sub/in", file()), (b"subway", file())];
        let told = note(&delta(changes), &place).unwrap();
        let words = "by it or by what ran in the background: in, /w/subway; `rewake restore in /w/subway --at";
        assert!(told.contains(words), "{told}");
    }
}
