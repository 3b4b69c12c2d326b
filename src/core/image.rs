//! Checks that a file is an image that models accept: by its bytes, complete, and within the limits
//! of the providers. The file name does not count.
//!
//! A recorded image is sent with every later request, and an image that a server cannot read fails
//! all of them. So the structure is checked to its end here: chunks, segments, blocks and their
//! lengths, and checksums where the format has them.
//!
//! Deliberately absent: decoding. A valid structure with broken pixels is left to the server;
//! [`super::unsent`] handles its refusal.

/// Number of bytes that identify the type.
pub const START_BYTES: usize = 12;

/// Maximum size in bytes. In base64 it is 5 MiB, the limit of Anthropic.
pub const MAX_BYTES: u64 = 5 * 1024 * 1024 / 4 * 3;

/// Maximum width and height; no provider accepts more.
pub(crate) const MAX_PIXELS: u32 = 8_000;

/// An image that can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageInfo {
    pub media_type: &'static str,
    pub width: u32,
    pub height: u32,
}

/// Returns the media type if models accept it, and `None` for anything else.
pub fn media_type(start: &[u8]) -> Option<&'static str> {
    if start.starts_with(PNG) {
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

/// Checks the bytes of an image.
///
/// # Errors
/// Returns why it cannot be sent, as the continuation of "it …".
pub fn check(bytes: &[u8]) -> Result<ImageInfo, String> {
    let Some(media_type) = media_type(bytes) else {
        return Err("is not a PNG, JPEG, GIF or WebP image".to_string());
    };
    if bytes.len() as u64 > MAX_BYTES {
        let size = bytes.len();
        return Err(format!("has {size} bytes; at most {MAX_BYTES} are sent"));
    }
    let size = match media_type {
        "image/png" => png(bytes),
        "image/jpeg" => jpeg(bytes),
        "image/gif" => gif(bytes),
        _ => webp(bytes),
    };
    let broken = |what: &str| format!("begins like {media_type}, but {what}");
    let (width, height) = size.map_err(broken)?;
    if width == 0 || height == 0 {
        return Err(broken("has no width or no height"));
    }
    if width > MAX_PIXELS || height > MAX_PIXELS {
        return Err(format!(
            "has {width} x {height} pixels; at most {MAX_PIXELS} on a side are sent"
        ));
    }
    Ok(ImageInfo {
        media_type,
        width,
        height,
    })
}

type Size = Result<(u32, u32), &'static str>;

const CUT: &str = "ends in the middle";
const BAD_CHECKSUM: &str = "has a wrong checksum";
const NO_PICTURE: &str = "holds no picture";
const NONSENSE: &str = "makes no sense inside";

/// A reader of consecutive bytes.
struct ImageReader<'a>(&'a [u8]);

impl<'a> ImageReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, &'static str> {
        Ok(self.take(1)?[0])
    }

    fn big(&mut self, count: usize) -> Result<u32, &'static str> {
        let bytes = self.take(count)?;
        Ok(bytes.iter().fold(0, |sum, b| sum << 8 | u32::from(*b)))
    }

    fn little(&mut self, count: usize) -> Result<u32, &'static str> {
        let bytes = self.take(count)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |sum, b| sum << 8 | u32::from(*b)))
    }
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// <https://www.w3.org/TR/png-3/#5DataRep>: chunks with a length, a type and a CRC.
fn png(bytes: &[u8]) -> Size {
    let mut reader = ImageReader(&bytes[PNG.len()..]);
    let mut size = None;
    let mut has_data = false;
    loop {
        let length = reader.big(4)? as usize;
        let checked = reader.0.get(..length.saturating_add(4)).ok_or(CUT)?;
        let kind = reader.take(4)?;
        let mut data = ImageReader(reader.take(length)?);
        // Decoders leave out a damaged ancillary chunk, whose type begins with a small letter.
        let is_needed = kind.first().is_some_and(u8::is_ascii_uppercase);
        if reader.big(4)? != crc32(checked) && is_needed {
            return Err(BAD_CHECKSUM);
        }
        match (kind, size) {
            (b"IHDR", None) => size = Some((data.big(4)?, data.big(4)?)),
            (_, None) => return Err(NONSENSE),
            (b"IDAT", _) => has_data |= length > 0,
            (b"IEND", Some(size)) if has_data => return Ok(size),
            (b"IEND", _) => return Err(NO_PICTURE),
            _ => {}
        }
    }
}

/// The CRC-32 of PNG, zlib and Ethernet.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut n = 0;
        while n < 256 {
            let mut c = n as u32;
            let mut bit = 0;
            while bit < 8 {
                c = if c & 1 == 1 {
                    0xedb8_8320 ^ (c >> 1)
                } else {
                    c >> 1
                };
                bit += 1;
            }
            table[n] = c;
            n += 1;
        }
        table
    };
    let step = |crc: u32, byte: &u8| TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8);
    !bytes.iter().fold(!0, step)
}

