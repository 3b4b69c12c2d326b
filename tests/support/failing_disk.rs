//! A disk that fails: a library that is loaded in front of the C library and lets calls on files
//! of one name fail with an error that is asked for.

use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static int left = -1, failed;

static int is_meant(int fd) {
    const char *file = getenv("FAIL_FILE");
    if (!file) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return strstr(path, file) != NULL;
}

/* Whether this call on this file is to fail: the first FAIL_AFTER do not, then FAIL_TIMES do. */
static int fails(const char *call, int fd) {
    const char *calls = getenv("FAIL_CALLS");
    if (!calls || !strstr(calls, call) || !is_meant(fd)) return 0;
    if (left < 0) left = atoi(getenv("FAIL_AFTER"));
    if (left > 0) { left--; return 0; }
    const char *times = getenv("FAIL_TIMES");
    if (times && failed >= atoi(times)) return 0;
    failed++;
    errno = atoi(getenv("FAIL_ERRNO"));
    return 1;
}

/* How far files are on the disk. */
static struct { ino_t file; off_t bytes; } synced[64];
static int files;

static off_t *synced_bytes(ino_t file) {
    for (int i = 0; i < files; i++) if (synced[i].file == file) return &synced[i].bytes;
    if (files == 64) abort();
    synced[files].file = file;
    return &synced[files++].bytes;
}

/* As the kernel may do it: what was to be synced and could not be is dropped, and is clean. */
static int sync_or_drop(int fd, int (*next)(int)) {
    struct stat now;
    if (!is_meant(fd) || fstat(fd, &now)) return next(fd);
    off_t *bytes = synced_bytes(now.st_ino);
    if (!fails("sync", fd)) {
        int result = next(fd);
        if (!result) *bytes = now.st_size;
        return result;
    }
    int error = errno;
    if (getenv("FAIL_DROPS") && (ftruncate(fd, *bytes) || ftruncate(fd, now.st_size))) abort();
    errno = error;
    return -1;
}

#define WRAP(result, call, kind, args, names) \
    result call args { \
        static result (*next) args; \
        if (!next) next = (result (*) args) dlsym(RTLD_NEXT, #call); \
        return fails(kind, fd) ? -1 : next names; \
    }

WRAP(ssize_t, read, "read", (int fd, void *b, size_t n), (fd, b, n))
WRAP(ssize_t, pread, "read", (int fd, void *b, size_t n, off_t o), (fd, b, n, o))
WRAP(ssize_t, pread64, "read", (int fd, void *b, size_t n, off64_t o), (fd, b, n, o))
WRAP(ssize_t, write, "write", (int fd, const void *b, size_t n), (fd, b, n))
WRAP(ssize_t, pwrite, "write", (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
WRAP(ssize_t, pwrite64, "write", (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o))

int fsync(int fd) {
    return sync_or_drop(fd, (int (*)(int)) dlsym(RTLD_NEXT, "fsync"));
}

int fdatasync(int fd) {
    return sync_or_drop(fd, (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync"));
}
"#;

/// `None` where there is no C compiler.
pub struct FailingDisk {
    library: PathBuf,
    _folder: tempfile::TempDir,
}

/// What fails.
pub struct Fails<'a> {
    /// `read`, `write` or `sync`.
    pub call: &'a str,
    /// The end of a path, or a part of it.
    pub file: &'a str,
    /// So many such calls are done before.
    pub after: u32,
    /// As `errno` has it.
    pub errno: i32,
    /// How often; then the disk is well again. `None`: from then on.
    pub times: Option<u32>,
    /// What a sync that fails was for is lost, and the next one finds nothing to do.
    pub drops: bool,
}

impl FailingDisk {
    pub fn build() -> Option<FailingDisk> {
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("f.c"), folder.path().join("f.so"));
        std::fs::write(&source, SOURCE).unwrap();
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .output()
            .ok()?;
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{said}");
        Some(FailingDisk {
            library,
            _folder: folder,
        })
    }

    /// The same command, on this disk.
    pub fn under(&self, mut command: Command, fails: &Fails<'_>) -> Command {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAIL_CALLS", fails.call)
            .env("FAIL_FILE", fails.file)
            .env("FAIL_AFTER", fails.after.to_string())
            .env("FAIL_ERRNO", fails.errno.to_string());
        if let Some(times) = fails.times {
            command.env("FAIL_TIMES", times.to_string());
        }
        if fails.drops {
            command.env("FAIL_DROPS", "1");
        }
        command
    }
}
