//! The documents name every kind of entry that the code has.

use super::{root, sources};

/// Kinds that no run of `-p` records: other commands do, or the screen.
const NOT_STREAMED: [&str; 5] = ["opened", "assigned", "forked", "user_command", "dismissed"];

#[test]
fn the_documents_list_every_kind_of_entry() {
    let entry = sources("src/core")
        .into_iter()
        .find(|(path, _)| path == "src/core/entry.rs")
        .map(|(_, text)| text)
        .unwrap();
    let (_, body) = entry.split_once("pub fn kind(&self)").unwrap();
    let (body, _) = body.split_once("\n    }\n").unwrap();
    let kinds: Vec<&str> = body.split('"').skip(1).step_by(2).collect();
    assert!(kinds.len() > 25, "{kinds:?}");
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let (storage, headless) = (read("docs/storage.md"), read("docs/headless.md"));
    for kind in kinds {
        assert!(storage.contains(&format!("\n| `{kind}` |")), "{kind}");
        let is_listed = headless.contains(&format!("`entry.{kind}`"));
        assert_eq!(is_listed, !NOT_STREAMED.contains(&kind), "{kind}");
    }
}
