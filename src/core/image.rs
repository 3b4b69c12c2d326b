//! Which image a file is, by its first bytes: its name says nothing.

/// How many bytes tell it.
pub const START_BYTES: usize = 12;

/// One of the media types that models take; `None` for anything else.
pub fn media_type(start: &[u8]) -> Option<&'static str> {
    if start.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Some("image/png");
    }
    if start.starts_with(b"\xff\xd8\xff") {
        return Some("image/jpeg");
    }
    if start.starts_with(b"GIF87a") || start.starts_with(b"GIF89a") {
        return Some("image/gif");
    }
    let is_webp = start.starts_with(b"RIFF") && start.get(8..START_BYTES) == Some(b"WEBP");
    is_webp.then_some("image/webp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell() {
        for (start, want) in [
            (&b"\x89PNG\r\n\x1a\nxxxx"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"GIF88a", None),
            (b"RIFF1234WEBP", Some("image/webp")),
            (b"RIFF1234WAVE", None),
            (b"RIFF1234WEB", None),
            (b"", None),
        ] {
            assert_eq!(media_type(start), want, "{start:?}");
        }
    }
}
