//! Two writers of the same entries: a holder of a shared session, and a bare INSERT.

use std::time::{Duration, Instant};

use rewake::config::Env;
use rewake::core::entry::Entry;
use rewake::journal::chain_hash::ChainHash;
use rewake::shared::address::Address;
use rewake::shared::connection::Connection;
use rewake::shared::log::{EndOfLog, Home};
use rewake::shared::postgres::Postgres as Log;
use rewake::shared::writer::{Listed, Options, SharedWriter};
use rewake::store::shared::{NewLines, lines_of};
use rewake::store::{new_id, now_ms};
use tokio::runtime::Runtime;
use tokio_postgres::Statement;

use crate::noise::Noise;
use support::scenes::fleet::postgres::{Postgres, WORKER};

/// Size of the text of an entry, bytes.
const TEXT: usize = 600;

/// A session with one entry, whose holder this is.
pub struct Pushes {
    writer: SharedWriter,
    noise: Noise,
    end: EndOfLog,
}

impl Pushes {
    pub fn start(server: &Postgres, seed: u64) -> Pushes {
        let holder = Home {
            home: "home".into(),
            boot: "boot".into(),
            host: "host".into(),
        };
        let log = Log::new(address(server));
        let writer = SharedWriter::start(
            log,
            holder,
            new_id(),
            "team".into(),
            [7; 32],
            Options::default(),
        );
        let mut pushes = Pushes {
            writer: writer.expect("start a thread"),
            noise: Noise::new(seed),
            end: (ChainHash::of_nothing(), 0),
        };
        let new = pushes.next();
        let created = pushes
            .writer
            .create(pushes.end, "{}".into(), &new, listed());
        created.expect("create a session");
        pushes.end = new.end().expect("it has entries");
        pushes
    }

    /// Returns the two entries that follow.
    pub fn next(&mut self) -> NewLines {
        let entries = [(); 2].map(|()| Entry::Noted {
            text: self.noise.text(TEXT),
            about: None,
        });
        NewLines {
            lines: lines_of(self.end, now_ms(), &entries, false).expect("make lines"),
            ..NewLines::default()
        }
    }

    /// Returns how long it took.
    pub fn push(&mut self, new: &NewLines) -> Duration {
        let since = Instant::now();
        let pushed = self.writer.push_blocking(self.end, new, listed());
        let took = since.elapsed();
        pushed.expect("push");
        self.end = new.end().expect("it has entries");
        took
    }
}

fn listed() -> Listed {
    Listed {
        title: "A session of the benches".into(),
        state: "working",
    }
}

fn address(server: &Postgres) -> Address {
    Address::read(&server.url(WORKER), &Env::new([("", ""); 0], "/"), None).expect("an address")
}

/// A connection that inserts two rows into a table like that of the entries.
pub struct Inserts {
    runtime: Runtime,
    connection: Connection,
    insert: Statement,
    session: uuid::Uuid,
    seq: i64,
}

impl Inserts {
    pub fn start(server: &Postgres) -> Inserts {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let address = address(server);
        let connection = runtime.block_on(Connection::connect(&address));
        let connection = connection.expect("connect");
        let insert = "INSERT INTO public.bare (session, seq, fence, body, mac)
           VALUES ($1, $2, 1, $3, $4), ($1, $2 + 1, 1, $5, $6)";
        let insert = runtime.block_on(connection.prepare(insert));
        Inserts {
            runtime,
            connection,
            insert: insert.expect("prepare"),
            session: uuid::Uuid::new_v4(),
            seq: 0,
        }
    }

    /// Returns how long it took.
    pub fn insert(&mut self, new: &NewLines) -> Duration {
        let bodies = new.lines.iter().map(|line| {
            let json = serde_json::to_vec(line).expect("JSON");
            zstd::bulk::compress(&json, 3).expect("compress")
        });
        let (bodies, mac) = (bodies.collect::<Vec<_>>(), [7_u8; 32]);
        let since = Instant::now();
        let inserted = self.runtime.block_on(self.connection.rows(
            &self.insert,
            &[
                &self.session,
                &self.seq,
                &bodies[0],
                &&mac[..],
                &bodies[1],
                &&mac[..],
            ],
        ));
        let took = since.elapsed();
        inserted.expect("insert");
        self.seq += 2;
        took
    }
}
