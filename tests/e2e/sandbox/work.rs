//! What has to work in the sandbox: everyday lines, and what a refusal looks like.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::sandbox::alone;
use crate::sandbox::scene::{Done, Scene, Who, copy_program};

fn works(level: &str, pretend: &str, script: &str) -> Done {
    let _alone = alone();
    let mut last = None;
    for who in Who::all() {
        let scene = Scene::new(who, level == "read");
        let done = scene.run_at(level, pretend, &format!("set -e\n{script}\necho all of it"));
        assert!(
            done.code == Some(0) && done.output.contains("all of it") && done.changed.is_empty(),
            "{who:?} {level} {pretend}: {done:?}"
        );
        last = Some(done);
    }
    last.unwrap()
}

const LOOKING: &str = r#"
ls -la; cat plain; grep -rn was . ; find . -name '*.md'; git status --short; git log --oneline || true
git diff; sed -n 1,2p AGENTS.md; awk '{print $1}' plain; wc -l plain; head -1 plain | tr a-z A-Z
du -sh .; stat plain; file plain || true; date; uname -a; id; env > /dev/null; ps aux > /dev/null
for f in *; do test -e "$f"; done; echo "$PATH"; python3 -c 'print(1)'; git config --list > /dev/null
cat > "$TMPDIR/note" <<EOF
kept
EOF
grep -q kept "$TMPDIR/note"; sort plain | uniq -c; echo x | tee "$TMPDIR/x"; ls /usr/bin > /dev/null
cat /proc/self/status > /dev/null; echo x > /dev/null; head -c 4 /dev/urandom > /dev/null
kill -0 $$ || true; sleep 0.01 & wait; (sleep 5 & kill $! ) || true
"#;

#[test]
fn looking_works_at_level_read() {
    works("read", "", LOOKING);
    works("read", "no-namespaces", LOOKING);
    works("read", "abi=4", LOOKING);
    works("read", "abi=2,no-pid", LOOKING);
}

/// Pseudo-terminals, POSIX semaphores and shared memory.
const DEVICES: &str = r#"
python3 -c '
import os, pty
m, s = os.openpty(); os.write(s, b"x"); assert os.read(m, 1) == b"x"
assert pty.spawn(["test", "-t", "1"]) == 0'
! command -v script || script -qec 'test -t 1 && tty' /dev/null
python3 -c 'import multiprocessing as m; assert m.Pool(2).map(abs, [-1, -2]) == [1, 2]'
"#;

#[test]
fn a_command_makes_terminals_and_semaphores_where_they_are_its_own() {
    for level in ["read", "workspace", "network"] {
        works(level, "", DEVICES);
        works(level, "abi=4", DEVICES);
    }
}

const WORKING: &str = r#"
echo 'all:' > Makefile; printf '\techo made > made\n' >> Makefile; make -s; test -s made
git add plain made; git commit -q -m first; git checkout -q -b other; echo x >> plain
git commit -q -a -m second; git stash list; git checkout -q -; git merge -q other; git tag v1; git gc -q
git worktree add -q ../ws/tree other 2>/dev/null || true; git log --oneline | grep -q second
mkdir -p a/b; mv made a/b/; cp -a a c; ln -s plain l; ln plain h; rm -rf c; chmod 755 h; touch -d 2001-01-01 h
mkdir -p src; echo 'int main(void){return 0;}' > src/m.c; cc src/m.c -o m; ./m
cat > test_it.py <<'EOF'
import http.server, multiprocessing, os, socket, subprocess, tempfile, threading, unittest, urllib.request
class T(unittest.TestCase):
    def test_pair(self):
        a, b = socket.socketpair(); a.send(b'x'); self.assertEqual(b.recv(1), b'x')
    def test_tmp(self):
        with tempfile.NamedTemporaryFile() as f: f.write(b'x')
    def test_child(self):
        self.assertEqual(subprocess.run(['sh', '-c', 'exit 3']).returncode, 3)
    def test_signal(self):
        if os.environ.get('NO_SIGNALS'): return
        p = subprocess.Popen(['sleep', '9']); p.terminate(); p.wait()
    def test_shm(self):
        import multiprocessing.shared_memory as s
        m = s.SharedMemory(create=True, size=64); m.close(); m.unlink()
    def test_lock(self):
        multiprocessing.Lock()
