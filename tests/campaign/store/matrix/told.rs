//! What the matrix damages: a store with four sessions, as it lies there after it was closed and
//! after a kill, and what was acknowledged by then.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rewake::core::entry::{BlobRef, By, CallId, Entry, Outcome, Output, Record, Via};
use rewake::core::signal::Signal;
use rewake::store::{Batch, Head, Message, SessionLock, Store, blob_ref};

use crate::store::place::Place;
use crate::store::story::*;

/// Files by their place below the root.
pub type Image = BTreeMap<PathBuf, Vec<u8>>;

/// What a person was told is recorded.
#[derive(Clone)]
pub struct Acknowledged {
    pub logs: Vec<(String, Vec<Record>)>,
    /// Words that waited in the older copy and were said since.
    pub taken: String,
    pub blob: BlobRef,
}

pub struct Images {
    pub older: Image,
    closed: (Image, Acknowledged),
    killed: (Image, Acknowledged),
    /// Of another store.
    pub foreign: Image,
}

impl Images {
    pub fn of(place: &Place) -> Images {
        let mut story = Story::begin(place);
        let older = story.close();
        story.go_on();
        let closed = (story.close(), story.acknowledged());
        story.go_on();
        let killed = (image(&place.root()), story.acknowledged());
        drop(story);
        let other = Place::new();
        let mut story = Story::begin(&other);
        story.go_on();
        let foreign = image(&other.root());
        Images {
            older,
            closed,
            killed,
            foreign,
        }
    }

    pub fn before(&self, after_kill: bool) -> (&Image, &Acknowledged) {
        let (image, known) = match after_kill {
            true => &self.killed,
            false => &self.closed,
        };
        (image, known)
    }
}

const TAKEN: &str = "waited, and was said";

struct Story<'a> {
    place: &'a Place,
    store: Option<Store>,
    heads: Vec<Head>,
    queued: Option<rewake::store::InboxId>,
    sent: Option<rewake::store::SignalId>,
    rounds: u64,
}

impl<'a> Story<'a> {
    fn begin(place: &'a Place) -> Story<'a> {
        let mut store = place.ctx.open_store().unwrap();
        let mut first = session(&mut store, HERE);
        let mut all = batch(all_kinds());
        all.blobs = vec![BLOB.to_vec()];
        store.append(&mut first, &all).unwrap();
        for n in 0..30 {
            append(&mut store, &mut first, vec![said(&noise(n, 3_000))]);
        }
        let second = session(&mut store, "/elsewhere");
        let mut branch = fork(&mut store, first.session(), 20, 9).unwrap();
        append(&mut store, &mut branch, vec![said("another way")]);
        let waits = Message {
            text: TAKEN.into(),
            images: vec![],
            via: Via::Queue,
            command: None,
            origin: None,
        };
        let queued = store
            .inbox_mut()
            .queue(second.session(), &waits, &[], 5)
            .unwrap();
        let sent = store
            .inbox_mut()
            .signal(second.session(), "cli", 5, |_| Signal::GoOn);
        let story = Story {
            place,
            store: Some(store),
            heads: vec![first, second, branch],
            queued: Some(queued),
            sent: Some(sent.unwrap()),
            rounds: 0,
        };
        story.heads.iter().for_each(|head| story.is_recorded(head));
        story
    }

    fn is_recorded(&self, head: &Head) {
        let data = self.place.scene.data();
        SessionLock::take(&data, head.session()).unwrap().recorded();
    }

    /// Entries into all of them, a queued message that is said, and a session more.
    fn go_on(&mut self) {
        self.rounds += 1;
        let mut store = match self.store.take() {
            Some(store) => store,
            None => self.place.ctx.open_store().unwrap(),
        };
        for n in 0..12 {
            let text = noise(self.rounds * 100 + n, 700);
            for head in &mut self.heads {
                append(&mut store, head, vec![said(&text)]);
            }
        }
        if let Some(id) = self.queued.take() {
            let taking = Batch {
                at_ms: 3_000,
                entries: vec![said(TAKEN)],
                taken: Some(id),
                ..Batch::default()
            };
            store.append(&mut self.heads[1], &taking).unwrap();
        }
        if let Some(id) = self.sent.take() {
            let obeying = Batch {
                at_ms: 3_000,
                entries: vec![Entry::Resumed {
                    by: By::Person,
                    found: "asked to go on".into(),
                    draft: None,
                    unrecorded: false,
                    at_work: false,
                }],
                signal: Some(id),
                ..Batch::default()
            };
            store.append(&mut self.heads[1], &obeying).unwrap();
        }
        let mut printed = batch(vec![printed(self.rounds)]);
        printed.blobs = vec![blob(self.rounds)];
        store.append(&mut self.heads[0], &printed).unwrap();
        let mut newest = session(&mut store, HERE);
        append(&mut store, &mut newest, vec![said("a new one")]);
        self.heads.push(newest);
        self.is_recorded(&self.heads[self.heads.len() - 1]);
        self.store = Some(store);
    }

    fn close(&mut self) -> Image {
        self.store = None;
        image(&self.place.root())
    }

    fn acknowledged(&self) -> Acknowledged {
        let opened;
        let store = match &self.store {
            Some(store) => store,
            None => {
                opened = Store::open_current(&self.place.scene.data()).unwrap();
                opened.as_ref().unwrap()
            }
        };
        let log = |head: &Head| {
            let id = head.session().to_string();
            let log = store.load(&id).unwrap().1;
            (id, log)
        };
        Acknowledged {
            logs: self.heads.iter().map(log).collect(),
            taken: TAKEN.into(),
            blob: blob_ref(&blob(self.rounds)),
        }
    }
}

fn blob(round: u64) -> Vec<u8> {
    noise(round + 7_000, 5_000).into_bytes()
}

fn printed(round: u64) -> Entry {
    Entry::Finished {
        call: CallId { reply: 1, index: 0 },
        outcome: Outcome::Done {
            output: Output {
                text: "much".into(),
                blob: Some(blob_ref(&blob(round))),
                images: vec![],
            },
        },
        fact: None,
        tree: None,
    }
}

/// Words that do not get much smaller.
pub fn noise(seed: u64, bytes: usize) -> String {
    let mut n = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        n ^= n << 13;
        n ^= n >> 7;
        n ^= n << 17;
        char::from(b'!' + u8::try_from(n % 90).unwrap())
    };
    (0..bytes).map(|_| next()).collect()
}

/// Read while the store is open, it is what a kill leaves: nothing is written meanwhile.
pub fn image(root: &Path) -> Image {
    let mut files = Image::new();
    for folder in ["data", "state"] {
        read_into(&mut files, root, &root.join(folder));
    }
    files
}

fn read_into(files: &mut Image, root: &Path, folder: &Path) {
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            read_into(files, root, &path);
        } else if let Ok(bytes) = fs::read(&path) {
            files.insert(path.strip_prefix(root).unwrap().to_path_buf(), bytes);
        }
    }
}

pub fn restore(root: &Path, image: &Image) {
    for folder in ["data", "state"] {
        let _ = fs::remove_dir_all(root.join(folder));
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for (path, bytes) in image {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}
