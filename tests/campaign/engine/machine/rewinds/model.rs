//! What each file must be: its whole past is kept, and each rule is said once, for one file.

/// Two at the root, two in a folder that comes and goes with them.
pub const PATHS: [&str; 4] = ["a", "b", "d/x", "d/y"];

/// So many names beside each of them, for what somebody else made of it and a call took away.
const BESIDE: usize = 4;

/// Of the paths and those beside them.
pub const ALL: usize = PATHS.len() * (1 + BESIDE);

/// A path, or one beside it.
pub fn name(path: usize) -> String {
    match path.checked_sub(PATHS.len()) {
        None => PATHS[path].to_string(),
        Some(beside) => match beside % BESIDE {
            0 => format!("{}.rewake-kept", PATHS[beside / BESIDE]),
            number => format!("{}.rewake-kept-{number}", PATHS[beside / BESIDE]),
        },
    }
}

fn beside(path: usize) -> std::ops::Range<usize> {
    let first = PATHS.len() + path * BESIDE;
    first..first + BESIDE
}

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
    /// It was laid beside another path.
    Laid(State),
}

/// A place of the history that the files can be set back to.
#[derive(Debug, Clone)]
pub struct Place {
    pub seq: u64,
    /// How many events each file had by then.
    events: [usize; ALL],
}

pub struct Model {
    events: [Vec<Event>; ALL],
    now: [State; ALL],
    /// Files that a command gave a new name: from which path, to which, and how many events that one
    /// had then.
    moved: Vec<(usize, usize, usize)>,
    pub places: Vec<Place>,
    /// The files before they were set back last.
    pub before_last: Option<Place>,
    snapshots: usize,
    figure: u32,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            events: std::array::from_fn(|_| Vec::new()),
            now: std::array::from_fn(|_| None),
            moved: Vec::new(),
            places: Vec::new(),
            before_last: None,
            snapshots: 0,
            figure: 0,
        }
    }
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

    /// A command renames a file.
    pub fn renamed(&mut self, from: usize, to: usize) {
        self.snapshots += 1;
        let snapshot = self.snapshots;
        let file = self.now[from].take();
        let is_new = self.now[to].is_none();
        self.now[to].clone_from(&file);
        for (path, to) in [(from, None), (to, file)] {
            let by = Way::Command;
            self.events[path].push(Event::Changed { to, by, snapshot });
        }
        if is_new {
            self.moved.push((from, to, self.events[to].len()));
        }
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
            Some(Event::Changed { to, .. } | Event::SetBack(to) | Event::Laid(to)) => to.clone(),
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
                Event::Laid(to) => {
                    last = None;
                    links.push((to.clone(), Way::Hand));
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
    ) -> [State; ALL] {
        let mut to = self.now.clone();
        let mut laid = Vec::new();
        let mut of_command = Vec::new();
        for (path, to) in to.iter_mut().enumerate() {
            let now = self.now[path].clone();
            let choice = chosen.iter().rev().find(|(at, _)| *at == path);
            if only.is_some_and(|only| !only.contains(&path)) || choice.is_some_and(|c| !c.1) {
                continue;
            }
            let start = self.state_at(path, place.events[path]);
            if whole || choice.is_some() {
                *to = start;
                continue;
            }
            let links = self.links(path, place.events[path], &start);
            let has = |by| links.iter().any(|link| link.1 == by);
            let is_by_hand_alone = links.iter().all(|link| link.1 == Way::Hand);
            match has(Way::Hand) {
                _ if is_by_hand_alone => {}
                false if now == start => {}
                // What a command made is not removed without being asked for.
                false if start.is_none() && has(Way::Command) => of_command.push(path),
                false => *to = start,
                true => match merged(&start, &links) {
                    Some(None) if now.is_some() => {}
                    Some(made) => *to = made,
                    None => {
                        if let Some(others) = gone(&start, &links) {
                            laid.push((path, others));
                            *to = start;
                        }
                    }
                },
            }
        }
        // What a command renamed goes from its new place once it is back at the old one.
        for path in of_command {
            let moved = self
                .moved
                .iter()
                .rev()
                .find(|(_, to, at)| *to == path && *at > place.events[path]);
            if moved.is_some_and(|(from, ..)| self.now[*from].is_none() && to[*from].is_some()) {
                to[path] = None;
            }
        }
        for (path, others) in laid {
            for file in others {
                let fits = |at: &usize| to[*at].is_none() || to[*at].as_ref() == Some(&file);
                let at = beside(path).find(fits).expect("a name beside it");
                to[at] = Some(file);
            }
        }
        to
    }

    pub fn set_back(&mut self, to: [State; ALL]) {
        if to == self.now {
            return;
        }
        self.before_last = Some(self.place(0));
        for (path, to) in to.into_iter().enumerate() {
            if self.now[path] != to {
                let is_laid = path >= PATHS.len() && self.now[path].is_none();
                self.events[path].push(match is_laid {
                    true => Event::Laid(to.clone()),
                    false => Event::SetBack(to.clone()),
                });
                self.now[path] = to;
            }
        }
    }
}

/// What others made of a file, where all of it was taken away: it is not there, or is as it was
/// before. What is in another of them is not told twice.
fn gone(start: &State, links: &Links) -> Option<Vec<File>> {
    let last = links.iter().rposition(|link| link.1 == Way::Hand)?;
    links[last].0.as_ref()?;
    let now = end(start, links);
    let mut earlier = std::iter::once(start).chain(links[..last].iter().map(|link| &link.0));
    let is_earlier = earlier.any(|state| *state == now);
    // What is there and was not there is not removed.
    if now.is_some() && (start.is_none() || !is_earlier) {
        return None;
    }
    let mut runs: Vec<(State, State)> = Vec::new();
    for (at, (to, by)) in links.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| &links[at]);
        match (by, before) {
            (Way::Hand, Some((_, Way::Hand))) => runs.last_mut().unwrap().1.clone_from(to),
            (Way::Hand, _) => {
                let was = before.map_or(start, |(was, _)| was);
                runs.push((was.clone(), to.clone()));
            }
            _ => {}
        }
    }
    let mut others: Vec<File> = Vec::new();
    for (was, to) in runs.into_iter().rev() {
        let Some(file) = to.clone().filter(|_| to != now && to != *start) else {
            continue;
        };
        let is_in = |other: &File| {
            let other = Some(other.clone());
            other == to || put_onto(&was, &to, &other) == Some(other)
        };
        if !others.iter().any(is_in) {
            others.push(file);
        }
    }
    Some(others)
}

/// What it was with the changes by hand. `None`: they collide with the others.
fn merged(start: &State, links: &Links) -> Option<State> {
    let mut made = start.clone();
    let mut was = start.clone();
    for (to, by) in links {
        if *by == Way::Hand {
            made = put_onto(&was, to, &made)?;
        }
        was.clone_from(to);
    }
    Some(made)
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
