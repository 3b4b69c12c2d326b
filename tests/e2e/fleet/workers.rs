//! Tasks and workers: each data folder is a machine with its own folder for clones at the same path.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rewake::store::Store;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use crate::fleet::postgres::{Postgres, WORKER};
use crate::fleet::{LIMIT, play, refused, step, until};
use support::{Answer, Home, Live, Protocol, Run, Says, Seed, Server, run};
use support::{git, skip_everywhere};

/// A repository that git serves, a database, and the path of the clones.
pub struct Fleet {
    pub server: Postgres,
    /// Has the repository, and the files in which effects are counted.
    pub shared: tempfile::TempDir,
    daemon: std::process::Child,
    port: u16,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Fleet {
    pub fn start() -> Option<Fleet> {
        let server = Postgres::start()?;
        let unshare = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "true"])
            .output();
        let programs = Command::new("git").arg("--exec-path").output().unwrap();
        let folder = String::from_utf8(programs.stdout).unwrap();
        // `git daemon` would run it as a child, which no kill of git ends.
        let daemon = Path::new(folder.trim()).join("git-daemon");
        if !unshare.is_ok_and(|ran| ran.status.success()) || !daemon.exists() {
            skip_everywhere("mount namespaces and git daemon");
            return None;
        }
        let shared = tempfile::tempdir().unwrap();
        let repo = shared.path().join("repos/one");
        std::fs::create_dir_all(&repo).unwrap();
        std::fs::create_dir_all(shared.path().join("work")).unwrap();
        git(&repo, &["init", "-q", "-b", "main"]);
        std::fs::write(repo.join("file"), "first\n").unwrap();
        git(&repo, &["add", "file"]);
        git(&repo, &["commit", "-q", "-m", "first"]);
        let (port, daemon) = serve(&daemon, shared.path());
        let sql = format!(
            "UPDATE rewake.meta SET work_dir = '{}', lease = '20 s'",
            shared.path().join("work").display()
        );
        server.sql(&sql);
        Some(Fleet {
            server,
            shared,
            daemon,
            port,
        })
    }

    /// With leases that end soon. The others last longer than a busy machine may stop a worker.
    fn with_short_leases() -> Option<Fleet> {
        let fleet = Fleet::start()?;
        fleet.server.sql("UPDATE rewake.meta SET lease = '4 s'");
        Some(fleet)
    }

    pub fn repo(&self) -> String {
        format!("git://127.0.0.1:{}/one", self.port)
    }

    /// A machine whose model plays these answers.
    pub fn machine(&self, steps: &[String]) -> Machine {
        let home = Home::new();
        play(&home, steps);
        let url = self.server.url(WORKER);
        home.write_config(&format!(
            "model = \"s/play\"\npermission_mode = \"bypassPermissions\"\n[providers.s]\n\
             protocol = \"script\"\nscript = \"script.toml\"\n[fleet]\nurl = \"{url}\"\n\
             repos = [\"git://127.0.0.1:{}/*\"]\n",
            self.port
        ));
        let work = home.path("machine-work");
        std::fs::create_dir_all(&work).unwrap();
        Machine {
            home,
            work,
            at: self.shared.path().join("work"),
        }
    }

    pub fn submit(&self, by: &Machine, more: &[&str]) -> String {
        let repo = self.repo();
        let args = [&["submit", "do it", "--repo", &repo], more].concat();
        by.home.run(args).expect(0).stdout.trim().to_string()
    }

    fn effects(&self) -> String {
        std::fs::read_to_string(self.shared.path().join("effects")).unwrap_or_default()
    }

    /// A command that notes an effect outside of the clone, and then runs `then`.
    fn effect(&self, name: &str, then: &str) -> String {
        let file = self.shared.path().join("effects");
        let command = format!("echo {name} >> {}; {then}", file.display());
        let call = json!({ "command": command, "access": "full" }).to_string();
        format!(
            "[[step]]\ncalls = [{{ name = \"bash\", arguments = {} }}]\n",
            json!(call)
        )
    }
}

