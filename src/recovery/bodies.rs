//! A nameless file with the bodies of the entries that were found, one after the other. Each is
//! encoded as in a row.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rusqlite::types::ValueRef;

use crate::store::StoreError;
use crate::store::recovering::{Body, BodyReader, WHAT, io_error};

/// Size from which buffered bodies are written to the file.
const PIECE: usize = 1 << 20;

/// The position of an entry's body in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyPosition {
    at: u64,
    bytes: u32,
    /// Whether the body is compressed.
    pub is_packed: bool,
}

pub(super) struct BodyFile {
    file: File,
    /// Length of the file with the buffered bytes.
    end: u64,
    unwritten: Vec<u8>,
}

impl BodyFile {
    pub(super) fn in_folder(folder: &Path) -> Result<BodyFile, StoreError> {
        let file = tempfile::tempfile_in(folder);
        Ok(BodyFile {
            file: file.map_err(|e| io_error(WHAT, e))?,
            end: 0,
            unwritten: Vec::new(),
        })
    }

    pub(super) fn keep(
        &mut self,
        body: &[u8],
        is_packed: bool,
    ) -> Result<BodyPosition, StoreError> {
        let place = BodyPosition {
            at: self.end,
            bytes: u32::try_from(body.len()).unwrap_or(u32::MAX),
            is_packed,
        };
        self.unwritten.extend_from_slice(body);
        self.end += body.len() as u64;
        if self.unwritten.len() >= PIECE {
            self.flush()?;
        }
        Ok(place)
    }

    pub(super) fn flush(&mut self) -> Result<(), StoreError> {
        let written = self.file.write_all(&self.unwritten);
        self.unwritten.clear();
        written.map_err(|e| io_error(WHAT, e))
    }

    /// Reads a body that was flushed before.
    pub(super) fn read(&self, place: BodyPosition) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; place.bytes as usize];
        let read = self.file.read_exact_at(&mut bytes, place.at);
        read.map_err(|e| io_error(WHAT, e))?;
        Ok(bytes)
    }
}

/// A reader of the bodies, which decompresses them.
pub(super) struct Bodies<'f> {
    file: &'f BodyFile,
    reader: BodyReader,
}

impl Bodies<'_> {
    pub(super) fn of(file: &BodyFile) -> Result<Bodies<'_>, StoreError> {
        Ok(Bodies {
            file,
            reader: BodyReader::new()?,
        })
    }

    /// Reads a body with its stored bytes: a compressed body is not compressed again.
    pub(super) fn read(&mut self, place: BodyPosition) -> Result<Body, StoreError> {
        let bytes = self.file.read(place)?;
        let json = text_in(&mut self.reader, &bytes, place.is_packed)?;
        Ok(Body::as_stored(json, place.is_packed.then_some(bytes)))
    }
}

pub(super) fn text_in(
    reader: &mut BodyReader,
    body: &[u8],
    is_packed: bool,
) -> Result<String, StoreError> {
    let json = json_in(reader, body, is_packed);
    let json = json.and_then(|json| String::from_utf8(json).ok());
    json.ok_or_else(|| StoreError::damaged("an entry that was found cannot be read again"))
}

pub(super) fn json_in(reader: &mut BodyReader, body: &[u8], is_packed: bool) -> Option<Vec<u8>> {
    let value = match is_packed {
        true => ValueRef::Blob(body),
        false => ValueRef::Text(body),
    };
    reader.json(value).ok().map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_body_is_not_compressed_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = BodyFile::in_folder(dir.path()).unwrap();
        let words = |n: u32| format!("{} {} ", n % 7, n * n % 1_000);
        let json: String = (0..900).map(words).collect();
        // Another level than that of the store, so compressing again would change the bytes.
        let packed = zstd::bulk::compress(json.as_bytes(), 19).unwrap();
        assert_ne!(Body::of(json.clone()).bytes(), packed);
        let places = [
            file.keep(&packed, true).unwrap(),
            file.keep(json.as_bytes(), false).unwrap(),
        ];
        file.flush().unwrap();
        let mut bodies = Bodies::of(&file).unwrap();
        let [one, other] = places.map(|place| bodies.read(place).unwrap());
        assert_eq!((one.json(), one.bytes()), (&json[..], &packed[..]));
        assert_eq!((other.json(), other.bytes()), (&json[..], json.as_bytes()));
    }
}
