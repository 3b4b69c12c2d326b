//! What is damaged, and how: a seed says it exactly.

use std::fs;
use std::path::{Path, PathBuf};

use super::told::{Image, Images};

const PAGE: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Target {
    Database,
    Log,
    SharedMemory,
    Mark,
    /// One file of the journal.
    Journal,
    /// The line of a blob in the journal.
    Blob,
    /// The whole data folder. The mark lies elsewhere.
    Folder,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Delete,
    Truncate,
    ZeroPage,
    FlipBits,
    /// A letter becomes a capital one, or back: what is JSON stays JSON.
    ChangeLetter,
    Older,
    Foreign,
    Garbage,
}

const TARGETS: [Target; 8] = [
    Target::Database,
    Target::Database,
    Target::Log,
    Target::SharedMemory,
    Target::Mark,
    Target::Journal,
    Target::Blob,
    Target::Folder,
];

const KINDS: [Kind; 8] = [
    Kind::Delete,
    Kind::Truncate,
    Kind::ZeroPage,
    Kind::FlipBits,
    Kind::ChangeLetter,
    Kind::Older,
    Kind::Foreign,
    Kind::Garbage,
];

#[derive(Debug, Clone)]
pub struct Case {
    pub after_kill: bool,
    what: Vec<(Target, Kind)>,
    random: u64,
}

impl Case {
    /// One thing is damaged, and now and then a second one.
    pub fn of(seed: u64) -> Case {
        let mut random = Random::of(seed);
        let mut one = || (random.one_of(&TARGETS), random.one_of(&KINDS));
        let mut what = vec![one()];
        match seed % 6 {
            4 => what.push(one()),
            // The copy that is needed then is not whole either.
            5 => what = vec![(Target::Database, one().1), (Target::Journal, one().1)],
            _ => {}
        }
        Case {
            after_kill: random.below(2) == 0,
            what,
            random: random.0,
        }
    }

    /// More than one of the copies is touched.
    pub fn is_of_several(&self) -> bool {
        let is_folder = |(target, _): &(Target, Kind)| *target == Target::Folder;
        self.what.len() > 1 || self.what.iter().any(is_folder)
    }

    /// All that could say that there was more goes back together, or becomes that of another
    /// store. Only the logs are left, which the store does not write.
    pub fn is_of_all(&self) -> bool {
        let is_touched = |target| self.what.iter().any(|(touched, _)| *touched == target);
        let is_another = |(target, kind): &(Target, Kind)| {
            *target == Target::Folder && matches!(kind, Kind::Foreign | Kind::Garbage)
        };
        let is_foreign =
            |(target, kind): &(Target, Kind)| *target == Target::Database && *kind == Kind::Foreign;
        is_touched(Target::Folder) && is_touched(Target::Mark)
            || self.what.iter().any(is_another)
            || (self.what.len() > 1 && self.what.iter().any(is_foreign))
    }

    pub fn damage(&self, root: &Path, images: &Images) {
        let mut random = Random(self.random);
        for (target, kind) in &self.what {
            if *target == Target::Folder {
                folder(root, *kind, images);
                continue;
            }
            let Some(path) = file(root, *target, &mut random) else {
                continue;
            };
            one(root, &path, (*target, *kind), images, &mut random);
        }
    }
}

/// All of the data folder at once: gone, or as it was before.
fn folder(root: &Path, kind: Kind, images: &Images) {
    // Another case may have removed it before.
    let _ = fs::remove_dir_all(root.join("data"));
    let image = match kind {
        Kind::Older | Kind::Truncate | Kind::ZeroPage => &images.older,
        Kind::Foreign | Kind::Garbage => &images.foreign,
        Kind::Delete | Kind::FlipBits | Kind::ChangeLetter => return,
    };
    for (path, bytes) in image.iter().filter(|(path, _)| path.starts_with("data")) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn file(root: &Path, target: Target, random: &mut Random) -> Option<PathBuf> {
    let data = root.join("data");
    let files = match target {
        Target::Database => vec![data.join("rewake.db")],
        Target::Log => vec![data.join("rewake.db-wal")],
        Target::SharedMemory => vec![data.join("rewake.db-shm")],
        Target::Mark => all(&root.join("state/marks")),
        Target::Journal => all(&data.join("journal")),
        Target::Blob => {
            let mut files = all(&data.join("journal"));
            files.retain(|path| blob_line(&fs::read(path).unwrap()).is_some());
            files
        }
        Target::Folder => Vec::new(),
    };
    (!files.is_empty()).then(|| random.one_of(&files))
}

fn blob_line(bytes: &[u8]) -> Option<usize> {
    bytes.windows(8).position(|at| at == b"{\"blob\":")
}

pub fn all(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for file in fs::read_dir(folder).into_iter().flatten() {
        let path = file.unwrap().path();
        match path.is_dir() {
            true => files.extend(all(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

fn one(
    root: &Path,
    path: &Path,
    (target, kind): (Target, Kind),
    images: &Images,
    random: &mut Random,
) {
    let Ok(mut bytes) = fs::read(path) else {
        return;
    };
    let name = path.strip_prefix(root).unwrap();
    let from = match target {
        Target::Blob => blob_line(&bytes).unwrap_or(0),
        _ => 0,
    };
    let room = bytes.len() - from;
    match kind {
        Kind::Truncate => bytes.truncate(from + random.below(room)),
        Kind::ZeroPage => {
            let at = from + random.below(room.div_ceil(PAGE)) * PAGE;
            let end = bytes.len().min(at + PAGE);
            bytes[at..end].fill(0);
        }
        Kind::FlipBits if room > 0 => {
            for _ in 0..10 {
                bytes[from + random.below(room)] ^= 1 << random.below(8);
            }
        }
        Kind::ChangeLetter => {
            let is_letter = |at: &usize| bytes[*at].is_ascii_alphabetic();
            let letters: Vec<usize> = (from..bytes.len()).filter(is_letter).collect();
            if !letters.is_empty() {
                bytes[random.one_of(&letters)] ^= 0x20;
            }
        }
        Kind::Older => match images.older.get(name) {
            Some(older) => bytes.clone_from(older),
            None => return fs::remove_file(path).unwrap(),
        },
        Kind::Foreign => match of_another(&images.foreign, name) {
            Some(foreign) => bytes.clone_from(foreign),
            None => return,
        },
        Kind::Garbage => bytes = (0..room.max(100)).map(|_| random.byte()).collect(),
        Kind::Delete => return fs::remove_file(path).unwrap(),
        Kind::FlipBits => {}
    }
    fs::write(path, bytes).unwrap();
}

/// The same file of another store: what its sessions are called differs.
fn of_another<'a>(foreign: &'a Image, name: &Path) -> Option<&'a Vec<u8>> {
    let is_alike = |other: &&PathBuf| {
        let ends = |path: &Path| path.extension().map(std::ffi::OsStr::to_owned);
        other.file_name() == name.file_name()
            || (name.starts_with("state/marks") && ends(other) == ends(name))
    };
    let other = foreign.keys().find(is_alike)?;
    foreign.get(other)
}

pub struct Random(u64);

impl Random {
    pub fn of(seed: u64) -> Random {
        Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % (n as u64).max(1)).unwrap()
    }

    pub fn byte(&mut self) -> u8 {
        u8::try_from(self.next() % 256).unwrap()
    }

    pub fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}
