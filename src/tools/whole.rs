//! Whole numbers as models write them.

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Value;

/// A whole number. Models also write it as a string or as a float. An optional number is an
/// `Option` of this type, since models write null for a missing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WholeNumber(pub u64);

impl<'de> Deserialize<'de> for WholeNumber {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<WholeNumber, D::Error> {
        let value = Value::deserialize(d)?;
        let number = match &value {
            Value::Number(n) => n.as_u64().or_else(|| {
                n.as_f64()
                    .filter(|f| *f >= 0.0 && f.fract() == 0.0)
                    .map(|f| f as u64)
            }),
            Value::String(s) => s.trim().parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let why = || D::Error::custom(format!("{value} is not a whole number"));
        number.map(WholeNumber).ok_or_else(why)
    }
}

impl From<WholeNumber> for u64 {
    fn from(whole: WholeNumber) -> u64 {
        whole.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn numbers_are_read_as_models_write_them() {
        let read = |value: Value| serde_json::from_value::<Option<WholeNumber>>(value);
        for (value, want) in [
            (json!(3), Some(WholeNumber(3))),
            (json!("3"), Some(WholeNumber(3))),
            (json!(" 3 "), Some(WholeNumber(3))),
            (json!(2.0), Some(WholeNumber(2))),
            (json!(u64::MAX), Some(WholeNumber(u64::MAX))),
            (json!(null), None),
        ] {
            assert_eq!(read(value).unwrap(), want);
        }
        for value in [json!(-1), json!(1.5), json!("x"), json!(true), json!([1])] {
            let why = read(value.clone()).unwrap_err().to_string();
            assert_eq!(why, format!("{value} is not a whole number"));
        }
    }
}