EOF
python3 -m unittest -q test_it
"#;

const SERVING: &str = r#"
cat > test_net.py <<'EOF'
import http.server, threading, unittest, urllib.request
class T(unittest.TestCase):
    def test_server(self):
        s = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
        threading.Thread(target=s.serve_forever, daemon=True).start()
        r = urllib.request.build_opener(urllib.request.ProxyHandler({})).open('http://127.0.0.1:%d/' % s.server_port)
        self.assertEqual(r.status, 200)
EOF
python3 -m unittest -q test_net
"#;

#[test]
fn working_works_where_files_are_held() {
    for level in ["workspace", "network"] {
        works(level, "", &format!("{WORKING}{SERVING}"));
    }
}

#[test]
fn working_works_where_files_are_only_compared() {
    works("workspace", "no-namespaces", WORKING);
    works(
        "workspace",
        "abi=4,no-pid",
        &format!("NO_SIGNALS=1; export NO_SIGNALS\n{WORKING}{SERVING}"),
    );
    works("workspace", "abi=4", &format!("{WORKING}{SERVING}"));
}

#[test]
fn node_and_npm_work() {
    let scripts = r#"
command -v npm > /dev/null || exit 0
echo '{"name":"x","version":"1.0.0","scripts":{"hi":"node -e \"console.log(6*7)\""}}' > package.json
npm run -s hi | grep -q 42
"#;
    let _alone = alone();
    for who in Who::all() {
        let scene = Scene::new(who, false);
        let done = scene.run_at("workspace", "", scripts);
        assert_eq!(done.code, Some(0), "{who:?}: {done:?}");
    }
}

#[test]
fn the_exit_code_and_the_input_are_the_commands_own() {
    let _alone = alone();
    let scene = Scene::new(Who::Me, false);
    for pretend in ["", "abi=4"] {
        assert_eq!(scene.run_at("workspace", pretend, "exit 7").code, Some(7));
        assert_eq!(scene.run_at("read", pretend, "exit 3").code, Some(3));
    }
    for pretend in ["", "abi=4"] {
        for (signal, number) in [("KILL", 9), ("TERM", 15), ("INT", 2)] {
            let killed = scene.run_at("workspace", pretend, &format!("kill -{signal} $$; sleep 5"));
            assert_eq!(killed.code, Some(128 + number), "{pretend}: {killed:?}");
        }
    }
    assert_eq!(scene.run_at("full", "", "exit 5").code, Some(5));
}

/// In a process namespace the first process inherits every orphan. It has to take their ends,
/// whatever the command makes of SIGCHLD.
#[test]
fn orphans_of_a_command_are_no_zombies() {
    let _alone = alone();
    let orphans = r#"
import os, time
group = os.getpgrp()
def parents_ended():
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(0.05)
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:
        pass
for _ in range(5):
    parents_ended()
def zombies():
    found = 0
    for name in os.listdir('/proc'):
        try:
            fields = open('/proc/' + name + '/stat').read().rsplit(')', 1)[1].split()
        except (OSError, IndexError):
            continue
        # The group as it is seen from outside.
        if name.isdigit() and fields[0] == 'Z' and fields[2] == outer:
            found += 1
    return found
time.sleep(0.2)
until = time.monotonic() + 20
while zombies() > 0 and time.monotonic() < until:
    time.sleep(0.05)
print('zombies:', zombies())
"#;
    let outer = "outer = open('/proc/self/stat').read().rsplit(')', 1)[1].split()[2]\n";
    for ignored in ["", "trap '' CHLD; "] {
        let script = format!("{ignored}exec python3 -c \"$ORPHANS\"");
        let scene = Scene::new(Who::Me, false);
        let args = [
            "sandbox",
            "--access",
            "workspace",
            "--pretend",
            "abi=4",
            "--",
            "/bin/sh",
        ];
        let mut command = scene.command(&scene.root().join("rewake"), &args);
        command.args(["-c", &script]);
        command.env("ORPHANS", format!("{outer}{orphans}"));
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.trim(), "zombies: 0", "{ignored}: {output:?}");
    }
}

