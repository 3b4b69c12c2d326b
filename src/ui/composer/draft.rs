//! The text of the box in a form that outlives the process, and as text for an editor.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::buffer::MAX_BYTES;
use super::chips::{Chip, Chips, clean, image_label, is_chip};
use super::{Composer, ImageCandidate};

/// The form in which a draft is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    text: String,
    cursor: usize,
    #[serde(default)]
    chips: Chips,
}

impl Composer {
    /// Returns all typed text with its chips; `None` if there is none.
    pub fn draft(&self) -> Option<String> {
        let typed = self.typed();
        if typed.text.is_empty() {
            return None;
        }
        let stored = Stored {
            text: typed.text,
            cursor: typed.cursor,
            chips: self.chips.clone(),
        };
        serde_json::to_string(&stored).ok()
    }

    /// Restores the text from [`Composer::draft`]. Other text is taken as it is.
    pub fn restore(&mut self, draft: &str) {
        let Ok(stored) = serde_json::from_str::<Stored>(draft) else {
            self.set_text(draft);
            return;
        };
        self.chips = stored.chips.checked();
        let chips = &self.chips;
        let known = |c: &char| !is_chip(*c) || chips.get(*c).is_some();
        // The chips of the text itself must outlive the cleaning.
        let text: String = stored.text.chars().filter(known).collect();
        let text: String = text
            .split_inclusive(is_chip)
            .map(
                |part| match part.chars().next_back().filter(|c| is_chip(*c)) {
                    Some(chip) => {
                        clean(part.trim_end_matches(is_chip)) + chip.encode_utf8(&mut [0; 4])
                    }
                    None => clean(part),
                },
            )
            .collect();
        self.begin(&text, stored.cursor);
    }

    /// Sets the prompts of another session, the newest last.
    pub fn set_prompts(&mut self, prompts: Vec<String>) {
        self.history.reset(prompts);
    }

    /// Sets the prompts of other sessions of the project, the newest last. They are older than
    /// those of this session.
    pub fn set_earlier_prompts(&mut self, prompts: Vec<String>) {
        let by = self.history.set_earlier(prompts);
        let Some(search) = &mut self.search else {
            return;
        };
        match &mut search.found {
            Some(found) => *found = found.saturating_add_signed(by),
            // The search continues in these prompts too.
            None => {
                search.retype(&self.history);
                self.show_found();
            }
        }
    }

    /// Sets other text in the box: a queued message, or one to rewind to.
    pub fn set_text(&mut self, text: &str) {
        self.chips = Chips::default();
        let text = clean(text);
        let text = self.short(text);
        self.begin(&text, text.len());
    }

    /// Puts a message that was not sent back into the box, below the typed text.
    pub fn put_back(&mut self, text: &str, images: Vec<PathBuf>, looks: Vec<ImageCandidate>) {
        let mut text = clean(text);
        for (at, path) in images.into_iter().enumerate() {
            let label = image_label(at + 1, &path);
            if text.contains(&label)
                && let Some(chip) = self.chips.add(Chip::Image(path))
            {
                text = text.replacen(&label, chip.encode_utf8(&mut [0; 4]), 1);
            }
        }
        let text = match self.is_empty() {
            true => text,
            false => format!("{}\n{text}", self.buffer.text()),
        };
        let text = self.short(text);
        self.begin(&text, text.len());
        self.looks.extend(looks);
    }

    /// Returns the text with the content of all pastes; images as their labels.
    pub fn whole(&self) -> String {
        self.chips.expand(self.buffer.text(), true)
    }

    /// Returns the text for an editor: chips as their labels.
    pub fn for_editor(&self) -> String {
        self.chips.expand(self.buffer.text(), false)
    }

    /// Replaces the text with the text from an editor. It can be undone.
    pub fn edited(&mut self, text: &str) {
        let text = self.chips.collapse(&clean(text));
        let text = self.short(text);
        self.close();
        self.buffer.set(&text);
    }

    /// Replaces a text that is too long for the box with a chip.
    fn short(&mut self, text: String) -> String {
        if text.len() <= MAX_BYTES {
            return text;
        }
        let whole = self.chips.expand(&text, true);
        self.chips
            .add(Chip::Paste(whole))
            .map(String::from)
            .unwrap_or_default()
    }

    fn begin(&mut self, text: &str, cursor: usize) {
        self.close();
        self.history.stop();
        self.buffer.reset(text, cursor);
        self.begin_insert();
    }
}
