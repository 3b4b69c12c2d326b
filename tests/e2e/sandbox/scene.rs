//! A small machine to break out of: a home folder with secrets, a workspace, a folder outside,
//! and a process of the same user.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub const SECRET: &str = "GOT-IT-7261";

/// What a process that outlives its command is called with: its seconds, with the PID of this test
/// run behind them, so that two runs on a machine do not find each other's.
pub fn survivor() -> String {
    format!("30.7261{}", std::process::id())
}

/// One look that finds no survivor proves nothing: they may be between two forks.
const LOOKS: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Me,
    /// An ordinary user; only root can become one.
    Nobody,
}

impl Who {
    pub fn all() -> Vec<Who> {
        match is_root() {
            true => vec![Who::Me, Who::Nobody],
            false => vec![Who::Me],
        }
    }

    pub fn is_root(self) -> bool {
        self == Who::Me && is_root()
    }

    fn command(self, program: &Path) -> Command {
        match self {
            Who::Me => Command::new(program),
            Who::Nobody => {
                let mut command = Command::new("setpriv");
                command
                    .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
                    .arg(program);
                command
            }
        }
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// In a process apart: what this one has open for writing, each program that a test beside starts
/// has open until it runs, and until then the copy does not run.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-p").args([from, to]).status();
    assert!(copied.unwrap().success());
}

pub struct Scene {
    folder: tempfile::TempDir,
    who: Who,
    victim: Child,
    variables: Vec<(String, String)>,
    before: BTreeMap<String, String>,
    /// The workspace counts as outside too.
    only_reads: bool,
}

/// What a command did.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub output: String,
    /// What changed that must not.
    pub changed: Vec<String>,
}

impl Done {
    pub fn got_through(&self) -> bool {
        self.output.contains(SECRET) || !self.changed.is_empty()
    }
}

