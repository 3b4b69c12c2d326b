//! Finds the file that defines what a name means: along `use`, through what a `mod.rs` re-exports,
//! and through modules and names that are in scope. Methods and macros are left out.

use std::collections::{BTreeMap, BTreeSet};

use super::{modules, tokens};

/// The path of a module or an item from the root: `core::entry` is `["core", "entry"]`.
pub(super) type Module = Vec<String>;

/// A module of the tree, which is a file or a block in a file.
#[derive(Default)]
struct Scope {
    /// Modules and items that are defined here.
    defined: BTreeSet<String>,
    /// Imported names.
    imported: BTreeMap<String, Module>,
    /// Modules of which all names are imported.
    globs: Vec<Module>,
}

/// All modules of the sources, and the names in each.
pub(super) struct Names {
    files: BTreeMap<Module, Vec<String>>,
    scopes: BTreeMap<Module, Scope>,
}

/// For each file the files that it uses, each with the names that lead there.
pub(super) type Uses = BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>;

impl Names {
    /// Reads sources, given by their paths and texts. The roots of crates are left out.
    pub(super) fn of(sources: &[(String, String)]) -> Names {
        let files: BTreeMap<Module, Vec<String>> = sources
            .iter()
            .map(|(path, text)| (modules(path), tokens(text).into_iter()))
            .filter(|(module, _)| !module.is_empty())
            .map(|(module, tokens)| (module, tokens.map(|(_, token)| token).collect()))
            .collect();
        let mut scopes: BTreeMap<Module, Scope> = BTreeMap::new();
        let mut define = |module: &[String], name: &str| {
            let scope = scopes.entry(module.to_vec()).or_default();
            scope.defined.insert(name.to_string());
        };
        for (module, tokens) in &files {
            for depth in 0..module.len() {
                define(&module[..depth], &module[depth]);
            }
            each_token(module, tokens, |here, at, is_top| {
                let is_definition = is_top
                    && matches!(
                        tokens[at].as_str(),
                        "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static"
                    );
                if let Some(name) = tokens.get(at + 1)
                    && (is_definition || tokens[at] == "mod")
                {
                    define(here, name);
                }
            });
        }
        let mut names = Names { files, scopes };
        let mut imports = Vec::new();
        for (module, tokens) in &names.files {
            each_token(module, tokens, |here, at, _| {
                if tokens[at] == "use" {
                    let mut leaves = Vec::new();
                    leaves_of(tokens, at + 1, &Vec::new(), &mut leaves);
                    imports.extend(leaves.into_iter().map(|leaf| (here.clone(), leaf)));
                }
            });
        }
        for (here, (name, path)) in imports {
            let Some(path) = names.absolute(&here, &path) else {
                continue;
            };
            let scope = names.scopes.entry(here).or_default();
            if name == "*" {
                scope.globs.push(path);
            } else if name != "_" {
                scope.imported.insert(name, path);
            }
        }
        names
    }

