//! The files of a shared session in the database, and reading them. `docs/fleet.md` has the format.
//!
//! Invariant: rows may be written by other programs. Everything is verified before anything is used,
//! and an error names the session.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::SharedError;
use super::log::{SharedLog, StoredObject};
use crate::bundle::path_refusal;
use crate::core::file_name::path_text;
use crate::core::tree::{Change, ContentHash, Delta, Item};
use crate::journal::line::MAX_HELD;

/// Maximum size of the content of a file, bytes.
pub const MAX_CONTENT: u64 = 8 << 20;
/// Maximum size of the commits of a session, bytes, also of a tree as it is stored.
pub const MAX_OBJECT: u64 = 64 << 20;
/// Maximum size of a tree before compression, bytes, and in memory.
const MAX_TREE: usize = MAX_HELD;
/// Maximum size of all contents of a state, bytes.
const MAX_CONTENTS: u64 = 4 << 30;
/// Maximum length of the JSON, bytes, as in the table.
const MAX_JSON: usize = 100_000;
/// Number of contents of a request: all have the maximum size together that is read at once.
const HASHES_AT_ONCE: usize = MAX_HELD / MAX_CONTENT as usize;
const LEVEL: i32 = 3;
/// Name of the git bundle in the folder of [`fetch`].
pub const COMMITS: &str = "commits.bundle";

/// Where the last files of a session are: the column `files` of `sessions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// The root of the workspace on the machine that recorded it.
    pub root: String,
    /// The commit that a clone needs. Contents that it has are not in the database.
    pub base: String,
    /// The commit that was checked out. `base` is an ancestor of it, or the same.
    pub head: String,
    /// The blake3 of a git bundle `base..head`, if they differ.
    pub bundle: Option<String>,
    /// The name of the tree in the log.
    pub tree: String,
    /// The blake3 of the object with the tree.
    pub tree_object: String,
    /// Number of contents that are too large, or not stored.
    pub left_out: u64,
}

impl Files {
    /// Reads the JSON of a row.
    ///
    /// # Errors
    /// Returns why it is not valid.
    pub fn read(json: &str) -> Result<Files, String> {
        if json.len() > MAX_JSON {
            return Err("it is too long".to_string());
        }
        let files: Files = serde_json::from_str(json).map_err(|e| e.to_string())?;
        let is_hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let is_commit = |name: &str| is_hex(name) && matches!(name.len(), 40 | 64);
        let is_hash = |name: &String| is_hex(name) && name.len() == 64;
        if !is_commit(&files.base) || !is_commit(&files.head) {
            return Err("it names no commit".to_string());
        }
        if !is_hash(&files.tree_object) || !files.bundle.iter().all(is_hash) {
            return Err("it names no object".to_string());
        }
        if (files.base != files.head) != files.bundle.is_some() {
            return Err("it has no commits between base and head, or needs none".to_string());
        }
        Ok(files)
    }
}

/// Encodes the changes of files for an object.
///
/// # Errors
/// It is too large.
pub fn encode_tree(changes: &Delta) -> Result<Vec<u8>, String> {
    let encoded = changes.encode();
    let body = zstd::bulk::compress(&encoded, LEVEL).map_err(|e| e.to_string())?;
    match encoded.len() <= MAX_TREE && body.len() as u64 <= MAX_OBJECT {
        true => Ok(body),
        false => Err("the tree is too large".to_string()),
    }
}

/// Decodes an object, and checks each path.
fn decode_tree(body: &[u8]) -> Result<Delta, String> {
    let encoded = zstd::bulk::decompress(body, MAX_TREE)
        .map_err(|_| "the tree of its files cannot be unpacked, or is too large")?;
    let changes = Delta::decode_within(&encoded, MAX_TREE)
        .map_err(|why| format!("the tree of its files: {why}"))?;
    for path in changes.0.keys() {
        let why = match path.starts_with(b"/") {
            true => Some("is absolute"),
            false => path_refusal(path),
        };
        if let Some(why) = why {
            return Err(format!("the path {} {why}", path_text(path)));
        }
    }
    Ok(changes)
}

/// Returns the contents that an object with changes needs.
pub fn contents_of(changes: &Delta) -> BTreeSet<ContentHash> {
    let contents = changes.0.values().filter_map(|change| match change {
        Change::Put {
            item,
            entered: false,
        } => item.content().copied(),
        _ => None,
    });
    contents.collect()
}

/// Returns the name of an object in the folder of [`fetch`].
pub fn file_name(hash: &ContentHash) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}

