//! The changes of each path since a tree, and who made them.

use std::collections::{BTreeMap, BTreeSet};

use super::author::{Author, Maker};
use super::since::{Cause, Written};
use crate::core::file_clock::{CommandEnd, FileTime};
use crate::core::path;
use crate::core::tree::{Change, ContentHash, Delta, Item, PathBytes, Tree, below, to_root};

/// Suffix of the names under which a restore puts content of others beside its path.
pub(super) const ENDING: &[u8] = b".rewake-kept";

/// Author of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// A call that wrote the file, or a restore.
    Us,
    /// A command that ran until this time.
    Command(CommandEnd),
    Outside,
}

/// One change of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub to: Option<Item>,
    pub by: By,
    /// The author, for a person. Whether the process left before the tree decides who may have made
    /// it.
    pub maker: Maker,
    /// It may have existed before and only become covered.
    pub may_have_been: bool,
}

impl Link {
    /// Returns whether somebody else may have made it, and the disk has no evidence about that.
    pub fn may_be_of_others(&self) -> bool {
        self.by == By::Outside || self.maker.left_before_tree
    }
}

/// All changes of one path.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub start: Option<Item>,
    pub links: Vec<Link>,
    /// The values of `links` before each restore, for a restore that leads back to one of them.
    undone: Vec<Vec<Link>>,
    /// The last change was a restore, so the file's time on disk is that of the restore.
    pub is_set_back: bool,
}

impl Chain {
    pub fn now(&self) -> Option<&Item> {
        match self.links.last() {
            Some(link) => link.to.as_ref(),
            None => self.start.as_ref(),
        }
    }

    /// Returns the state after these links.
    fn end<'a>(&'a self, links: &'a [Link]) -> &'a Option<Item> {
        links.last().map_or(&self.start, |link| &link.to)
    }

    /// Returns the links that led to this state: those that the last restore undid, if they end
    /// there; else those up to the latest earlier time with this state.
    fn time_of(&self, whole: &[Link], to: &Option<Item>) -> Option<Vec<Link>> {
        if let Some(list) = self.undone.last().filter(|list| self.end(list) == to) {
            return Some(list.clone());
        }
        let lists = self.undone.iter().rev().map(Vec::as_slice);
        let lists = [whole].into_iter().chain(lists);
        let mut times = lists.flat_map(|list| (0..=list.len()).rev().map(|length| &list[..length]));
        times
            .find(|list| self.end(list) == to)
            .map(<[Link]>::to_vec)
    }

    /// Records a restore. If the state existed before, the links that led to it apply again;
    /// otherwise the state is new.
    fn set_back(&mut self, to: Option<Item>) {
        self.is_set_back = true;
        let whole = self.links.clone();
        let found = self.time_of(&whole, &to);
        if !self.undone.contains(&whole) {
            self.undone.push(whole);
        }
        match found {
            Some(links) => self.links = links,
            None => self.links.push(Link {
                to,
                by: By::Us,
                maker: Author::Rewind.into(),
                may_have_been: false,
            }),
        }
    }
}

/// The changes of the paths of a workspace since a tree.
#[derive(Debug, Clone)]
pub struct Changes {
    pub(super) root: String,
    pub(super) start: Tree,
    pub(super) now: Tree,
    pub(super) chains: BTreeMap<PathBytes, Chain>,
    /// Files that a command renamed: from the new path to the old one.
    pub(super) moved: BTreeMap<PathBytes, PathBytes>,
    /// Paths that appeared when a command replaced a file with a folder, or a folder with a file.
    pub(super) in_place: BTreeSet<PathBytes>,
}

impl Changes {
    /// Returns the tree at the beginning.
    pub fn start(&self) -> &Tree {
        &self.start
    }

    /// Starts with a tree. `root` is the workspace's; paths below it have no leading slash.
    pub fn new(root: &str, start: Tree) -> Changes {
        Changes {
            root: root.to_string(),
            now: start.clone(),
            start,
            chains: BTreeMap::new(),
            moved: BTreeMap::new(),
            in_place: BTreeSet::new(),
        }
    }

    /// Returns each change of a path: its author and the state after it. `file_time` returns when
    /// the current file last changed.
    pub fn steps(
        &self,
        path: &[u8],
        file_time: &dyn Fn(&[u8]) -> Option<FileTime>,
    ) -> Vec<(Author, Option<&Item>)> {
        let links = self.chains.get(path).map_or(&[][..], |c| &c.links[..]);
        let is_doubtful = |link: &Link| link.maker.was_away || link.maker.left_before_tree;
        let author = |place: usize, link: &Link| match (is_doubtful(link), link.by) {
            (true, By::Command(ended)) => {
                let is_last = place + 1 == links.len();
                if is_last && file_time(path).is_some_and(|at| ended.may_have_changed(&at)) {
                    link.maker.author
                } else {
                    Author::Unknown
                }
            }
            _ => link.maker.author,
        };
        let steps = links.iter().enumerate();
        steps
            .map(|(place, link)| (author(place, link), link.to.as_ref()))
            .collect()
    }

    /// Returns the last tree so far.
    pub fn now(&self) -> &Tree {
        &self.now
    }

