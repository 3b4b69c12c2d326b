//! Input to the box, character by character or pasted, and its submission.

use std::path::PathBuf;

use super::browse::MAX_SEARCH_CHARS;
use super::images::{self, PathBase};
use super::{
    Chip, Chips, Composer, ComposerContext, ComposerOutcome, ImageCandidate, MAX_PASTED_CHARS,
    MAX_PASTED_LINES, Submission, clean,
};
use crate::core::text::one_line;
use crate::core::visible::joins_after;
use crate::ui::commands;
use crate::ui::keys::Action;

const FULL: &str = "the text is too long for the box; put it into a file and mention it with @";

/// Maximum number of parts of a text that may still turn out to name images.
const MAX_LOOKS: usize = 64;

/// Longer prompts are stored in the history with labels for their pastes.
const MAX_REMEMBERED_BYTES: usize = 64 * 1024;

impl Composer {
    pub(super) fn type_char(&mut self, c: char, around: &ComposerContext<'_>) -> ComposerOutcome {
        self.history.stop();
        self.goal = None;
        if c.is_whitespace() {
            self.look_at_typed(around);
        }
        // Input methods type emoji that are joined one character at a time.
        let joins = joins_after(self.buffer.before().chars().next_back(), c);
        let cleaned = clean(c.encode_utf8(&mut [0; 4]));
        let mut typed = cleaned.chars();
        let fits = match (typed.next(), typed.next()) {
            _ if joins => self.buffer.type_char(c),
            (Some(c), None) => self.buffer.type_char(c),
            _ => self.buffer.insert(&cleaned),
        };
        if fits {
            ComposerOutcome::Moved
        } else {
            ComposerOutcome::Refused(FULL.to_string())
        }
    }

    /// Inserts a paste. A long one becomes a chip, and paths of images become image chips.
    pub fn paste(&mut self, text: &str, around: &ComposerContext<'_>) -> ComposerOutcome {
        if let Some(search) = &mut self.search {
            search.query = one_line(text, MAX_SEARCH_CHARS);
            search.retype(&self.history);
            return ComposerOutcome::Moved;
        }
        self.history.stop();
        self.goal = None;
        let start = self.buffer.cursor();
        let before = (self.buffer.revision(), start);
        let did = self.paste_text(text);
        self.settle_after(before);
        if did == ComposerOutcome::Changed {
            let put = self.buffer.before().get(start..).map(str::to_string);
            if let Some((ways, text)) = self.pasted_images(text, around).zip(put) {
                self.note_look(ImageCandidate { text, ways });
            }
            self.look_up(around);
        }
        did
    }

    /// Inserts an image from the clipboard at the cursor.
    pub fn add_image(&mut self, path: PathBuf, around: &ComposerContext<'_>) -> ComposerOutcome {
        if self.search.is_some() || !self.may_have_images() {
            return ComposerOutcome::Refused(
                "an image goes with a message, not with a command".to_string(),
            );
        }
        self.history.stop();
        self.goal = None;
        let Some(chip) = self.chips.add(Chip::Image(path)) else {
            return ComposerOutcome::Refused(FULL.to_string());
        };
        let did = self.put(&format!("{chip} "));
        self.look_up(around);
        did
    }

    fn pasted_images(&self, text: &str, around: &ComposerContext<'_>) -> Option<Vec<Vec<PathBuf>>> {
        let wanted = self.may_have_images();
        wanted
            .then(|| images::pasted(text, place(around)))
            .flatten()
    }

    /// Returns whether the text may have images. In a command a path stays a path.
    fn may_have_images(&self) -> bool {
        !self.is_shell() && !commands::is_command(self.buffer.text())
    }

    /// Returns the parts to look for on the disk, each once; the answers go to
    /// [`Composer::looked`].
    pub fn new_looks(&mut self) -> Vec<ImageCandidate> {
        let asked = std::mem::replace(&mut self.asked, self.looks.len());
        self.looks.get(asked..).unwrap_or_default().to_vec()
    }

    /// Replaces the paths of images with chips, where they are still in the text.
    pub fn looked(
        &mut self,
        look: &ImageCandidate,
        found: Option<Vec<PathBuf>>,
    ) -> ComposerOutcome {
        let Some(at) = self.looks.iter().position(|l| l == look) else {
            return ComposerOutcome::Nothing;
        };
        let Some(paths) = found else {
            self.forget(at);
            return ComposerOutcome::Nothing;
        };
        let text = self.buffer.text();
        let Some(start) = text.rfind(&look.text).filter(|_| self.may_have_images()) else {
            // The path may return with an undo or from the history.
            return ComposerOutcome::Nothing;
        };
        let end = start + look.text.len();
        let is_apart = text[end..].starts_with(char::is_whitespace);
        let mut chips = String::new();
        for path in paths {
            let Some(chip) = self.chips.add(Chip::Image(path)) else {
                return ComposerOutcome::Refused(FULL.to_string());
            };
            chips.extend([chip, ' ']);
        }
        if is_apart {
            chips.pop();
        }
        if !self.buffer.replace(start..end, &chips) {
            return ComposerOutcome::Refused(FULL.to_string());
        }
        self.forget(at);
        ComposerOutcome::Changed
    }

