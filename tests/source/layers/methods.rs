//! Types stay small: a limit on the methods of each type, in all files together.
//!
//! Left out: methods of traits, and unit tests.

use std::collections::{BTreeMap, BTreeSet};

use super::{modules, sources, tokens, without_tests};

const LIMIT: usize = 70;

#[test]
fn types_have_few_methods() {
    let counts = counts(&sources("src"));
    let too_many = counts.iter().filter(|(_, count)| **count > LIMIT);
    let wrong: Vec<String> = too_many
        .map(|(name, count)| format!("{name}: {count} methods, at most {LIMIT} are allowed"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the methods of each type. A type that only borrows another one counts with it.
fn counts(files: &[(String, String)]) -> BTreeMap<String, usize> {
    let files: Vec<(Vec<String>, Vec<String>)> = files
        .iter()
        .map(|(path, text)| (modules(path), text))
        .filter(|(module, _)| !module.iter().any(|name| name == "tests"))
        .map(|(module, text)| {
            let code = without_tests(text);
            (
                module,
                tokens(code).into_iter().map(|(_, token)| token).collect(),
            )
        })
        .collect();
    let types: BTreeSet<Vec<String>> = files
        .iter()
        .flat_map(|(module, tokens)| {
            let named = tokens.windows(2).filter(|pair| is_definition(&pair[0]));
            named.map(|pair| [module.as_slice(), &pair[1..]].concat())
        })
        .collect();
    let mut borrowed = BTreeMap::new();
    let mut methods: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for (module, tokens) in &files {
        for at in 0..tokens.len() {
            if tokens[at] == "struct"
                && let Some(lender) = lender(tokens, at + 2).and_then(|n| find(&types, module, n))
                && let Some(name) = find(&types, module, &tokens[at + 1])
            {
                borrowed.insert(name, lender);
            }
            let starts = at == 0 || ["{", "}", ";", "]"].contains(&tokens[at - 1].as_str());
            if tokens[at] == "impl"
                && starts
                && let Some((name, count)) = implementation(tokens, at + 1)
                && let Some(name) = find(&types, module, name)
            {
                *methods.entry(name).or_default() += count;
            }
        }
    }
    let mut counts = BTreeMap::new();
    for (mut name, count) in methods {
        for _ in 0..borrowed.len() {
            name = borrowed.get(&name).cloned().unwrap_or(name);
        }
        *counts.entry(name.join("::")).or_default() += count;
    }
    counts
}

fn is_definition(word: &str) -> bool {
    matches!(word, "struct" | "enum" | "union")
}

/// Returns the type of this name that is defined nearest to a module.
fn find(types: &BTreeSet<Vec<String>>, module: &[String], name: &str) -> Option<Vec<String>> {
    let named = types
        .iter()
        .filter(|known| known.last().is_some_and(|n| n == name));
    let shared =
        |known: &&Vec<String>| known.iter().zip(module).take_while(|(a, b)| a == b).count();
    named.max_by_key(shared).cloned()
}

/// Returns the type that each field of a struct borrows. `None`: one field borrows nothing, or
/// something else.
fn lender(tokens: &[String], mut at: usize) -> Option<&str> {
    at = after_generics(tokens, at);
    let open = tokens.get(at)?.as_str();
    let close = match open {
        "{" => "}",
        "(" => ")",
        _ => return None,
    };
    let end = at + tokens[at..].iter().position(|token| token == close)?;
    let fields = tokens[at + 1..end].split(|token| token == ",");
    let mut lender = None;
    for field in fields.filter(|field| !field.is_empty()) {
        let borrow = field.iter().position(|token| token == "&")?;
        // Past `'a mut` and the path.
        let name = field[borrow..]
            .iter()
            .filter(|t| t.chars().all(|c| c.is_alphanumeric()));
        let name = name
            .map(String::as_str)
            .find(|t| t.starts_with(char::is_uppercase))?;
        if *lender.get_or_insert(name) != name {
            return None;
        }
    }
    lender
}

/// Returns the type of an `impl` block, and how many functions it has. `None`: it is of a trait.
fn implementation(tokens: &[String], at: usize) -> Option<(&str, usize)> {
    let start = after_generics(tokens, at);
    let body = start + tokens[start..].iter().position(|token| token == "{")?;
    let head = &tokens[start..body];
    let end = head
        .iter()
        .position(|t| t == "where")
        .unwrap_or(body - start);
    if head[..end].iter().any(|token| token == "for") {
        return None;
    }
    let path = head[..end].split(|token| token == "<").next()?;
    let (mut depth, mut count) = (0, 0);
    for token in &tokens[body..] {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "fn" if depth == 1 => count += 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    Some((path.last()?, count))
}

fn after_generics(tokens: &[String], mut at: usize) -> usize {
    let mut depth = 0;
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "<" => depth += 1,
            ">" if tokens[at - 1] != "-" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + usize::from(token == ">");
        }
        at += 1;
    }
    at
}

#[test]
fn methods_count_for_the_type_that_has_the_state() {
    let file = |path: &str, text: &str| (path.to_string(), text.to_string());
    let files = [
        file(
            "src/a/mod.rs",
            "struct Big { n: u8 } impl Big { fn one() { fn inner() {} } }",
        ),
        file(
            "src/a/more.rs",
            "impl super::Big { fn two(&self) -> impl Fn() { || {} } }",
        ),
        file(
            "src/a/view.rs",
            "struct View<'a>(&'a mut Big); impl View<'_> { fn three(&self) {} }",
        ),
        file(
            "src/a/own.rs",
            "struct Own<'a> { big: &'a Big, n: u8 } impl Own<'_> { fn x() {} }",
        ),
        file(
            "src/b.rs",
            "struct Big; impl<T: Fn() -> T> Big { fn x() {} }",
        ),
        file(
            "src/a/trait.rs",
            "impl Clone for Big { fn clone(&self) -> Big {} }",
        ),
        file("src/a/tests.rs", "impl Big { fn x() {} }"),
    ];
    let found = counts(&files);
    let count = |name: &str| found.get(name).copied();
    assert_eq!(count("a::Big"), Some(3));
    assert_eq!((count("a::own::Own"), count("b::Big")), (Some(1), Some(1)));
    assert_eq!(found.len(), 3);
}
