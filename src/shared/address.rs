//! The address of the database: `postgresql://USER@HOST:PORT/DATABASE`, and its password.
//!
//! The parameters `sslmode` and `sslrootcert` and the file of `PGPASSFILE` are read here, because
//! the library does not know them. TLS with a verified name is always used, except to this machine.
//! Source: <https://www.postgresql.org/docs/current/libpq-connect.html> and `libpq-pgpass.html`.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::SharedError;
use crate::config::Env;
use crate::core::visible::visible;

/// Time for each host of an address. It is a part of the time for an answer, so that the next host is
/// tried if a machine is off.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time without an answer after which a connection is taken for dead.
const DEAD_AFTER: Duration = Duration::from_secs(20);
const MAX_PASSFILE_BYTES: u64 = 1024 * 1024;
const HINT: &str = "an address is like postgresql://USER@HOST:5432/DATABASE; the password is read from \
                    PGPASSFILE, or the whole address from the variable that fleet.url_env names";

/// The address of a database.
#[derive(Clone)]
pub struct Address {
    pub(super) config: Config,
    /// Host, port and database, for messages.
    pub shown: String,
    /// Certificates that are trusted besides those of the system.
    pub(super) ca_file: Option<PathBuf>,
    pub has_tls: bool,
    pub has_password: bool,
}

impl Address {
    /// Reads an address, and the password from the file of `PGPASSFILE` (default: `~/.pgpass`) if
    /// the address has none.
    ///
    /// # Errors
    /// The address is invalid, or would send data in the clear to another machine.
    pub fn read(url: &str, env: &Env, ca_file: Option<&Path>) -> Result<Address, SharedError> {
        let invalid =
            |why: &str| SharedError::setup(format!("the address of the fleet {why}"), HINT);
        if !url.starts_with("postgresql://") && !url.starts_with("postgres://") {
            return Err(invalid("does not begin with postgresql://"));
        }
        let (rest, parameters) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut ca_file) = (None, ca_file.map(Path::to_path_buf));
        let mut kept = Vec::new();
        for parameter in parameters
            .split('&')
            .filter(|parameter| !parameter.is_empty())
        {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => ca_file = Some(PathBuf::from(value)),
                _ => kept.push(parameter),
            }
        }
        let url = match kept.is_empty() {
            true => rest.to_string(),
            false => format!("{rest}?{}", kept.join("&")),
        };
        // The library's error may quote the address.
        let mut config: Config = url.parse().map_err(|_| invalid("is malformed"))?;
        // This address is connected to, whatever the name is.
        if !config.get_hostaddrs().is_empty() {
            return Err(invalid("has a hostaddr: name the host"));
        }
        let is_here = config.get_hosts().iter().all(is_here);
        let has_tls = match mode {
            None => !is_here,
            Some("disable") if is_here => false,
            Some("disable" | "allow" | "prefer") => {
                return Err(invalid("has no TLS to another machine"));
            }
            Some("require" | "verify-ca" | "verify-full") => true,
            Some(_) => return Err(invalid("has an unknown sslmode")),
        };
        config.ssl_mode(if has_tls {
            SslMode::Require
        } else {
            SslMode::Disable
        });
        let database = config
            .get_dbname()
            .or(config.get_user())
            .unwrap_or("postgres");
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            Some(Host::Unix(folder)) => folder.display().to_string(),
            None => return Err(invalid("names no host")),
        };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let shown = visible(&format!("{host}:{port}/{database}")).into_owned();
        if config.get_user().is_none() {
            return Err(invalid("names no user"));
        }
        if config.get_password().is_none()
            && let Some(password) = from_file(env, &host, port, database, config.get_user())?
        {
            config.password(password);
        }
        config
            .application_name(concat!("rewake ", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(DEAD_AFTER)
            .keepalives_idle(DEAD_AFTER / 2)
            .options("-c synchronous_commit=on -c statement_timeout=30s");
        Ok(Address {
            has_password: config.get_password().is_some(),
            config,
            shown,
            ca_file,
            has_tls,
        })
    }
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            let address: Result<std::net::IpAddr, _> = name.parse();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
    }
}

