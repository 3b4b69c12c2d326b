//! Which entries the copies have, read without the code of the recovery: a row that SQL returns as it
//! was recorded, or a line of a journal as it was written.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io::Read;
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, Row};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::store::matrix::damage::all;

/// A tip in hex.
pub type Tip = String;

/// The columns of a row of `entries`, as SQL returns them.
type Columns = Vec<Value>;

/// An entry that was acknowledged.
#[derive(Clone)]
struct Known {
    row: i64,
    columns: Columns,
    json: String,
}

/// All entries that were acknowledged, and the chain of each session.
#[derive(Clone, Default)]
pub struct Log {
    entries: HashMap<Tip, Known>,
    pub chains: BTreeMap<String, Vec<Tip>>,
}

/// The entries that the copies have.
#[derive(Default)]
pub struct Had {
    tips: HashSet<Tip>,
    /// Sessions of which a readable row or header says the ID.
    pub named: BTreeSet<String>,
}

const SELECT: &str = "SELECT parent, session, seq, at_ms, kind, checksum, body, tip FROM entries
   WHERE id = ?1";

fn columns(row: &Row<'_>) -> rusqlite::Result<Columns> {
    (0..8).map(|n| row.get(n)).collect()
}

fn hex(bytes: &[u8]) -> Tip {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn json(body: &Value) -> String {
    match body {
        Value::Text(json) => json.clone(),
        Value::Blob(packed) => String::from_utf8(zstd::decode_all(&packed[..]).unwrap()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Calls `look` with a copy of the database, since SQLite would change its files.
fn with_copy<T>(data: &Path, look: impl FnOnce(&Connection) -> T) -> Option<T> {
    let dir = tempfile::tempdir().unwrap();
    for name in ["rewake.db", "rewake.db-wal"] {
        let _ = fs::copy(data.join(name), dir.path().join(name));
    }
    let path = dir.path().join("rewake.db");
    if fs::metadata(&path).ok()?.len() == 0 {
        return None;
    }
    let conn = Connection::open(path).ok()?;
    Some(look(&conn))
}

impl Log {
    /// Adds the entries and chains of an undamaged database.
    pub fn add(&mut self, data: &Path) {
        with_copy(data, |conn| {
            let mut rows = HashMap::new();
            let mut ids = conn.prepare("SELECT id FROM entries").unwrap();
            let ids = ids.query_map([], |row| row.get(0)).unwrap();
            for id in ids.map(|id| id.unwrap()).collect::<Vec<i64>>() {
                let columns = conn.query_row(SELECT, [id], columns).unwrap();
                let Value::Blob(tip) = &columns[7] else {
                    panic!("no tip");
                };
                let tip = hex(tip);
                rows.insert(id, (columns[0].clone(), tip.clone()));
                let json = json(&columns[6]);
                let known = Known {
                    row: id,
                    columns,
                    json,
                };
                self.entries.insert(tip, known);
            }
            let mut heads = conn.prepare("SELECT id, head FROM sessions").unwrap();
            let heads = heads.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
            for (session, head) in heads
                .unwrap()
                .map(|head| head.unwrap())
                .collect::<Vec<(String, i64)>>()
            {
                let (mut chain, mut at) = (Vec::new(), Value::Integer(head));
                while let Value::Integer(id) = at {
                    let (parent, tip) = &rows[&id];
                    chain.push(tip.clone());
                    at = parent.clone();
                }
                chain.reverse();
                self.chains.insert(session, chain);
            }
        })
        .unwrap();
    }

    /// Returns what the copies in this data folder have.
    pub fn had(&self, data: &Path) -> Had {
        let mut had = Had::default();
        self.in_database(data, &mut had);
        self.in_journals(&data.join("journal"), &mut had);
        had
    }

    fn in_database(&self, data: &Path, had: &mut Had) {
        with_copy(data, |conn| {
            for (tip, known) in &self.entries {
                let read = conn.query_row(SELECT, [known.row], columns);
                if read.is_ok_and(|read| read == known.columns) {
                    had.tips.insert(tip.clone());
                }
            }
            for key in 1..=9 {
                let sql = "SELECT id FROM sessions WHERE key = ?1";
                let id = conn.query_row(sql, [key], |row| row.get::<_, String>(0));
                had.named
                    .extend(id.ok().filter(|id| self.chains.contains_key(id)));
            }
        });
    }

    /// The same of the journals in this folder alone, also of those that were set aside.
    pub fn in_journals(&self, journal: &Path, had: &mut Had) {
        for path in all(journal) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let folder = path
                .parent()
                .unwrap()
                .file_name()
                .unwrap()
                .to_string_lossy();
            let session = folder.split('.').next().unwrap().to_string();
            let bytes = fs::read(&path).unwrap_or_default();
            if name == "tail.jsonl" || name.ends_with(".closed.jsonl") {
                self.in_lines(&bytes, &session, had);
            } else if name.ends_with(".jsonl.zst") {
                let magic = [0x28, 0xb5, 0x2f, 0xfd];
                for at in 0..bytes.len() {
                    if bytes[at..].starts_with(&magic) {
                        let mut lines = Vec::new();
                        let frame =
                            zstd::Decoder::new(&bytes[at..]).map(zstd::Decoder::single_frame);
                        // What comes before the damage is in `lines` after an error too.
                        let _ = frame.map(|mut frame| frame.read_to_end(&mut lines));
                        self.in_lines(&lines, &session, had);
                    }
                }
            }
        }
    }

    fn in_lines(&self, bytes: &[u8], session: &str, had: &mut Had) {
        #[derive(Deserialize)]
        struct Entry {
            seq: i64,
            at_ms: i64,
            tip: Tip,
            entry: Box<RawValue>,
        }
        #[derive(Deserialize)]
        struct Header {
            rewake: u32,
            session: String,
        }
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        for line in bytes[..whole].split(|byte| *byte == b'\n') {
            if let Ok(line) = serde_json::from_slice::<Entry>(line)
                && let Some(known) = self.entries.get(&line.tip)
                && known.columns[2] == Value::Integer(line.seq)
                && known.columns[3] == Value::Integer(line.at_ms)
                && known.json == line.entry.get()
            {
                had.tips.insert(line.tip);
            } else if let Ok(header) = serde_json::from_slice::<Header>(line)
                && header.rewake == 1
                && header.session == session
                && self.chains.contains_key(session)
            {
                had.named.insert(header.session);
            }
        }
    }
}

impl Had {
    /// Returns the length of the part of this chain that the copies have without a gap.
    pub fn upto(&self, chain: &[Tip]) -> usize {
        let missing = chain.iter().position(|tip| !self.tips.contains(tip));
        missing.unwrap_or(chain.len())
    }
}

/// Returns the chains of all sessions in this database. It is undamaged.
pub fn chains(data: &Path) -> BTreeMap<String, Vec<Tip>> {
    let mut log = Log::default();
    log.add(data);
    log.chains
}
