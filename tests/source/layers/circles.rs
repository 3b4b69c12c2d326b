//! No file uses, on whatever way, a file that uses it: each can be read without the ones above
//! it. Unit tests do not count.
//!
//! One kind of circle is only counted. An arrow upward leads from a file to the file of a module
//! that it is inside of (`a::b` uses `a`), and that file uses it, on whatever way. Without these
//! arrows no circle is left.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::name_resolution::{Module, Names, Uses};
use super::threads::code;

/// Arrows upward of today. The number may only fall.
const UPWARD: usize = 144;

/// The rooms of the crates store and session, which have none.
const WITHOUT: [&str; 7] = [
    "bundle", "import", "journal", "recovery", "report", "session", "store",
];

#[test]
fn no_circles_between_files() {
    let mut uses = Names::of(&code()).uses();
    for (user, used) in &mut uses {
        used.retain(|used, _| !user.starts_with(used));
    }
    let circles = circles(&uses);
    assert!(circles.is_empty(), "{}", circles.join("\n\n"));
}

#[test]
fn arrows_upward_become_no_more() {
    let uses = Names::of(&code()).uses();
    let upward = upward(&uses);
    let mut of_rooms: BTreeMap<&str, usize> = BTreeMap::new();
    for (user, _) in &upward {
        *of_rooms.entry(user[0].as_str()).or_default() += 1;
    }
    println!("{} arrows upward: {of_rooms:?}", upward.len());
    let lines: Vec<String> = upward.iter().map(|(_, line)| line.clone()).collect();
    let lines = lines.join("\n");
    assert!(upward.len() <= UPWARD, "{lines}");
    assert!(
        !WITHOUT.iter().any(|room| of_rooms.contains_key(room)),
        "{lines}"
    );
}

/// Returns the files that use an enclosing module which uses them, each with a line about it.
fn upward(uses: &Uses) -> Vec<(&Module, String)> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = reached(uses);
    let each = uses.iter().flat_map(|(user, used)| {
        let above = used.iter().filter(|(used, _)| user.starts_with(used));
        above.map(move |(used, names)| (user, used, names))
    });
    each.filter(|(user, used, _)| reached[used].contains(user))
        .map(|(user, used, names)| (user, line(user, used, names)))
        .collect()
}

/// Returns the shortest circle of each group of files that use each other.
fn circles(uses: &Uses) -> Vec<String> {
    let reached = reached(uses);
    let mut circles: BTreeMap<BTreeSet<&Module>, Vec<&Module>> = BTreeMap::new();
    for (file, used) in reached.iter().filter(|(file, used)| used.contains(*file)) {
        let is_back = |other: &&&Module| reached[**other].contains(file);
        let group = used.iter().filter(is_back).copied().collect();
        let circle = circle(file, uses);
        let shortest = circles.entry(group).or_insert_with(|| circle.clone());
        if circle.len() < shortest.len() {
            *shortest = circle;
        }
    }
    let lines = |circle: Vec<&Module>| {
        let pairs = circle.iter().zip(circle.iter().cycle().skip(1));
        let lines = pairs.map(|(user, used)| line(user, used, &uses[*user][*used]));
        lines.collect::<Vec<_>>().join("\n")
    };
    circles.into_values().map(lines).collect()
}

/// Returns the shortest way from a file to itself.
fn circle<'a>(start: &'a Module, uses: &'a Uses) -> Vec<&'a Module> {
    let mut ways = VecDeque::from([vec![start]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for used in uses[way[way.len() - 1]].keys() {
            if used == start {
                return way;
            }
            if seen.insert(used) {
                ways.push_back([&way[..], &[used]].concat());
            }
        }
    }
    Vec::new()
}

fn line(user: &Module, used: &Module, names: &BTreeSet<String>) -> String {
    let names = names.iter().cloned().collect::<Vec<_>>().join(", ");
    format!("{} uses {}: {names}", user.join("::"), used.join("::"))
}

/// Returns all files that each file uses, directly or not.
fn reached(uses: &Uses) -> BTreeMap<&Module, BTreeSet<&Module>> {
    let of_file = |file: &Module| {
        let mut reached = BTreeSet::new();
        let mut left: Vec<&Module> = uses[file].keys().collect();
        while let Some(file) = left.pop() {
            if reached.insert(file) {
                left.extend(uses[file].keys());
            }
        }
        reached
    };
    uses.keys().map(|file| (file, of_file(file))).collect()
}

#[test]
fn a_circle_is_found_and_named() {
    let found = |files: &[(&str, &str)]| {
        let files = files
            .iter()
            .map(|(path, text)| (path.to_string(), text.to_string()));
        let uses = Names::of(&files.collect::<Vec<_>>()).uses();
        let upward = upward(&uses).into_iter().map(|(_, line)| line);
        (circles(&uses), upward.collect::<Vec<_>>())
    };
    let a = ("src/a.rs", "use crate::b::x; use crate::c::x;");
    let (none, _) = found(&[
        a,
        ("src/b.rs", "use crate::c::x;"),
        ("src/c.rs", "fn x() {}"),
    ]);
    assert_eq!(none, [""; 0]);
    let (one, upward) = found(&[
        a,
        ("src/b.rs", "use crate::c; fn x() { c::x() }"),
        ("src/c.rs", "use crate::b; fn x() { b::x() }"),
    ]);
    assert_eq!(one, ["b uses c: c::x\nc uses b: b::x"]);
    assert_eq!(upward, [""; 0]);
    let (_, upward) = found(&[
        ("src/a.rs", "mod b; fn x() { b::y() } fn z() {}"),
        ("src/a/b.rs", "fn y() { super::z() }"),
        ("src/a/c.rs", "fn y() { super::z() }"),
    ]);
    assert_eq!(upward, ["a::b uses a: a::z"]);
}
