//! Damages to the files of a store. A seed says how many, to what, and how.

use std::fs;
use std::path::{Path, PathBuf};

use crate::store::matrix::damage::{Random, all};
use crate::store::matrix::told::Image;

const PAGE: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Target {
    Database,
    Log,
    SharedMemory,
    Mark,
    /// One file of a journal.
    Journal,
    /// The whole journal of one session.
    JournalOfASession,
    /// One file of a journal that was set aside.
    SetAside,
}

const TARGETS: [Target; 10] = [
    Target::Database,
    Target::Database,
    Target::Log,
    Target::Log,
    Target::SharedMemory,
    Target::Mark,
    Target::Journal,
    Target::Journal,
    Target::JournalOfASession,
    Target::SetAside,
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    FlipOneBit,
    FlipBits,
    CutAFew,
    Cut,
    ZeroPage,
    Remove,
    Garbage,
    Older,
}

const KINDS: [Kind; 8] = [
    Kind::FlipOneBit,
    Kind::FlipBits,
    Kind::CutAFew,
    Kind::Cut,
    Kind::ZeroPage,
    Kind::Remove,
    Kind::Garbage,
    Kind::Older,
];

/// A damage to a store before it is recovered.
#[derive(Debug, Clone)]
pub struct Damages {
    what: Vec<(Target, Kind)>,
    seed: u64,
}

/// The copies that differ from what they were.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Touched {
    pub database: bool,
    pub journal: bool,
    pub mark: bool,
}

impl Touched {
    pub fn is_all(&self) -> bool {
        self.database && self.journal && self.mark
    }

    /// Compares the files with what they were.
    fn of(root: &Path, image: &Image) -> Touched {
        let differs = |path: &PathBuf| {
            let bytes = image.get(path);
            fs::read(root.join(path)).ok().as_ref() != bytes
        };
        let is = |path: &&PathBuf, begin: &str| path.to_string_lossy().starts_with(begin);
        let any = |begin: &str| image.keys().filter(|path| is(path, begin)).any(differs);
        let is_log =
            |path: &&PathBuf| path.ends_with("rewake.db") || path.ends_with("rewake.db-wal");
        Touched {
            database: image.keys().filter(is_log).any(differs),
            journal: any("data/journal"),
            mark: any("state/marks"),
        }
    }
}

impl Damages {
    pub fn of(seed: u64) -> Damages {
        let mut random = Random::of(seed);
        let number = 1 + random.below(4);
        let one = |_| (random.one_of(&TARGETS), random.one_of(&KINDS));
        let what = (0..number).map(one).collect();
        Damages { what, seed }
    }

    pub fn number(&self) -> u64 {
        self.what.len() as u64
    }

    /// `older`: the files as they were before.
    pub fn cause(&self, root: &Path, image: &Image, older: &Image) -> Touched {
        let mut random = Random::of(self.seed + 1_000_000_000);
        for (target, kind) in &self.what {
            let path = match target {
                Target::JournalOfASession => {
                    whole_journal(root, *kind, older, &mut random);
                    continue;
                }
                _ => file(root, *target, &mut random),
            };
            if let Some(path) = path {
                one(root, &path, *kind, older, &mut random);
            }
        }
        Touched::of(root, image)
    }
}

fn file(root: &Path, target: Target, random: &mut Random) -> Option<PathBuf> {
    let data = root.join("data");
    let is_aside = |path: &PathBuf| path.to_string_lossy().contains(".old-");
    let of_journals = |aside: bool| {
        let mut files = all(&data.join("journal"));
        files.retain(|path| is_aside(path) == aside && !path.ends_with("state.lock"));
        files
    };
    let files = match target {
        Target::Database => vec![data.join("rewake.db")],
        Target::Log => vec![data.join("rewake.db-wal")],
        Target::SharedMemory => vec![data.join("rewake.db-shm")],
        Target::Mark => all(&root.join("state/marks")),
        Target::Journal => of_journals(false),
        Target::SetAside => of_journals(true),
        Target::JournalOfASession => Vec::new(),
    };
    (!files.is_empty()).then(|| random.one_of(&files))
}

/// A journal is removed, set aside as an older version did it, or replaced by an older one.
fn whole_journal(root: &Path, kind: Kind, older: &Image, random: &mut Random) {
    let journal = root.join("data/journal");
    let mut sessions: Vec<PathBuf> = fs::read_dir(&journal)
        .into_iter()
        .flatten()
        .map(|file| file.unwrap().path())
        .filter(|path| !path.to_string_lossy().contains(".old-"))
        .collect();
    sessions.sort();
    if sessions.is_empty() {
        return;
    }
    let session = random.one_of(&sessions);
    let aside = |time: u32| PathBuf::from(format!("{}.old-{time}", session.display()));
    match kind {
        Kind::Remove => fs::remove_dir_all(&session).unwrap(),
        Kind::Garbage => fs::remove_dir_all(&journal).unwrap(),
        Kind::FlipOneBit | Kind::FlipBits => {
            let _ = fs::rename(&session, aside(7));
        }
        Kind::CutAFew | Kind::Cut => {
            let _ = fs::rename(&session, aside(8));
            copy_older(root, &session, older, &session);
        }
        Kind::ZeroPage => copy_older(root, &session, older, &aside(9)),
        Kind::Older => {
            fs::remove_dir_all(&session).unwrap();
            copy_older(root, &session, older, &session);
        }
    }
}

fn copy_older(root: &Path, folder: &Path, older: &Image, to: &Path) {
    let name = folder.strip_prefix(root).unwrap();
    for (path, bytes) in older.iter().filter(|(path, _)| path.starts_with(name)) {
        fs::create_dir_all(to).unwrap();
        fs::write(to.join(path.file_name().unwrap()), bytes).unwrap();
    }
}

fn one(root: &Path, path: &Path, kind: Kind, older: &Image, random: &mut Random) {
    let Ok(mut bytes) = fs::read(path) else {
        return;
    };
    let length = bytes.len();
    match kind {
        _ if length == 0 => return,
        Kind::FlipOneBit => bytes[random.below(length)] ^= 1 << random.below(8),
        Kind::FlipBits => {
            for _ in 0..12 {
                bytes[random.below(length)] ^= 1 << random.below(8);
            }
        }
        Kind::CutAFew => bytes.truncate(length.saturating_sub(1 + random.below(200))),
        Kind::Cut => bytes.truncate(random.below(length)),
        Kind::ZeroPage => {
            let at = random.below(length.div_ceil(PAGE)) * PAGE;
            let end = length.min(at + PAGE);
            bytes[at..end].fill(0);
        }
        Kind::Remove => return fs::remove_file(path).unwrap(),
        Kind::Garbage => bytes = (0..length).map(|_| random.byte()).collect(),
        Kind::Older => match older.get(path.strip_prefix(root).unwrap()) {
            Some(older) => bytes.clone_from(older),
            None => return fs::remove_file(path).unwrap(),
        },
    }
    fs::write(path, bytes).unwrap();
}
