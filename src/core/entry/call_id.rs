//! The identity of a tool call, and its forms for providers and for people.

use serde::{Deserialize, Serialize};

use super::Seq;

/// Identity of a tool call, given by rewake: the `Replied` entry with the call, and its index among
/// the calls of that answer. Servers repeat their own ids or send none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId {
    /// The place of the `Replied` entry.
    pub reply: Seq,
    /// The call's place among the calls of that answer, from 0.
    pub index: u32,
}

impl CallId {
    /// Returns the id that is sent to a provider: unique along the path, and the same each time. It
    /// has nine letters and digits, since Mistral accepts nothing else. Only sessions of more than
    /// twenty million entries have longer ones.
    pub fn wire(&self) -> String {
        // Cantor's pairing function: no two pairs have the same number, and those of small
        // pairs are small. One of `sum` and `sum + 1` is even; halved first, nothing overflows.
        let sum = u128::from(self.reply) + u128::from(self.index);
        let before = match sum % 2 {
            0 => sum / 2 * (sum + 1),
            _ => sum.div_ceil(2) * sum,
        };
        format!("c{:0>8}", base62(before + u128::from(self.index)))
    }
}

fn base62(mut number: u128) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut digits = Vec::new();
    while number > 0 {
        digits.push(char::from(DIGITS[(number % 62) as usize]));
        number /= 62;
    }
    digits.iter().rev().collect()
}

impl std::fmt::Display for CallId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.reply, self.index)
    }
}

/// Parses the form that is shown: `3.0`.
impl std::str::FromStr for CallId {
    type Err = String;

    fn from_str(text: &str) -> Result<CallId, String> {
        let parts = text.split_once('.');
        let parse = |(reply, index): (&str, &str)| {
            Some(CallId {
                reply: reply.parse().ok()?,
                index: index.parse().ok()?,
            })
        };
        parts.and_then(parse).ok_or_else(|| {
            format!("{text:?} names no call: `rewake approvals` shows them, as in 12.0")
        })
    }
}
