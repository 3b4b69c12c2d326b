//! Lines that run without being asked about where there is no sandbox, as strace sees them, in
//! the folder of nasty names: nothing is written, nothing is run but the commands that the line
//! names, and nothing is opened but the folder and the system.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::cli::LIMIT;
use crate::cli::nasty::{allows, is_there, made_up, room};
use support::{Home, run, skip};

/// So many lines that are allowed are run.
const LINES: usize = 400;

/// Programs and their libraries, settings and devices without content.
const SYSTEM: [&str; 9] = [
    "/usr/",
    "/bin/",
    "/sbin/",
    "/lib",
    "/etc/",
    "/proc/",
    "/sys/",
    "/dev/null",
    "/dev/tty",
];

const OPENS: [&str; 4] = ["open", "openat", "openat2", "creat"];
const RUNS: [&str; 2] = ["execve", "execveat"];
const CHANGES: [&str; 28] = [
    "mkdir",
    "mkdirat",
    "rmdir",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "mknod",
    "mknodat",
    "truncate",
    "chmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "lchown",
    "fchownat",
    "utime",
    "utimes",
    "utimensat",
    "setxattr",
    "lsetxattr",
    "removexattr",
    "lremovexattr",
];

#[test]
fn unasked_commands_open_and_run_only_what_is_permitted() {
    if !is_there("strace") {
        skip("strace");
        return;
    }
    let home = room();
    let writer = Writer::at(&home.path("fifo"));
    let trace = tempfile::tempdir().unwrap();
    let seed = 0x5eed;
    let mut wrong = Vec::new();
    let allowed = made_up(seed).take(LINES * 20);
    let allowed = allowed.filter(|line| allows(line, &home, ""));
    let mut traced = 0;
    for line in allowed.take(LINES) {
        let calls = trace_of(&line, &home, trace.path());
        assert!(!calls.is_empty(), "nothing was traced: {line}");
        traced += 1;
        let found = calls.iter().filter_map(|call| judge(call, &line, &home));
        wrong.extend(found.map(|what| format!("{line}: {what}")));
    }
    drop(writer);
    assert_eq!(traced, LINES, "too few lines are allowed");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What this test would see of lines that are not harmless.
#[test]
fn a_line_that_does_more_is_seen_under_strace() {
    if !is_there("strace") {
        skip("strace");
        return;
    }
    let home = room();
    let trace = tempfile::tempdir().unwrap();
    for (line, seen) in [
        ("echo x > made", "writes"),
        ("find . -maxdepth 0 -exe? ./run \\;", "runs"),
        ("cat -- -k", "opens"),
        ("ls linkdir/", "opens"),
        ("mkdir folder", "changes"),
        ("uniq -- a made2", "writes"),
        ("sh ./run", "writes"),
    ] {
        let calls = trace_of(line, &home, trace.path());
        let found: Vec<String> = calls.iter().filter_map(|c| judge(c, line, &home)).collect();
        assert!(
            found.iter().any(|what| what.starts_with(seen)),
            "{line}: {found:?} {calls:#?}"
        );
    }
}

/// Opens a FIFO for writing whenever somebody reads it, and closes it: its reader goes on.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Writer {
    fn at(fifo: &Path) -> Writer {
        let made = Command::new("mkfifo").arg(fifo).status().unwrap();
        assert!(made.success());
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, fifo) = (stop.clone(), fifo.to_path_buf());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
                drop(
                    fs::OpenOptions::new()
                        .write(true)
                        .custom_flags(flags)
                        .open(&fifo),
                );
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Writer {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// A call that succeeded.
#[derive(Debug)]
struct Call {
    name: String,
    text: String,
    /// Where the descriptor leads that it gave.
    opened: Option<PathBuf>,
}

fn trace_of(line: &str, home: &Home, folder: &Path) -> Vec<Call> {
    for entry in fs::read_dir(folder).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let mut command = Command::new("strace");
    command
        .args([
            "-ff",
            "-y",
            "-qq",
            "-s",
            "4096",
            "-e",
            "trace=%file,creat",
            "-e",
            "signal=none",
        ])
        .args(["-e", "status=successful", "-o"])
        .arg(folder.join("t"))
        .args(["bash", "-c", "--", line])
        .current_dir(home.workspace())
        .env("HOME", home.user())
        .stdin(Stdio::null());
    run(command, LIMIT);
    let files = fs::read_dir(folder).unwrap();
    let texts = files.map(|file| fs::read(file.unwrap().path()).unwrap());
    let texts: Vec<String> = texts
        .map(|t| String::from_utf8_lossy(&t).into_owned())
        .collect();
    texts
        .iter()
        .flat_map(|text| text.lines().filter_map(parse))
        .collect()
}

fn parse(text: &str) -> Option<Call> {
    let (name, _) = text.split_once('(')?;
    let (_, result) = text.rsplit_once(" = ")?;
    let opened = result
        .split_once('<')
        .and_then(|(_, path)| path.strip_suffix('>'));
    (!result.starts_with('-')).then(|| Call {
        name: name.to_string(),
        text: text.to_string(),
        opened: opened.map(PathBuf::from),
    })
}

/// What is wrong with a call.
fn judge(call: &Call, line: &str, home: &Home) -> Option<String> {
    let name = call.name.as_str();
    if CHANGES.contains(&name) {
        return Some(format!("changes: {}", call.text));
    }
    if RUNS.contains(&name) {
        let program = call.text.split('"').nth(1)?;
        let (folder, base) = program.rsplit_once('/').unwrap_or(("", program));
        let is_system = ["/usr/bin", "/bin", "/usr/local/bin"].contains(&folder);
        // egrep is a script that becomes grep.
        let named = line.contains(base) || base == "bash";
        return (!is_system || !named).then(|| format!("runs {program}"));
    }
    if !OPENS.contains(&name) {
        return None;
    }
    let opened = call.opened.as_deref()?;
    let is_written = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "creat("]
        .iter()
        .any(|flag| call.text.contains(flag));
    let is_device = [Path::new("/dev/null"), Path::new("/dev/tty")].contains(&opened);
    if is_written && !is_device {
        return Some(format!("writes {}", opened.display()));
    }
    let text = opened.to_string_lossy();
    let is_system = SYSTEM.iter().any(|folder| text.starts_with(folder));
    let is_inside = opened.starts_with(home.workspace().canonicalize().unwrap());
    // Where the system's list of users is looked up, folder by folder.
    let is_looked_up = line.starts_with("id") && ["/", "/usr", "/etc", "/run"].contains(&&*text);
    (!is_system && !is_inside && !is_looked_up).then(|| format!("opens {}", opened.display()))
}