/// As Ctrl+C does, or a stop: a signal to the group of the command reaches the command, and does
/// to a program without a handler what it always does.
#[test]
fn a_signal_to_the_group_is_one_to_the_command() {
    let _alone = alone();
    let cleans_up = "trap 'echo cleaned up > done; exit 4' INT TERM\necho ready\n\
                     while :; do sleep 0.05; done";
    let knows_of_none = "echo ready; exec sleep 300";
    for pretend in ["", "abi=4"] {
        for signal in [Signal::INT, Signal::TERM] {
            for script in [cleans_up, knows_of_none] {
                let scene = Scene::new(Who::Me, false);
                let what = format!("{pretend:?} {signal:?} {script}");
                assert!(ends_by(&scene, pretend, script, signal), "runs on: {what}");
                let done = std::fs::read_to_string(scene.workspace().join("done"));
                assert_eq!(done.is_ok(), script == cleans_up, "{what}");
            }
        }
    }
}

/// Whether a command whose group gets a signal ends, and all that it started.
fn ends_by(scene: &Scene, pretend: &str, script: &str, signal: Signal) -> bool {
    let args = [
        "sandbox",
        "--access",
        "workspace",
        "--pretend",
        pretend,
        "--",
    ];
    let mut command = scene.command(&scene.root().join("rewake"), &args);
    command.args(["/bin/sh", "-c", script]).process_group(0);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let group = Pid::from_raw(child.id() as i32).unwrap();
    kill_process_group(group, signal).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    // At its end nobody holds the pipe any more.
    std::thread::spawn(move || tell.send(std::io::read_to_string(output)));
    let ended = told.recv_timeout(Duration::from_secs(90)).is_ok();
    let _ = kill_process_group(group, Signal::KILL);
    child.wait().unwrap();
    ended
}