/// Serves the repositories of a folder with this program.
fn serve(program: &Path, folder: &Path) -> (u16, std::process::Child) {
    for _ in 0..20 {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut child = Command::new(program)
            .args(["--export-all", "--reuseaddr", "--listen=127.0.0.1"])
            .arg(format!("--port={port}"))
            .arg(format!("--base-path={}", folder.join("repos").display()))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        loop {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return (port, child);
            }
            if child.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::yield_now();
        }
    }
    panic!("git daemon did not start");
}

/// A data folder with its own folder for clones.
pub struct Machine {
    pub home: Home,
    pub work: PathBuf,
    /// Where that folder is for its processes.
    at: PathBuf,
}

impl Machine {
    /// rewake with the folder for clones of this machine.
    fn command(&self, args: &[&str]) -> Command {
        let rewake = self.home.rewake(args);
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "sh", "-c"])
            .arg("mount --bind \"$0\" \"$1\" && shift && exec \"$@\"")
            .arg(&self.work)
            .arg(&self.at)
            .arg(rewake.get_program())
            .args(rewake.get_args())
            .stdin(Stdio::null());
        if let Some(folder) = rewake.get_current_dir() {
            command.current_dir(folder);
        }
        command.env_clear();
        for (name, value) in rewake.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command
    }

    pub fn run(&self, args: &[&str]) -> Run {
        run(self.command(args), LIMIT)
    }

    /// The entries of a session as this machine has them.
    pub fn entries(&self, id: &str) -> Vec<Value> {
        let store = Store::open(&self.home.rewake_home()).unwrap();
        let records = store.load(id).unwrap().1;
        let entries = records
            .iter()
            .map(|record| serde_json::to_value(&record.entry));
        entries.map(Result::unwrap).collect()
    }

    fn live(&self, args: &[&str]) -> Live {
        Live::spawn(self.command(args))
    }
}

pub fn kinds(entries: &[Value], kind: &str) -> usize {
    entries.iter().filter(|e| e["kind"] == kind).count()
}

#[test]
fn a_task_is_done_by_a_worker() {
    let Some(fleet) = Fleet::start() else {
        return;
    };
    let machine = fleet.machine(&[
        fleet.effect("one", "cat file; git log --format=%s"),
        step("all done", &[]),
    ]);
    let repo = fleet.repo();
    let waits = ["submit", "do it", "--repo", &repo, "--wait", "--key", "k"];
    let waits = Live::spawn(machine.home.rewake(waits));
    // The command for fresh clones sees no password.
    let config = std::fs::read_to_string(machine.home.rewake_home().join("config.toml")).unwrap();
    let setup = "setup = \"env > seen\"\nurl_env = \"FLEET_URL\"\n";
    machine.home.write_config(&format!("{config}{setup}"));
    let mut command = machine.command(&["worker", "--once"]);
    command.env("FLEET_URL", fleet.server.url(WORKER));
    let worker = run(command, LIMIT).expect(0);
    assert!(worker.stdout.contains("all done"), "{}", worker.stdout);
    machine.home.write_config(&config);
    let waited = waits.wait(LIMIT).expect(0);
    let id = waited.stdout.trim().to_string();
    assert_eq!(fleet.effects(), "one\n");
    let seen = std::fs::read_to_string(machine.work.join(&id).join("seen"));
    let seen = seen.unwrap_or_default();
    assert!(
        seen.contains("PATH=") && !seen.contains("FLEET_URL"),
        "{seen}"
    );
    let entries = machine.entries(&id);
    let text = format!("{entries:?}");
    assert!(text.contains("first\\nfirst"), "{text}");
    assert_eq!(kinds(&entries, "moved"), 0);
    // The same key again is the same task.
    let again = fleet.submit(&machine, &["--key", "k"]);
    assert_eq!(again, id);
    // Without work it ends after a while.
    machine.run(&["worker", "--once", "--idle", "1s"]).expect(0);
    machine
        .run(&["worker", "--slots", "2", "--idle", "1s"])
        .expect(0);
    // A message wakes the task.
    play(
        &machine.home,
        &[step("", &[]), step("all done", &[]), step("more done", &[])],
    );
    machine
        .home
        .run(["send", &id, "and more", "--shared"])
        .expect(0);
    let worker = machine.run(&["worker", "--once"]).expect(0);
    assert!(worker.stdout.contains("more done"), "{}", worker.stdout);
    assert_eq!(fleet.effects(), "one\n");
}

