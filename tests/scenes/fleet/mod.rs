//! Homes whose sessions are in a shared database, and what came of them.

pub mod postgres;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use postgres::{Postgres, WORKER};
use rewake::store::Store;
use serde_json::{Value, json};

use super::{LIMIT, play};
use crate::support::{Home, Run};

/// A home whose model plays these answers, and whose sessions may be in this database.
pub fn home(server: &Postgres, port: u16, steps: &[String]) -> Home {
    let home = Home::new();
    play(&home, steps);
    let url = server.url(WORKER);
    let url = url.replace(&server.port.to_string(), &port.to_string());
    configure(&home, &url);
    home
}

pub fn configure(home: &Home, url: &str) {
    home.write_config(&format!(
        "model = \"s/play\"\npermission_mode = \"bypassPermissions\"\n[providers.s]\n\
         protocol = \"script\"\nscript = \"script.toml\"\n[fleet]\nurl = \"{url}\"\n"
    ));
}

/// One answer of the scripted model: words, and commands.
pub fn step(text: &str, commands: &[&str]) -> String {
    let calls: Vec<String> = commands
        .iter()
        .map(|command| {
            let arguments = json!({ "command": command }).to_string();
            format!("{{ name = \"bash\", arguments = {} }}", json!(arguments))
        })
        .collect();
    format!(
        "[[step]]\ntext = {}\ncalls = [{}]\n",
        json!(text),
        calls.join(", ")
    )
}

/// `n` commands, each of which writes its number into a file, then the word "done".
pub fn effects(n: usize) -> Vec<String> {
    let effect = |n| step("", &[&format!("echo {n} >> effects")]);
    (0..n).map(effect).chain([step("done", &[])]).collect()
}

/// How often each effect of [`effects`] happened.
pub fn happened(home: &Home) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in home.read("effects").lines() {
        *counts.entry(line.to_string()).or_default() += 1;
    }
    counts
}

/// Another machine, which may use the same database.
pub fn elsewhere(server: &Postgres) -> Home {
    let other = Home::new();
    play(&other, &[step("", &[]).repeat(4), step("continued", &[])]);
    configure(&other, &server.url(WORKER));
    other
}

#[track_caller]
pub fn when(is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "it did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Until a row of the database is as wanted.
#[track_caller]
pub fn until(server: &Postgres, sql: &str, wanted: impl Fn(&str) -> bool) {
    let end = Instant::now() + LIMIT;
    loop {
        let found = server.sql(sql);
        if wanted(&found) {
            return;
        }
        assert!(Instant::now() < end, "{sql}: {found}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The ID of the newest session of a home.
pub fn newest(home: &Home) -> String {
    let store = Store::open(&home.rewake_home()).unwrap();
    let sessions = store.history().sessions(Default::default(), 1).unwrap();
    sessions.first().expect("a session").id.clone()
}

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

/// Refused with this code, in one line that has these words.
#[track_caller]
pub fn refused(run: Run, code: i32, words: &[&str]) -> Run {
    let run = run.expect(code);
    let errors = run.stderr.lines().filter(|l| l.starts_with("error: "));
    assert_eq!(errors.count(), 1, "{}", run.stderr);
    for word in words {
        assert!(
            run.stderr.contains(word),
            "{word:?} is not in\n{}",
            run.stderr
        );
    }
    run
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
