//! A PostgreSQL server for one test, in a temporary folder, and what can go wrong with it.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::skip_everywhere;

/// The role of the owner, whom `trust` lets in.
pub const OWNER: &str = "owner";
/// A role with rewake_worker.
pub const WORKER: &str = "worker";

const LIMIT: Duration = Duration::from_secs(180);

/// A server that was started. It is stopped when this is dropped.
pub struct Postgres {
    root: tempfile::TempDir,
    pub port: u16,
    /// Its data is a copy of these. They stay while a server of this process has them.
    _template: Option<Arc<Template>>,
}

/// The data of a server that ended, with the empty database `team`.
struct Template(tempfile::TempDir);

impl Template {
    fn get(programs: &Path) -> Arc<Template> {
        static TEMPLATE: Mutex<Weak<Template>> = Mutex::new(Weak::new());
        let mut template = TEMPLATE.lock().unwrap_or_else(PoisonError::into_inner);
        template.upgrade().unwrap_or_else(|| {
            let made = Arc::new(Template::make(programs));
            *template = Arc::downgrade(&made);
            made
        })
    }

    fn make(programs: &Path) -> Template {
        let root = folder();
        let data = root.path().join("data");
        let mut init = as_other(&programs.join("initdb"));
        init.args(["--no-sync", "-A", "trust", "-U", OWNER, "-E", "UTF8"]);
        init.args(["--no-locale", "-D"]);
        init.arg(&data).current_dir(root.path());
        done(init);
        let mut server = Postgres {
            root,
            port: 0,
            _template: None,
        };
        server.up("");
        server.sql_in("postgres", "CREATE DATABASE team");
        server.down("fast");
        let template = Template(folder());
        copy_data(server.root.path(), template.0.path());
        template
    }
}

/// Copies the data of a server into another folder.
fn copy_data(from: &Path, to: &Path) {
    let mut copy = as_other(Path::new("cp"));
    copy.arg("-R").arg(from.join("data")).arg(to.join("data"));
    copy.current_dir(to);
    done(copy);
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

/// A folder that the server may use too.
fn folder() -> tempfile::TempDir {
    let root = tempfile::Builder::new()
        .prefix("rewake-pg-")
        .tempdir()
        .unwrap();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(root.path(), open).unwrap();
    root
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
        server.sql("INSERT INTO rewake.meta (schema, lease) VALUES (2, '20 s')");
        server.sql(&format!("GRANT rewake_worker TO {WORKER}"));
        Some(server)
    }

    /// Starts a server with an empty database `team`.
    pub fn empty() -> Option<Postgres> {
        let Some(programs) = programs() else {
            skip_everywhere("PostgreSQL (Debian: postgresql)");
            return None;
        };
        let template = Template::get(programs);
        let root = folder();
        copy_data(template.0.path(), root.path());
        let mut server = Postgres {
            root,
            port: 0,
            _template: Some(template),
        };
        server.up("");
        Some(server)
    }

    /// Starts a standby of this server, from a copy of its data.
    pub fn standby(&self) -> Postgres {
        let root = folder();
        let mut copy = as_other(&programs().unwrap().join("pg_basebackup"));
        copy.args(["-R", "--no-sync", "-c", "fast", "-h", "127.0.0.1", "-p"]);
        copy.args([&self.port.to_string(), "-U", OWNER, "-D"]);
        copy.arg(root.path().join("data")).current_dir(root.path());
        done(copy);
        let mut standby = Postgres {
            root,
            port: 0,
            _template: None,
        };
        standby.up("");
        standby
    }

    /// Makes a standby the primary server.
    pub fn promote(&self) {
        let mut promote = self.control();
        promote.args(["-w", "-t", "120", "promote"]);
        done(promote);
    }

    /// Waits until a query returns this.
    #[track_caller]
    pub fn until(&self, sql: &str, wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let found = self.sql(sql);
            if wanted(&found) {
                return found;
            }
            assert!(Instant::now() < end, "{sql}: {found}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Names the standbys that a commit waits for. Returns when commits wait.
    pub fn wait_for_standbys(&self, names: &str) {
        self.sql(&format!(
            "ALTER SYSTEM SET synchronous_standby_names = '{names}'"
        ));
        self.sql("SELECT pg_reload_conf()");
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            let mut commit = self.psql(OWNER, "team");
            commit.args(["-c", "UPDATE rewake.meta SET schema = schema"]);
            let mut commit = commit.stderr(Stdio::null()).spawn().unwrap();
            while commit.try_wait().unwrap().is_none() {
                if self.cancel(OWNER, "wait_event = 'SyncRep'") {
                    commit.wait().unwrap();
                    return;
                }
            }
        }
        panic!("no commit waits for a standby");
    }

    /// Cancels what a role does, if it waits so. Returns whether it did.
    pub fn cancel(&self, role: &str, waits: &str) -> bool {
        self.sql(&format!(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = '{role}' AND {waits}"
        )) == "t"
    }

    /// Runs SQL in a transaction that is open until the returned is dropped.
    pub fn hold(&self, sql: &str) -> Held {
        let mut psql = self.psql(OWNER, "team");
        psql.args(["-f", "-"]);
        psql.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut psql = psql.spawn().unwrap();
        let sql = format!("BEGIN;\n{sql};\n\\echo held\n");
        psql.stdin
            .as_mut()
            .unwrap()
            .write_all(sql.as_bytes())
            .unwrap();
        let lines = BufReader::new(psql.stdout.as_mut().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == "held"));
        Held(psql)
    }

    /// Puts the entries on a disk of this size. `None`: only root can mount one.
    pub fn small_disk(&self, size: &str) -> Option<SmallDisk> {
        let folder = self.root.path().join("small");
        std::fs::create_dir(&folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("mode=0777,size={size}"), "-"]);
        let mounted = mount.arg(&folder).stderr(Stdio::null()).status();
        if !mounted.is_ok_and(|status| status.success()) {
            skip_everywhere("the right to mount a tmpfs");
            return None;
        }
        let disk = SmallDisk(folder);
        let mut space = as_other(Path::new("mkdir"));
        space.arg(disk.0.join("space"));
        done(space);
        let space = disk.0.join("space");
        self.sql(&format!(
            "CREATE TABLESPACE small LOCATION '{}'",
            space.display()
        ));
        self.sql("ALTER TABLE rewake.lines SET TABLESPACE small");
        Some(disk)
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
                "-c listen_addresses=127.0.0.1 -c port={} -c unix_socket_directories='{}' {settings}",
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
        let mut psql = self.psql(role, database);
        psql.args(["-f", "-"]);
        psql.stdin(Stdio::piped());
        let mut child = psql
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

impl Postgres {
    fn psql(&self, role: &str, database: &str) -> Command {
        let mut psql = Command::new(programs().unwrap().join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        psql.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        psql.args(["-U", role, "-d", database]);
        psql.env("PGOPTIONS", "-c client_min_messages=warning");
        psql.stdin(Stdio::null());
        psql
    }
}

/// A transaction that is open. A drop rolls it back.
pub struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A disk with the entries of all sessions.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Fills the disk to its end.
    pub fn fill(&self) {
        let mut file = std::fs::File::create(self.0.join("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    pub fn free(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The server has files of it open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let mut down = self.control();
        down.args(["-m", "immediate", "stop"]);
        let _ = down.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}
