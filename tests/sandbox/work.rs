//! What has to work in the sandbox: everyday lines, and what a refusal looks like.

use crate::alone;
use crate::scene::{Done, Scene, Who};

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
    let killed = scene.run_at("workspace", "", "kill -9 $$");
    assert_eq!(killed.code, Some(128 + 9));
    assert_eq!(scene.run_at("full", "", "exit 5").code, Some(5));
}

#[test]
fn variables_that_look_secret_are_left_out() {
    let _alone = alone();
    let scene = Scene::new(Who::Me, false);
    let rewake = scene.root().join("rewake");
    let run = |set: &str| {
        let mut command = scene.command(
            &rewake,
            &[
                "sandbox",
                "--set",
                set,
                "--access",
                "read",
                "--",
                "/usr/bin/env",
            ],
        );
        command.env("GITHUB_TOKEN", "t").env("EDITOR", "vi");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let seen = run("shell.pass_env=[]");
    assert!(
        !seen.contains("GITHUB_TOKEN") && seen.contains("EDITOR=vi"),
        "{seen}"
    );
    assert!(!seen.contains("SSH_AUTH_SOCK"), "{seen}");
    assert!(
        seen.contains("TMPDIR=") && seen.contains("GOCACHE="),
        "{seen}"
    );
    let seen = run("shell.pass_env=[\"GITHUB_TOKEN\"]");
    assert!(seen.contains("GITHUB_TOKEN=t"), "{seen}");
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
                !text.contains(crate::scene::SECRET),
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
    std::fs::copy(&rewake, &inside).unwrap();
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
    assert!(!text.contains(crate::scene::SECRET), "{text}");
    assert_eq!(output.status.code(), Some(2), "{text} {errors}");
    assert!(
        errors.contains("cannot apply the rules for files"),
        "{text} {errors}"
    );
}