#[test]
fn a_task_whose_model_is_gone_says_so_and_uses_the_fallback() {
    let Some(fleet) = Fleet::start() else {
        return;
    };
    let models = Server::start(|seen| match seen.model.as_str() {
        "test-model" => Answer::Raw {
            status: 410,
            content_type: "application/json",
            body: json!({"error": {"message": "deprecated", "code": "model_not_found"}})
                .to_string(),
        },
        _ => Says::text("another answers").into(),
    });
    let machine = fleet.machine(&[]);
    let of_fleet = format!(
        "[fleet]\nurl = \"{}\"\nrepos = [\"git://127.0.0.1:{}/*\"]",
        fleet.server.url(WORKER),
        fleet.port
    );
    machine.home.configure(&models, Protocol::Chat, &of_fleet);
    let id = fleet.submit(&machine, &[]);
    machine.run(&["worker", "--once"]);
    let entries = machine.entries(&id);
    assert_eq!(kinds(&entries, "failed"), 1, "{entries:#?}");
    let text = format!("{entries:?}");
    assert!(
        text.contains("no_model") && text.contains("-m PROVIDER/MODEL"),
        "{text}"
    );

    let more = format!("fallback_model = [\"local/other\"]\n{of_fleet}");
    machine.home.configure(&models, Protocol::Chat, &more);
    let id = fleet.submit(&machine, &[]);
    let worker = machine.run(&["worker", "--once"]).expect(0);
    assert!(
        worker.stdout.contains("another answers"),
        "{}",
        worker.stdout
    );
    assert_eq!(kinds(&machine.entries(&id), "chose"), 1);
}

#[test]
fn another_machine_continues_when_a_worker_dies() {
    let Some(fleet) = Fleet::with_short_leases() else {
        return;
    };
    let wait = format!(
        "until [ -e {} ]; do sleep 0.05; done",
        fleet.shared.path().join("end").display()
    );
    let steps = |second: &str| {
        [
            step(
                "",
                &["echo changed > file; \
                   git -c user.name=a -c user.email=b@c commit -qam second; \
                   echo more >> file; echo new > other"],
            ),
            fleet.effect("one", &wait),
            fleet.effect(
                second,
                "cat file other; git log --format=%s; git status --short",
            ),
            step("finished here", &[]),
        ]
    };
    let first = fleet.machine(&steps("two"));
    let second = fleet.machine(&steps("two"));
    let id = fleet.submit(&first, &[]);
    let mut worker = first.live(&["worker", "--once"]);
    until(|| !fleet.effects().is_empty());
    assert!(worker.kill());
    worker.wait(LIMIT);
    // Its command still waits. The other machine takes the task when the lease is over.
    let other = second.run(&["worker", "--once"]).expect(0);
    assert!(other.stdout.contains("finished here"), "{}", other.stdout);
    std::fs::write(fleet.shared.path().join("end"), "").unwrap();
    assert_eq!(fleet.effects(), "one\ntwo\n");
    let entries = second.entries(&id);
    assert_eq!(kinds(&entries, "moved"), 1, "{entries:#?}");
    let text = format!("{entries:?}");
    assert!(text.contains("was lost; it ended at 20"), "{text}");
    // The files and the commits of the first machine, in a clone of the second.
    let state = "changed\\nmore\\nnew\\nsecond\\nfirst\\n M file\\n?? other";
    assert!(text.contains(state), "{text}");
    assert_eq!(kinds(&entries, "started"), kinds(&entries, "finished"));
    // The dead machine has no say any more.
    let late = first.run(&["-p", "more", "-r", &id]);
    refused(late, 75, &["recorded session"]);
}

