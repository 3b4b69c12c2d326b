//! A release as a web server has it, and that server.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;

pub const VERSION: &str = "9.9.9";
/// No limit of a download.
pub const ALL: u64 = u64::MAX;

pub fn target() -> String {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("macos", arch) => format!("{arch}-apple-darwin"),
        (_, arch) => format!("{arch}-unknown-linux-musl"),
    }
}

/// The folder in the archive of [`VERSION`].
pub fn name() -> String {
    name_of(VERSION)
}

pub fn name_of(version: &str) -> String {
    format!("rewake-{version}-{}", target())
}

/// A release as a web server has it, and the server.
pub struct Mirror {
    pub folder: TempDir,
    pub address: String,
    /// Number of bytes of an archive after which the connection breaks.
    pub cut: Arc<AtomicU64>,
}

impl Mirror {
    /// `program`: the program in the archive.
    pub fn new(program: &str) -> Mirror {
        let folder = tempfile::tempdir().unwrap();
        let version = folder.path().join(format!("download/v{VERSION}"));
        fs::create_dir_all(&version).unwrap();
        fs::create_dir_all(folder.path().join("latest/download")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mirror = Mirror {
            address: format!("http://{}", listener.local_addr().unwrap()),
            cut: Arc::new(AtomicU64::new(ALL)),
            folder,
        };
        let (files, cut) = (mirror.folder.path().to_path_buf(), Arc::clone(&mirror.cut));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let _ = serve(&stream, &files, cut.load(Ordering::Relaxed));
            }
        });
        mirror.pack(|folder| {
            fs::create_dir(folder.join(name())).unwrap();
            write_program(&folder.join(name()).join("rewake"), program);
        });
        mirror
    }

    pub fn archive(&self) -> PathBuf {
        let folder = self.folder.path().join(format!("download/v{VERSION}"));
        folder.join(format!("{}.tar.gz", name()))
    }

    /// Packs another archive, with its checksum.
    pub fn pack(&self, make: impl FnOnce(&Path)) {
        let made = tempfile::tempdir().unwrap();
        make(made.path());
        pack(&self.archive(), made.path(), &name());
        let sum = sha256(&fs::read(self.archive()).unwrap());
        self.write_sums(&format!("{sum}  {}.tar.gz\n", name()));
    }

    /// Adds another version, which is not the newest.
    pub fn add(&self, version: &str, program: &str) {
        let folder = self.folder.path().join(format!("download/v{version}"));
        fs::create_dir_all(&folder).unwrap();
        let made = tempfile::tempdir().unwrap();
        let name = name_of(version);
        fs::create_dir(made.path().join(&name)).unwrap();
        write_program(&made.path().join(&name).join("rewake"), program);
        let archive = folder.join(format!("{name}.tar.gz"));
        pack(&archive, made.path(), &name);
        let sum = sha256(&fs::read(archive).unwrap());
        fs::write(folder.join("SHA256SUMS"), format!("{sum}  {name}.tar.gz\n")).unwrap();
    }

    pub fn write_sums(&self, text: &str) {
        let version = self
            .folder
            .path()
            .join(format!("download/v{VERSION}/SHA256SUMS"));
        fs::write(version, text).unwrap();
        fs::write(self.folder.path().join("latest/download/SHA256SUMS"), text).unwrap();
    }
}

fn pack(archive: &Path, folder: &Path, name: &str) {
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(archive).arg("-C").arg(folder).arg(name);
    assert!(tar.status().unwrap().success());
}

pub fn write_program(path: &Path, text: impl AsRef<[u8]>) {
    // The name may be a link to a program that is used elsewhere.
    let _ = fs::remove_file(path);
    // Written by another process: what this one has open, every process that another test starts
    // has open too until it runs its program, and a program that is open for writing does not run.
    let mut sh = Command::new("sh");
    sh.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path);
    let mut writer = sh.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = writer.stdin.take().unwrap();
    stdin.write_all(text.as_ref()).unwrap();
    drop(stdin);
    assert!(writer.wait().unwrap().success());
}

/// Copies a program that is run at once, as [`write_program`] writes one.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-p").args([from, to]).status();
    assert!(copied.unwrap().success());
}

pub fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn serve(stream: &TcpStream, files: &Path, cut: u64) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream);
    let mut first = String::new();
    lines.read_line(&mut first)?;
    let mut line = String::new();
    while lines.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    let file = files.join(path.trim_start_matches('/'));
    let mut to = stream;
    let Ok(bytes) = fs::read(&file) else {
        return to.write_all(
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
    };
    let length = bytes.len();
    write!(
        to,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    let is_archive = path.ends_with(".tar.gz");
    let sent = if is_archive {
        cut.min(length as u64)
    } else {
        length as u64
    };
    to.write_all(&bytes[..usize::try_from(sent).unwrap()])
}

pub fn has(command: &str) -> bool {
    let mut which = Command::new("sh");
    which.args(["-c", &format!("command -v {command}")]);
    which
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
