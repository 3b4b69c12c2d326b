//! What strace writes (`-f -yy -o FILE`), as operations in their order.
//!
//! A line is `PID call(arguments) = result`. A call that another process's line came between
//! is two lines: `PID call(arguments <unfinished ...>` and `PID <... call resumed>) = result`.
//! Descriptors carry what they name: `5</a/file>`, `7<TCP:[127.0.0.1:1->127.0.0.1:2]>`.

use std::collections::HashMap;
use std::path::Path;

/// What is traced. Those that an architecture does not have are marked as such with `?`.
pub const CALLS: [&str; 20] = [
    "?open",
    "openat",
    "write",
    "pwrite64",
    "writev",
    "sendto",
    "sendmsg",
    "fsync",
    "fdatasync",
    "syncfs",
    "?rename",
    "renameat",
    "renameat2",
    "?link",
    "linkat",
    "?mkdir",
    "mkdirat",
    "?rmdir",
    "unlinkat",
    "execve",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    pub pid: u32,
    pub what: What,
}

/// What counts as done when: a sync when it has returned, all else when it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// `text` is as strace shows it, with its escapes. Also what is sent.
    Wrote {
        fd: u32,
        to: String,
        text: String,
    },
    Synced {
        path: String,
    },
    /// All of the file system that a path lies on.
    SyncedAll {
        path: String,
    },
    /// A rename or a link.
    Named {
        from: String,
        to: String,
    },
    MadeFolder {
        path: String,
    },
    RemovedFolder {
        path: String,
    },
    Executed {
        args: String,
    },
}

/// Every operation of the trace.
///
/// # Panics
/// On a call of [`CALLS`] that cannot be read: what is not understood is not passed over.
pub fn read(text: &str) -> Vec<Op> {
    let mut ops = Vec::new();
    let mut unfinished: HashMap<u32, String> = HashMap::new();
    for line in text.lines() {
        let (pid, rest) = line.split_once(' ').expect("a line begins with a pid");
        let pid = pid.parse().expect("a pid");
        let rest = rest.trim_start();
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            ops.extend(begins(begun).map(|what| Op { pid, what }));
            unfinished.insert(pid, begun.trim_end().to_string());
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            let (_, end) = resumed
                .split_once(" resumed>")
                .expect("a call that resumes");
            let begun = unfinished.remove(&pid).unwrap_or_default();
            ops.extend(returns(&format!("{begun}{end}")).map(|what| Op { pid, what }));
        } else {
            ops.extend(begins(rest).map(|what| Op { pid, what }));
            ops.extend(returns(rest).map(|what| Op { pid, what }));
        }
    }
    ops
}

fn begins(call: &str) -> Option<What> {
    let (name, args) = call.split_once('(')?;
    match name {
        "write" | "pwrite64" | "writev" | "sendto" | "sendmsg" => {
            let (fd, to, rest) = descriptor(args);
            let text = rest.strip_prefix(", ").unwrap_or(rest).to_string();
            Some(What::Wrote { fd, to, text })
        }
        "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
            let Ok([from, to]) = <[String; 2]>::try_from(paths(args)) else {
                panic!("two paths expected: {call}")
            };
            Some(What::Named { from, to })
        }
        "execve" => Some(What::Executed {
            args: args.to_string(),
        }),
        _ => None,
    }
}

/// What counts only when it has succeeded.
fn returns(call: &str) -> Option<What> {
    let (name, args) = call.split_once('(')?;
    let ok = call
        .rsplit_once(" = ")
        .is_some_and(|(_, code)| code.trim() == "0");
    match name {
        "fsync" | "fdatasync" if ok => {
            let (_, path, _) = descriptor(args);
            Some(What::Synced { path })
        }
        "syncfs" if ok => {
            let (_, path, _) = descriptor(args);
            Some(What::SyncedAll { path })
        }
        "rmdir" | "unlinkat" if ok && (name == "rmdir" || args.contains("AT_REMOVEDIR")) => {
            let path = paths(args).into_iter().next().expect("a path");
            Some(What::RemovedFolder { path })
        }
        "mkdir" | "mkdirat" if ok => {
            let path = paths(args).into_iter().next().expect("a path");
            Some(What::MadeFolder { path })
        }
        _ => None,
    }
}

