//! A lenient reader for foreign JSON with lone surrogates: half of an escaped character. Programs write it
//! that cut a text anywhere, or that name a file whose name is not UTF-8.

use std::borrow::Cow;

use serde_json::Value;

/// Code units of UTF-16 that are the first or the second half of a character.
const HALVES: std::ops::RangeInclusive<u16> = 0xD800..=0xDFFF;

/// Length of `\ud83d`.
const ESCAPE_BYTES: usize = 6;

/// Reads JSON of others. Half a character and what is not UTF-8 become U+FFFD.
///
/// # Errors
/// The text is not JSON for another reason.
pub fn read_lenient(json: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_str(&without_halves(&String::from_utf8_lossy(json)))
}

/// Returns JSON of others with U+FFFD where half a character was.
pub fn without_halves(json: &str) -> Cow<'_, str> {
    replace_halves(json, |_| char::REPLACEMENT_CHARACTER)
}

/// Replaces each escape that is half a character.
pub fn replace_halves(json: &str, by: impl Fn(u16) -> char) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut done, mut at) = (0, 0);
    while let Some(found) = json.as_bytes().get(at..).and_then(backslash) {
        let here = at + found;
        let unit = unit_at(json, here);
        let next = || unit_at(json, here + ESCAPE_BYTES);
        at = here + 2;
        if let Some(unit) = unit.filter(|unit| HALVES.contains(unit)) {
            at = here + ESCAPE_BYTES;
            match next().filter(|next| is_pair(unit, *next)) {
                Some(_) => at += ESCAPE_BYTES,
                None => {
                    out.push_str(&json[done..here]);
                    out.push(by(unit));
                    done = at;
                }
            }
        }
    }
    match done {
        0 => Cow::Borrowed(json),
        _ => Cow::Owned(out + &json[done..]),
    }
}

fn backslash(text: &[u8]) -> Option<usize> {
    text.iter().position(|byte| *byte == b'\\')
}

/// Returns the code unit of the escape `\uXXXX` at this place.
fn unit_at(json: &str, at: usize) -> Option<u16> {
    let escape = json.get(at..at.checked_add(ESCAPE_BYTES)?)?;
    let digits = escape.strip_prefix("\\u")?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

fn is_pair(first: u16, second: u16) -> bool {
    matches!(char::decode_utf16([first, second]).next(), Some(Ok(c)) if c > '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn half_a_character_is_replaced_and_a_whole_one_stays() {
        for (json, read) in [
            (r#""a \ud83d b""#, Some("a \u{fffd} b")),
            (r#""\ude00""#, Some("\u{fffd}")),
            (
                r#""\ud83d\ud83d\ude00\ude00""#,
                Some("\u{fffd}\u{1f600}\u{fffd}"),
            ),
            (r#""\uD83D\uDE00""#, Some("\u{1f600}")),
            (r#""\ud83d\u0041""#, Some("\u{fffd}A")),
            (r#""\ud83dü\ud83d\\""#, Some("\u{fffd}ü\u{fffd}\\")),
            // An escaped backslash begins no escape.
            (r#""\\ud83d""#, Some("\\ud83d")),
            (r#""\\\ud83d""#, Some("\\\u{fffd}")),
            (r#""\ud83""#, None),
            (r#""\ud83ü""#, None),
            (r#""\ud83d"#, None),
            (r#""\ud83d", 1"#, None),
            (r#"\ud83d"#, None),
            ("\"\\", None),
        ] {
            let value = read_lenient(json.as_bytes()).ok();
            let text = value.as_ref().and_then(Value::as_str);
            assert_eq!(text, read, "{json}");
        }
    }

    /// Any JSON: texts with characters of all planes, also as names of fields.
    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            let fields = prop::collection::vec((any::<String>(), inner.clone()), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..6).prop_map(Value::from),
                fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn valid_json_is_read_like_serde_json_reads_it(value in json(), is_pretty in any::<bool>()) {
            let text = if is_pretty {
                serde_json::to_string_pretty(&value)
            } else {
                serde_json::to_string(&value)
            };
            let text = text.unwrap();
            prop_assert!(matches!(without_halves(&text), Cow::Borrowed(_)));
            let strict: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read_lenient(text.as_bytes()).unwrap(), strict);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(strict) = serde_json::from_slice::<Value>(&bytes) {
                prop_assert_eq!(read_lenient(&bytes).unwrap(), strict);
            }
        }

        #[test]
        fn what_is_json_is_read_as_ever(text in any::<String>()) {
            let utf16: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            for json in [serde_json::to_string(&text).unwrap(), format!("\"{utf16}\"")] {
                prop_assert!(matches!(replace_halves(&json, |_| '?'), Cow::Borrowed(_)));
                prop_assert_eq!(read_lenient(json.as_bytes()).unwrap(), Value::from(text.clone()));
            }
        }

        #[test]
        fn any_escapes_are_read_without_a_panic(
            parts in prop::collection::vec("[\\\\u]|\\\\u[dD][89a-f][0-9a-f]{2}|[0-9a-fü\"]", 0..20),
        ) {
            let text = parts.concat();
            let json = format!("\"{text}\"");
            let strict = serde_json::from_str::<Value>(&json);
            let lenient = read_lenient(json.as_bytes());
            if let Ok(strict) = strict {
                prop_assert_eq!(lenient.unwrap(), strict);
            }
        }
    }
}