/// <https://www.w3.org/Graphics/JPEG/itu-t81.pdf>, annex B: segments with a length, and data after
/// a `SOS` in which 0xff is followed by 0 or the number of a restart.
fn jpeg(bytes: &[u8]) -> Size {
    let mut reader = ImageReader(&bytes[2..]);
    let mut size = None;
    let mut has_data = false;
    loop {
        // Some writers leave bytes between two segments, which readers skip.
        while reader.byte()? != 0xff {}
        let mut marker = reader.byte()?;
        while marker == 0xff {
            marker = reader.byte()?;
        }
        match marker {
            0xd9 => match size.filter(|_| has_data) {
                Some(size) => return Ok(size),
                None => return Err(NO_PICTURE),
            },
            // Markers without a length, and the escaped 0xff in the data.
            0x00 | 0x01 | 0xd0..=0xd8 => {}
            _ => {
                let length = reader.big(2)?.checked_sub(2).ok_or(NONSENSE)?;
                let mut data = ImageReader(reader.take(length as usize)?);
                match marker {
                    0xc4 | 0xc8 | 0xcc => {}
                    0xc0..=0xcf => {
                        data.byte()?;
                        let height = data.big(2)?;
                        size = Some((data.big(2)?, height));
                    }
                    0xda => has_data = true,
                    _ => {}
                }
            }
        }
    }
}

/// <https://www.w3.org/Graphics/GIF/spec-gif89a.txt>: blocks, and data in pieces with a length.
fn gif(bytes: &[u8]) -> Size {
    let mut reader = ImageReader(&bytes[6..]);
    let size = (reader.little(2)?, reader.little(2)?);
    let table = |flags: u8| match flags & 0x80 {
        0 => 0,
        _ => 3 << ((flags & 7) + 1),
    };
    let flags = reader.byte()?;
    reader.take(2)?;
    reader.take(table(flags))?;
    let mut has_picture = false;
    loop {
        // Some writers omit the end marker.
        if has_picture && reader.0.is_empty() {
            return Ok(size);
        }
        match reader.byte()? {
            0x3b if has_picture => return Ok(size),
            0x3b => return Err(NO_PICTURE),
            0x21 => drop(reader.byte()?),
            0x2c => {
                reader.take(8)?;
                let flags = reader.byte()?;
                reader.take(table(flags) + 1)?;
                has_picture = true;
            }
            _ if has_picture => return Ok(size),
            _ => return Err(NONSENSE),
        }
        loop {
            match reader.byte()? {
                0 => break,
                length => reader.take(usize::from(length))?,
            };
        }
    }
}

