//! Figures as people read them.

use crate::session::{Ending, SessionState, ago};

/// `12k tok`
pub(super) fn tokens(count: u64) -> String {
    match count {
        ..1_000 => format!("{count} tok"),
        1_000..999_500 => format!("{:.0}k tok", count as f64 / 1e3),
        _ => format!("{:.1}M tok", count as f64 / 1e6),
    }
}

/// Returns the glyph for the state of a session.
pub(super) fn glyph(standing: SessionState) -> &'static str {
    match standing {
        SessionState::InUse { works: true, .. } => "◐",
        SessionState::InUse { works: false, .. } => "○",
        SessionState::Ended(Ending::Failed) => "✗",
        SessionState::Ended(
            Ending::Stopped | Ending::Left | Ending::TurnLimit | Ending::Killed,
        ) => "◌",
        SessionState::Ended(Ending::Done | Ending::Dismissed) => "·",
    }
}

/// Returns an age in one short unit: `38 s`, `2 min`, `3 d`.
pub(super) fn age(ms: i64) -> String {
    const DAY_MS: i64 = 86_400_000;
    match ms {
        ms if ms >= 2 * DAY_MS => format!("{} d", ms / DAY_MS),
        ms => ago(ms.max(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(tokens(999_499), "999k tok");
        assert_eq!(tokens(1_000_000), "1.0M tok");
    }

    #[test]
    fn an_age_has_one_unit() {
        assert_eq!(age(-5), "0 s");
        assert_eq!(age(38_000), "38 s");
        assert_eq!(age(36 * 3_600_000), "36 h");
        assert_eq!(age(3 * 86_400_000 + 1), "3 d");
    }
}
