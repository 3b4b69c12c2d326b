//! The log in PostgreSQL. It connects when it is first used, and again after a connection broke.

use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use super::address::Address;
use super::connection::{Connection, flag, get};
use super::log::{
    Claimed, EndOfLog, Home, LeaseState, Mail, MailKind, Push, SharedLog, StoredLine, StoredLog,
    StoredObject,
};
use super::{SharedError, schema};
use crate::command::lease_file::clock;
use crate::core::entry::Seq;
use crate::core::text::one_line;
use crate::core::visible::visible;
use crate::journal::chain_hash::ChainHash;

/// The level of the kinds of entries that this version knows.
pub const LEVEL: i32 = 2;
/// Maximum number of lines that are read at once.
const LINES_AT_ONCE: i64 = 1_000;
/// Maximum time for which a server that does not have it on its standbys is asked again.
const REPLICATION: Duration = Duration::from_millis(200);

const CREATE: &str =
    "SELECT rewake.create_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
const CLAIM: &str = "SELECT fence, tip, length FROM rewake.claim_1($1, $2, $3, $4)";
const PUSH: &str =
    "SELECT rewake.push_2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
const BEAT: &str = "SELECT rewake.beat_1($1, $2)";
/// At most 64 MiB. A larger line is left out, as if it were missing.
const LINES: &str = "SELECT body, mac FROM (
   SELECT body, mac, seq, sum(octet_length(body)) OVER (ORDER BY seq) AS upto
   FROM rewake.lines WHERE session = $1 AND seq >= $2 ORDER BY seq LIMIT $3) l
 WHERE upto <= 67108864 ORDER BY seq";
/// At most 16 MiB, and at least one, so that the rest is not held up by it.
const MAIL: &str = "SELECT id, kind, body, origin FROM (
   SELECT id, kind, body, origin::text, sum(octet_length(body)) OVER (ORDER BY id) AS upto
   FROM rewake.mail WHERE session = $1 ORDER BY id LIMIT 100) m
 WHERE upto <= 16777216 OR upto = octet_length(body) ORDER BY id";
/// Time after which mail is looked for without a notification.
const LOOK: Duration = Duration::from_secs(1);
const OBJECTS: &str = "SELECT hash, body FROM (
   SELECT hash, body, sum(octet_length(body)) OVER (ORDER BY hash) AS upto
   FROM rewake.objects WHERE session = $1 AND hash = ANY ($2)) o
 WHERE upto <= 67108864";

/// A database of shared sessions.
pub struct Postgres {
    address: Address,
    connected: Option<Connected>,
}

struct Connected {
    connection: Connection,
    push: Statement,
    beat: Statement,
}

impl Postgres {
    pub fn new(address: Address) -> Postgres {
        Postgres {
            address,
            connected: None,
        }
    }

    async fn connected(&mut self) -> Result<&Connected, SharedError> {
        let open = self.connected.take();
        let open = open.filter(|open| !open.connection.client.is_closed());
        let connected = match open {
            Some(connected) => connected,
            None => {
                let connection = Connection::connect(&self.address).await?;
                let push = connection.prepare(PUSH).await?;
                let beat = connection.prepare(BEAT).await?;
                // Without it, mail is looked for every second.
                connection.rows("LISTEN rewake", &[]).await?;
                Connected {
                    connection,
                    push,
                    beat,
                }
            }
        };
        Ok(self.connected.insert(connected))
    }

    async fn rows(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, SharedError> {
        self.connected().await?.connection.rows(sql, params).await
    }

    /// Waits for the standbys, on the connection that was used last: another one has no warning.
    async fn is_replicated(&self, session: Uuid, fence: i64) -> Result<(), SharedError> {
        match &self.connected {
            Some(connected) => connected.is_replicated(session, fence).await,
            None => Ok(()),
        }
    }
}

impl Connected {
    async fn beat(&self, session: Uuid, fence: i64) -> Result<bool, SharedError> {
        let rows = self
            .connection
            .rows(&self.beat, &[&session, &fence])
            .await?;
        flag(&rows)
    }

    /// Waits until the standbys have what was acknowledged with a warning: a sign of life that they
    /// have proves that they have all before it.
    async fn is_replicated(&self, session: Uuid, fence: i64) -> Result<(), SharedError> {
        while self.connection.take_warning() {
            tracing::warn!("the database has not sent the entries to its standbys yet");
            tokio::time::sleep(REPLICATION).await;
            // Without a change the server waits for nothing.
            if !self.beat(session, fence).await? {
                return Err(SharedError::Away {
                    what: "the standbys of the database have not got the entries".to_string(),
                });
            }
        }
        Ok(())
    }
}

impl StoredLog for &Connection {
    async fn lines(&mut self, session: &str, first: Seq) -> Result<Vec<StoredLine>, SharedError> {
        let first = i64::try_from(first).unwrap_or(i64::MAX);
        let params: [&(dyn ToSql + Sync); 3] = [&id_of(session)?, &first, &LINES_AT_ONCE];
        let rows = self.rows(LINES, &params).await?;
        let line = |row: &Row| {
            let mac: Vec<u8> = get(row, 1)?;
            Ok(StoredLine {
                body: get(row, 0)?,
                mac: mac.try_into().unwrap_or_default(),
            })
        };
        rows.iter().map(line).collect()
    }

