//! A long task in small windows, against a server that refuses what is too long.

use std::time::Duration;

use crate::{Answer, Home, Options, Protocol, Says, Seen, Server};

/// How long one run of the agent may take.
pub const LIMIT: Duration = Duration::from_secs(240);

/// The number of the last file that the request speaks of. The server remembers nothing, so
/// that a request which is sent again after a kill gets the same answer; and what left the
/// context must still be in the note, or the task would start over.
pub fn last_file(seen: &Seen) -> usize {
    let body = String::from_utf8_lossy(&seen.body);
    let numbers = body.match_indices("data/").filter_map(|(at, _)| {
        let rest = &body[at + 5..];
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        rest[digits.len()..]
            .starts_with(".txt")
            .then(|| digits.parse().ok())
            .flatten()
    });
    numbers.max().unwrap_or(0)
}

#[derive(Clone, Copy, PartialEq)]
pub enum Summaries {
    Work,
    Fail,
}

pub fn server(limit_tokens: u64, calls: usize, summaries: Summaries) -> Server {
    let options = Options {
        limit_tokens: Some(limit_tokens),
        keep_bodies: false,
        ..Options::default()
    };
    Server::start_with(options, reader(calls, summaries))
}

/// A model that reads one file after the other.
pub fn reader(calls: usize, summaries: Summaries) -> impl Fn(&Seen) -> Answer + Send + Sync {
    move |seen: &Seen| {
        if seen.model.contains("summary") {
            return match summaries {
                Summaries::Work => Answer::text(format!(
                    "Files up to data/{}.txt were read.",
                    last_file(seen)
                )),
                Summaries::Fail => Answer::error(500, "the summary model is down"),
            };
        }
        let next = last_file(seen) + 1;
        match next > calls {
            true => Answer::text("all files are read"),
            false => Answer::Says(Says::text("").and_call(
                "read",
                serde_json::json!({"path": format!("data/{next}.txt")}),
            )),
        }
    }
}

pub fn home(server: &Server, protocol: Protocol, calls: usize) -> Home {
    home_with(server, protocol, calls, "")
}

pub fn home_with(server: &Server, protocol: Protocol, calls: usize, more: &str) -> Home {
    let home = Home::new();
    let retry = "[retry]\ntries = 2\nbase_ms = 1\ncap_ms = 2\n";
    home.configure(server, protocol, &format!("{retry}{more}"));
    std::fs::create_dir(home.path("data")).expect("a folder");
    for n in 1..=calls {
        let mut text = format!("this is file {n}\n");
        if n == 3 {
            text.push_str("the password of the vault is xylophone42\n");
        }
        while text.len() < 4_000 {
            text.push_str(&format!("line {} of file {n} says nothing\n", text.len()));
        }
        std::fs::write(home.path(format!("data/{n}.txt")), text).expect("a file");
    }
    home
}
