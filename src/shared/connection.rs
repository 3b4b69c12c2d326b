//! A connection to the database, and the meaning of the server's errors.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::{FromSql, ToSql};
use tokio_postgres::{AsyncMessage, Client, Error, NoTls, Row, Statement, ToStatement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::SharedError;
use super::address::Address;
use crate::core::text::one_line;
use crate::core::visible::visible;

/// Maximum length of a server's text in a message, in characters.
const MAX_QUOTED: usize = 200;

/// Maximum time for an answer. The transfer of the largest push takes less on a slow network.
const ANSWER: Duration = Duration::from_secs(10);

/// A connection. It is closed when it is dropped.
pub struct Connection {
    pub client: Client,
    pub address: Address,
    /// The server warned since the last look: a commit is not on the standbys yet.
    has_warned: Arc<AtomicBool>,
    notified: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Connects, with TLS unless the server is on this machine.
    ///
    /// # Errors
    /// See [`SharedError`].
    pub async fn connect(address: &Address) -> Result<Connection, SharedError> {
        match tokio::time::timeout(ANSWER, Connection::to(address)).await {
            Ok(connection) => connection,
            Err(_) => Err(no_answer(address)),
        }
    }

    async fn to(address: &Address) -> Result<Connection, SharedError> {
        let failed = |error: Error| explain(address, &error);
        let has_warned = Arc::new(AtomicBool::new(false));
        let notified = Arc::new(Notify::new());
        let (warned, notify) = (has_warned.clone(), notified.clone());
        let (client, task) = if address.has_tls {
            let tls = MakeRustlsConnect::new(tls(address)?);
            let (client, connection) = address.config.connect(tls).await.map_err(failed)?;
            (client, tokio::spawn(run(connection, warned, notify)))
        } else {
            let (client, connection) = address.config.connect(NoTls).await.map_err(failed)?;
            (client, tokio::spawn(run(connection, warned, notify)))
        };
        Ok(Connection {
            client,
            address: address.clone(),
            has_warned,
            notified,
            task,
        })
    }

    /// Runs a statement, and waits for its rows.
    ///
    /// # Errors
    /// See [`SharedError`]. `Away` also if no answer comes: the connection is closed then.
    pub async fn rows<T: ?Sized + ToStatement>(
        &self,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, SharedError> {
        self.answer(self.client.query(statement, params)).await
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// As for [`Connection::rows`].
    pub async fn prepare(&self, sql: &str) -> Result<Statement, SharedError> {
        self.answer(self.client.prepare(sql)).await
    }

    async fn answer<T>(
        &self,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, SharedError> {
        match tokio::time::timeout(ANSWER, asked).await {
            Ok(answer) => answer.map_err(|error| self.explain(&error)),
            Err(_) => {
                self.task.abort();
                Err(no_answer(&self.address))
            }
        }
    }

    /// Returns whether the server warned since the last call.
    pub(super) fn take_warning(&self) -> bool {
        self.has_warned.swap(false, Ordering::Relaxed)
    }

    /// Waits for a notification. One that came since the last call counts.
    pub(super) async fn notified(&self) {
        self.notified.notified().await;
    }

    pub(super) fn explain(&self, error: &Error) -> SharedError {
        explain(&self.address, error)
    }
}

/// Returns the error of a request without an answer.
fn no_answer(address: &Address) -> SharedError {
    SharedError::Away {
        what: format!("{}: no answer for {} s", address.shown, ANSWER.as_secs()),
    }
}

/// Returns a value of a row.
///
/// # Errors
/// `Failed`: it has another type, or is missing.
pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, SharedError> {
    row.try_get(at).map_err(|error| SharedError::Failed {
        what: format!("the database returned another value than expected: {error}"),
    })
}

/// Returns the value of the only row. No row: false.
pub(super) fn flag(rows: &[Row]) -> Result<bool, SharedError> {
    rows.first().map_or(Ok(false), |row| get(row, 0))
}

/// Works for a connection, and notes warnings and notifications of the server.
async fn run<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    has_warned: Arc<AtomicBool>,
    notified: Arc<Notify>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notice(notice))) => {
                if notice.parsed_severity() == Some(Severity::Warning) {
                    has_warned.store(true, Ordering::Relaxed);
                }
            }
            Some(Ok(AsyncMessage::Notification(_))) => notified.notify_one(),
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::info!(%error, "the connection to the shared database ended");
                break;
            }
            None => break,
        }
    }
}

