//! Each mutant names a test that exists. `.ci/mutants` builds only some of them in a run, so that
//! it finds a wrong name late.

use super::{modules, root, sources};

#[test]
fn every_mutant_names_a_test_that_exists() {
    let files = [sources("src"), sources("tests")].concat();
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(root().join("tests/mutants")).unwrap() {
        let path = entry.unwrap().path();
        let patch = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        let named = patch.lines().find_map(|line| {
            line.strip_prefix("# noticed by: cargo test ")?
                .rsplit_once(' ')
        });
        let Some((target, test)) = named else {
            wrong.push(format!("{} names no test", path.display()));
            continue;
        };
        if !files
            .iter()
            .any(|(path, text)| contains(path, text, target, test))
        {
            wrong.push(format!("{}: no {test} in {target}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a file defines a test of a target. The last modules of its name may be within the file.
fn contains(path: &str, text: &str, target: &str, test: &str) -> bool {
    let mut file = match target.strip_prefix("--test ") {
        Some(target) => {
            let mut file = modules(path);
            let is_of_target = file.iter().take(2).eq(["tests", target]);
            if !is_of_target {
                return false;
            }
            file.drain(..2);
            file
        }
        None if path.starts_with("src/") => modules(path),
        None => return false,
    };
    file.retain(|name| name != "main");
    let mut names = test.split("::").collect::<Vec<_>>();
    let name = names.pop().unwrap_or_default();
    text.contains(&format!("fn {name}("))
        && names.len() >= file.len()
        && names.iter().zip(&file).all(|(name, of)| name == of)
        && names[file.len()..]
            .iter()
            .all(|name| text.contains(&format!("mod {name} {{")))
}