    async fn objects(
        &mut self,
        session: &str,
        hashes: &[[u8; 32]],
    ) -> Result<Vec<StoredObject>, SharedError> {
        let hashes: Vec<&[u8]> = hashes.iter().map(|hash| &hash[..]).collect();
        let rows = self.rows(OBJECTS, &[&id_of(session)?, &hashes]).await?;
        let object = |row: &Row| {
            let hash: Vec<u8> = get(row, 0)?;
            Ok((hash.try_into().unwrap_or_default(), get(row, 1)?))
        };
        rows.iter().map(object).collect()
    }
}

impl StoredLog for Postgres {
    async fn lines(&mut self, session: &str, first: Seq) -> Result<Vec<StoredLine>, SharedError> {
        let mut connection = &self.connected().await?.connection;
        connection.lines(session, first).await
    }

    async fn objects(
        &mut self,
        session: &str,
        hashes: &[[u8; 32]],
    ) -> Result<Vec<StoredObject>, SharedError> {
        let mut connection = &self.connected().await?.connection;
        connection.objects(session, hashes).await
    }
}

impl SharedLog for Postgres {
    async fn lease(&mut self) -> Result<Duration, SharedError> {
        let connection = &self.connected().await?.connection;
        let lease = schema::meta(connection).await?.lease;
        let sql = "SELECT current_setting('fsync') <> 'off'
           AND current_setting('full_page_writes') <> 'off'";
        let is_safe = flag(&connection.rows(sql, &[]).await?)?;
        let shown = &self.address.shown;
        if !is_safe {
            return Err(SharedError::setup(
                format!("{shown}: fsync or full_page_writes is off, so a power cut loses entries"),
                "set both on in its postgresql.conf; rewake fleet check names the one that is off",
            ));
        }
        Ok(lease)
    }

    async fn create(
        &mut self,
        home: &Home,
        header: &str,
        push: &Push,
    ) -> Result<Option<i64>, SharedError> {
        let id = id_of(&push.session)?;
        let arrays = Arrays::of(push);
        let rows = self
            .rows(
                CREATE,
                &[
                    &id,
                    &home.home,
                    &home.boot,
                    &home.host,
                    &header,
                    &arrays.tip,
                    &arrays.bodies,
                    &arrays.macs,
                    &arrays.hashes,
                    &arrays.objects,
                    &push.title,
                    &push.state,
                    &push.needs,
                ],
            )
            .await?;
        let fence: i64 = rows.first().map_or(Ok(0), |row| get(row, 0))?;
        if fence == 0 {
            return Ok(None);
        }
        self.is_replicated(id, fence).await?;
        Ok(Some(fence))
    }

    async fn claim(&mut self, session: &str, home: &Home) -> Result<Claimed, SharedError> {
        let id = id_of(session)?;
        let params: [&(dyn ToSql + Sync); 4] = [&id, &home.home, &home.boot, &home.host];
        let rows = self.rows(CLAIM, &params).await?;
        let Some(row) = rows.first() else {
            return Err(self.not_claimed(session, home).await?);
        };
        let claimed = Claimed {
            fence: get(row, 0)?,
            end: self.end(get(row, 1)?, get(row, 2)?)?,
        };
        // That the end is acknowledged must hold for its entries too.
        self.is_replicated(id, claimed.fence).await?;
        Ok(claimed)
    }

    async fn push(&mut self, fence: i64, push: &Push) -> Result<bool, SharedError> {
        let id = id_of(&push.session)?;
        let arrays = Arrays::of(push);
        let length = i64::try_from(push.before.1).unwrap_or(i64::MAX);
        let connected = self.connected().await?;
        let rows = connected
            .connection
            .rows(
                &connected.push,
                &[
                    &id,
                    &fence,
                    &push.before.0.as_bytes(),
                    &length,
                    &arrays.tip,
                    &arrays.bodies,
                    &arrays.macs,
                    &arrays.hashes,
                    &arrays.objects,
                    &push.title,
                    &push.state,
                    &push.needs,
                    &push.taken,
                    &push.files,
                ],
            )
            .await?;
        connected.is_replicated(id, fence).await?;
        flag(&rows)
    }