#[test]
fn a_restart_on_the_same_machine_has_the_real_results() {
    let Some(fleet) = Fleet::start() else {
        return;
    };
    let wait = format!(
        "until [ -e {} ]; do sleep 0.05; done; echo real",
        fleet.shared.path().join("end").display()
    );
    let machine = fleet.machine(&[fleet.effect("one", &wait), step("done", &[])]);
    let id = fleet.submit(&machine, &[]);
    let mut worker = machine.live(&["worker", "--once"]);
    until(|| !fleet.effects().is_empty());
    assert!(worker.kill());
    worker.wait(LIMIT);
    std::fs::write(fleet.shared.path().join("end"), "").unwrap();
    machine.run(&["worker", "--once"]).expect(0);
    let entries = machine.entries(&id);
    assert_eq!(kinds(&entries, "moved"), 0);
    assert!(format!("{entries:?}").contains("real"), "{entries:?}");
    assert_eq!(fleet.effects(), "one\n");
}

#[test]
fn what_a_worker_and_a_task_lack_is_said() {
    let Some(fleet) = Fleet::start() else {
        return;
    };
    let machine = fleet.machine(&[step("done", &[])]);
    let submit = |repo: &str, more: &[&str]| {
        machine
            .home
            .run([&["submit", "x", "--repo", repo], more].concat())
    };
    for bad in [
        "ext::sh -c id",
        "file:///etc",
        "-u",
        "/etc",
        "git://elsewhere/x",
    ] {
        refused(submit(bad, &[]), 2, &["hint: "]);
    }
    let repo = fleet.repo();
    refused(submit(&repo, &["--ref", "no-such"]), 2, &["has no ref"]);
    refused(
        submit(&repo, &["--ref", "--upload-pack=x"]),
        2,
        &["not a name of a ref"],
    );
    // A worker whose config does not name the repository does not clone it.
    let id = fleet.submit(&machine, &["--label", "gpu"]);
    let other = fleet.machine(&[step("done", &[])]);
    let config = std::fs::read_to_string(other.home.rewake_home().join("config.toml")).unwrap();
    other.home.write_config(&config.replace("/*\"]", "/two\"]"));
    // Labels first: this one has not the label.
    other.run(&["worker", "--once", "--idle", "1s"]).expect(0);
    let run = other.run(&["worker", "--once", "--label", "gpu"]);
    refused(run, 2, &["fleet.repos does not name"]);
    assert_eq!(fleet.server.sql("SELECT exit FROM rewake.tasks"), "2");
    other
        .home
        .write_config(&config.replace("repos = [", "x = [").replace("x = [", "# ["));
    refused(
        other.run(&["worker", "--once"]),
        2,
        &["fleet.repos is empty"],
    );
    // A second data folder in the same folder.
    machine.run(&["worker", "--once", "--idle", "1s"]).expect(0);
    let third = fleet.machine(&[]);
    let third = Machine {
        work: machine.work.clone(),
        ..third
    };
    refused(
        third.run(&["worker", "--once"]),
        2,
        &["another data folder"],
    );
    fleet.server.sql("UPDATE rewake.meta SET work_dir = NULL");
    refused(
        machine.run(&["worker", "--once"]),
        2,
        &["names no folder", "--work-dir"],
    );
    let _ = id;
}

/// A task that cannot be worked on is named, and the others are done.
#[test]
fn a_damaged_task_stops_no_other() {
    let Some(fleet) = Fleet::start() else {
        return;
    };
    let steps = [step("", &["echo changed > file"]), step("done", &[])];
    let first = fleet.machine(&steps);
    let id = &fleet.submit(&first, &[]);
    first.run(&["worker", "--once"]).expect(0);
    for damage in [
        "UPDATE rewake.lines SET body = substr(body, 1, 20) WHERE seq = 2",
        "DELETE FROM rewake.lines WHERE seq = 2",
        "UPDATE rewake.sessions SET tip = decode(repeat('00', 16), 'hex') WHERE true",
    ] {
        fleet.server.sql("CREATE TABLE kept AS TABLE rewake.lines; CREATE TABLE tips AS SELECT id, tip FROM rewake.sessions");
        let column = match damage.contains("sessions") {
            true => "id",
            false => "session",
        };
        fleet.server.sql(&format!("{damage} AND {column} = '{id}'"));
        first.home.run(["send", id, "more", "--shared"]).expect(0);
        let other = fleet.machine(&steps);
        let run = other.run(&["worker", "--once"]);
        assert!(![Some(0), Some(75)].contains(&run.code()), "{run:?}");
        assert!(run.stderr.contains(id.as_str()), "{}", run.stderr);
        let state = format!("SELECT state FROM rewake.sessions WHERE id = '{id}'");
        assert_eq!(fleet.server.sql(&state), "failed");
        // With its mail it is tried twice more, and then it waits for a person.
        other
            .run(&["worker", "--slots", "1", "--idle", "1s"])
            .expect(0);
        assert_eq!(
            fleet.server.sql("SELECT starts, paused FROM rewake.tasks"),
            "4|t"
        );
        fleet
            .server
            .sql("DELETE FROM rewake.mail; UPDATE rewake.tasks SET paused = false, starts = 0");
        fleet.server.sql(
            "TRUNCATE rewake.lines; INSERT INTO rewake.lines SELECT * FROM kept;
             UPDATE rewake.sessions s SET tip = t.tip FROM tips t WHERE t.id = s.id;
             DROP TABLE kept, tips",
        );
    }
    play(&first.home, &steps);
    let _ = [(); 2].map(|()| fleet.submit(&first, &[]));
    let done = first
        .run(&["worker", "--slots", "2", "--idle", "1s"])
        .expect(0);
    assert_eq!(done.stdout.matches("done").count(), 2, "{done:?}");
    let ended = "SELECT count(*) FROM rewake.tasks WHERE exit = 0";
    assert_eq!(fleet.server.sql(ended), "2", "{}", done.stderr);
}

