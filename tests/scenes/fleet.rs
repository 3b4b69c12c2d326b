//! Sessions in a shared database, and what the store has of them.

use rewake::store::Store;
use serde_json::Value;
use support::Home;
use support::scenes::fleet::postgres::Postgres;
pub use support::scenes::fleet::*;

pub use super::{newest, refused, until};

/// Checks that the database and the store have the same entries of a session, and returns them.
#[track_caller]
pub fn same(server: &Postgres, home: &Home, session: &str) -> Vec<Value> {
    let mut store = Store::open(&home.rewake_home()).unwrap();
    let (tip, length) = rewake::store::shared::end_of(&mut store, session).unwrap();
    let row = server.sql(&format!(
        "SELECT encode(tip, 'hex'), length,
           (SELECT count(*) FROM rewake.lines l WHERE l.session = s.id)
         FROM rewake.sessions s WHERE id = '{session}'"
    ));
    assert_eq!(row, format!("{tip:?}|{length}|{length}"));
    let (_, records) = store.load(session).unwrap();
    records
        .iter()
        .map(|record| serde_json::to_value(&record.entry).unwrap())
        .collect()
}

/// Every effect happened once, and its session has a result for each.
#[track_caller]
pub fn once(server: &Postgres, home: &Home, n: usize) {
    let counts = happened(home);
    assert_eq!(counts.len(), n, "{counts:?}");
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    let entries = same(server, home, &newest(home));
    let finished = entries.iter().filter(|e| e["kind"] == "finished");
    assert_eq!(finished.count(), n);
}
