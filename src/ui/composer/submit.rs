//! What comes into the box, character by character or pasted, and what leaves it.

use std::path::PathBuf;

use super::browse::MAX_SEARCH_CHARS;
use super::images::{self, PathBase};
use super::{
    Chip, Chips, Composer, Did, MAX_PASTED_CHARS, MAX_PASTED_LINES, Submission, Surround, clean,
};
use crate::core::text::one_line;
use crate::core::visible::joins_behind;
use crate::ui::commands;
use crate::ui::keys::Action;

const FULL: &str = "the text is too long for the box; put it into a file and mention it with @";

/// Longer prompts are found again with their pastes as labels.
const MAX_REMEMBERED_BYTES: usize = 64 * 1024;

impl Composer {
    pub(super) fn type_char(&mut self, c: char, around: &Surround<'_>) -> Did {
        self.history.stop();
        self.goal = None;
        if c.is_whitespace() {
            self.attach_typed(around);
        }
        // Input methods type emoji that are joined one character at a time.
        let joins = joins_behind(self.buffer.before().chars().next_back(), c);
        let cleaned = clean(c.encode_utf8(&mut [0; 4]));
        let mut typed = cleaned.chars();
        let fits = match (typed.next(), typed.next()) {
            _ if joins => self.buffer.type_char(c),
            (Some(c), None) => self.buffer.type_char(c),
            _ => self.buffer.insert(&cleaned),
        };
        if fits {
            Did::Moved
        } else {
            Did::Refused(FULL.to_string())
        }
    }

    /// Text from a paste. A long one becomes a chip, and paths of images become theirs.
    pub fn paste(&mut self, text: &str, around: &Surround<'_>) -> Did {
        if let Some(search) = &mut self.search {
            search.query = one_line(text, MAX_SEARCH_CHARS);
            search.retype(&self.history);
            return Did::Moved;
        }
        self.history.stop();
        self.goal = None;
        let did = match self.pasted_images(text, around) {
            Some(paths) => self.attach(paths),
            None => self.paste_text(text),
        };
        if did == Did::Changed {
            self.look_up(around);
        }
        did
    }

    fn pasted_images(&self, text: &str, around: &Surround<'_>) -> Option<Vec<PathBuf>> {
        let wanted = !self.is_shell() && !commands::is_command(self.buffer.text());
        wanted
            .then(|| images::pasted(text, place(around)))
            .flatten()
    }

    fn attach(&mut self, paths: Vec<PathBuf>) -> Did {
        let mut text = String::new();
        for path in paths {
            let Some(chip) = self.chips.add(Chip::Image(path)) else {
                return Did::Refused(FULL.to_string());
            };
            text.extend([chip, ' ']);
        }
        self.put(&text)
    }

    fn paste_text(&mut self, text: &str) -> Did {
        let text = clean(text);
        if text.is_empty() {
            return Did::Nothing;
        }
        let long = text.lines().nth(MAX_PASTED_LINES).is_some()
            || text.chars().nth(MAX_PASTED_CHARS).is_some();
        if !long {
            return self.put(&text);
        }
        match self.chips.add(Chip::Paste(text)) {
            Some(chip) => self.put(chip.encode_utf8(&mut [0; 4])),
            None => Did::Refused(FULL.to_string()),
        }
    }

    fn put(&mut self, text: &str) -> Did {
        if self.buffer.insert(text) {
            Did::Changed
        } else {
            Did::Refused(FULL.to_string())
        }
    }

    /// Makes a chip of the path of an image that was just typed to its end.
    fn attach_typed(&mut self, around: &Surround<'_>) {
        if self.is_shell() || commands::is_command(self.buffer.text()) {
            return;
        }
        let before = self.buffer.before();
        let line = before.rfind('\n').map_or(0, |at| at + 1);
        let Some((start, path)) = images::typed(&before[line..], place(around)) else {
            return;
        };
        if let Some(chip) = self.chips.add(Chip::Image(path)) {
            self.buffer
                .replace_before(line + start, chip.encode_utf8(&mut [0; 4]));
        }
    }

    pub(super) fn submit(&mut self, around: &Surround<'_>) -> Did {
        if self.buffer.before().ends_with('\\') {
            let end = self.buffer.cursor() - 1;
            self.buffer.replace_before(end, "\n");
            return Did::Moved;
        }
        self.attach_typed(around);
        let text = self.buffer.text();
        if text.is_empty() {
            // What Enter means then is not the box's to say.
            return Did::Act(Action::Submit);
        }
        if text.trim().is_empty() {
            return Did::Nothing;
        }
        let whole = self.chips.expand(text, true).trim_end().to_string();
        let shown = self.chips.expand(text, false).trim_end().to_string();
        let submission = if let Some(command) = whole.strip_prefix('!') {
            match command.trim() {
                "" => return Did::Nothing,
                command => Submission::Shell(command.to_string()),
            }
        } else if commands::is_command(text) {
            match commands::parse(&whole) {
                Ok((command, argument)) => Submission::Command(command, argument),
                Err(error) => return Did::Refused(error.to_string()),
            }
        } else {
            Submission::Prompt {
                text: whole.trim().to_string(),
                images: self.chips.images(text),
                shown: shown.trim().to_string(),
            }
        };
        let remembered = if whole.len() <= MAX_REMEMBERED_BYTES {
            whole
        } else {
            shown
        };
        self.history.add(remembered);
        self.close();
        self.chips = Chips::default();
        self.buffer.reset("", 0);
        Did::Submit(submission)
    }
}

fn place<'a>(around: &Surround<'a>) -> PathBase<'a> {
    PathBase {
        folder: around.folder,
        home: around.home,
    }
}
