//! Flag values that are chosen by name.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::core::access::{Access, WORKSPACE_ACCESS};
use crate::core::choice::Effort;
use crate::core::entry::Mode;
use crate::store::is_session_id;

pub(super) fn access() -> impl TypedValueParser<Value = Access> {
    named(Access::ALL, Access::name)
}

/// Parses the access of a hook or server of a workspace.
pub(super) fn workspace_access() -> impl TypedValueParser<Value = Access> {
    named(WORKSPACE_ACCESS, Access::name)
}

pub(super) fn effort() -> impl TypedValueParser<Value = Effort> {
    named(Effort::ALL, Effort::name)
}

pub(super) fn mode() -> impl TypedValueParser<Value = Mode> {
    named(Mode::ALL, Mode::name)
}

/// Parses a cost in US dollars.
pub(super) fn usd(text: &str) -> Result<f64, String> {
    let usd = text.trim_start_matches('$').parse().ok();
    let usd = usd.filter(|usd: &f64| usd.is_finite() && *usd > 0.0);
    usd.ok_or_else(|| "not an amount above 0, such as 2.50".to_string())
}

/// Parses an ID of a session that the user chose.
pub(super) fn session_id(text: &str) -> Result<String, String> {
    match is_session_id(text) {
        true => Ok(text.to_string()),
        false => Err("not a UUID in lower case with hyphens; uuidgen makes one".to_string()),
    }
}

/// Returns a parser for one of these values by its name.
fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::from(all.map(name)).try_map(move |text| {
        let found = all.into_iter().find(|value| name(*value) == text);
        found.ok_or("no such value")
    })
}