    /// Returns the files that each file uses. A re-export of what is below a module is no use.
    pub(super) fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (module, tokens) in &self.files {
            let mut used: BTreeMap<Module, BTreeSet<String>> = BTreeMap::new();
            let mut end_of_use = 0;
            each_token(module, tokens, |here, at, _| {
                let word = |i: usize| tokens.get(i).map_or("", String::as_str);
                let mut add = |path: &[String], is_reexport: bool| {
                    let Some(path) = self.absolute(here, path) else {
                        return;
                    };
                    let is_own = is_reexport && path.starts_with(module);
                    if let Some(file) = self.file_of(&path).filter(|f| f != module && !is_own) {
                        let names: &mut BTreeSet<String> = used.entry(file).or_default();
                        names.insert(path.join("::"));
                    }
                };
                if word(at) == "use" && at >= end_of_use {
                    let is_reexport = at > 0 && matches!(word(at - 1), "pub" | ")");
                    let mut leaves = Vec::new();
                    end_of_use = leaves_of(tokens, at + 1, &Vec::new(), &mut leaves);
                    leaves.iter().for_each(|(_, path)| add(path, is_reexport));
                } else if at >= end_of_use && (at == 0 || !NOT_BEFORE.contains(&word(at - 1))) {
                    let mut path = vec![word(at).to_string()];
                    let mut next = at + 1;
                    while word(next) == "::" && word(next + 1).starts_with(is_of_word) {
                        path.push(word(next + 1).to_string());
                        next += 2;
                    }
                    let is_path = path.len() > 1 || word(at).starts_with(char::is_uppercase);
                    if is_path || matches!(word(next), "(" | ")" | ",") {
                        add(&path, false);
                    }
                }
            });
            uses.insert(module.clone(), used);
        }
        uses
    }

    /// Returns a path of a module from the root. `None`: it leads to another crate.
    fn absolute(&self, here: &Module, path: &[String]) -> Option<Module> {
        let (first, mut rest) = path.split_first()?;
        let mut start = match first.as_str() {
            "crate" => Vec::new(),
            "self" => here.clone(),
            "super" => here[..here.len().checked_sub(1)?].to_vec(),
            name => self.named(here, name, 0)?,
        };
        while rest.first().is_some_and(|name| name == "super") {
            start.pop();
            rest = &rest[1..];
        }
        Some([&start, rest].concat())
    }

    /// Returns the path of a name in a module, which may have imported it.
    fn named(&self, module: &[String], name: &str, depth: usize) -> Option<Module> {
        let scope = self.scopes.get(module)?;
        if scope.defined.contains(name) {
            return Some([module, &[name.to_string()]].concat());
        }
        let imported = scope.imported.get(name).cloned();
        imported.or_else(|| {
            // Two modules may import all of each other.
            let globs = scope.globs.iter().filter(|_| depth < MAX_DEPTH);
            let mut found = globs.filter_map(|glob| self.named(glob, name, depth + 1));
            found.next()
        })
    }

    /// Returns the file that defines the item of a path. `None`: the path is only a module, whose
    /// items are used with its name.
    fn file_of(&self, path: &[String]) -> Option<Module> {
        let mut path = path.to_vec();
        let mut known = 0;
        for _ in 0..MAX_STEPS {
            let name = path.get(known)?;
            let next = &path[..=known];
            if self.scopes.contains_key(next) || self.files.contains_key(next) {
                known += 1;
                continue;
            }
            match self.named(&path[..known], name, 0) {
                Some(meant) if meant != next => {
                    path = [&meant, &path[known + 1..]].concat();
                    known = 0;
                }
                _ => {
                    let files = (1..=known).rev().map(|length| &path[..length]);
                    let file = files
                        .into_iter()
                        .find(|file| self.files.contains_key(*file));
                    return file.map(<[String]>::to_vec);
                }
            }
        }
        None
    }
}

/// Maximum number of modules through which a name is imported with `*`.
const MAX_DEPTH: usize = 3;

/// Maximum number of names and re-exports of a path.
const MAX_STEPS: usize = 100;

/// A name after one of these is no name in scope.
const NOT_BEFORE: [&str; 12] = [
    "::", ".", "fn", "mod", "struct", "enum", "trait", "let", "type", "const", "static", "'",
];

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Calls `visit` with the module of each token, and whether the token is outside of all blocks.
fn each_token(module: &Module, tokens: &[String], mut visit: impl FnMut(&Module, usize, bool)) {
    // The module of each open brace, and whether the brace is that of the module.
    let mut open = vec![(module.clone(), true)];
    for at in 0..tokens.len() {
        let Some((here, is_top)) = open.last() else {
            return;
        };
        match tokens[at].as_str() {
            "{" if at >= 2 && tokens[at - 2] == "mod" => {
                let inner = [here.as_slice(), &tokens[at - 1..at]].concat();
                open.push((inner, true));
            }
            "{" => {
                let here = here.clone();
                open.push((here, false));
            }
            "}" => {
                open.pop();
            }
            _ => visit(here, at, *is_top),
        }
    }
}