    async fn beat(&mut self, session: &str, fence: i64) -> Result<LeaseState, SharedError> {
        let id = id_of(session)?;
        let connected = self.connected().await?;
        if connected.beat(id, fence).await? {
            return Ok(LeaseState::Held);
        }
        let sql = "SELECT fence = $2 FROM rewake.sessions WHERE id = $1";
        let rows = connected.connection.rows(sql, &[&id, &fence]).await?;
        Ok(match flag(&rows)? {
            true => LeaseState::Ended,
            false => LeaseState::Taken,
        })
    }

    async fn files(&mut self, session: &str) -> Result<Option<String>, SharedError> {
        let sql = "SELECT files FROM rewake.sessions WHERE id = $1";
        let rows = self.rows(sql, &[&id_of(session)?]).await?;
        rows.first().map_or(Ok(None), |row| get(row, 0))
    }

    async fn mail(&mut self, session: &str) -> Result<Vec<Mail>, SharedError> {
        let rows = self.rows(MAIL, &[&id_of(session)?]).await?;
        let mail = |row: &Row| {
            Ok(Mail {
                id: get(row, 0)?,
                kind: match get::<&str>(row, 1)? {
                    "message" => MailKind::Message,
                    _ => MailKind::Signal,
                },
                body: get(row, 2)?,
                origin: get(row, 3)?,
            })
        };
        rows.iter().map(mail).collect()
    }

    async fn forget(&mut self, session: &str, fence: i64, ids: &[i64]) -> Result<(), SharedError> {
        let id = id_of(session)?;
        self.rows("SELECT rewake.forget_1($1, $2, $3)", &[&id, &fence, &ids])
            .await
            .map(drop)
    }

    async fn wait_for_mail(&mut self) {
        let pause = tokio::time::sleep(LOOK);
        match &self.connected {
            Some(connected) => tokio::select! {
                () = pause => {}
                () = connected.connection.notified() => {}
            },
            None => pause.await,
        }
    }

    async fn release(&mut self, session: &str, fence: i64) -> Result<(), SharedError> {
        let id = id_of(session)?;
        self.rows("SELECT rewake.release_1($1, $2)", &[&id, &fence])
            .await
            .map(drop)
    }

    fn now(&self) -> Duration {
        clock()
    }
}

impl Postgres {
    /// Returns the reason why a session cannot be claimed.
    async fn not_claimed(
        &mut self,
        session: &str,
        home: &Home,
    ) -> Result<SharedError, SharedError> {
        let sql = "SELECT home = $2 AND role = session_user, host, role::text,
           coalesce(ceil(extract(epoch FROM lease_until - clock_timestamp())), 0)::bigint
           FROM rewake.sessions WHERE id = $1";
        let rows = self.rows(sql, &[&id_of(session)?, &home.home]).await?;
        let shown = &self.address.shown;
        let Some(row) = rows.first() else {
            return Ok(SharedError::Missing {
                what: format!("{shown} has no session {session}"),
            });
        };
        let (is_own, host, role, seconds): (bool, String, String, i64) =
            (get(row, 0)?, get(row, 1)?, get(row, 2)?, get(row, 3)?);
        let host = one_line(&visible(&host), 60);
        let what = match is_own {
            true => format!("{shown}: {host} has session {session} for another {seconds} s"),
            false => format!(
                "{shown}: {host} recorded session {session}, as {}",
                one_line(&visible(&role), 60)
            ),
        };
        Ok(SharedError::Lost { what })
    }

    fn end(&self, tip: Vec<u8>, length: i64) -> Result<EndOfLog, SharedError> {
        let tip = ChainHash::from_bytes(&tip).ok_or_else(|| SharedError::Failed {
            what: format!("{}: a tip has no 16 bytes", self.address.shown),
        })?;
        Ok((tip, u64::try_from(length).unwrap_or_default()))
    }
}

pub(super) fn id_of(session: &str) -> Result<Uuid, SharedError> {
    Uuid::try_parse(session).map_err(|_| SharedError::Failed {
        what: format!("{session:?} is not the ID of a session"),
    })
}

/// Entries as arrays.
struct Arrays<'p> {
    tip: &'p [u8],
    bodies: Vec<&'p [u8]>,
    macs: Vec<&'p [u8]>,
    hashes: Vec<&'p [u8]>,
    objects: Vec<&'p [u8]>,
}

impl Arrays<'_> {
    fn of(push: &Push) -> Arrays<'_> {
        Arrays {
            tip: push.after.0.as_bytes(),
            bodies: push.lines.iter().map(|line| &line.body[..]).collect(),
            macs: push.lines.iter().map(|line| &line.mac[..]).collect(),
            hashes: push.objects.iter().map(|(hash, _)| &hash[..]).collect(),
            objects: push.objects.iter().map(|(_, body)| &body[..]).collect(),
        }
    }
}
