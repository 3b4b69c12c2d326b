//! The files that the model knows: which lines of them were shown, and whether as they are.

use serde::{Deserialize, Serialize};

/// Maximum number of ranges of lines of a file. More are forgotten, so that they are read again.
const MAX_RANGES: usize = 32;

/// A file that the model knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenFile {
    /// blake3 of the content, in hex.
    pub hash: String,
    /// The part of the content that was shown. `None`: all of it.
    pub part: Option<SeenPart>,
}

/// The part of a file that was shown to the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenPart {
    /// The first and the last line of each range that was shown in full length, from 1.
    pub lines: Vec<(u64, u64)>,
    /// Number of lines of the file. 0: it is not known.
    pub of: u64,
    /// Whether bytes that are not text were shown as other characters, or as an image.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaced: bool,
}

impl SeenFile {
    /// Returns a file that the model knows in whole.
    pub fn whole(hash: impl Into<String>) -> SeenFile {
        SeenFile {
            hash: hash.into(),
            part: None,
        }
    }

    /// Adds what a read of the file showed.
    pub(super) fn see(&mut self, hash: &str, part: Option<&SeenPart>) {
        let before = if self.hash == hash {
            self.part.take()
        } else {
            Some(SeenPart::default())
        };
        self.hash = hash.to_string();
        self.part = before.zip(part).and_then(|(before, part)| {
            let lines = before.lines.into_iter().chain(part.lines.iter().copied());
            SeenPart::new(lines.collect(), part.of, before.replaced || part.replaced)
        });
    }

    /// Takes the hash of changed content. Lines of a part may have other numbers in it.
    pub(super) fn follow(&mut self, hash: &str) {
        self.hash = hash.to_string();
        if let Some(part) = &mut self.part {
            part.lines.clear();
            part.of = 0;
        }
    }
}

impl SeenPart {
    /// Joins ranges of lines. Returns `None` when they are the whole file, shown as it is.
    pub fn new(mut lines: Vec<(u64, u64)>, of: u64, replaced: bool) -> Option<SeenPart> {
        lines.retain(|(first, last)| first <= last);
        lines.sort_unstable();
        lines.dedup_by(|next, range| {
            let joins = next.0 <= range.1.saturating_add(1);
            if joins {
                range.1 = range.1.max(next.1);
            }
            joins
        });
        lines.truncate(MAX_RANGES);
        let part = SeenPart {
            lines,
            of,
            replaced,
        };
        (replaced || part.first_missing() <= of).then_some(part)
    }

    /// Returns the first line that was not shown.
    pub fn first_missing(&self) -> u64 {
        match self.lines.first() {
            Some((0 | 1, last)) => last.saturating_add(1),
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_of_the_same_content_add_up_to_the_whole() {
        let mut file = SeenFile {
            hash: "a".into(),
            part: SeenPart::new(vec![(1, 3)], 9, false),
        };
        let read = |first, last| SeenPart::new(vec![(first, last)], 9, false);
        file.see("a", read(7, 9).as_ref());
        assert_eq!(file.part.as_ref().unwrap().lines, [(1, 3), (7, 9)]);
        assert_eq!(file.part.as_ref().unwrap().first_missing(), 4);
        file.see("a", read(4, 6).as_ref());
        assert_eq!(file, SeenFile::whole("a"));
        // What was seen in whole stays so until the content is another one.
        file.see("a", read(2, 2).as_ref());
        assert_eq!(file.part, None);
        file.see("b", read(2, 2).as_ref());
        assert_eq!(file.part.as_ref().unwrap().lines, [(2, 2)]);
        file.follow("c");
        assert_eq!(file.part.as_ref().unwrap().first_missing(), 1);
        file.see("c", read(3, 9).as_ref());
        assert!(file.part.is_some(), "lines 1 and 2 may be other ones now");
        file.see("c", None);
        assert_eq!(file, SeenFile::whole("c"));
    }

    #[test]
    fn replaced_bytes_are_never_the_whole() {
        let part = SeenPart::new(vec![(1, 2)], 2, true);
        let mut file = SeenFile {
            hash: "a".into(),
            part: part.clone(),
        };
        file.see("a", part.as_ref());
        assert!(file.part.unwrap().replaced);
    }

    proptest! {
        #[test]
        fn any_ranges_are_joined_within_bounds(
            lines in prop::collection::vec((any::<u8>(), any::<u8>()), 0..200), far in any::<u64>(),
        ) {
            let shown = |n: u64| lines.iter().any(|(a, b)| (u64::from(*a)..=u64::from(*b)).contains(&n));
            let mut all: Vec<_> = lines.iter().map(|(a, b)| (u64::from(*a), u64::from(*b))).collect();
            let seen = (1..=255).all(shown);
            prop_assert_eq!(SeenPart::new(all.clone(), 255, false).is_none(), seen);
            all.push((far, u64::MAX));
            let part = SeenPart::new(all, u64::MAX, true).unwrap();
            prop_assert!(part.lines.len() <= MAX_RANGES);
            for (first, last) in part.lines {
                prop_assert!(first >= far || (first..=last.min(300)).all(|n| shown(n) || n >= far));
            }
        }
    }
}
