//! Figures as people read them.

use jiff::civil::Date;

use super::State;

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

pub(super) fn state(state: State) -> String {
    match state {
        State::InUse(Some(pid)) => format!("running in {pid}"),
        State::InUse(None) => "running".to_string(),
        State::Unfinished => "unfinished".to_string(),
        State::Dismissed => "dismissed".to_string(),
        State::Done => "done".to_string(),
    }
}

pub(super) fn day(day: Date, today: Date) -> String {
    if day == today {
        return "Today".to_string();
    }
    if today.yesterday().is_ok_and(|yesterday| day == yesterday) {
        return "Yesterday".to_string();
    }
    day.strftime("%A, %Y-%m-%d").to_string()
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
    fn near_days_have_names() {
        let today = jiff::civil::date(2026, 3, 1);
        assert_eq!(day(today, today), "Today");
        assert_eq!(day(jiff::civil::date(2026, 2, 28), today), "Yesterday");
        let old = jiff::civil::date(2026, 2, 2);
        assert_eq!(day(old, today), "Monday, 2026-02-02");
    }
}
