//! Earlier prompts: browsed with the arrows, searched during typing.
//!
//! Invariant: typed text is never lost by browsing; it comes after the newest prompt.

/// Maximum number of prompts.
const MAX_PROMPTS: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct History {
    /// The newest last: those of other sessions, then those of this one.
    prompts: Vec<String>,
    /// Number of the prompts that are from other sessions.
    earlier: usize,
    /// The prompt that is shown, and the text that was being typed before.
    shown: Option<(usize, Draft)>,
}

/// The text that was being typed, as it is in the buffer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Draft {
    pub text: String,
    pub cursor: usize,
}

/// A search in the prompts.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub query: String,
    /// The prompt that is shown.
    pub found: Option<usize>,
    pub before: Draft,
}

impl History {
    pub(super) fn new(prompts: Vec<String>) -> History {
        let mut history = History::default();
        prompts.into_iter().for_each(|prompt| history.add(prompt));
        history
    }

    /// Adds a prompt that was sent. An equal older prompt is removed.
    pub(super) fn add(&mut self, prompt: String) {
        self.shown = None;
        if prompt.trim().is_empty() {
            return;
        }
        if let Some(at) = self.prompts.iter().position(|known| *known == prompt) {
            self.remove(at);
        }
        if self.prompts.len() == MAX_PROMPTS {
            self.remove(0);
        }
        self.prompts.push(prompt);
    }

    fn remove(&mut self, at: usize) {
        self.prompts.remove(at);
        self.earlier -= usize::from(at < self.earlier);
    }

    /// Replaces all prompts with those of another session.
    pub(super) fn reset(&mut self, prompts: Vec<String>) {
        let earlier = self.prompts.drain(..self.earlier).collect();
        *self = History::new(prompts);
        self.set_earlier(earlier);
    }

    /// Sets the prompts of other sessions, the newest last. They are before those of this one.
    /// Returns by how much the positions of these moved.
    pub(super) fn set_earlier(&mut self, mut earlier: Vec<String>) -> isize {
        let own = self.prompts.split_off(self.earlier);
        earlier.retain(|prompt| !own.contains(prompt) && !prompt.trim().is_empty());
        let room = MAX_PROMPTS.saturating_sub(own.len());
        earlier.drain(..earlier.len().saturating_sub(room));
        let by = earlier.len() as isize - self.earlier as isize;
        self.earlier = earlier.len();
        self.prompts = earlier;
        self.prompts.extend(own);
        if let Some((at, _)) = &mut self.shown {
            *at = at.saturating_add_signed(by);
        }
        by
    }

    /// Returns the prompt before the one that is shown. `now` is stored when browsing begins.
    pub(super) fn older(&mut self, now: Draft) -> Option<&str> {
        let (at, draft) = match self.shown.take() {
            Some((at, draft)) => (at.saturating_sub(1), draft),
            None => (self.prompts.len().checked_sub(1)?, now),
        };
        self.shown = Some((at, draft));
        self.prompts.get(at).map(String::as_str)
    }

    /// Returns the prompt after the one that is shown, or the text that was being typed.
    pub(super) fn newer(&mut self) -> Option<Result<&str, Draft>> {
        let (at, draft) = self.shown.take()?;
        if at + 1 >= self.prompts.len() {
            return Some(Err(draft));
        }
        self.shown = Some((at + 1, draft));
        self.prompts.get(at + 1).map(|prompt| Ok(prompt.as_str()))
    }

    pub(super) fn is_browsing(&self) -> bool {
        self.shown.is_some()
    }

    /// Returns the text that was being typed before an earlier prompt was shown.
    pub(super) fn kept(&self) -> Option<&Draft> {
        self.shown.as_ref().map(|(_, draft)| draft)
    }

    /// Ends browsing: the shown prompt was edited and is now the typed text.
    pub(super) fn stop(&mut self) {
        self.shown = None;
    }

    pub(super) fn get(&self, at: usize) -> Option<&str> {
        self.prompts.get(at).map(String::as_str)
    }