    /// Adds the difference to the next tree. `is_exact` means that the delta says which paths only
    /// became covered. `target` is the tree of [`Cause::Restored`].
    pub fn add(
        &mut self,
        delta: &Delta,
        is_exact: bool,
        (cause, maker): (&Cause, Maker),
        target: Option<&Tree>,
    ) {
        if let Cause::Calls {
            command_ended: Some(_),
            ..
        } = cause
        {
            let moves = self.moves(delta);
            self.moved.extend(moves);
            self.in_place.extend(self.in_place(delta));
        }
        for (path, change) in &delta.0 {
            let (to, entered) = match change {
                Change::Put { item, entered } => (Some(item.clone()), *entered),
                Change::Gone { .. } => (None, false),
            };
            let before = self.now.0.get(path).cloned();
            if before == to {
                continue;
            }
            let chain = self.chains.entry(path.clone()).or_insert_with(|| Chain {
                start: before.clone(),
                links: Vec::new(),
                undone: Vec::new(),
                is_set_back: false,
            });
            if let Cause::Restored { .. } = cause
                && target.is_some_and(|target| target.0.get(path) == to.as_ref())
            {
                if before.is_none() && is_beside(path) {
                    // The content is somebody else's, although a restore put it there.
                    chain.links.push(Link {
                        to,
                        by: By::Outside,
                        maker: Author::Rewind.into(),
                        may_have_been: false,
                    });
                } else {
                    chain.set_back(to);
                }
                continue;
            }
            // The file still exists, or existed before.
            let is_only_coverage = entered || matches!(change, Change::Gone { left: true });
            let (by, maker) = match cause {
                _ if is_only_coverage => (By::Outside, Author::Unknown.into()),
                Cause::Outside | Cause::Restored { .. } => (By::Outside, maker),
                Cause::Calls {
                    written,
                    command_ended,
                } => {
                    let absolute = absolute(&self.root, path);
                    match of_call(written, &absolute, before.as_ref(), to.as_ref()) {
                        Some(By::Us) => (By::Us, Author::Tool.into()),
                        // A tool and somebody else changed it.
                        Some(by) => (by, Author::Unknown.into()),
                        None => (command_ended.map_or(By::Outside, By::Command), maker),
                    }
                }
            };
            chain.is_set_back = false;
            chain.links.push(Link {
                may_have_been: entered || (before.is_none() && !is_exact && by != By::Us),
                to,
                by,
                maker,
            });
        }
        self.now.apply(delta);
    }

    /// Finds the new paths that cannot exist beside a path that was removed: it is above or below.
    /// A renamed file is not one, since it may be the only copy of what others made.
    fn in_place(&self, delta: &Delta) -> Vec<PathBytes> {
        let is_gone = |change: &Change| matches!(change, Change::Gone { left: false });
        let is_new = |path: &PathBytes, change: &Change| {
            matches!(change, Change::Put { entered: false, .. })
                && !self.now.0.contains_key(path)
                && !self.moved.contains_key(path)
                && (below(&delta.0, path).any(|(_, change)| is_gone(change))
                    || to_root(path).any(|at| delta.0.get(at).is_some_and(is_gone)))
        };
        let new = delta.0.iter().filter(|(path, change)| is_new(path, change));
        new.map(|(path, _)| path.clone()).collect()
    }

    /// Finds renames: new paths whose content is that of exactly one removed path.
    fn moves(&self, delta: &Delta) -> Vec<(PathBytes, PathBytes)> {
        let mut gone: BTreeMap<ContentHash, Vec<&PathBytes>> = BTreeMap::new();
        let mut new: BTreeMap<ContentHash, Vec<&PathBytes>> = BTreeMap::new();
        for (path, change) in &delta.0 {
            let (before, paths) = match change {
                Change::Gone { left: false } => (self.now.0.get(path), &mut gone),
                Change::Put { item, .. } if !self.now.0.contains_key(path) => {
                    (Some(item), &mut new)
                }
                Change::Put { .. } | Change::Gone { .. } => continue,
            };
            if let Some(Item::File {
                hash, bytes: 1.., ..
            }) = before
            {
                paths.entry(*hash).or_default().push(path);
            }
        }
        let mut moves = Vec::new();
        for (hash, to) in new {
            let from = gone.get(&hash).map_or(&[][..], Vec::as_slice);
            if let ([to], [from]) = (&to[..], from) {
                moves.push(((*to).clone(), (*from).clone()));
            }
        }
        moves
    }
}

pub(super) fn absolute(root: &str, path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    path::join(root, &path)
}

/// Returns who made a path what it is. It is `Us` if each call wrote onto the result of the
/// previous one.
fn of_call(
    written: &[Written],
    path: &str,
    before: Option<&Item>,
    to: Option<&Item>,
) -> Option<By> {
    let mut its = written.iter().filter(|w| w.path == path).peekable();
    let first = its.peek()?;
    let hash = |item: Option<&Item>| item.and_then(Item::content).map(hex);
    let began_on_it = first.before == hash(before);
    let is_its = its
        .last()
        .is_some_and(|last| Some(&last.after) == hash(to).as_ref());
    Some(if began_on_it && is_its {
        By::Us
    } else {
        By::Outside
    })
}

pub(super) fn hex(hash: &ContentHash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether a restore gives such a name to content of others.
pub(super) fn is_beside(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name.windows(ENDING.len()).any(|part| part == ENDING)
}
