//! Earlier prompts: browsed with the arrows, searched as one types.
//!
//! Invariant: what was being typed is never lost by browsing; it stands behind the newest.

/// Older ones are not offered.
const MAX_PROMPTS: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct History {
    /// The newest last.
    prompts: Vec<String>,
    /// The one that is shown, and what was being typed before.
    shown: Option<(usize, Draft)>,
}

/// What was being typed, as it is in the buffer.
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

    /// One that was sent. The same twice in a row is one.
    pub(super) fn add(&mut self, prompt: String) {
        self.shown = None;
        if prompt.trim().is_empty() || self.prompts.last() == Some(&prompt) {
            return;
        }
        if self.prompts.len() == MAX_PROMPTS {
            self.prompts.remove(0);
        }
        self.prompts.push(prompt);
    }

    /// The prompt before the one that is shown; `now` is kept when browsing begins.
    pub(super) fn older(&mut self, now: Draft) -> Option<&str> {
        let (at, draft) = match self.shown.take() {
            Some((at, draft)) => (at.saturating_sub(1), draft),
            None => (self.prompts.len().checked_sub(1)?, now),
        };
        self.shown = Some((at, draft));
        self.prompts.get(at).map(String::as_str)
    }

    /// The prompt behind the one that is shown, or what was being typed.
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

    /// What was being typed before an earlier prompt was shown.
    pub(super) fn kept(&self) -> Option<&Draft> {
        self.shown.as_ref().map(|(_, draft)| draft)
    }

    /// What is shown was edited: it is what is typed now.
    pub(super) fn stop(&mut self) {
        self.shown = None;
    }

    pub(super) fn get(&self, at: usize) -> Option<&str> {
        self.prompts.get(at).map(String::as_str)
    }

    /// The newest prompt before `before` that holds the words, or the oldest after it.
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
    fn the_draft_stands_behind_the_newest() {
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
