//! Tests of both documents, of a session that tries to break out of them.

use serde_json::Value;

use super::*;
use crate::core::entry::*;
use crate::store::{Batch, NewSession, blob_ref, new_id};

const BLOB: &[u8] = b"the whole output";

fn recorded_session() -> (tempfile::TempDir, Store, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let new = NewSession {
        id: new_id(),
        workspace: "/w".into(),
        folder: "/w".into(),
    };
    let opened = Entry::Opened {
        folder: "/w".into(),
        version: "0.1.0".into(),
        model: "s/play".into(),
        mode: Mode::Default,
        layers: PromptPrefix::default(),
        imported: None,
    };
    let (mut head, _) = store.create(&new, 1_000, opened).unwrap();
    let output = Output {
        text: "red \u{1b}[31m```\n# no heading".into(),
        blob: Some(blob_ref(BLOB)),
        images: vec![],
    };
    let entries = vec![
        Entry::Said {
            text: "fix \u{1b}]0;x\u{7}it\u{202e}".into(),
            images: vec![],
            via: Via::Prompt,
            command: None,
            origin: None,
        },
        Entry::Replied {
            blocks: vec![
                Block::text("I look."),
                Block::call("bash", r#"{"command":"echo `date`"}"#),
            ],
            usage: Usage::default(),
            stop: StopReason::ToolUse,
            model: "s/play".into(),
            took_ms: 1,
            asked_bytes: 0,
            source_usage: None,
        },
        Entry::Finished {
            call: CallId { reply: 2, index: 0 },
            outcome: Outcome::Done { output },
            fact: None,
            tree: None,
        },
    ];
    let batch = Batch {
        at_ms: 61_000,
        entries,
        blobs: vec![BLOB.to_vec()],
        ..Batch::default()
    };
    store.append(&mut head, &batch).unwrap();
    (dir, store, new.id)
}

fn text(store: &Store, id: &str, format: Format) -> String {
    let mut out = Vec::new();
    format.write(store, id, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn markdown_tells_it_and_nothing_breaks_out() {
    let (_dir, store, id) = recorded_session();
    let text = text(&store, &id, Format::Markdown);
    let body = text.split_once("out\n").unwrap().1;
    assert_eq!(
        body,
        "
## You, 1970-01-01 00:01:01 UTC

fix ␛]0;x␇it<U+202E>

## s/play, 1970-01-01 00:01:01 UTC

I look.

- calls `` bash echo `date` ``

### `` bash echo `date` ``: done

````text
red ␛[31m```
# no heading
````
"
    );
    assert!(
        !text.chars().any(|c| c.is_control() && c != '\n'),
        "{text:?}"
    );
}

/// Exports an answer with these calls, and returns the part below its title.
fn exported_calls(calls: &[(&str, serde_json::Value)]) -> String {
    let (_dir, mut store, id) = recorded_session();
    let (mut head, _) = store.load(&id).unwrap();
    let calls = calls.iter();
    let blocks = calls.map(|(name, arguments)| Block::call(*name, arguments.to_string()));
    let replied = Entry::Replied {
        blocks: blocks.collect(),
        usage: Usage::default(),
        stop: StopReason::ToolUse,
        model: "s/writer".into(),
        took_ms: 1,
        asked_bytes: 0,
        source_usage: None,
    };
    let batch = Batch {
        at_ms: 62_000,
        entries: vec![replied],
        ..Batch::default()
    };
    store.append(&mut head, &batch).unwrap();
    let text = text(&store, &id, Format::Markdown);
    let (_, body) = text
        .split_once("## s/writer, 1970-01-01 00:01:02 UTC\n")
        .unwrap();
    body.to_string()
}

#[test]
fn markdown_has_what_was_put_into_files() {
    let body = exported_calls(&[
        ("bash", serde_json::json!({ "command": "ls" })),
        (
            "write",
            serde_json::json!({ "path": "a.rs", "content": "fn a() {}\n" }),
        ),
        (
            "edit",
            serde_json::json!({ "path": "b.rs", "edits": [
                { "old": "one\ntwo\n", "new": "one\n2\n" },
                { "old": "x", "new": "y", "all": true },
            ]}),
        ),
    ]);
    assert_eq!(
        body,
        "
- calls `bash ls`
- calls `write a.rs`

```rs
fn a() {}
```

- calls `edit b.rs`

```diff
@@ @@
 one
-two
+2
@@ in every place @@
-x
+y
```
"
    );
}

#[test]
fn exported_file_content_cannot_end_its_code_block() {
    let content = "````\n# no heading\n\u{1b}[31m~~~\n```` \n";
    let body = exported_calls(&[
        (
            "write",
            serde_json::json!({ "path": "a.`````\nb", "content": content }),
        ),
        (
            "edit",
            serde_json::json!({ "path": "b", "edits": [{ "old": "", "new": content }]}),
        ),
    ]);
    // Four backticks do not end a block that five began.
    let blocks = body.matches("\n`````text\n").count() + body.matches("\n`````diff\n").count();
    assert_eq!(blocks, 2, "{body}");
    assert_eq!(body.matches("\n`````\n").count(), 2, "{body}");
    assert!(
        !body.chars().any(|c| c.is_control() && c != '\n'),
        "{body:?}"
    );
}

#[test]
fn json_has_every_record_as_it_is_and_its_blobs() {
    let (_dir, store, id) = recorded_session();
    let json = text(&store, &id, Format::Json);
    let value: Value = serde_json::from_str(&json).unwrap();
    // A terminal that prints the document obeys nothing in it.
    assert!(json.contains(r"it\u202e"), "{json}");
    assert!(!json.contains(|c: char| c == '\u{202e}' || c.is_control() && c != '\n'));
    let records: Vec<Record> = serde_json::from_value(value["records"].clone()).unwrap();
    assert_eq!(records, store.load(&id).unwrap().1);
    assert_eq!(value["session"]["id"], id);
    let blob = &value["blobs"][blob_ref(BLOB).hash];
    assert_eq!(blob["text"], "the whole output");
}

#[test]
fn files_are_private_and_no_other_is_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let (_dir, store, id) = recorded_session();
    let folder = tempfile::tempdir().unwrap();
    let first = to_folder(&store, &id, Format::Json, folder.path()).unwrap();
    let second = to_folder(&store, &id, Format::Json, folder.path()).unwrap();
    assert_ne!(first, second);
    let mode = std::fs::metadata(&second).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let failed = to_folder(&store, "ffff", Format::Json, folder.path());
    assert!(matches!(failed, Err(ExportError::Store(_))));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    let nowhere = folder.path().join("no/folder");
    assert!(to_file(&store, &id, Format::Json, &nowhere, Replace::Yes).is_err());
    let named = folder.path().join("named");
    std::fs::write(&named, "mine").unwrap();
    let refused = to_file(&store, &id, Format::Json, &named, Replace::No);
    assert!(matches!(refused, Err(ExportError::Exists(_))));
    assert_eq!(std::fs::read_to_string(&named).unwrap(), "mine");
    to_file(&store, &id, Format::Json, &named, Replace::Yes).unwrap();
    assert!(std::fs::read_to_string(&named).unwrap().starts_with('{'));
}
