//! Signatures and encrypted items as opaque strings that prove themselves: whether one came
//! back as it was given can be seen without remembering it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What the server gives with a thought. `kind` keeps one protocol's from passing in another.
pub fn seal(kind: &str, payload: &str) -> String {
    STANDARD.encode(format!("{kind}|{}|{payload}", mark(kind, payload)))
}

/// The payload, when not a byte was changed.
pub fn open(kind: &str, sealed: &str) -> Option<String> {
    let plain = String::from_utf8(STANDARD.decode(sealed).ok()?).ok()?;
    let mut parts = plain.splitn(3, '|');
    let (found, check, payload) = (parts.next()?, parts.next()?, parts.next()?);
    (found == kind && check == mark(kind, payload)).then(|| payload.to_string())
}

/// A short stand-in for a text.
pub fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_string()
}

fn mark(kind: &str, payload: &str) -> String {
    digest(&format!("{kind}\n{payload}"))
}