/// A task whose workers die three times waits for a person.
#[test]
fn a_task_that_kills_its_workers_is_paused() {
    let Some(fleet) = Fleet::start() else {
        return;
    };
    let machine = fleet.machine(&[step("done", &[])]);
    let id = fleet.submit(&machine, &[]);
    for _ in 0..3 {
        // A worker that takes it and dies.
        let take = "SELECT count(*) FROM rewake.take_1('{}', 'h', 'b', 'host', 2, '{}')";
        assert_eq!(
            fleet.server.sql_as(WORKER, "team", take),
            ("1".into(), true)
        );
        fleet
            .server
            .sql("UPDATE rewake.sessions SET lease_until = now() - interval '1 s'");
    }
    machine.run(&["worker", "--once", "--idle", "1s"]).expect(0);
    assert_eq!(fleet.server.sql("SELECT paused FROM rewake.tasks"), "t");
    let repo = fleet.repo();
    machine.home.run(["unblock", &id, "--shared"]).expect(0);
    machine.run(&["worker", "--once"]).expect(0);
    assert_eq!(
        fleet.server.sql("SELECT exit, paused FROM rewake.tasks"),
        "0|f"
    );
    let _ = repo;
    // A pause before a worker has it.
    let id = fleet.submit(&machine, &[]);
    machine.home.run(["pause", &id, "--shared"]).expect(0);
    machine.run(&["worker", "--once", "--idle", "1s"]).expect(0);
    fleet
        .server
        .until("SELECT count(*) FROM rewake.tasks WHERE paused", |count| {
            count == "1"
        });
}

/// A worker that is frozen has no commands when another machine continues, and does nothing when it
/// wakes.
#[test]
fn the_commands_of_a_frozen_worker_end_with_its_lease() {
    let Some(fleet) = Fleet::with_short_leases() else {
        return;
    };
    let pid = fleet.shared.path().join("pid");
    // It ignores TERM.
    let forever = format!(
        "trap '' TERM; echo $$ > {pid}.new; mv {pid}.new {pid}; while :; do sleep 0.1; done",
        pid = pid.display()
    );
    let steps = [
        fleet.effect("one", &forever),
        fleet.effect("two", "true"),
        step("done", &[]),
    ];
    let first = fleet.machine(&steps);
    let second = fleet.machine(&steps);
    let id = fleet.submit(&first, &[]);
    let worker = first.live(&["worker", "--once"]);
    until(|| pid.exists());
    let command: i32 = std::fs::read_to_string(&pid)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let signal = |signal| kill_process(Pid::from_raw(worker.id().cast_signed()).unwrap(), signal);
    signal(Signal::STOP).unwrap();
    let other = second.run(&["worker", "--once"]).expect(0);
    assert!(other.stdout.contains("done"), "{}", other.stdout);
    // Nobody is left of its process group: it ended before the other one began.
    assert!(test_kill_process(Pid::from_raw(command).unwrap()).is_err());
    signal(Signal::CONT).unwrap();
    let woken = worker.wait(LIMIT);
    assert_eq!(woken.code(), Some(75), "{}", woken.stderr);
    assert_eq!(fleet.effects(), "one\ntwo\n");
    assert_eq!(kinds(&second.entries(&id), "moved"), 1);
}