impl Scene {
    pub fn new(who: Who, only_reads: bool) -> Scene {
        let folder = tempfile::Builder::new()
            .prefix("rewake-scene-")
            .tempdir()
            .unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o755)).unwrap();
        fill(&root);
        // Where the ordinary user can reach it. Large: copied only where it has to be.
        let (built, reachable) = (Path::new(env!("CARGO_BIN_EXE_rewake")), root.join("rewake"));
        let is_open = |folder: &Path| {
            std::fs::metadata(folder).is_ok_and(|found| found.mode() & 0o005 == 0o005)
        };
        if built.ancestors().all(is_open) {
            symlink(built, &reachable).unwrap();
        } else {
            copy_program(built, &reachable);
        }
        if who == Who::Nobody {
            let done = Command::new("chown")
                .args(["-R", "-h", "65534:65534"])
                .args([root.join("home"), root.join("outside")])
                .status();
            assert!(done.unwrap().success());
        }
        let (victim, variables) = victim(who, &root);
        let mut scene = Scene {
            folder,
            who,
            victim,
            variables,
            before: BTreeMap::new(),
            only_reads,
        };
        scene.before = scene.look();
        scene
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub fn workspace(&self) -> PathBuf {
        self.root().join("home/ws")
    }

    /// Runs a script without a sandbox.
    pub fn run(&self, script: &str) -> Done {
        let done = self.finish(self.command(Path::new("/bin/sh"), &["-c", script]));
        if done.got_through() {
            return done;
        }
        // A signal takes a moment to be seen.
        std::thread::sleep(std::time::Duration::from_millis(500));
        Done {
            changed: self.changed(),
            ..done
        }
    }

    /// Runs a script in a sandbox of a level, on a kernel that lacks something.
    pub fn run_at(&self, level: &str, pretend: &str, script: &str) -> Done {
        let args = [
            "sandbox",
            "--access",
            level,
            "--pretend",
            pretend,
            "--",
            "/bin/sh",
            "-c",
            script,
        ];
        self.finish(self.command(&self.root().join("rewake"), &args))
    }

    pub fn command(&self, program: &Path, args: &[&str]) -> Command {
        let root = self.root();
        let mut command = self.who.command(program);
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("LANG", "C.UTF-8")
            .env("HOME", root.join("home"))
            .env("REWAKE_HOME", root.join("home/.rewake-home"))
            .env("SSH_AUTH_SOCK", root.join("outside/stream.sock"))
            .env("OUT", root.join("outside"))
            .env("WS", self.workspace())
            .envs(self.variables.iter().cloned())
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end, and looks at what it did.
    pub fn finish(&self, mut command: Command) -> Done {
        let output = command.output().unwrap();
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        let changed = self.changed();
        end_survivors();
        Done {
            code: output.status.code(),
            output: text,
            changed,
        }
    }

    fn changed(&self) -> Vec<String> {
        let after = self.look();
        let names = self.before.keys().chain(after.keys());
        let mut changed: Vec<String> = names
            .filter(|name| self.before.get(*name) != after.get(*name))
            .cloned()
            .collect();
        changed.sort();
        changed.dedup();
        changed
    }

    /// Everything that no level may change, by name.
    fn look(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let home = self.root().join("home");
        let ours = [
            home.join("ws"),
            home.join(".rewake-home/caches"),
            home.join(".rewake-home/quarantine"),
            home.join(".rewake-home/placeholders"),
        ];
        look_at(&self.root().join("outside"), &[], true, &mut found);
        look_at(&home, &ours, true, &mut found);
        let workspace = self.workspace();
        if self.only_reads {
            look_at(&workspace, &[], true, &mut found);
        }
        for name in PROTECTED {
            look_at(&workspace.join(name), &[], false, &mut found);
        }
        let pid = self.victim.id();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        let state = match fields.first() {
            Some(&("S" | "R" | "D")) => "lives",
            _ => "dead or stopped",
        };
        let nice = fields.get(16).unwrap_or(&"").to_string();
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let killed = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj"));
        found.insert(
            "(the other process)".into(),
            format!("{state} {nice} {limits} {killed:?}"),
        );
        if self.only_reads && (0..LOOKS).any(|_| !survivors().is_empty()) {
            found.insert("(what lives on)".into(), String::new());
        }
        found
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// Protected names of the workspace, existing and not.
const PROTECTED: [&str; 15] = [
    ".git/config",
    ".git/hooks",
    ".git/commondir",
    ".git/config.worktree",
    "sub/deep/.git/config",
    "sub/deep/.git/hooks",
    "AGENTS.md",
    ".rewake",
    ".mcp.json",
    ".vscode/tasks.json",
    ".github/workflows",
    ".envrc",
    ".husky",
    ".claude",
    ".git/info/attributes",
];

fn fill(root: &Path) {
    let write = |name: &str, text: &str| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for name in [
        "outside/secret",
        "home/.ssh/id_ed25519",
        "home/.netrc",
        "home/.aws/credentials",
        "home/.config/gh/hosts.yml",
        "home/.cargo/credentials.toml",
        "home/.git-credentials",
        "home/.npmrc",
        "home/.docker/config.json",
        "home/.bash_history",
        "home/.mozilla/logins.json",
        "home/letter.txt",
        "home/.rewake-home/notes.db",
        "home/ws-other/secret",
    ] {
        write(name, SECRET);
    }
    write("home/.rewake-home/config.toml", &format!("# {SECRET}\n"));
    write("outside/plain", "as it was\n");
    std::fs::create_dir(root.join("outside/empty")).unwrap();
    write("home/.bashrc", "# as it was\n");
    write(
        "home/.gitconfig",
        "[user]\nname = Ann\nemail = ann@example.org\n",
    );
    write("home/.local/bin/ls", "#!/bin/sh\n");
    write("home/.cargo/bin/cargo", "#!/bin/sh\n");
    write("home/.cargo/registry/lib.rs", "// as it was\n");
    write("home/ws/plain", "as it was\n");
    write("home/ws/AGENTS.md", "as it was\n");
    write("home/ws/.rewake/config.toml", "");
    write("home/ws/.github/workflows/ci.yml", "on: push\n");
    symlink(root.join("outside/secret"), root.join("home/ws/link")).unwrap();
    symlink(root.join("outside"), root.join("home/ws/linked")).unwrap();
    std::fs::create_dir(root.join("home/ws/race")).unwrap();
    symlink("../plain", root.join("home/ws/race/.envrc")).unwrap();
    for repository in ["home/ws", "home/ws/sub/deep"] {
        let repository = root.join(repository);
        std::fs::create_dir_all(&repository).unwrap();
        let made = Command::new("git")
            .args(["init", "-q", "--template="])
            .current_dir(&repository)
            .status();
        assert!(made.unwrap().success());
        let hook = repository.join(".git/hooks/post-checkout");
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(hook, "#!/bin/sh\n").unwrap();
    }
}

fn victim(who: Who, root: &Path) -> (Child, Vec<(String, String)>) {
    let outside = root.join("outside");
    let mut victim = who
        .command(Path::new("/usr/bin/python3"))
        .arg("-c")
        .arg(include_str!("victim.py"))
        .arg(&outside)
        .env("VICTIM_SECRET", SECRET)
        .current_dir(&outside)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = victim.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let said: BTreeMap<String, serde_json::Value> = serde_json::from_str(&line).unwrap();
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let variables = said.iter().map(|(name, value)| (name.clone(), text(value)));
    (victim, variables.collect())
}

/// Names, kinds, contents, owners and modes, and times where they count.
fn look_at(path: &Path, without: &[PathBuf], times: bool, found: &mut BTreeMap<String, String>) {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return;
    };
    if without.iter().any(|left_out| path == left_out) {
        return;
    }
    let mut text = format!(
        "{:o} {} {}",
        metadata.mode(),
        metadata.uid(),
        metadata.gid()
    );
    // A folder's time changes with what rewake itself does beside it.
    if times && !metadata.is_dir() {
        text.push_str(&format!(" {}.{}", metadata.mtime(), metadata.mtime_nsec()));
    }
    if metadata.is_file() {
        text.push_str(&String::from_utf8_lossy(
            &std::fs::read(path).unwrap_or_default(),
        ));
    } else if metadata.is_symlink() {
        text.push_str(&format!("{:?}", std::fs::read_link(path)));
    }
    found.insert(path.display().to_string(), text);
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).into_iter().flatten() {
            look_at(&entry.unwrap().path(), without, times, found);
        }
    }
}

fn survivors() -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap();
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let survivor = survivor();
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|word| word == survivor.as_bytes())
    })
    .collect()
}

fn end_survivors() {
    let mut empty_looks = 0;
    while empty_looks < LOOKS {
        let found = survivors();
        empty_looks = if found.is_empty() { empty_looks + 1 } else { 0 };
        for pid in found {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}
