//! Figures as people read them.

use crate::session::{Ending, Standing, ago};

/// `1.2 MB`, with three figures at most.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1_000.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1_000.0;
        unit += 1;
    }
    let decimals = usize::from(value < 9.95);
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// `12k tok`
pub(super) fn tokens(count: u64) -> String {
    match count {
        ..1_000 => format!("{count} tok"),
        1_000..999_500 => format!("{:.0}k tok", count as f64 / 1e3),
        _ => format!("{:.1}M tok", count as f64 / 1e6),
    }
}

/// Prices of single answers may have been others: it is about so much.
pub(super) fn dollars(cost: f64) -> String {
    match cost {
        ..0.01 => "~$0.01".to_string(),
        ..100.0 => format!("~${cost:.2}"),
        _ => format!("~${cost:.0}"),
    }
}

/// The one glyph of how a session stands.
pub(super) fn glyph(standing: Standing) -> &'static str {
    match standing {
        Standing::InUse { works: true, .. } => "◐",
        Standing::InUse { works: false, .. } => "○",
        Standing::Ended(Ending::Failed) => "✗",
        Standing::Ended(Ending::Stopped | Ending::Left | Ending::Killed) => "◌",
        Standing::Ended(Ending::Done | Ending::Dismissed) => "·",
    }
}

/// The age of what was last written, in one short unit: `38 s`, `2 min`, `3 d`.
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
        let sizes = [0, 999, 1_000, 9_949, 9_950, 999_499, 999_500, 12_345_678];
        let shown: Vec<String> = sizes.into_iter().map(size).collect();
        let want = [
            "0 B", "999 B", "1.0 kB", "9.9 kB", "10 kB", "999 kB", "1.0 MB", "12 MB",
        ];
        assert_eq!(shown, want);
        assert_eq!(tokens(999_499), "999k tok");
        assert_eq!(tokens(1_000_000), "1.0M tok");
        assert_eq!(dollars(0.0), "~$0.01");
        assert_eq!(dollars(1.234), "~$1.23");
    }

    #[test]
    fn an_age_has_one_unit() {
        assert_eq!(age(-5), "0 s");
        assert_eq!(age(38_000), "38 s");
        assert_eq!(age(36 * 3_600_000), "36 h");
        assert_eq!(age(3 * 86_400_000 + 1), "3 d");
    }
}
