//! Addresses of stored content. Notes, summaries and shortened texts print them, and models write
//! them back: `entry 812`, `entries 812-860`, `[entries 812-860: auth refactor]`, `812`,
//! `SESSION:812`, `SESSION:812-860`, `blob:HASH`.

use super::entry::Seq;

/// Digits of a blake3 hash in hex.
const HASH_DIGITS: usize = 64;

/// Maximum length of a text that is parsed as an address.
const MAX_BYTES: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Both ends included.
    Entries {
        /// A session id or the beginning of one. `None`: the session in which the address is read.
        session: Option<String>,
        first: Seq,
        last: Seq,
    },
    /// The hash in hex.
    Blob(String),
}

impl Address {
    /// Parses an address. The error describes what an address looks like, in words the model can
    /// act on.
    pub fn parse(text: &str) -> Result<Address, String> {
        let wrong = || {
            format!(
                "{:?} is not an address; one is `entry 812`, `entries 812-860`, `SESSION:812` or \
                 `blob:HASH`, as memory_search and notes print them",
                super::text::one_line(text, 100)
            )
        };
        if text.len() > MAX_BYTES {
            return Err(wrong());
        }
        parse(text).ok_or_else(wrong)
    }
}

fn parse(text: &str) -> Option<Address> {
    let text = text
        .trim()
        .trim_matches(|c: char| matches!(c, '[' | ']' | '`' | '"' | '(' | ')'))
        .trim()
        .to_lowercase();
    if let Some(hash) = text.strip_prefix("blob:") {
        return blob(hash.trim());
    }
    let (session, range) = match text.split_once(':') {
        // The text after the colon may describe the range: `entries 812-860: auth refactor`.
        Some((range, about)) => {
            let is_address = entry_word(about).starts_with(|c: char| c.is_ascii_digit());
            match numbers(entry_word(range)) {
                Some(found) if range.starts_with("entr") || !is_address => (None, Some(found)),
                _ => (Some(range.trim()), numbers(entry_word(about))),
            }
        }
        None => (None, numbers(entry_word(&text))),
    };
    let session = match session {
        Some(id) => Some(session_id(id)?),
        None => None,
    };
    let (first, last) = range?;
    Some(Address::Entries {
        session,
        first,
        last,
    })
}

fn blob(hash: &str) -> Option<Address> {
    let is_hash = hash.len() == HASH_DIGITS && hash.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| Address::Blob(hash.to_string()))
}

fn session_id(text: &str) -> Option<String> {
    let id = text.strip_prefix("session").unwrap_or(text).trim();
    let fits = |b: u8| b.is_ascii_hexdigit() || b == b'-';
    (!id.is_empty() && id.len() <= 36 && id.bytes().all(fits)).then(|| id.to_string())
}

/// Removes the word `entry` or `entries` before the numbers.
fn entry_word(text: &str) -> &str {
    let text = text.trim();
    let rest = text
        .strip_prefix("entries")
        .or_else(|| text.strip_prefix("entry"))
        .unwrap_or(text);
    rest.trim_start()
}

/// Parses `812`, `812-860` or `812 to 860`.
fn numbers(text: &str) -> Option<(Seq, Seq)> {
    let text = text.trim();
    let ends = text.split_once(['-', '–']).or(text.split_once(" to "));
    let (first, last) = match ends {
        Some((first, last)) => (first.trim().parse().ok()?, last.trim().parse().ok()?),
        None => {
            let one = text.parse().ok()?;
            (one, one)
        }
    };
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(session: Option<&str>, first: Seq, last: Seq) -> Option<Address> {
        Some(Address::Entries {
            session: session.map(str::to_string),
            first,
            last,
        })
    }

    #[test]
    fn addresses_are_read_as_they_are_printed_and_written_back() {
        const ID: &str = "0197a1b2-c3d4-7000-8000-000000000001";
        for (text, want) in [
            ("entry 812", entries(None, 812, 812)),
            ("Entry 812", entries(None, 812, 812)),
            ("812", entries(None, 812, 812)),
            ("[812]", entries(None, 812, 812)),
            ("entries 812-860", entries(None, 812, 860)),
            ("Entries 0-12", entries(None, 0, 12)),
            ("812–860", entries(None, 812, 860)),
            ("entries 812 to 860", entries(None, 812, 860)),
            ("[entries 812-860: auth refactor]", entries(None, 812, 860)),
            (&format!("{ID}:812"), entries(Some(ID), 812, 812)),
            (&format!("{ID}:812-860"), entries(Some(ID), 812, 860)),
            (&format!("{ID}:entry 7"), entries(Some(ID), 7, 7)),
            (
                &format!("session {ID}: entries 1-2"),
                entries(Some(ID), 1, 2),
            ),
            ("12345678:9", entries(Some("12345678"), 9, 9)),
            ("entry", None),
            ("entries 9-3", None),
            ("-3", None),
            ("[entries 8-9: 3 files]", entries(None, 8, 9)),
            ("blob:12", None),
            ("../x:3", None),
            ("", None),
        ] {
            assert_eq!(Address::parse(text).ok(), want, "{text}");
        }
        let hash = "0123456789abcdef".repeat(4);
        let blob = Address::Blob(hash.clone());
        assert_eq!(Address::parse(&format!("blob:{hash}")), Ok(blob.clone()));
        assert_eq!(Address::parse(&format!("`BLOB:{hash}`")), Ok(blob));
        let long = "9".repeat(10_000);
        assert!(Address::parse(&long).unwrap_err().len() < 400);
    }
}
