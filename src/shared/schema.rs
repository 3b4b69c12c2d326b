//! The tables, functions and roles of the database. Only `rewake fleet init` changes them.

use std::time::Duration;

use tokio_postgres::Transaction;

use super::SharedError;
use super::connection::{Connection, get};

/// The version of the schema that this program makes and uses.
pub const SCHEMA: i32 = 2;

/// The SQL of each version, which follows the one before it.
const VERSIONS: [&str; SCHEMA as usize] = [
    include_str!("../../assets/fleet/1.sql"),
    include_str!("../../assets/fleet/2.sql"),
];
/// Key of the advisory lock of an initialisation.
const LOCK: i64 = 0x7265_7761_6b65;

/// The settings of a fleet. `None` keeps the stored value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetSettings {
    /// Time without a sign of life after which a session is free.
    pub lease: Option<Duration>,
    /// The folder of the clones on each machine.
    pub work_dir: Option<String>,
}

/// The result of an initialisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initialised {
    Created,
    /// From this version.
    Upgraded(i32),
    /// The schema was there. Its settings are those given now.
    Unchanged,
}

/// Returns the SQL of a first initialisation, for somebody else to run.
pub fn sql(settings: &FleetSettings, default_lease: Duration) -> String {
    let work_dir = match &settings.work_dir {
        Some(folder) => quoted(folder),
        None => "NULL".to_string(),
    };
    format!(
        "BEGIN;\n{}\nINSERT INTO rewake.meta (schema, lease, work_dir) VALUES ({SCHEMA}, '{} ms', {work_dir});\nCOMMIT;",
        VERSIONS.join("\n"),
        settings.lease.unwrap_or(default_lease).as_millis()
    )
}

/// Returns a string literal, for any setting of `standard_conforming_strings`.
fn quoted(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Creates the schema, or changes the settings of one that exists. Several callers at once make one.
///
/// # Errors
/// The schema is newer, or the role may not create it.
pub async fn init(
    connection: &mut Connection,
    settings: &FleetSettings,
    default_lease: Duration,
) -> Result<Initialised, SharedError> {
    let address = connection.address.clone();
    let explain = |error| super::connection::explain(&address, &error);
    let tx = connection.client.transaction().await.map_err(explain)?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
        .await
        .map_err(explain)?;
    let lease_ms = settings.lease.map(|lease| lease.as_secs_f64() * 1000.0);
    let found = version(&tx).await.map_err(explain)?;
    for sql in VERSIONS
        .iter()
        .skip(found.unwrap_or(0).try_into().unwrap_or(0))
    {
        tx.batch_execute(sql).await.map_err(explain)?;
    }
    let done = match found {
        None => {
            tx.execute(
                "INSERT INTO rewake.meta (schema, lease, work_dir)
                 VALUES ($1, $2 * interval '1 ms', $3)",
                &[
                    &SCHEMA,
                    &lease_ms.unwrap_or(default_lease.as_secs_f64() * 1000.0),
                    &settings.work_dir,
                ],
            )
            .await
            .map_err(explain)?;
            Initialised::Created
        }
        Some(newer) if newer > SCHEMA => return Err(is_newer(&address.shown, newer)),
        Some(older) => {
            tx.execute(
                "UPDATE rewake.meta SET lease = coalesce($1 * interval '1 ms', lease),
                                        work_dir = coalesce($2, work_dir), schema = $3",
                &[&lease_ms, &settings.work_dir, &SCHEMA],
            )
            .await
            .map_err(explain)?;
            match older < SCHEMA {
                true => Initialised::Upgraded(older),
                false => Initialised::Unchanged,
            }
        }
    };
    tx.commit().await.map_err(explain)?;
    Ok(done)
}

/// The content of `rewake.meta`.
#[derive(Debug, Clone)]
pub struct Meta {
    pub schema: i32,
    pub lease: Duration,
    pub work_dir: Option<String>,
}

/// Reads `rewake.meta`.
///
/// # Errors
/// This program cannot use the tables.
pub async fn meta(connection: &Connection) -> Result<Meta, SharedError> {
    let shown = &connection.address.shown;
    // A column that an older version lacks must not be named.
    let sql = "SELECT schema, (extract(epoch FROM lease) * 1000)::bigint, work_dir,
       coalesce((to_jsonb(m) ->> 'oldest')::integer, 1) FROM rewake.meta m";
    let rows = connection.rows(sql, &[]).await?;
    let row = rows.first().ok_or_else(|| SharedError::Failed {
        what: format!("{shown}: rewake.meta is empty"),
    })?;
    let (schema, ms, oldest): (i32, i64, i32) = (get(row, 0)?, get(row, 1)?, get(row, 3)?);
    if oldest > SCHEMA {
        return Err(is_newer(shown, schema));
    }
    if schema < SCHEMA {
        return Err(SharedError::setup(
            format!("{shown} has schema {schema}, and this program needs {SCHEMA}"),
            "its owner upgrades it: rewake fleet init",
        ));
    }
    Ok(Meta {
        schema,
        lease: Duration::from_millis(u64::try_from(ms).unwrap_or_default()),
        work_dir: get(row, 2)?,
    })
}

fn is_newer(shown: &str, found: i32) -> SharedError {
    SharedError::setup(
        format!("{shown} has schema {found}, and this program knows {SCHEMA}"),
        "use a newer rewake",
    )
}

async fn version(tx: &Transaction<'_>) -> Result<Option<i32>, tokio_postgres::Error> {
    let exists = tx
        .query_one("SELECT to_regclass('rewake.meta') IS NOT NULL", &[])
        .await?;
    if exists.get(0) {
        let row = tx.query_opt("SELECT schema FROM rewake.meta", &[]).await?;
        Ok(row.map(|row| row.get(0)))
    } else {
        Ok(None)
    }
}