/// Workers die and freeze at any time. Each effect happens at most once, and one that may have happened
/// is reported as interrupted.
#[test]
fn effects_of_tasks_happen_once_under_random_faults() {
    const EFFECTS: usize = 4;
    let Some(fleet) = Fleet::with_short_leases() else {
        return;
    };
    let seed = Seed::of("REWAKE_FLEET_SEED", || u64::from(std::process::id()));
    let seconds = number("REWAKE_FLEET_SECONDS", 20);
    let mut random = Noise(seed.number);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut rounds = 0;
    while rounds == 0 || Instant::now() < end {
        let name = |n: usize| format!("r{rounds}-{n}");
        let steps: Vec<String> = (0..EFFECTS)
            .map(|n| fleet.effect(&name(n), "sleep 0.1"))
            .chain([step("done", &[])])
            .collect();
        let machines = [fleet.machine(&steps), fleet.machine(&steps)];
        let id = fleet.submit(&machines[0], &[]);
        let mut workers: [Option<Live>; 2] = [None, None];
        let state = || {
            fleet.server.sql(&format!("SELECT state, coalesce(exit, -1) FROM rewake.sessions JOIN rewake.tasks ON session = id WHERE id = '{id}'"))
        };
        let mut faults = 0;
        let since = Instant::now();
        while !state().starts_with("idle|0") {
            assert!(since.elapsed() < LIMIT, "seed {seed}: {}", state());
            // Three dead workers pause a task.
            fleet
                .server
                .sql("UPDATE rewake.tasks SET starts = 0, paused = false");
            for (machine, worker) in machines.iter().zip(&mut workers) {
                if worker.as_mut().is_none_or(Live::has_ended) {
                    *worker = Some(machine.live(&["worker", "--once", "--idle", "60s"]));
                }
            }
            std::thread::sleep(Duration::from_millis(random.below(400)));
            if faults == 6 {
                for live in workers.iter().flatten() {
                    let pid = Pid::from_raw(live.id().cast_signed()).unwrap();
                    let _ = kill_process(pid, Signal::CONT);
                }
                continue;
            }
            faults += 1;
            let Some(live) = &mut workers[random.below(2) as usize] else {
                continue;
            };
            let pid = Pid::from_raw(live.id().cast_signed()).unwrap();
            match random.below(3) {
                0 => drop(live.kill()),
                // It may have ended.
                1 => drop(kill_process(pid, Signal::STOP)),
                _ => drop(kill_process(pid, Signal::CONT)),
            }
        }
        for worker in workers.iter_mut().flatten() {
            worker.kill();
        }
        let entries = machines
            .iter()
            .map(|machine| {
                machine.home.run(["show", &id, "--shared"]).expect(0);
                machine.entries(&id)
            })
            .max_by_key(Vec::len)
            .unwrap();
        let results = |outcome: &str| {
            let finished = entries.iter().filter(|e| e["kind"] == "finished");
            finished
                .filter(|e| e["outcome"]["outcome"] == outcome)
                .count()
        };
        assert_eq!(
            results("done") + results("interrupted"),
            EFFECTS,
            "seed {seed}: {entries:#?}"
        );
        let effects = fleet.effects();
        let mut lost = 0;
        for n in 0..EFFECTS {
            match effects.lines().filter(|line| *line == name(n)).count() {
                0 => lost += 1,
                1 => {}
                many => panic!("seed {seed}: {} happened {many} times", name(n)),
            }
        }
        assert!(lost <= results("interrupted"), "seed {seed}: {effects}");
        rounds += 1;
    }
    eprintln!("seed {seed}: {rounds} tasks");
}

fn number(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
    given.unwrap_or(default)
}

/// xorshift64*.
struct Noise(u64);

impl Noise {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D).max(1);
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0 >> 16) % most
    }
}
