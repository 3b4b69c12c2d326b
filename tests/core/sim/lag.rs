//! The journal of the simulation. It is to have every entry at every boundary. A kill between a commit
//! and the write of its lines leaves it one transaction behind, until the next start.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rewake::journal::read::end;
use rewake::store::{JournalPlace, Store};
use rewake::world::Boundary;

use super::fake::Outside;
use super::{Case, run};

pub fn place(dir: &Path) -> JournalPlace {
    JournalPlace {
        folder: dir.join("journal"),
        state_dir: dir.join("state"),
        pause: Duration::from_millis(100),
    }
}

/// The journal of a session beside its rows.
pub struct Lag {
    dir: PathBuf,
    session: String,
    /// The files of journal and mark before the last transaction.
    before: BTreeMap<PathBuf, Vec<u8>>,
    /// The process is after a commit, before anything else.
    is_committed: bool,
    lagged: u64,
}

impl Lag {
    pub fn watch(dir: &Path, session: &str, outside: &Rc<RefCell<Outside>>) -> Rc<RefCell<Lag>> {
        let lag = Rc::new(RefCell::new(Lag {
            dir: dir.to_path_buf(),
            session: session.to_string(),
            before: BTreeMap::new(),
            is_committed: false,
            lagged: 0,
        }));
        let watched = Rc::clone(&lag);
        let watch = Box::new(move |at| watched.borrow_mut().at(at));
        outside.borrow_mut().watch = Some(watch);
        lag
    }

    fn at(&mut self, at: Boundary) {
        assert_eq!(self.behind(), 0, "the journal lacks entries at {at:?}");
        self.is_committed = matches!(at, Boundary::AfterAppend(_));
        if matches!(at, Boundary::BeforeAppend(_)) {
            self.before = self.files();
        }
    }

    /// A kill after a commit: what was written since is not there.
    pub fn die(&mut self) {
        if !self.is_committed {
            return;
        }
        for (path, bytes) in self.files() {
            match self.before.get(&path) {
                None => fs::remove_file(path).expect("remove a file"),
                Some(was) if *was != bytes => fs::write(path, was).expect("write a file"),
                Some(_) => {}
            }
        }
        self.lagged += u64::from(self.behind() > 0);
    }

    /// Does as another process does before its first commit.
    pub fn start(&mut self) {
        let mut store = Store::open(&self.dir).expect("the store opens");
        let kept = store.start_copies(&self.dir, &place(&self.dir));
        kept.expect("the journal opens");
        drop(store);
        if self.lagged > 0 {
            assert_eq!(self.behind(), 0, "a start leaves the journal behind");
        }
    }

    /// Returns the number of entries that the journal lacks.
    fn behind(&self) -> u64 {
        let store = Store::open_current(&self.dir).expect("the store opens");
        let store = store.expect("a store");
        let (head, _) = store.load(&self.session).expect("the session loads");
        let folder = place(&self.dir).folder.join(&self.session);
        match end(&folder).expect("the journal can be read") {
            Some((end, _)) => (head.seq() + 1).saturating_sub(end.next),
            // It begins with the first append of a process.
            None => 0,
        }
    }

    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut folders = vec![self.dir.join("journal"), self.dir.join("state")];
        let mut files = BTreeMap::new();
        while let Some(folder) = folders.pop() {
            for file in fs::read_dir(folder).into_iter().flatten() {
                let path = file.expect("a file").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => drop(files.insert(path.clone(), fs::read(path).expect("a file"))),
                }
            }
        }
        files
    }
}

#[test]
fn a_kill_between_a_commit_and_its_lines_leaves_one_transaction_of_lag() {
    let whole = Case {
        lags: true,
        ..Case::default()
    };
    let boundaries = run(&whole).boundaries;
    for at in super::places(1..=boundaries, 0) {
        let case = Case {
            crashes: vec![at],
            ..whole.clone()
        };
        run(&case);
    }
}
