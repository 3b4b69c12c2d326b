//! `rewake fleet`: the shared log of sessions in PostgreSQL.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::print_json;
use crate::core::text::one_line;
use crate::core::visible::visible;
use crate::report::{CliError, exit, line, note};
use crate::session::remote::blocking;
use crate::session::shared::fleet_address;
use crate::session::{AppContext, clock, short_id};
use crate::shared::address::Address;
use crate::shared::connection::Connection;
use crate::shared::health::{Finding, Level};
use crate::shared::schema::{FleetSettings, Initialised, SCHEMA, init, sql};

/// Default of `--lease`.
const LEASE: Duration = Duration::from_secs(30);

/// Set up and inspect a database of shared sessions
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    pub action: FleetAction,
}

#[derive(Debug, Clone, PartialEq, Subcommand)]
pub(crate) enum FleetAction {
    /// Create the tables, functions and roles, or upgrade them
    Init {
        /// Folder of the clones, the same on each machine
        #[arg(long, value_name = "DIR")]
        work_dir: Option<String>,
        /// Time without a sign of life after which a session is free
        #[arg(long, value_name = "DURATION", value_parser = lease)]
        lease: Option<Duration>,
        /// Print the SQL and change nothing
        #[arg(long)]
        print: bool,
    },
    /// Check the server, its settings, the tables and your role
    Check,
    /// List the sessions that somebody works on, and until when
    Ps {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Parses a lease. A shorter one would end in each pause of a busy machine.
fn lease(text: &str) -> Result<Duration, String> {
    let lease = crate::headless::time(text)?;
    match lease >= Duration::from_secs(3) && lease <= Duration::from_secs(3600) {
        true => Ok(lease),
        false => Err("a lease is from 3s to 1h".to_string()),
    }
}

pub(super) fn run(ctx: &AppContext, args: &FleetArgs) -> Result<u8, CliError> {
    let settings = |work_dir: &Option<String>, lease: Option<Duration>| FleetSettings {
        lease,
        work_dir: work_dir.clone(),
    };
    if let FleetAction::Init {
        work_dir,
        lease,
        print: true,
    } = &args.action
    {
        line(&sql(&settings(work_dir, *lease), LEASE));
        return Ok(exit::DONE);
    }
    let address = fleet_address(ctx)?;
    blocking(async {
        let mut connection = Connection::connect(&address).await?;
        match &args.action {
            FleetAction::Init {
                work_dir, lease, ..
            } => {
                let done = init(&mut connection, &settings(work_dir, *lease), LEASE).await?;
                line(&match done {
                    Initialised::Created => {
                        format!("{} has the tables of rewake now", address.shown)
                    }
                    Initialised::Upgraded(from) => {
                        format!("{} had schema {from} and has {SCHEMA} now", address.shown)
                    }
                    Initialised::Unchanged => format!("{} had the tables of rewake", address.shown),
                });
                note("a worker's role needs: GRANT rewake_worker TO USER");
                Ok(exit::DONE)
            }
            FleetAction::Check => Ok(report(&address, &connection.check().await?)),
            FleetAction::Ps { json } => list(&connection, *json).await,
        }
    })
}

/// Prints the results of a check, and returns the exit code.
fn report(address: &Address, found: &[Finding]) -> u8 {
    line(&address.shown);
    for finding in found {
        let mark = match finding.level {
            Level::Good => "ok     ",
            Level::Warning => "warning",
            Level::Wrong | Level::Away => "ERROR  ",
        };
        line(&format!("  {mark}  {}", visible(&finding.text)));
        if let Some(hint) = finding.hint {
            line(&format!("           {hint}"));
        }
    }
    let has = |level: Level| found.iter().any(|finding| finding.level == level);
    match () {
        () if has(Level::Wrong) => exit::USAGE,
        () if has(Level::Away) => exit::RESUMABLE,
        () => exit::DONE,
    }
}

async fn list(connection: &Connection, json: bool) -> Result<u8, CliError> {
    let held = connection.held_sessions().await?;
    if json {
        return print_json(&serde_json::json!({ "sessions": held }));
    }
    for session in &held {
        line(&format!(
            "{}  {}  until in {:>8}  {}  {}",
            short_id(&session.id),
            visible(&session.role),
            clock(session.lease_ms),
            visible(&session.host),
            one_line(&visible(&session.title), 80),
        ));
    }
    if held.is_empty() {
        note("no shared session is running");
    }
    Ok(exit::DONE)
}