/// Returns the password of the first line that fits. As for libpq, others must not read the file.
fn from_file(
    env: &Env,
    host: &str,
    port: u16,
    database: &str,
    user: Option<&str>,
) -> Result<Option<Vec<u8>>, SharedError> {
    let path = match (env.var_os("PGPASSFILE"), env.var_os("HOME")) {
        (Some(named), _) => PathBuf::from(named),
        (None, Some(home)) => Path::new(home).join(".pgpass"),
        (None, None) => return Ok(None),
    };
    let Ok(file) = File::open(&path) else {
        return Ok(None);
    };
    let unusable = |why: &str, hint: &str| {
        SharedError::setup(format!("the password file {}: {why}", path.display()), hint)
    };
    let found = file.metadata().map_err(|e| unusable(&e.to_string(), ""))?;
    if !found.is_file() || found.mode() & 0o077 != 0 {
        let hint = format!("chmod 600 {}", path.display());
        return Err(unusable("others can read it", &hint));
    }
    let mut text = String::new();
    file.take(MAX_PASSFILE_BYTES)
        .read_to_string(&mut text)
        .map_err(|e| unusable(&e.to_string(), "it is UTF-8 text, one line for each server"))?;
    let port = port.to_string();
    let wanted = [host, &port, database, user.unwrap_or_default()];
    Ok(text.lines().find_map(|line| password_of(line, &wanted)))
}

/// Returns the password of a line `HOST:PORT:DATABASE:USER:PASSWORD`, if the others are these. `*`
/// fits all, and `\` precedes a `:` or `\` that is meant.
fn password_of(line: &str, wanted: &[&str; 4]) -> Option<Vec<u8>> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields.last_mut()?.extend(chars.next()),
            c => fields.last_mut()?.push(c),
        }
    }
    let fits = fields.len() == 5
        && !line.starts_with('#')
        && wanted
            .iter()
            .zip(&fields)
            .all(|(wanted, field)| field == "*" || field == wanted);
    fits.then(|| fields.pop()).flatten().map(String::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn env(vars: &[(&str, &str)]) -> Env {
        Env::new(vars.iter().copied(), "/")
    }

    #[test]
    fn only_safe_addresses_are_read() {
        let read = |url: &str| Address::read(url, &env(&[]), None);
        let far = read("postgresql://ann@db.example:6432/team?sslmode=verify-full").unwrap();
        assert_eq!(
            (far.shown.as_str(), far.has_tls),
            ("db.example:6432/team", true)
        );
        assert!(read("postgres://ann@db.example/team").unwrap().has_tls);
        assert!(read("postgres://ann@localhost/team?hostaddr=203.0.113.7").is_err());
        assert!(!read("postgres://ann@localhost/team").unwrap().has_tls);
        assert!(!read("postgres://ann@[::1]/team").unwrap().has_tls);
        assert!(
            read("postgres://ann@127.0.0.1/team?sslmode=require")
                .unwrap()
                .has_tls
        );
        let socket = read("postgres://ann@/team?host=/var/run/postgresql").unwrap();
        assert!(!socket.has_tls);
        for url in [
            "db.example",
            "host=db.example",
            "https://db.example",
            "postgres://ann@db.example/team?sslmode=disable",
            "postgres://ann@db.example/team?sslmode=prefer",
            "postgres://ann@db.example/team?sslmode=x",
            "postgres://ann@db.example/team?secret=x",
            "postgres://ann:secret@db.example:x/team",
            "postgres://db.example/team",
            "postgres://ann@/team",
        ] {
            let error = read(url).err().unwrap();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_password_comes_from_the_file_of_passwords() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pass");
        let lines = "# a comment\nother:5432:team:ann:no\ndb.example:*:team:ann:a\\:b\\\\c:d\n*:*:*:*:all\n";
        std::fs::write(&file, lines).unwrap();
        let vars = [("PGPASSFILE", file.to_str().unwrap())];
        let read = |url: &str| {
            let address = Address::read(url, &env(&vars), None)?;
            Ok::<_, SharedError>(address.config.get_password().map(<[u8]>::to_vec))
        };
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = read("postgres://ann@db.example/team").unwrap_err();
        assert!(error.hint().unwrap().starts_with("chmod 600 "), "{error}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let of = |url: &str| String::from_utf8(read(url).unwrap().unwrap()).unwrap();
        assert_eq!(of("postgres://ann@db.example/team"), "a:b\\c:d");
        assert_eq!(of("postgres://bob@db.example/team"), "all");
        assert_eq!(of("postgres://bob:own@db.example/team"), "own");
    }
}
