//! No file uses, on whatever way, a file that uses it: each can be read without the ones above
//! it. What a folder's `mod.rs` gives out of its own files does not count, nor do unit tests.

use std::collections::{BTreeMap, BTreeSet};

use super::{modules, sources, tokens, without_tests};

/// The file of a module: `core::entry` is `["core", "entry"]`.
type Module = Vec<String>;
type Uses = BTreeMap<Module, BTreeSet<Module>>;

#[test]
fn no_circles_between_files() {
    let files: BTreeMap<Module, String> = sources("src")
        .into_iter()
        .map(|(path, text)| (modules(&path), text))
        .filter(|(module, _)| !module.iter().any(|name| name == "tests"))
        .collect();
    let known: BTreeSet<Module> = files.keys().cloned().collect();
    let uses: Uses = files
        .iter()
        .map(|(module, text)| (module.clone(), used_by(module, text, &known)))
        .collect();
    let circles = circles(&uses);
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

/// The modules that a file names with a path that begins with `crate`, `super` or `self`.
fn used_by(module: &Module, text: &str, known: &BTreeSet<Module>) -> BTreeSet<Module> {
    let code = without_tests(text);
    let tokens: Vec<String> = tokens(code).into_iter().map(|(_, token)| token).collect();
    let mut used = BTreeSet::new();
    // The module of each open brace: a file may hold further modules.
    let mut inside = vec![module.clone()];
    for at in 0..tokens.len() {
        let here = inside.last().unwrap_or(module);
        let is_start = at == 0 || tokens[at - 1] != "::";
        let base = match tokens[at].as_str() {
            "crate" if is_start => Vec::new(),
            "self" if is_start => here.clone(),
            "super" if is_start => parent(here),
            "{" => {
                let mut opened = here.clone();
                if at >= 2 && tokens[at - 2] == "mod" {
                    opened.push(tokens[at - 1].clone());
                }
                inside.push(opened);
                continue;
            }
            "}" => {
                inside.pop();
                continue;
            }
            _ => continue,
        };
        follow(&tokens, at + 1, base, known, &mut used);
    }
    // What is in a module of a file is in the file.
    let mut used: BTreeSet<Module> = used.into_iter().map(|used| file_of(used, known)).collect();
    used.remove(module);
    used.remove(&Vec::new());
    used
}

fn file_of(mut module: Module, known: &BTreeSet<Module>) -> Module {
    while !module.is_empty() && !known.contains(&module) {
        module.pop();
    }
    module
}

fn parent(module: &Module) -> Module {
    module[..module.len().saturating_sub(1)].to_vec()
}

/// Goes along `::name::{a, b::c}` from a module, as far as names are modules.
fn follow(
    tokens: &[String],
    at: usize,
    base: Module,
    known: &BTreeSet<Module>,
    used: &mut BTreeSet<Module>,
) -> usize {
    let word = |i: usize| tokens.get(i).map_or("", String::as_str);
    if word(at) != "::" {
        used.insert(base);
        return at;
    }
    match word(at + 1) {
        "super" => follow(tokens, at + 2, parent(&base), known, used),
        "{" => {
            let mut next = at + 2;
            while !matches!(word(next), "}" | "") {
                let inner = match word(next) {
                    "," => {
                        next += 1;
                        continue;
                    }
                    "self" => base.clone(),
                    name => below(&base, name, known),
                };
                next = follow(tokens, next + 1, inner, known, used);
                // `as name`
                while !matches!(word(next), "," | "}" | "") {
                    next += 1;
                }
            }
            next + 1
        }
        name => follow(tokens, at + 2, below(&base, name, known), known, used),
    }
}

/// The module of this name, or the one it is an item of.
fn below(base: &Module, name: &str, known: &BTreeSet<Module>) -> Module {
    let mut inner = base.clone();
    inner.push(name.to_string());
    match known.contains(&inner) {
        true => inner,
        false => base.clone(),
    }
}

/// A line for each circle that a walk comes upon.
fn circles(uses: &Uses) -> Vec<String> {
    let mut found = Vec::new();
    let mut done = BTreeSet::new();
    for module in uses.keys() {
        walk(module, uses, &mut Vec::new(), &mut done, &mut found);
    }
    found
}

fn walk<'a>(
    module: &'a Module,
    uses: &'a Uses,
    path: &mut Vec<&'a Module>,
    done: &mut BTreeSet<&'a Module>,
    found: &mut Vec<String>,
) {
    if let Some(from) = path.iter().position(|m| *m == module) {
        let names = path[from..].iter().chain([&module]);
        let names: Vec<String> = names.map(|m| m.join("::")).collect();
        found.push(names.join(" uses "));
        return;
    }
    if done.contains(module) {
        return;
    }
    path.push(module);
    for used in uses.get(module).into_iter().flatten() {
        walk(used, uses, path, done, found);
    }
    path.pop();
    done.insert(module);
}

#[test]
fn paths_lead_to_files() {
    let module = |path: &str| -> Module { path.split("::").map(str::to_string).collect() };
    let known: BTreeSet<Module> = ["a", "a::b", "a::c", "d"].map(module).into();
    let used = |text: &str| -> Vec<String> {
        let used = used_by(&module("a::b"), text, &known);
        used.iter().map(|m| m.join("::")).collect()
    };
    assert_eq!(used("use super::c::Thing;"), ["a::c"]);
    assert_eq!(used("use super::{Thing, c::{self, It}};"), ["a", "a::c"]);
    assert_eq!(used("use crate::d::{A as B, C};"), ["d"]);
    assert_eq!(
        used("fn f() -> crate::a::c::X { super::super::d::g() }"),
        ["a::c", "d"]
    );
    assert_eq!(used("use crate::a::b; use self::x::Y;"), [""; 0]);
    assert_eq!(
        used("mod x { use super::super::c::Y; use super::Z; } use super::super::d::W;"),
        ["a::c", "d"]
    );
    assert_eq!(used("mod x { use super::super::super::d; }"), ["d"]);
    assert_eq!(used("#[cfg(test)]\nmod tests { use crate::d; }"), [""; 0]);
}

#[test]
fn a_circle_is_found_and_named() {
    let module = |name: &str| vec![name.to_string()];
    let uses = |pairs: &[(&str, &[&str])]| -> Uses {
        let each = pairs.iter();
        each.map(|(m, used)| (module(m), used.iter().map(|u| module(u)).collect()))
            .collect()
    };
    let none = uses(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
    assert_eq!(circles(&none), [""; 0]);
    let one = uses(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]);
    assert_eq!(circles(&one), ["b uses c uses b"]);
}
