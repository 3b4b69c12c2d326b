//! Homes with sessions of other agents.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::time::SystemTime;

use serde_json::Value;

use crate::Home;

/// Puts the files of these fixtures below the home folder, with the databases decompressed.
pub fn with(endings: &[&str]) -> Home {
    let home = Home::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/import");
    for entry in std::fs::read_dir(fixtures).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if endings.iter().any(|ending| name.ends_with(ending)) {
            copy(&entry.path(), &home.user());
        }
    }
    home
}

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else if let Some(name) = name.strip_suffix(".gz") {
            let mut bytes = Vec::new();
            let file = std::fs::File::open(&path).unwrap();
            flate2::read::GzDecoder::new(file)
                .read_to_end(&mut bytes)
                .unwrap();
            std::fs::write(to.join(name), bytes).unwrap();
        } else {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

pub fn listed(home: &Home, args: &[&str]) -> Vec<Value> {
    let args = [&["import", "--json"], args].concat();
    let all: Value = serde_json::from_str(&home.run(args).expect(0).stdout).unwrap();
    assert_eq!(all["errors"], serde_json::json!([]));
    all["sessions"].as_array().unwrap().clone()
}

/// Every file below a folder, with its bytes and the time of its last change.
pub fn files(folder: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let changed = entry.metadata().unwrap().modified().unwrap();
            let bytes = std::fs::read(&path).unwrap();
            found.insert(path.display().to_string(), (bytes, changed));
        }
    }
    found
}

/// The fixtures of killed agents, as if they had worked in the workspace of the test.
pub fn here(endings: &[&str]) -> Home {
    let home = with(endings);
    let work = home.workspace().display().to_string();
    rewrite(&home.user(), &work);
    let data = home.user().join(".local/share/opencode/opencode.db");
    if data.exists() {
        let connection = rusqlite::Connection::open(data).unwrap();
        connection
            .execute("UPDATE session SET directory = ?1", [&work])
            .unwrap();
    }
    home
}

pub fn rewrite(folder: &Path, work: &str) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name().into_string().unwrap();
        if path.is_dir() {
            rewrite(&path, work);
        } else if name.ends_with(".jsonl") || name == ".project_root" {
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, text.replace("/tmp/demo", work)).unwrap();
        }
    }
}

/// Imports all, and returns the copies by agent.
pub fn imported(home: &Home) -> BTreeMap<String, String> {
    let ids = home.run(["import", "--yes"]).expect(0).stdout;
    let all = listed(home, &[]);
    assert_eq!(ids.lines().count(), all.len());
    let text = |value: &Value| value.as_str().unwrap().to_string();
    let copies: BTreeMap<String, String> = all
        .iter()
        .map(|one| (text(&one["agent"]), text(&one["imported"])))
        .collect();
    assert!(ids.lines().all(|id| copies.values().any(|copy| copy == id)));
    copies
}