/// Fetches the tree of the files, their contents and the commits. Writes each content into the folder
/// under its hash, and the commits as [`COMMITS`]. The folder is private and empty.
///
/// # Errors
/// The server does not answer, or an object is missing, damaged or too large.
pub async fn fetch<L: SharedLog>(
    log: &mut L,
    session: &str,
    files: &Files,
    folder: &Path,
) -> Result<Delta, SharedError> {
    let refused = |why: &dyn Display| refused(session, why);
    let hash_of = |hex: &str| blake3::Hash::from_hex(hex).map_err(|e| refused(&e));
    let tree = *hash_of(&files.tree_object)?.as_bytes();
    let found = log.objects(session, &[tree]).await?;
    let (_, body) = whole(session, &[tree], found)?.remove(0);
    let changes = decode_tree(&body).map_err(|why| refused(&why))?;
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.join(name), bytes).map_err(|error| SharedError::Failed {
            what: format!("cannot write the files of session {session}: {error}"),
        })
    };
    let hashes: Vec<ContentHash> = contents_of(&changes).into_iter().collect();
    let mut bytes = 0;
    for part in hashes.chunks(HASHES_AT_ONCE) {
        let found = log.objects(session, part).await?;
        for (hash, content) in whole(session, part, found)? {
            bytes += content.len() as u64;
            if content.len() as u64 > MAX_CONTENT || bytes > MAX_CONTENTS {
                return Err(refused(&"its files are too large"));
            }
            write(&file_name(&hash), &content)?;
        }
    }
    if let Some(bundle) = &files.bundle {
        let hash = *hash_of(bundle)?.as_bytes();
        let found = log.objects(session, &[hash]).await?;
        write(COMMITS, &whole(session, &[hash], found)?.remove(0).1)?;
    }
    Ok(changes)
}

/// Returns the error of a session whose files are not used.
pub fn refused(session: &str, why: &dyn Display) -> SharedError {
    SharedError::setup(
        format!("session {session}: {why}"),
        "its rows in the database are damaged, or another program wrote them",
    )
}

/// Checks that all of these objects are there, with their hashes.
fn whole(
    session: &str,
    wanted: &[ContentHash],
    found: Vec<StoredObject>,
) -> Result<Vec<StoredObject>, SharedError> {
    for (hash, bytes) in &found {
        if blake3::hash(bytes).as_bytes() != hash {
            let why = format!("the object {} does not match its hash", file_name(hash));
            return Err(refused(session, &why));
        }
    }
    let has = |hash: &&ContentHash| found.iter().any(|(of, _)| of == *hash);
    match wanted.iter().find(|hash| !has(hash)) {
        None => Ok(found),
        Some(hash) => {
            let why = format!("the object {} is missing or too large", file_name(hash));
            Err(refused(session, &why))
        }
    }
}

/// Returns whether a content that is not stored is left out. Other things without a content are no
/// files.
pub(super) fn is_left_out(item: &Item) -> bool {
    use crate::core::tree::Marked::{Device, Fifo, Mount, Socket};
    match item {
        Item::Marker { why, .. } => !matches!(why, Fifo | Socket | Device | Mount),
        Item::File { .. } | Item::Link { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::tree::Tree;

    #[test]
    fn only_valid_json_is_read() {
        let files = Files {
            root: "/work".into(),
            base: "a".repeat(40),
            head: "b".repeat(40),
            bundle: Some("c".repeat(64)),
            tree: "d".repeat(32),
            tree_object: "e".repeat(64),
            left_out: 1,
        };
        let json = serde_json::to_string(&files).unwrap();
        assert_eq!(Files::read(&json), Ok(files));
        for (old, new) in [
            ("a".repeat(40), "--upload-pack=x".to_string()),
            ("a".repeat(40), "a".repeat(39)),
            ("b".repeat(40), "HEAD".to_string()),
            ("b".repeat(40), "B".repeat(40)),
            ("b".repeat(40), "a".repeat(40)),
            (format!("\"{}\"", "c".repeat(64)), "null".to_string()),
            ("c".repeat(64), "../../c".to_string()),
            ("e".repeat(64), String::new()),
            ("\"left_out\":1".to_string(), "\"left_out\":-1".to_string()),
            ("/work".to_string(), "x".repeat(MAX_JSON)),
        ] {
            let changed = json.replace(&old, &new);
            assert_ne!(changed, json);
            assert!(Files::read(&changed).is_err(), "{changed}");
        }
    }

    #[test]
    fn a_tree_with_a_path_that_leads_outside_is_refused() {
        let encoded = |path: &str| {
            let item = Item::Link {
                target: b"x".into(),
            };
            let tree = Tree([(path.as_bytes().to_vec(), item)].into());
            decode_tree(&encode_tree(&tree.whole()).unwrap())
        };
        for fine in ["a", "-a", "a\nb/c", "a/.gitignore", "..a"] {
            assert!(encoded(fine).is_ok(), "{fine}");
        }
        for path in [
            "/a",
            "../a",
            "a/../b",
            "a/./b",
            "a//b",
            "a/",
            ".git",
            "a/.GIT/config",
            ".g\u{200c}it/x",
            "a\0b",
        ] {
            assert!(encoded(path).is_err(), "{path:?}");
        }
        assert!(decode_tree(b"x").is_err());
        let many = zstd::bulk::compress(&vec![0; MAX_TREE + 1], LEVEL).unwrap();
        assert!(decode_tree(&many).unwrap_err().contains("too large"));
    }
}
