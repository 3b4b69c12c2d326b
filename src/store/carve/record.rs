//! A row as SQLite writes it: its values behind a header that says their types.

/// `entries` has the most columns.
const MAX_COLUMNS: usize = 10;

/// One value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Int(i64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

/// A number of one to nine bytes, and how many they are.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (n, byte) in bytes.iter().take(9).enumerate() {
        if n == 8 {
            return Some(((value << 8) | u64::from(*byte), 9));
        }
        value = (value << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, n + 1));
        }
    }
    None
}

/// The values of a record, as far as these bytes of it go: the last ones may lie on other pages.
/// `None`: it is no record, or none of ours.
pub(super) fn values(record: &[u8], total: usize) -> Option<Vec<Option<Value<'_>>>> {
    let (header, mut at) = varint(record)?;
    let header = usize::try_from(header).ok()?;
    let mut body = header;
    let mut values = Vec::with_capacity(MAX_COLUMNS);
    while at < header {
        if values.len() == MAX_COLUMNS {
            return None;
        }
        let (kind, used) = varint(record.get(at..header)?)?;
        at += used;
        let bytes = match kind {
            0 | 8 | 9 => 0,
            1..=4 => usize::try_from(kind).ok()?,
            5 => 6,
            6 => 8,
            // A fraction, and two that SQLite keeps for itself.
            7 | 10 | 11 => return None,
            long => usize::try_from((long - 12) / 2).ok()?,
        };
        let end = body.checked_add(bytes).filter(|end| *end <= total)?;
        let value = record.get(body..end).map(|data| match kind {
            0 => Value::Null,
            8 => Value::Int(0),
            9 => Value::Int(1),
            1..=6 => Value::Int(int(data)),
            text if text % 2 == 1 => Value::Text(data),
            _ => Value::Blob(data),
        });
        body = end;
        values.push(value);
    }
    (body == total).then_some(values)
}

fn int(bytes: &[u8]) -> i64 {
    let is_negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let start = if is_negative { -1 } else { 0 };
    bytes
        .iter()
        .fold(start, |value: i64, byte| (value << 8) | i64::from(*byte))
}