    /// Returns the newest prompt before `before` that contains the words, or the oldest after it.
    fn find(&self, query: &str, mut places: impl Iterator<Item = usize>) -> Option<usize> {
        let exact = query.chars().any(char::is_uppercase);
        places.find(|at| {
            self.get(*at).is_some_and(|prompt| match exact {
                true => prompt.contains(query),
                false => prompt.to_lowercase().contains(query),
            })
        })
    }
}

impl Search {
    /// Looks again with other words, from the newest.
    pub(super) fn retype(&mut self, history: &History) {
        let all = 0..history.prompts.len();
        self.found = match self.query.is_empty() {
            true => None,
            false => history.find(&self.query, all.rev()),
        };
    }

    pub(super) fn older(&mut self, history: &History) {
        let before = 0..self.found.unwrap_or(history.prompts.len());
        self.found = history.find(&self.query, before.rev()).or(self.found);
    }

    pub(super) fn newer(&mut self, history: &History) {
        let after = self.found.map_or(0, |at| at + 1)..history.prompts.len();
        self.found = history.find(&self.query, after).or(self.found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        History::new(
            ["fix A", "test", "fix b", "fix b", " "]
                .map(String::from)
                .to_vec(),
        )
    }

    fn draft(text: &str) -> Draft {
        Draft {
            text: text.into(),
            cursor: 1,
        }
    }

    #[test]
    fn the_draft_comes_after_the_newest_history_entry() {
        let mut history = history();
        assert_eq!(history.newer(), None);
        assert_eq!(history.older(draft("now")), Some("fix b"));
        assert_eq!(history.older(draft("fix b")), Some("test"));
        assert_eq!(history.older(draft("test")), Some("fix A"));
        assert_eq!(history.older(draft("fix A")), Some("fix A"));
        assert_eq!(history.newer(), Some(Ok("test")));
        assert_eq!(history.newer(), Some(Ok("fix b")));
        assert_eq!(history.newer(), Some(Err(draft("now"))));
        assert_eq!(history.newer(), None);
        assert_eq!(History::default().older(draft("now")), None);
    }

    #[test]
    fn prompts_of_other_sessions_stand_before_those_of_this_one_and_each_once() {
        let texts = |texts: &[&str]| texts.iter().map(|t| t.to_string()).collect::<Vec<_>>();
        let mut history = history();
        assert_eq!(history.older(draft("now")), Some("fix b"));
        history.set_earlier(texts(&["old", "test", "older work"]));
        // Who browses stays where they are.
        assert_eq!(history.older(draft("fix b")), Some("test"));
        assert_eq!(
            history.prompts,
            ["old", "older work", "fix A", "test", "fix b"]
        );
        history.add("old".into());
        assert_eq!(
            history.prompts,
            ["older work", "fix A", "test", "fix b", "old"]
        );
        history.reset(texts(&["mine"]));
        assert_eq!(history.prompts, ["older work", "mine"]);
        history.set_earlier((0..2_000).map(|n| n.to_string()).collect());
        assert_eq!(history.prompts.len(), MAX_PROMPTS);
        assert_eq!(history.prompts[MAX_PROMPTS - 2], "1999");
        assert_eq!(history.prompts[MAX_PROMPTS - 1], "mine");
    }

    #[test]
    fn the_search_goes_both_ways() {
        let history = history();
        let mut search = Search {
            query: "fix".into(),
            ..Search::default()
        };
        search.retype(&history);
        assert_eq!(search.found, Some(2));
        search.older(&history);
        assert_eq!(search.found, Some(0));
        search.older(&history);
        assert_eq!(search.found, Some(0));
        search.newer(&history);
        assert_eq!(search.found, Some(2));
        search.query = "A".into();
        search.retype(&history);
        assert_eq!(search.found, Some(0));
        search.query = "zzz".into();
        search.retype(&history);
        assert_eq!(search.found, None);
    }
}
