//! Lines of stdin, each with a maximum size.

use std::io::{self, BufRead, Read};

/// A line of stdin.
#[derive(Debug, PartialEq, Eq)]
pub enum InputLine {
    /// With its line break, which the last line may lack.
    Whole(Vec<u8>),
    /// It was skipped.
    TooLong,
}

/// Returns the next line of at most `most` bytes. `None`: the input ended.
///
/// # Errors
/// The input cannot be read.
pub fn next_line(input: &mut impl BufRead, most: usize) -> io::Result<Option<InputLine>> {
    let mut line = Vec::new();
    let limit = most as u64 + 1;
    if Read::take(&mut *input, limit).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() <= most || line.ends_with(b"\n") {
        return Ok(Some(InputLine::Whole(line)));
    }
    drop(line);
    input.skip_until(b'\n')?;
    Ok(Some(InputLine::TooLong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_skipped_to_its_end() {
        let mut input = &b"four\nfive5\n6\nfive5"[..];
        let mut next = || next_line(&mut input, 4).unwrap();
        let whole = |text: &[u8]| Some(InputLine::Whole(text.to_vec()));
        assert_eq!(next(), whole(b"four\n"));
        assert_eq!(next(), Some(InputLine::TooLong));
        assert_eq!(next(), whole(b"6\n"));
        assert_eq!(next(), Some(InputLine::TooLong));
        assert_eq!(next(), None);
    }
}
