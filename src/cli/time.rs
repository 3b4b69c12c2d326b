//! Times in the output of subcommands.

/// Formats a UTC time in the user's time zone: `2026-11-21 14:05`.
pub(super) fn local_time(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .map(|t| {
            t.to_zoned(jiff::tz::TimeZone::system())
                .strftime("%Y-%m-%d %H:%M")
                .to_string()
        })
        .unwrap_or_else(|_| "?".into())
}