/// `5</a/file>, …` as number, name, rest.
fn descriptor(args: &str) -> (u32, String, &str) {
    let digits = args
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(args.len());
    let (fd, rest) = args.split_at(digits);
    let fd = fd
        .parse()
        .unwrap_or_else(|_| panic!("a descriptor expected: {args}"));
    // A socket's name has `->` in it, a path may have anything: the name ends where the
    // arguments go on.
    let ends = [">, ", ">)", "> <unfinished"]
        .iter()
        .filter_map(|e| rest.find(e));
    let end = ends
        .min()
        .unwrap_or(rest.trim_end().len().saturating_sub(1));
    let name = rest.get(1..end).unwrap_or_default();
    (
        fd,
        name.to_string(),
        rest.get(end + 1..).unwrap_or_default(),
    )
}

/// The paths among the arguments. One that is relative starts in the folder whose descriptor
/// comes before it.
fn paths(args: &str) -> Vec<String> {
    // The paths of the test have no quotes in them.
    let pieces: Vec<&str> = args.split('"').collect();
    let path = |pair: &[&str]| {
        let folder = pair[0]
            .rsplit_once('<')
            .and_then(|(_, rest)| rest.strip_suffix(">, "));
        let path = Path::new(folder.unwrap_or_default()).join(pair[1]);
        path.to_string_lossy().into_owned()
    };
    pieces.chunks_exact(2).map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(text: &str) -> Vec<What> {
        read(text).into_iter().map(|op| op.what).collect()
    }

    fn synced(path: &str) -> What {
        What::Synced { path: path.into() }
    }

    #[test]
    fn calls_are_read_with_what_their_descriptors_name() {
        let text = r#"
7 write(1<pipe:[99]>, "{\"type\":\"x\"}\n", 13) = 13
7  sendto(12<TCP:[127.0.0.1:40->127.0.0.1:50]>, "POST / HTTP", 11, MSG_NOSIGNAL, NULL, 0) = 11
8 fdatasync(9</h/rewake.db-wal>) = 0
8 fsync(9</h/a>) = -1 EIO (Input/output error)
7 renameat2(AT_FDCWD</w>, "/w/a", AT_FDCWD</w>, "/w/b", RENAME_NOREPLACE) = 0
7 renameat2(5</w/new>, ".tmp", 5</w/new>, "two", RENAME_NOREPLACE) = 0
7 mkdirat(5</w>, "new", 0777) = 0
7 mkdir("/w", 0777) = -1 EEXIST (File exists)
7 openat(AT_FDCWD</w>, "/w/b", O_RDONLY) = 3</w/b>
7 +++ exited with 0 +++"#;
        let wanted = [
            What::Wrote {
                fd: 1,
                to: "pipe:[99]".into(),
                text: r#""{\"type\":\"x\"}\n", 13) = 13"#.into(),
            },
            What::Wrote {
                fd: 12,
                to: "TCP:[127.0.0.1:40->127.0.0.1:50]".into(),
                text: r#""POST / HTTP", 11, MSG_NOSIGNAL, NULL, 0) = 11"#.into(),
            },
            synced("/h/rewake.db-wal"),
            What::Named {
                from: "/w/a".into(),
                to: "/w/b".into(),
            },
            What::Named {
                from: "/w/new/.tmp".into(),
                to: "/w/new/two".into(),
            },
            What::MadeFolder {
                path: "/w/new".into(),
            },
        ];
        assert_eq!(whats(text.trim_start()), wanted);
    }

    #[test]
    fn a_call_in_two_lines_begins_with_the_first_and_returns_with_the_second() {
        let text = r#"1 fsync(9</h/a> <unfinished ...>
2 write(5</h/b>, "x", 1 <unfinished ...>
1 <... fsync resumed>)              = 0
2 <... write resumed>)              = 1"#;
        let wrote = What::Wrote {
            fd: 5,
            to: "/h/b".into(),
            text: "\"x\", 1 ".into(),
        };
        assert_eq!(whats(text), [wrote, synced("/h/a")]);
    }
}