/// <https://developers.google.com/speed/webp/docs/riff_container>: chunks with a length.
fn webp(bytes: &[u8]) -> Size {
    let mut reader = ImageReader(&bytes[4..]);
    let length = reader.little(4)? as usize;
    let mut reader = ImageReader(reader.take(length)?);
    reader.take(4)?;
    let mut canvas = None;
    let mut picture = None;
    while !reader.0.is_empty() {
        let kind = reader.take(4)?;
        let length = reader.little(4)? as usize;
        let mut data = ImageReader(reader.take(length)?);
        // Padded to an even length; at the end some writers omit the padding.
        if length % 2 == 1 && !reader.0.is_empty() {
            reader.take(1)?;
        }
        match kind {
            b"VP8 " => {
                data.take(3)?;
                if data.take(3)? != b"\x9d\x01\x2a" {
                    return Err(NONSENSE);
                }
                let (width, height) = (data.little(2)?, data.little(2)?);
                picture = Some((width & 0x3fff, height & 0x3fff));
            }
            b"VP8L" => {
                if data.byte()? != 0x2f {
                    return Err(NONSENSE);
                }
                let bits = data.little(4)?;
                picture = Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1));
            }
            b"VP8X" => {
                data.take(4)?;
                canvas = Some((data.little(3)? + 1, data.little(3)? + 1));
            }
            b"ANMF" => picture = picture.or(canvas),
            _ => {}
        }
    }
    picture.map(|own| canvas.unwrap_or(own)).ok_or(NO_PICTURE)
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

    fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
        let checked = [kind, data].concat();
        let length = (data.len() as u32).to_be_bytes();
        [&length, &checked[..], &crc32(&checked).to_be_bytes()].concat()
    }

    fn png_of(width: u32, height: u32) -> Vec<u8> {
        let rest = [8, 2, 0, 0, 0];
        let head = [&width.to_be_bytes()[..], &height.to_be_bytes(), &rest].concat();
        let data = chunk(b"IDAT", b"pixels");
        [PNG, &chunk(b"IHDR", &head), &data, &chunk(b"IEND", b"")].concat()
    }

    /// A small one of each kind, made by hand: 3 x 2 pixels.
    fn samples() -> [(&'static str, Vec<u8>); 6] {
        let hex = |text: &str| -> Vec<u8> {
            let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
            digits.chunks(2).map(|d| (d[0] << 4 | d[1]) as u8).collect()
        };
        SAMPLES.map(|(media_type, text)| (media_type, hex(text)))
    }

    #[test]
    fn whole_images_are_known_with_their_size() {
        assert_eq!(crc32(b"IEND"), 0xae42_6082);
        for (media_type, bytes) in samples() {
            let known = ImageInfo {
                media_type,
                width: 3,
                height: 2,
            };
            assert_eq!(check(&bytes), Ok(known));
            // Bytes after the end are ignored.
            let more = [&bytes[..], b"\0\0"].concat();
            assert_eq!(check(&more), Ok(known), "{media_type}");
        }
    }

    #[test]
    fn an_image_that_is_cut_anywhere_is_none() {
        for (media_type, bytes) in samples() {
            // A GIF is readable without its last byte.
            let least = bytes.len() - usize::from(media_type == "image/gif");
            for end in 0..least {
                let refused = check(&bytes[..end]);
                assert!(refused.is_err(), "{media_type}, {end} of {}", bytes.len());
            }
        }
    }

    #[test]
    fn data_that_only_begins_like_an_image_is_refused() {
        for start in [
            &b"\x89PNG\r\n\x1a\n"[..],
            b"\xff\xd8\xff\xe0",
            b"GIF89a",
            b"RIFF\x50\0\0\0WEBP",
        ] {
            for rest in [
                &[0u8; 100][..],
                &[0xff; 100],
                b"no image at all, but a text of some length",
            ] {
                let why = check(&[start, rest].concat()).unwrap_err();
                assert!(why.starts_with("begins like image/"), "{why}");
            }
        }
        assert_eq!(
            check(b"%PDF-1.7").unwrap_err(),
            "is not a PNG, JPEG, GIF or WebP image"
        );
    }

    #[test]
    fn a_changed_byte_of_a_png_is_seen() {
        let sound = png_of(3, 2);
        for at in PNG.len()..sound.len() {
            let mut changed = sound.clone();
            changed[at] ^= 0x10;
            assert!(check(&changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_damaged_ancillary_chunk_is_left_to_the_decoder() {
        let sound = png_of(3, 2);
        let at = sound.len() - chunk(b"IEND", b"").len();
        let with = |kind: &[u8; 4]| {
            let mut extra = chunk(kind, b"x");
            *extra.last_mut().unwrap() ^= 1;
            check(&[&sound[..at], &extra, &sound[at..]].concat())
        };
        assert!(with(b"tEXt").is_ok());
        assert!(with(b"PLTE").unwrap_err().ends_with(BAD_CHECKSUM));
    }

    #[test]
    fn size_and_pixels_have_limits() {
        assert!(check(&png_of(8_000, 8_000)).is_ok());
        for (width, height) in [(8_001, 1), (1, 8_001), (u32::MAX, 1)] {
            let why = check(&png_of(width, height)).unwrap_err();
            assert!(why.contains("at most 8000 on a side"), "{why}");
        }
        assert!(check(&png_of(0, 5)).unwrap_err().contains("no width"));
        let large = [png_of(3, 2), vec![0; MAX_BYTES as usize]].concat();
        assert!(
            check(&large)
                .unwrap_err()
                .contains("at most 3932160 are sent")
        );
    }

    const SAMPLES: [(&str, &str); 6] = [
        (
            "image/png",
            "89504e470d0a1a0a0000000d49484452000000030000000208020000001216f14d000000037445587461 \
             0062dc49a23b0000001049444154789c63f8cfc000410c70160041d205fb87f0b9480000000049454e44 \
             ae426082",
        ),
        (
            "image/jpeg",
            "ffd8ffe000104a46494600010100000100010000ffdb0043001010101010101010101010101010101010 \
             101010101010101010101010101010101010101010101010101010101010101010101010101010101010 \
             1010101010ffc0000b080002000301011100ffc40014000100000000000000000000000000000000ffc4 \
             0014100100000000000000000000000000000000ffda0008010100003f003fffd9",
        ),
        (
            "image/gif",
            "47494638396103000200800000ff00000000ff21f904000a0000002c00000000030002000002050cc330 \
             0c53003b",
        ),
        (
            "image/webp",
            "524946461a000000574542505650384c0d0000002f024000002840ff0bd0ff020000",
        ),
        (
            "image/webp",
            "524946463800000057454250565038580a00000000000000020000010000455849460300000061626300 \
             5650384c0d0000002f024000002840ff0bd0ff020000",
        ),
        (
            "image/webp",
            "52494646220000005745425056503820150000001000009d012a03000200000000000000000000000000",
        ),
    ];
}