/// Collects the names of a `use` and their paths, and returns where it ends.
fn leaves_of(
    tokens: &[String],
    mut at: usize,
    base: &Module,
    leaves: &mut Vec<(String, Module)>,
) -> usize {
    let word = |i: usize| tokens.get(i).map_or("", String::as_str);
    let mut path = base.clone();
    loop {
        match word(at) {
            "{" => {
                at += 1;
                while !matches!(word(at), "}" | "") {
                    at = leaves_of(tokens, at, &path, leaves);
                    at += usize::from(word(at) == ",");
                }
                return at + 1;
            }
            "*" => {
                leaves.push(("*".into(), path));
                return at + 1;
            }
            "::" => {}
            // `a::{self}` is `a`.
            "self" if !path.is_empty() => {}
            name if name.starts_with(is_of_word) => path.push(name.to_string()),
            _ => return at,
        }
        at += 1;
        if word(at) == "as" {
            leaves.push((word(at + 1).to_string(), path));
            return at + 2;
        }
        if word(at) != "::" && tokens[at - 1] != "::" {
            let name = path.last().cloned().unwrap_or_default();
            leaves.push((name, path));
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the files that `a::b` with this text uses.
    fn used(text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| (path.to_string(), text.to_string());
        let uses = Names::of(&[
            file(
                "src/a/mod.rs",
                "mod b; mod c; pub use c::{f, Thing}; pub struct Own;",
            ),
            file("src/a/b.rs", text),
            file("src/a/b/rows.rs", "pub fn g() {}"),
            file(
                "src/a/c.rs",
                "pub fn f() {} pub enum Thing { One } pub fn own() {}",
            ),
            file(
                "src/d.rs",
                "pub use crate::a::Thing as Other; pub fn h() {}",
            ),
        ])
        .uses();
        let used = &uses[&vec!["a".to_string(), "b".to_string()]];
        used.keys().map(|module| module.join("::")).collect()
    }

    #[test]
    fn paths_lead_to_the_files_that_define_their_names() {
        for (text, files) in [
            ("use super::c::own;", &["a::c"][..]),
            ("use super::{Own, c::{self, own}};", &["a", "a::c"]),
            ("use crate::d::{h as i, Unknown};", &["d"]),
            (
                "fn f() -> crate::a::c::X { super::super::d::h() }",
                &["a::c", "d"],
            ),
            ("use crate::a::b; use self::x::Y; use std::d::h;", &[]),
            (
                "mod x { use super::super::c::Y; use super::Z; } use super::super::d::W;",
                &["a::c", "d"],
            ),
            ("// use crate::d::h;\nconst X: &str = \"crate::d::h\";", &[]),
        ] {
            assert_eq!(used(text), files, "{text}");
        }
    }

    #[test]
    fn modules_in_scope_and_reexports_lead_to_files() {
        for (text, files) in [
            ("mod rows; fn f() { rows::g() }", &["a::b::rows"][..]),
            ("use super::c; fn f() { c::own() }", &["a::c"]),
            ("use super::c;", &[]),
            ("use super::{Thing, f};", &["a::c"]),
            ("use crate::d::Other; fn f(o: Other) {}", &["a::c"]),
            (
                "use crate::a; fn f() { a::Thing::One; a::Own }",
                &["a", "a::c"],
            ),
            (
                "use super::*; fn g() { f() } fn h(_: Own) {}",
                &["a", "a::c"],
            ),
            ("fn f(x: X) { x.d(); let c = 1; }", &[]),
            ("mod rows; pub use rows::g;", &[]),
            ("mod rows; use rows::g;", &["a::b::rows"]),
        ] {
            assert_eq!(used(text), files, "{text}");
        }
    }
}
