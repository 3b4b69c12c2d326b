//! A PostgreSQL server for one test, in a temporary folder.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use crate::support::skip_everywhere;

/// The role of the owner, whom `trust` lets in.
pub const OWNER: &str = "owner";
/// A role with rewake_worker.
pub const WORKER: &str = "worker";

/// A server that was started. It is stopped when this is dropped.
pub struct Postgres {
    root: tempfile::TempDir,
    pub port: u16,
}

/// The folder of the programs of a server. `None`: none is installed.
fn programs() -> Option<&'static PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            let versions = std::fs::read_dir("/usr/lib/postgresql").ok();
            let debian = versions.into_iter().flatten().flatten();
            let debian = debian.map(|version| version.path().join("bin"));
            let path = std::env::var_os("PATH").unwrap_or_default();
            let path = std::env::split_paths(&path).collect::<Vec<_>>();
            debian
                .chain(path)
                .find(|folder| folder.join("initdb").is_file())
        })
        .as_ref()
}

/// A command as a user that may run a server: `initdb` refuses root.
fn as_other(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
    command.arg(program);
    command
}

fn done(mut command: Command) {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Postgres {
    /// Starts a server with the tables of rewake. `None`: the test is skipped.
    pub fn start() -> Option<Postgres> {
        let server = Postgres::empty()?;
        server.sql(&format!("CREATE ROLE {WORKER} LOGIN"));
        for version in ["1", "2"] {
            let sql = std::fs::read_to_string(format!("assets/fleet/{version}.sql"));
            server.sql(&sql.unwrap());
        }
        server.sql("INSERT INTO rewake.meta (schema, lease) VALUES (2, '5 s')");
        server.sql(&format!("GRANT rewake_worker TO {WORKER}"));
        Some(server)
    }

    /// Starts a server with an empty database `team`.
    pub fn empty() -> Option<Postgres> {
        let Some(programs) = programs() else {
            skip_everywhere("PostgreSQL (Debian: postgresql)");
            return None;
        };
        let root = tempfile::Builder::new()
            .prefix("rewake-pg-")
            .tempdir()
            .unwrap();
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(root.path(), open).unwrap();
        let data = root.path().join("data");
        let mut init = as_other(&programs.join("initdb"));
        init.args([
            "--no-sync",
            "-A",
            "trust",
            "-U",
            OWNER,
            "-E",
            "UTF8",
            "--no-locale",
            "-D",
        ]);
        init.arg(&data).current_dir(root.path());
        done(init);
        let mut server = Postgres { root, port: 0 };
        server.up("");
        server.sql_in("postgres", "CREATE DATABASE team");
        Some(server)
    }

    /// Starts the server, on a new port if it has none. Somebody else may have taken the port.
    pub fn up(&mut self, settings: &str) {
        let is_new = self.port == 0;
        for _ in 0..20 {
            if is_new {
                let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                self.port = free.local_addr().unwrap().port();
            }
            let options = format!(
                "-c listen_addresses=127.0.0.1 -c port={} -c unix_socket_directories={} {settings}",
                self.port,
                self.root.path().display()
            );
            let mut up = self.control();
            up.args(["-w", "-t", "120", "-o", &options, "-l"]);
            up.arg(self.root.path().join("log")).arg("start");
            up.stdout(Stdio::null()).stderr(Stdio::null());
            if up.status().unwrap().success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(300));
        }
        panic!("{}", self.log());
    }

    /// Stops the server: `fast`, or `immediate`, which is like a crash.
    pub fn down(&self, mode: &str) {
        let mut down = self.control();
        down.args(["-w", "-t", "120", "-m", mode, "stop"]);
        done(down);
    }

    fn control(&self) -> Command {
        let mut control = as_other(&programs().unwrap().join("pg_ctl"));
        control.current_dir(self.root.path());
        control.arg("-D").arg(self.root.path().join("data"));
        control
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.root.path().join("log")).unwrap_or_default()
    }

    /// Puts lines before the rules of who may connect how.
    pub fn allow(&self, rules: &str) {
        let file = self.root.path().join("data/pg_hba.conf");
        let rest = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{rules}\n{rest}")).unwrap();
        self.sql_in("postgres", "SELECT pg_reload_conf()");
    }

    /// Writes a file into the folder of the data, which only the server may read.
    pub fn secret(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.path().join("data").join(name);
        let data = std::fs::metadata(self.root.path().join("data")).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        if rustix::process::geteuid().is_root() {
            use std::os::unix::fs::MetadataExt;
            std::os::unix::fs::chown(&path, Some(data.uid()), Some(data.gid())).unwrap();
        }
        path
    }

    pub fn url(&self, role: &str) -> String {
        format!("postgresql://{role}@127.0.0.1:{}/team", self.port)
    }

    /// Runs SQL as the owner of the database. Returns the rows, a line each.
    pub fn sql(&self, sql: &str) -> String {
        self.sql_in("team", sql)
    }

    fn sql_in(&self, database: &str, sql: &str) -> String {
        let (text, is_done) = self.sql_as(OWNER, database, sql);
        assert!(is_done, "{sql}: {text}");
        text
    }

    /// Runs SQL as a role. Returns what it printed, and whether it succeeded.
    pub fn sql_as(&self, role: &str, database: &str, sql: &str) -> (String, bool) {
        let psql = programs().unwrap().join("psql");
        let mut child = Command::new(psql)
            .args([
                "-X",
                "-q",
                "-A",
                "-t",
                "-v",
                "ON_ERROR_STOP=1",
                "-h",
                "127.0.0.1",
            ])
            .args([
                "-p",
                &self.port.to_string(),
                "-U",
                role,
                "-d",
                database,
                "-f",
                "-",
            ])
            .env("PGOPTIONS", "-c client_min_messages=warning")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(sql.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (
            String::from_utf8_lossy(&text).trim().to_string(),
            output.status.success(),
        )
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let mut down = self.control();
        down.args(["-m", "immediate", "stop"]);
        let _ = down.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}
