//! Chips: a long paste or an image that is one piece of the text. In the buffer a chip is one
//! character of a block that no font uses. So moving over it, deleting it, undoing and cutting need
//! no special rule.
//!
//! Invariant: such a character comes into a buffer only through [`Chips::add`]; in text from
//! outside it is replaced ([`clean`]).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::core::text::one_line;
use crate::core::visible::visible;

/// The last part of the last private plane.
const FIRST: u32 = 0x10_f000;

/// Maximum number of chips of one text.
const MAX_CHIPS: usize = 256;

/// Maximum size of the content of all chips of one text.
const MAX_BYTES: usize = 32 * 1024 * 1024;

const MAX_NAME_CHARS: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Chip {
    Paste(String),
    Image(PathBuf),
}

/// The chips of one text, also those that an undo may bring back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Chips(Vec<Chip>);

impl Chips {
    /// Adds a chip and returns its character; `None` when there are too many chips.
    pub(super) fn add(&mut self, chip: Chip) -> Option<char> {
        let held: usize = self.0.iter().map(Chip::size).sum();
        if self.0.len() >= MAX_CHIPS || held.saturating_add(chip.size()) > MAX_BYTES {
            return None;
        }
        let c = char::from_u32(FIRST + u32::try_from(self.0.len()).ok()?)?;
        self.0.push(chip);
        Some(c)
    }

    /// Chips that were stored, within the bounds of new ones.
    pub(super) fn checked(self) -> Chips {
        let mut chips = Chips::default();
        for chip in self.0 {
            chips.add(match chip {
                Chip::Paste(text) => Chip::Paste(clean(&text)),
                image => image,
            });
        }
        chips
    }

    pub(super) fn get(&self, c: char) -> Option<&Chip> {
        let index = u32::from(c).checked_sub(FIRST)?;
        self.0.get(usize::try_from(index).ok()?)
    }

    /// Returns the text shown for the character: `[Pasted text #1 +42 lines]`, `[Image #1
    /// name.png]`.
    pub(super) fn label(&self, c: char) -> Option<String> {
        let chip = self.get(c)?;
        let index = self.0.iter().position(|other| std::ptr::eq(other, chip))?;
        let kind = std::mem::discriminant(chip);
        let before = self.0[..index].iter();
        let number = 1 + before
            .filter(|c| std::mem::discriminant(*c) == kind)
            .count();
        Some(match chip {
            Chip::Paste(text) => match text.lines().count() {
                0 | 1 => format!(
                    "[Pasted text #{number} {} characters]",
                    text.chars().count()
                ),
                lines => format!("[Pasted text #{number} +{lines} lines]"),
            },
            Chip::Image(path) => image_label(number, path),
        })
    }

    /// Returns the text with each chip as its label, or as its full content.
    pub(super) fn expand(&self, text: &str, whole: bool) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            match (self.get(c), whole) {
                (None, _) if is_chip(c) => {}
                (None, _) => out.push(c),
                (Some(Chip::Paste(pasted)), true) => out.push_str(pasted),
                (Some(_), _) => out.push_str(&self.label(c).unwrap_or_default()),
            }
        }
        out
    }

    /// Returns the images of the text, in its order, each once.
    pub(super) fn images(&self, text: &str) -> Vec<PathBuf> {
        let mut images: Vec<PathBuf> = Vec::new();
        for c in text.chars() {
            if let Some(Chip::Image(path)) = self.get(c)
                && !images.contains(path)
            {
                images.push(path.clone());
            }
        }
        images
    }

    /// Reverses [`Chips::expand`] with labels: an editor returns them as text.
    pub(super) fn collapse(&self, text: &str) -> String {
        let mut text = text.to_string();
        for index in 0..self.0.len() {
            let c = u32::try_from(index)
                .ok()
                .and_then(|i| char::from_u32(FIRST + i));
            if let Some((c, label)) = c.and_then(|c| Some((c, self.label(c)?)))
                && text.contains(&label)
            {
                text = text.replace(&label, c.encode_utf8(&mut [0; 4]));
            }
        }
        text
    }
}

impl Chip {
    fn size(&self) -> usize {
        match self {
            Chip::Paste(text) => text.len(),
            Chip::Image(path) => path.as_os_str().len(),
        }
    }
}

/// Returns the label of an image in a text: its number and its name.
pub(super) fn image_label(number: usize, path: &Path) -> String {
    format!("[Image #{number} {}]", name(path))
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    one_line(&name.to_string_lossy(), MAX_NAME_CHARS)
}

pub(super) fn is_chip(c: char) -> bool {
    u32::from(c) >= FIRST
}

/// Cleans text from outside for a buffer: control characters become marks (line ends and tabs stay,
/// CR LF and CR are line ends), and characters of chips are replaced.
pub(super) fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let text = visible(&text);
    match text.contains(is_chip) {
        true => text.replace(is_chip, "\u{fffd}"),
        false => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> (Chips, char, char) {
        let mut chips = Chips::default();
        let paste = chips.add(Chip::Paste("a\nb\nc".into())).unwrap();
        let image = chips.add(Chip::Image("/tmp/shot one.png".into())).unwrap();
        (chips, paste, image)
    }

    #[test]
    fn a_chip_is_shown_by_its_label_and_sent_whole() {
        let (chips, paste, image) = two();
        let text = format!("see {paste} and {image}");
        let shown = "see [Pasted text #1 +3 lines] and [Image #1 shot one.png]";
        assert_eq!(chips.expand(&text, false), shown);
        assert_eq!(
            chips.expand(&text, true),
            "see a\nb\nc and [Image #1 shot one.png]"
        );
        assert_eq!(chips.images(&text), [PathBuf::from("/tmp/shot one.png")]);
        assert_eq!(chips.collapse(shown), text);
    }

    #[test]
    fn there_is_an_end_to_them() {
        let mut chips = Chips::default();
        assert!(chips.add(Chip::Paste("x".repeat(MAX_BYTES + 1))).is_none());
        for _ in 0..MAX_CHIPS {
            assert!(chips.add(Chip::Paste(String::new())).is_some());
        }
        assert!(chips.add(Chip::Paste(String::new())).is_none());
    }

    #[test]
    fn text_from_outside_is_cleaned() {
        for (given, want) in [
            ("a\r\nb\rc\td", "a\nb\nc\td"),
            ("a\u{0}b\u{7}", "a␀b␇"),
            ("\u{1b}[31mred", "␛[31mred"),
            ("\u{10f000}", "\u{fffd}"),
        ] {
            assert_eq!(clean(given), want, "{given:?}");
        }
    }
}