/// Builds the TLS settings: the system's certificates, and those of `ca_file`.
fn tls(address: &Address) -> Result<ClientConfig, SharedError> {
    // If a provider is already installed, the error can be ignored.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = &address.ca_file {
        let unusable = |why: String| {
            SharedError::setup(
                format!("reading the certificates in {}: {why}", path.display()),
                "fleet.ca_file holds certificates in PEM form",
            )
        };
        let pem = std::fs::read(path).map_err(|e| unusable(e.to_string()))?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let certificates = certificates.map_err(|e| unusable(e.to_string()))?;
        if roots.add_parsable_certificates(certificates).0 == 0 {
            return Err(unusable("there are none".to_string()));
        }
    }
    if roots.is_empty() {
        return Err(SharedError::setup(
            "this system has no certificates of authorities, which TLS needs",
            "install the package ca-certificates, or set fleet.ca_file",
        ));
    }
    let config = ClientConfig::builder().with_root_certificates(Arc::new(roots));
    Ok(config.with_no_client_auth())
}

/// Returns the meaning of an error. Its text has no password: the library puts none into it.
pub(super) fn explain(address: &Address, error: &Error) -> SharedError {
    let shown = &address.shown;
    let Some(found) = error.as_db_error() else {
        return without_answer(address, error);
    };
    let said = one_line(&visible(found.message()), MAX_QUOTED);
    let what = format!("{shown}: {said}");
    let setup = |hint: &str| SharedError::setup(what.clone(), hint);
    match found.code() {
        code if *code == SqlState::INVALID_PASSWORD
            || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION =>
        {
            setup("check the user and the password: PGPASSFILE, or the variable of fleet.url_env")
        }
        code if *code == SqlState::INVALID_CATALOG_NAME => {
            setup("create the database: createdb NAME")
        }
        code if [
            SqlState::UNDEFINED_TABLE,
            SqlState::UNDEFINED_COLUMN,
            SqlState::UNDEFINED_FUNCTION,
            SqlState::INVALID_SCHEMA_NAME,
        ]
        .contains(code) =>
        {
            SharedError::setup(
                format!("{shown} has no tables of rewake, or older ones"),
                "its owner makes them: rewake fleet init",
            )
        }
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            setup("the owner of the database grants a role: GRANT rewake_worker TO USER")
        }
        code if *code == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE => {
            setup("change the setting of the server: rewake fleet check names it")
        }
        // 08: connection, 53: resources such as a full disk, 57: shutdown, 25006: a standby.
        code if ["08", "53", "57"]
            .iter()
            .any(|class| code.code().starts_with(class))
            || *code == SqlState::READ_ONLY_SQL_TRANSACTION =>
        {
            SharedError::Away { what }
        }
        _ => SharedError::Failed { what },
    }
}

/// Returns the error of a request without an answer from the server.
fn without_answer(address: &Address, error: &Error) -> SharedError {
    let mut inner: &dyn std::error::Error = error;
    let mut is_tls = false;
    while let Some(source) = inner.source() {
        inner = source;
        // The source of an I/O error is that of the error in it.
        let within = inner
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        is_tls |= inner.is::<rustls::Error>() || within.is_some_and(|e| e.is::<rustls::Error>());
    }
    let why = one_line(&visible(&inner.to_string()), MAX_QUOTED);
    let what = format!("{}: {why}", address.shown);
    match is_tls {
        true => SharedError::setup(
            what,
            "the server needs a certificate for this name; fleet.ca_file trusts a private authority",
        ),
        false if error.to_string().contains("TLS") => SharedError::setup(
            what,
            "the server must offer TLS: set ssl = on in its postgresql.conf",
        ),
        false if error.to_string().contains("configuration") => SharedError::setup(
            what,
            "set the password in PGPASSFILE, or in the address in the variable of fleet.url_env",
        ),
        false => SharedError::Away { what },
    }
}
