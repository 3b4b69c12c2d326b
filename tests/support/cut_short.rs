//! A process that is cut short: a library that is loaded in front of the C library counts what a
//! process does to the files of a folder, writes it down, and kills the process in the middle of a
//! given call, or lets that call or all later writes fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int done;

static int path_of(int fd, char path[4096]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, 4095);
    if (n < 0) return 0;
    path[n] = 0;
    return 1;
}

static void note(const char *what, const char *path, const char *to) {
    static ssize_t (*next)(int, const void *, size_t);
    if (!next) next = (ssize_t (*)(int, const void *, size_t)) dlsym(RTLD_NEXT, "write");
    int fd = open(getenv("CUT_LOG"), O_WRONLY | O_APPEND);
    char line[9000];
    int n = snprintf(line, sizeof line, "%s\t%s\t%s\n", what, path, to);
    if (fd < 0 || next(fd, line, n) != n) abort();
    close(fd);
}

/* 0: the call is made. 1: the process is killed in the middle of it. 2: it fails. */
static int meets(const char *what, const char *path, const char *to) {
    const char *folder = getenv("CUT_FOLDER");
    if (!folder || strncmp(path, folder, strlen(folder))) return 0;
    int at = atoi(getenv("CUT_AT")), now = __sync_add_and_fetch(&done, 1);
    const char *fails = getenv("CUT_FAILS");
    if (fails) {
        int is_full = !strcmp(fails, "full");
        if (is_full ? now < at || strcmp(what, "write") : now != at) return 0;
        errno = is_full ? ENOSPC : EIO;
        return 2;
    }
    if (now == at) return 1;
    note(what, path, to);
    return 0;
}

static void dies(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

#define WRITES(call, args, names) \
    ssize_t call args { \
        static ssize_t (*next) args; \
        if (!next) next = (ssize_t (*) args) dlsym(RTLD_NEXT, #call); \
        char path[4096]; \
        switch (path_of(fd, path) ? meets("write", path, "") : 0) { \
        case 1: n /= 2; note("write", path, ""); if (next names < 0) abort(); dies(); \
        case 2: return -1; \
        } \
        return next names; \
    }

WRITES(write, (int fd, const void *b, size_t n), (fd, b, n))
WRITES(pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
WRITES(pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o))

#define ON_FILE(call, kind, args, names) \
    int call args { \
        static int (*next) args; \
        if (!next) next = (int (*) args) dlsym(RTLD_NEXT, #call); \
        char path[4096]; \
        switch (path_of(fd, path) ? meets(kind, path, "") : 0) { \
        case 1: dies(); \
        case 2: return -1; \
        } \
        return next names; \
    }

ON_FILE(ftruncate, "write", (int fd, off_t n), (fd, n))
ON_FILE(ftruncate64, "write", (int fd, off64_t n), (fd, n))
ON_FILE(fsync, "sync", (int fd), (fd))
ON_FILE(fdatasync, "sync", (int fd), (fd))

int rename(const char *from, const char *to) {
    static int (*next)(const char *, const char *);
    if (!next) next = (int (*)(const char *, const char *)) dlsym(RTLD_NEXT, "rename");
    switch (access(from, F_OK) ? 0 : meets("rename", from, to)) {
    case 1: dies();
    case 2: return -1;
    }
    return next(from, to);
}

int unlink(const char *path) {
    static int (*next)(const char *);
    if (!next) next = (int (*)(const char *)) dlsym(RTLD_NEXT, "unlink");
    switch (access(path, F_OK) ? 0 : meets("unlink", path, "")) {
    case 1: dies();
    case 2: return -1;
    }
    return next(path);
}
"#;

/// The fault at a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cut {
    /// The process is killed in the middle of it.
    Kill,
    /// From this call on no write finds room.
    FullDisk,
    /// It fails, and no other.
    Error,
}

/// A change that a process made to a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Done {
    Wrote(PathBuf),
    Synced(PathBuf),
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf),
}

/// A process that is over.
pub struct Ran {
    /// It ended well.
    pub ended: bool,
    pub said: String,
    /// The changes before the cut.
    pub done: Vec<Done>,
}

pub struct CutShort {
    folder: tempfile::TempDir,
}

impl CutShort {
    /// `None` where there is no C compiler.
    pub fn build() -> Option<CutShort> {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("c.c");
        fs::write(&source, SOURCE).unwrap();
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&folder.path().join("c.so"), &source])
            .arg("-ldl")
            .output()
            .ok()?;
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{said}");
        Some(CutShort { folder })
    }

    /// Runs the command until the call on a file of this folder with this number, from 1.
    pub fn run(&self, command: &mut Command, folder: &Path, (cut, at): (Cut, usize)) -> Ran {
        let log = self.folder.path().join("log");
        fs::write(&log, "").unwrap();
        command
            .env("LD_PRELOAD", self.folder.path().join("c.so"))
            .env("CUT_FOLDER", folder.canonicalize().unwrap())
            .env("CUT_LOG", &log)
            .env("CUT_AT", at.to_string());
        match cut {
            Cut::Kill => {}
            Cut::FullDisk => drop(command.env("CUT_FAILS", "full")),
            Cut::Error => drop(command.env("CUT_FAILS", "error")),
        }
        let output = command.output().unwrap();
        Ran {
            ended: output.status.success(),
            said: String::from_utf8_lossy(&output.stdout).into_owned(),
            done: read(&fs::read_to_string(log).unwrap()),
        }
    }
}

fn read(log: &str) -> Vec<Done> {
    let one = |line: &str| {
        let mut words = line.split('\t');
        let what = words.next().unwrap();
        let mut path = || PathBuf::from(words.next().unwrap());
        match what {
            "write" => Done::Wrote(path()),
            "sync" => Done::Synced(path()),
            "rename" => Done::Renamed(path(), path()),
            "unlink" => Done::Removed(path()),
            other => panic!("{other}"),
        }
    };
    log.lines().map(one).collect()
}

/// Takes back what a power cut may take: all or the last of the renames whose folder was not synced, and
/// the content of files that were not.
pub fn lose_what_is_not_synced(done: &[Done], only_the_last: bool) {
    let (mut dirty, mut renamed): (Vec<&Path>, Vec<(&Path, &Path)>) = (Vec::new(), Vec::new());
    for done in done {
        match done {
            Done::Wrote(path) if !dirty.contains(&&**path) => dirty.push(path),
            Done::Wrote(_) => {}
            Done::Synced(path) => {
                dirty.retain(|dirty| dirty != path);
                renamed.retain(|(from, _)| from.parent() != Some(path));
            }
            Done::Renamed(from, to) => {
                renamed.push((from, to));
                for dirty in &mut dirty {
                    if *dirty == from {
                        *dirty = to;
                    }
                }
            }
            Done::Removed(path) => dirty.retain(|dirty| dirty != path),
        }
    }
    for path in dirty {
        if path.is_file() {
            fs::write(path, "").unwrap();
        }
    }
    let lost = match only_the_last {
        true => 1,
        false => renamed.len(),
    };
    for (from, to) in renamed.into_iter().rev().take(lost) {
        if to.exists() {
            fs::rename(to, from).unwrap();
        }
    }
}
