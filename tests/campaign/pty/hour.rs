//! Use at random: typing, queueing, questions, resizes and kills, by a seed, against the scripted
//! model server. After each round screen, log and store are compared: what was said is in the log
//! once, in its order; the queue is kept; the screen shows the end of the log.
//!
//! `REWAKE_USE_ROUNDS=N` plays so many rounds in each of the plays (20 rounds of one play are what
//! `cargo test` does), `REWAKE_USE_PLAYS=N` so many plays, `REWAKE_USE_SEED=N` begins with that seed.
//! A seed repeats the intent; the instants of the kills are measured against a real clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use support::{Answer, Home, Protocol, Says, Seed, Server, Terminal};

/// Nothing that is waited for takes so long.
const LIMIT: Duration = Duration::from_secs(60);

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn number(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// An answer that names the words it answers: at once, slowly, or behind a question.
fn answer(user: &str, results: usize) -> Answer {
    let word = user
        .split_whitespace()
        .last()
        .unwrap_or_default()
        .to_string();
    let says = Says::text(format!("answered {word}"));
    match user {
        user if user.starts_with("slow") => Answer::Slow {
            says,
            chunk_bytes: 60,
            delay_ms: 10,
        },
        user if user.starts_with("ask") && results == 0 => {
            Says::call("bash", json!({ "command": format!("touch {word}") })).into()
        }
        _ => says.into(),
    }
}

struct Play {
    home: Home,
    terminal: Option<Terminal>,
    random: Random,
    /// All that was said, and acknowledged by the screen.
    said: Vec<String>,
    kills: usize,
    questions: usize,
    rss_kb: Vec<u64>,
}

impl Play {
    fn start(&mut self) {
        let mut terminal = Terminal::start(&self.home, &["-c"]);
        self.until(&mut terminal, "it opens", |screen| {
            screen.contains("local/test-model")
        });
        self.terminal = Some(terminal);
    }

    #[track_caller]
    fn until(&self, terminal: &mut Terminal, what: &str, holds: impl Fn(&str) -> bool) {
        let end = Instant::now() + LIMIT;
        loop {
            let screen = terminal.screen();
            if holds(&screen) {
                return;
            }
            // A question is in front of everything else.
            let key = match screen.contains("Enter chooses") {
                true if screen.contains("› y") => "\r",
                true => "y",
                false => "",
            };
            terminal.types(key);
            let is_the_same = || !key.is_empty() && terminal.screen() == screen;
            while is_the_same() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(Instant::now() < end, "{what}:\n{screen}");
            std::thread::sleep(Duration::from_millis(15));
        }
    }

    /// Words that no other round says. They are in the log or in the inbox when the screen shows them
    /// and the box is empty again.
    fn say(&mut self, kind: &str) {
        let words = format!("{kind} word{:04}", self.said.len());
        let mut terminal = self.terminal.take().expect("it runs");
        terminal.types(&words);
        terminal.types("\r");
        self.said.push(words.clone());
        // While a question is open, Enter right after a letter sends nothing.
        let end = Instant::now() + LIMIT;
        while !self.kept().contains(&words) && Instant::now() < end {
            if terminal.screen().contains("press Enter again") {
                terminal.types("\r");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.terminal = Some(terminal);
    }

    /// What was typed last is in the store.
    fn is_kept(&self) {
        let Some(words) = self.said.last() else {
            return;
        };
        let end = Instant::now() + LIMIT;
        while self.kept().last() != Some(words) {
            if let Some(terminal) = &self.terminal {
                assert!(
                    Instant::now() < end,
                    "{words:?} is not kept:\n{}",
                    terminal.screen()
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The words of the log and of the inbox, in their order.
    fn kept(&self) -> Vec<String> {
        let file = self.home.rewake_home().join("rewake.db");
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let Ok(store) = rusqlite::Connection::open_with_flags(file, flags) else {
            return Vec::new();
        };
        let mut words = texts(
            &store,
            "SELECT body FROM entries WHERE kind = 'said' AND typeof(body) = 'text' ORDER BY id",
        );
        words.extend(texts(&store, "SELECT body FROM inbox ORDER BY id"));
        words
    }

    fn round(&mut self) {
        match self.random.below(8) {
            0 | 1 => self.say("quick"),
            2 => self.say("slow"),
            3 => {
                self.questions += 1;
                self.say("ask");
            }
            4 => {
                // Queued behind one that takes its time.
                self.say("slow");
                self.say("quick");
                self.say("quick");
            }
            5 => {
                let columns = 60 + u16::try_from(self.random.below(90)).unwrap();
                let rows = 16 + u16::try_from(self.random.below(40)).unwrap();
                self.terminal.as_ref().unwrap().resize(columns, rows);
            }
            6 => {
                // Typed and taken back.
                let terminal = self.terminal.as_mut().unwrap();
                terminal.types("half a thought");
                terminal.types("\x7f".repeat(14).as_str());
            }
            _ => self.kill(),
        }
        if self.random.below(4) == 0 {
            self.settled();
        }
    }

    /// SIGKILL at some instant of the work, and started again.
    fn kill(&mut self) {
        if self.said.is_empty() {
            return;
        }
        self.is_kept();
        std::thread::sleep(Duration::from_millis(self.random.below(120)));
        self.terminal.take().unwrap().kill();
        self.kills += 1;
        self.start();
    }

    /// All is answered: log, inbox and screen say the same.
    fn settled(&mut self) {
        let Some(last) = self.said.last() else { return };
        let word = last.split_whitespace().last().unwrap().to_string();
        self.is_kept();
        let mut terminal = self.terminal.take().unwrap();
        let answered = format!("answered {word}");
        self.until(&mut terminal, "the last answer does not come", |screen| {
            screen.contains(&answered)
        });
        self.rss_kb.extend(rss_kb(terminal.id()));
        self.terminal = Some(terminal);
        let kept = self.kept();
        assert_eq!(kept, self.said, "what was said is not what is kept");
    }
}

/// The words of those rows that are said by a person.
fn texts(store: &rusqlite::Connection, query: &str) -> Vec<String> {
    let mut statement = store.prepare(query).unwrap();
    let rows = statement
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap();
    let said = |body: String| {
        let value: Value = serde_json::from_str(&body).ok()?;
        let text = value
            .get("text")
            .or(value.pointer("/message/text"))?
            .as_str()?;
        text.contains(" word").then(|| text.to_string())
    };
    rows.filter_map(Result::ok).filter_map(said).collect()
}

fn rss_kb(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn use_at_random_loses_nothing() {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos();
    let first = number(
        "REWAKE_USE_SEED",
        u64::try_from(now % 1_000_000_007).unwrap(),
    );
    let (plays, rounds) = (
        number("REWAKE_USE_PLAYS", 1),
        number("REWAKE_USE_ROUNDS", 20),
    );
    for seed in first..first + plays {
        let how = format!("REWAKE_USE_SEED={seed} REWAKE_USE_ROUNDS={rounds}");
        let _seed = Seed::new(seed, how);
        let server = Server::start(|seen| {
            let user = seen.user.lines().last().unwrap_or_default();
            answer(user, seen.results.len())
        });
        let home = Home::with(&server, Protocol::Anthropic);
        let mut play = Play {
            home,
            terminal: None,
            random: Random(seed),
            said: Vec::new(),
            kills: 0,
            questions: 0,
            rss_kb: Vec::new(),
        };
        let mut terminal = Terminal::start(&play.home, &[]);
        play.until(&mut terminal, "it opens", |screen| {
            screen.contains("local/test-model")
        });
        play.terminal = Some(terminal);
        for _ in 0..rounds {
            play.round();
        }
        play.settled();
        let (least, most) = (play.rss_kb.iter().min(), play.rss_kb.iter().max());
        println!(
            "seed {seed}: {} said, {} questions, {} kills, {least:?} to {most:?} kB",
            play.said.len(),
            play.questions,
            play.kills
        );
        if let (Some(least), Some(most)) = (least, most) {
            assert!(most < &(least + 40_000), "memory grew: {:?}", play.rss_kb);
        }
        server.assert_no_violations();
    }
}
