//! The frames of a write-ahead log, up to its last valid commit.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::PAGE;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const FRAME: usize = FRAME_HEADER + PAGE;

/// With the bit for big-endian checksums unset.
const MAGIC: u32 = 0x377f_0682;

pub(super) struct Wal {
    file: File,
    /// How many frames are committed.
    pub frames: u64,
    /// The newest frame of each page.
    newest: HashMap<u32, u64>,
}

impl Wal {
    /// `None`: it has no valid commit, or pages of another size.
    pub(super) fn read(file: File) -> Option<Wal> {
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0).ok()?;
        let is_big = match word(&header, 0) ^ MAGIC {
            0 => false,
            1 => true,
            _ => return None,
        };
        let sum = checksum(is_big, [0, 0], &header[..24]);
        if word(&header, 8) as usize != PAGE || sum != [word(&header, 24), word(&header, 28)] {
            return None;
        }
        let (pages, committed) = valid(&file, is_big, sum, &header[16..24]);
        let newest = pages.iter().zip(0..committed);
        Some(Wal {
            newest: newest.map(|(page, frame)| (*page, frame)).collect(),
            frames: committed,
            file,
        })
    }

    pub(super) fn frame(&self, frame: u64, page: &mut [u8]) -> Option<()> {
        let at = HEADER as u64 + frame * FRAME as u64 + FRAME_HEADER as u64;
        self.file.read_exact_at(page, at).ok()
    }

    /// A page as the last commit has it. `None`: it is not in the log.
    pub(super) fn newest(&self, number: u32, page: &mut [u8]) -> Option<()> {
        self.frame(*self.newest.get(&number)?, page)
    }
}

/// The page of each valid frame, and how many of them were committed.
fn valid(file: &File, is_big: bool, mut sum: [u32; 2], salt: &[u8]) -> (Vec<u32>, u64) {
    let (mut pages, mut committed) = (Vec::new(), 0);
    let mut frame = vec![0; FRAME];
    let mut at = HEADER as u64;
    while file.read_exact_at(&mut frame, at).is_ok() {
        sum = checksum(is_big, sum, &frame[..8]);
        sum = checksum(is_big, sum, &frame[FRAME_HEADER..]);
        if &frame[8..16] != salt || sum != [word(&frame, 16), word(&frame, 20)] {
            break;
        }
        pages.push(word(&frame, 0));
        // The size of the database stands in the last frame of a commit.
        if word(&frame, 4) != 0 {
            committed = pages.len() as u64;
        }
        at += FRAME as u64;
    }
    (pages, committed)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(word)
}

pub(super) fn checksum(is_big: bool, mut sum: [u32; 2], bytes: &[u8]) -> [u32; 2] {
    for pair in bytes.chunks_exact(8) {
        let of = |at: usize| match is_big {
            true => word(pair, at),
            false => word(pair, at).swap_bytes(),
        };
        sum[0] = sum[0].wrapping_add(of(0)).wrapping_add(sum[1]);
        sum[1] = sum[1].wrapping_add(of(4)).wrapping_add(sum[0]);
    }
    sum
}