#[test]
fn variables_that_look_secret_are_left_out() {
    let _alone = alone();
    let scene = Scene::new(Who::Me, false);
    let rewake = scene.root().join("rewake");
    let run = |set: &str, access: &str| {
        let mut command = scene.command(
            &rewake,
            &[
                "sandbox",
                "--set",
                set,
                "--access",
                access,
                "--",
                "/usr/bin/env",
            ],
        );
        command.env("GITHUB_TOKEN", "t").env("EDITOR", "vi");
        command.env("CACHE_ADDRESS", "redis://:pw-1@db/0");
        command.env("HTTPS_PROXY", "http://u:pw-2@proxy:1");
        command.env("ADDRESS", "//u:pw-3@host/share");
        command.env("OPTIONS", "-u me:pw-4");
        for (number, (key, value)) in [
            ("http.extraHeader", "AUTHORIZATION: basic pw-5"),
            ("safe.directory", "*"),
        ]
        .into_iter()
        .enumerate()
        {
            command.env(format!("GIT_CONFIG_KEY_{number}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        command.env("GIT_CONFIG_COUNT", "2");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let seen = run("shell.pass_env=[]", "read");
    assert!(
        !seen.contains("GITHUB_TOKEN") && seen.contains("EDITOR=vi"),
        "{seen}"
    );
    assert!(!seen.contains("pw-"), "{seen}");
    assert!(!seen.contains("SSH_AUTH_SOCK"), "{seen}");
    for line in [
        "GIT_CONFIG_COUNT=1",
        "GIT_CONFIG_KEY_0=safe.directory",
        "GIT_CONFIG_VALUE_0=*",
    ] {
        assert!(seen.lines().any(|seen| seen == line), "{line}: {seen}");
    }
    assert!(!seen.contains("GIT_CONFIG_KEY_1"), "{seen}");
    assert!(
        seen.contains("TMPDIR=") && seen.contains("GOCACHE="),
        "{seen}"
    );
    let seen = run(
        "shell.pass_env=[\"GITHUB_TOKEN\", \"CACHE_ADDRESS\"]",
        "read",
    );
    assert!(
        seen.contains("GITHUB_TOKEN=t") && seen.contains("pw-1"),
        "{seen}"
    );
    let seen = run("shell.pass_env=[]", "network");
    assert!(seen.contains("pw-2") && !seen.contains("pw-1"), "{seen}");
}

#[test]
fn a_change_of_a_protected_file_is_kept_aside_and_told() {
    let _alone = alone();
    let scene = Scene::new(Who::Me, false);
    let script = "echo evil > .git/hooks/pre-commit; echo y > .mcp.json; echo z >> .git/config";
    let done = scene.run_at("workspace", "no-namespaces", script);
    assert!(done.changed.is_empty(), "{done:?}");
    assert!(done.output.contains("pre-commit is protected"), "{done:?}");
    let quarantine = scene.root().join("home/.rewake-home/quarantine");
    let kept: Vec<String> = std::fs::read_dir(quarantine)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    assert!(kept.iter().any(|text| text == "evil\n"), "{kept:?}");
    assert!(kept.iter().any(|text| text.ends_with("z\n")), "{kept:?}");
}

#[test]
fn a_command_whose_sandbox_cannot_be_had_does_not_run() {
    let _alone = alone();
    let scene = Scene::new(Who::Me, false);
    for lacks in ["abi=0", "no-seccomp"] {
        let done = scene.run_at("read", lacks, "echo it ran");
        assert_eq!(done.code, Some(2), "{lacks}: {done:?}");
        assert!(!done.output.contains("it ran"), "{lacks}: {done:?}");
        assert!(done.output.contains("hint: "), "{lacks}: {done:?}");
    }
}

#[test]
fn a_workspace_that_holds_the_home_folder_is_only_read() {
    let _alone = alone();
    for who in Who::all() {
        let scene = Scene::new(who, false);
        let (home, rewake) = (scene.root().join("home"), scene.root().join("rewake"));
        let run = |level: &str, pretend: &str, script: &str| {
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
            let output = scene
                .command(&rewake, &args)
                .current_dir(&home)
                .output()
                .unwrap();
            (
                output.status.code(),
                String::from_utf8_lossy(&output.stdout).into_owned(),
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )
        };
        let (code, _, why) = run("workspace", "", "echo it ran");
        assert_eq!(code, Some(2), "{why}");
        assert!(why.contains("holds your home folder"), "{why}");
        for pretend in ["", "no-namespaces"] {
            let (code, text, errors) = run(
                "read",
                pretend,
                "cat .gitconfig; cat .ssh/* .netrc .npmrc .rewake-home/*; cat .cargo/credentials.toml; ls",
            );
            assert_eq!(code, Some(0), "{who:?} {pretend} {errors}");
            assert!(text.contains("Ann"), "{who:?} {pretend}: {text} {errors}");
            assert!(
                !text.contains(crate::sandbox::scene::SECRET),
                "{who:?} {pretend}: {text}"
            );
        }
    }
}

#[test]
fn a_sandbox_in_a_sandbox_stands_or_says_why_not() {
    let _alone = alone();
    let scene = Scene::new(Who::Me, false);
    let rewake = scene.root().join("rewake");
    // The program has to be where commands may read.
    let inside = scene.workspace().join("rewake");
    copy_program(&rewake, &inside);
    let script = r#"
REWAKE_HOME=$TMPDIR/r; export REWAKE_HOME
n=$(( ${N:-0} + 1 )); N=$n; export N
echo "layer $n"; cat "$OUT/secret" 2>/dev/null
exec ./rewake sandbox --access workspace -- /bin/sh -c "$SCRIPT"
"#;
    let mut command = scene.command(
        &rewake,
        &[
            "sandbox",
            "--access",
            "workspace",
            "--",
            "/bin/sh",
            "-c",
            script,
        ],
    );
    let output = command.env("SCRIPT", script).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("layer 2"), "{text} {errors}");
    assert!(!text.contains(crate::sandbox::scene::SECRET), "{text}");
    assert_eq!(output.status.code(), Some(2), "{text} {errors}");
    assert!(
        errors.contains("cannot apply the rules for files"),
        "{text} {errors}"
    );
}
