//! What each file must be: its whole past is kept, and each rule is said once, for one file.

/// Two at the root, two in a folder that comes and goes with them.
pub const PATHS: [&str; 4] = ["a", "b", "d/x", "d/y"];

/// A file is three figures, far enough apart that changes of two of them never collide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub cells: [u32; 3],
    pub is_executable: bool,
}

pub type State = Option<File>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    /// Another figure at this place.
    Cell(usize),
    All,
    Remove,
    Mode,
}

/// Who changed a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Tool,
    Command,
    Hand,
}

#[derive(Debug, Clone)]
enum Event {
    Changed {
        to: State,
        by: Way,
        /// Changes by hand between the same two snapshots are one.
        snapshot: usize,
    },
    SetBack(State),
}

/// A place of the history that the files can be set back to.
#[derive(Debug, Clone)]
pub struct Place {
    pub seq: u64,
    /// How many events each file had by then.
    events: [usize; 4],
}

#[derive(Default)]
pub struct Model {
    events: [Vec<Event>; 4],
    now: [State; 4],
    pub places: Vec<Place>,
    /// The files before they were set back last.
    pub before_last: Option<Place>,
    snapshots: usize,
    figure: u32,
}

type Links = Vec<(State, Way)>;

fn end(start: &State, links: &Links) -> State {
    links.last().map_or(start, |(to, _)| to).clone()
}

impl Model {
    pub fn now(&self, path: usize) -> &State {
        &self.now[path]
    }

    /// Each figure is a new one, so that no file is twice the same by chance.
    pub fn changed(&mut self, path: usize, edit: Edit, by: Way) {
        let mut figure = || {
            self.figure += 1;
            self.figure
        };
        let all = [figure(), figure(), figure()];
        let to = match (edit, self.now[path].clone()) {
            (Edit::Remove, _) | (Edit::Mode, None) => None,
            (Edit::Cell(cell), Some(mut file)) => {
                file.cells[cell] = all[cell];
                Some(file)
            }
            (Edit::Mode, Some(file)) => Some(File {
                is_executable: !file.is_executable,
                ..file
            }),
            (Edit::Cell(_) | Edit::All, before) => Some(File {
                cells: all,
                is_executable: before.is_some_and(|file| file.is_executable),
            }),
        };
        if by != Way::Hand {
            self.snapshots += 1;
        }
        let snapshot = self.snapshots;
        self.now[path] = to.clone();
        self.events[path].push(Event::Changed { to, by, snapshot });
    }

    fn place(&self, seq: u64) -> Place {
        Place {
            seq,
            events: std::array::from_fn(|path| self.events[path].len()),
        }
    }

    /// All that happened so far is in a snapshot.
    pub fn reached(&mut self, seq: u64) {
        self.snapshots += 1;
        self.places.push(self.place(seq));
    }

    fn state_at(&self, path: usize, events: usize) -> State {
        match self.events[path][..events].last() {
            Some(Event::Changed { to, .. } | Event::SetBack(to)) => to.clone(),
            None => None,
        }
    }

    /// The changes since a place. One that was set back to something it was before is as it was
    /// then: what came later never happened.
    fn links(&self, path: usize, from: usize, start: &State) -> Links {
        let mut links: Links = Vec::new();
        let mut pasts: Vec<Links> = vec![Vec::new()];
        let mut last = None;
        for event in &self.events[path][from..] {
            match event {
                Event::Changed { to, by, snapshot } => {
                    if last == Some(*snapshot) && *by == Way::Hand {
                        links.pop();
                    }
                    let is_change = end(start, &links) != *to;
                    last = (is_change && *by == Way::Hand).then_some(*snapshot);
                    if is_change {
                        links.push((to.clone(), *by));
                    }
                }
                Event::SetBack(to) => {
                    last = None;
                    let was = pasts.iter().rev().find(|past| end(start, past) == *to);
                    match was.cloned() {
                        Some(past) => links = past,
                        None => links.push((to.clone(), Way::Tool)),
                    }
                }
            }
            pasts.push(links.clone());
        }
        links
    }

    /// What each file is to be when it is set back to a place.
    pub fn rewound(
        &self,
        place: &Place,
        whole: bool,
        chosen: &[(usize, bool)],
        only: Option<&[usize]>,
    ) -> [State; 4] {
        std::array::from_fn(|path| {
            let now = self.now[path].clone();
            let choice = chosen.iter().rev().find(|(at, _)| *at == path);
            if only.is_some_and(|only| !only.contains(&path)) || choice.is_some_and(|c| !c.1) {
                return now;
            }
            let start = self.state_at(path, place.events[path]);
            if now == start || whole || choice.is_some() {
                return start;
            }
            let links = self.links(path, place.events[path], &start);
            let has = |by| links.iter().any(|link| link.1 == by);
            let is_by_hand_alone = links.iter().all(|link| link.1 == Way::Hand);
            match has(Way::Hand) {
                _ if is_by_hand_alone => now,
                // What a command made is not removed without being asked for.
                false if start.is_none() && has(Way::Command) => now,
                false => start,
                true => merged(&start, &links).unwrap_or(now),
            }
        })
    }

    pub fn set_back(&mut self, to: [State; 4]) {
        if to == self.now {
            return;
        }
        self.before_last = Some(self.place(0));
        for (path, to) in to.into_iter().enumerate() {
            if self.now[path] != to {
                self.events[path].push(Event::SetBack(to.clone()));
                self.now[path] = to;
            }
        }
    }
}

/// The changes by hand put onto what it was. `None`: they collide with the others.
fn merged(start: &State, links: &Links) -> Option<State> {
    let mut made = start.clone();
    let mut was = start.clone();
    for (to, by) in links {
        if *by == Way::Hand {
            made = put_onto(&was, to, &made)?;
        }
        was.clone_from(to);
    }
    (made.is_some() || links.last().is_some_and(|(to, _)| to.is_none())).then_some(made)
}

fn put_onto(before: &State, by_hand: &State, onto: &State) -> Option<State> {
    if before == onto || by_hand == onto {
        return Some(by_hand.clone());
    }
    let (before, by_hand, onto) = (before.as_ref()?, by_hand.as_ref()?, onto.as_ref()?);
    let mut file = onto.clone();
    for (cell, figure) in file.cells.iter_mut().enumerate() {
        let (was, is) = (before.cells[cell], by_hand.cells[cell]);
        match was == is || *figure == is {
            true => {}
            false if *figure == was => *figure = is,
            false => return None,
        }
    }
    if before.is_executable != by_hand.is_executable {
        file.is_executable = by_hand.is_executable;
    }
    Some(Some(file))
}