    fn forget(&mut self, at: usize) {
        self.looks.remove(at);
        self.asked -= usize::from(at < self.asked);
    }

    fn paste_text(&mut self, text: &str) -> ComposerOutcome {
        let text = clean(text);
        if text.is_empty() {
            return ComposerOutcome::Nothing;
        }
        let long = text.lines().nth(MAX_PASTED_LINES).is_some()
            || text.chars().nth(MAX_PASTED_CHARS).is_some();
        if !long {
            return self.put(&text);
        }
        match self.chips.add(Chip::Paste(text)) {
            Some(chip) => self.put(chip.encode_utf8(&mut [0; 4])),
            None => ComposerOutcome::Refused(FULL.to_string()),
        }
    }

    fn put(&mut self, text: &str) -> ComposerOutcome {
        if self.buffer.insert(text) {
            ComposerOutcome::Changed
        } else {
            ComposerOutcome::Refused(FULL.to_string())
        }
    }

    /// Checks whether the path of an image was just completed.
    fn look_at_typed(&mut self, around: &ComposerContext<'_>) {
        if !self.may_have_images() {
            return;
        }
        let before = self.buffer.before();
        let line = before.rfind('\n').map_or(0, |at| at + 1);
        let Some((start, path)) = images::typed(&before[line..], place(around)) else {
            return;
        };
        let look = ImageCandidate {
            text: before[line + start..].to_string(),
            ways: vec![vec![path]],
        };
        self.note_look(look);
    }

    fn note_look(&mut self, look: ImageCandidate) {
        if self.looks.contains(&look) {
            return;
        }
        if self.looks.len() == MAX_LOOKS {
            self.forget(0);
        }
        self.looks.push(look);
    }

    /// Takes the parts that go out with the text, since it is not known yet whether they name
    /// images.
    fn looks_of(&mut self, whole: &str) -> Vec<ImageCandidate> {
        self.asked = 0;
        let mut looks = std::mem::take(&mut self.looks);
        for look in &mut looks {
            look.text = self.chips.expand(&look.text, true).trim().to_string();
        }
        looks.retain(|look| whole.contains(&look.text));
        looks
    }

    /// Submits a whole line that was typed elsewhere, as if it was in the box and Enter was
    /// pressed.
    pub fn submit_line(&mut self, text: &str, around: &ComposerContext<'_>) -> ComposerOutcome {
        self.set_text(text);
        self.submit(around)
    }

    pub(super) fn submit(&mut self, around: &ComposerContext<'_>) -> ComposerOutcome {
        if self.buffer.before().ends_with('\\') {
            let end = self.buffer.cursor() - 1;
            self.buffer.replace_before(end, "\n");
            return ComposerOutcome::Moved;
        }
        self.look_at_typed(around);
        let text = self.buffer.text();
        if text.is_empty() {
            // The app decides what Enter means then.
            return ComposerOutcome::Act(Action::Submit);
        }
        if text.trim().is_empty() {
            return match around.editing {
                true => ComposerOutcome::Act(Action::Submit),
                false => ComposerOutcome::Nothing,
            };
        }
        let whole = self.chips.expand(text, true).trim_end().to_string();
        let shown = self.chips.expand(text, false).trim_end().to_string();
        let sent = whole.clone();
        let mut submission = if let Some(command) = whole.strip_prefix('!') {
            match command.trim() {
                "" => return ComposerOutcome::Nothing,
                command => Submission::Shell(command.to_string()),
            }
        } else if commands::is_command(text) {
            let custom = around.commands.unwrap_or_default();
            match commands::parse(&whole, custom) {
                Ok((command, argument)) => Submission::Command(command, argument),
                Err(error) => match custom_command(&whole, around) {
                    Some(custom) => custom,
                    None => return ComposerOutcome::Refused(error.to_string()),
                },
            }
        } else {
            Submission::Prompt {
                text: whole.trim().to_string(),
                images: self.chips.images(text),
                looks: Vec::new(),
                shown: shown.trim().to_string(),
            }
        };
        let remembered = if whole.len() <= MAX_REMEMBERED_BYTES {
            whole
        } else {
            shown
        };
        let looks = self.looks_of(&sent);
        if let Submission::Prompt { looks: theirs, .. } = &mut submission {
            *theirs = looks;
        }
        self.history.add(remembered);
        self.close();
        self.chips = Chips::default();
        self.buffer.reset("", 0);
        self.begin_insert();
        ComposerOutcome::Submit(submission)
    }
}

/// Parses a custom command. Before the commands are listed, any line with a slash may be one.
fn custom_command(line: &str, around: &ComposerContext<'_>) -> Option<Submission> {
    let line = line.trim().strip_prefix('/')?;
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let may_be = match around.commands {
        Some(commands) => {
            let is_listed = commands.iter().any(|custom| custom.name == name);
            is_listed || around.offered.named(name).is_some()
        }
        None => true,
    };
    let is_one = may_be && !name.is_empty() && !commands::is_own(name);
    is_one.then(|| Submission::Custom(name.to_string(), arguments.trim().to_string()))
}

fn place<'a>(around: &ComposerContext<'a>) -> PathBase<'a> {
    PathBase {
        folder: around.folder,
        home: around.home,
    }
}
