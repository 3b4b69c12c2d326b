//! Homes whose sessions are in a shared database, and what came of them.

pub mod postgres;

use std::collections::BTreeMap;

use super::{bash, play};
use crate::Home;
use postgres::{Postgres, WORKER};

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
    let calls: Vec<_> = commands.iter().map(|command| bash(command)).collect();
    super::step(text, &calls)
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
