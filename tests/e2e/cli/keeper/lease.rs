//! Commands of a shared session: they do not start after its lease, and end with it.

use rewake::command::HookSpec;
use rewake::command::lease_file::{LeaseFile, clock};
use rewake::store::home_of_machine;

use super::*;

/// A lease that does not end during a test.
const LONG: Duration = Duration::from_secs(3600);
/// A lease that ends during a test.
const SHORT: Duration = Duration::from_secs(2);

/// The shell notes TERM and continues. Its child ignores TERM.
const OBEYS_NOBODY: &str = "(trap '' TERM; echo $BASHPID; exec sleep 120) & \
     trap 'touch asked' TERM; while :; do sleep 0.01; done";

fn boot() -> String {
    home_of_machine().unwrap().1
}

impl Place {
    fn lease_path(&self) -> PathBuf {
        self.folder.path().join("lease")
    }

    fn write_lease(&self, since: Duration, lease: Duration) {
        let file = LeaseFile::at(self.lease_path());
        file.write(&boot(), since, lease).unwrap();
    }

    fn write_content(&self, content: impl AsRef<[u8]>) {
        std::fs::write(self.lease_path(), content).unwrap();
    }

    fn spec_under_lease(&self, command: &str) -> Spec {
        Spec {
            lease: Some(self.lease_path()),
            // Ends the command of a keeper that does not look at the lease.
            timeout_ms: 60_000,
            ..self.spec(command)
        }
    }

    /// Starts a command under a long lease. It prints the pid of a process that is in its group.
    fn begin_under_lease(&self, spec: &Spec) -> (Running, u32) {
        self.write_lease(clock(), LONG);
        let run = self.runs.prepare(spec).unwrap();
        let running = self.runs.start(&run).unwrap();
        until(|| self.runs.tail(&run, 100).unwrap().ends_with(b"\n"));
        let printed = String::from_utf8(self.runs.tail(&run, 100).unwrap()).unwrap();
        (running, printed.trim().parse().unwrap())
    }

    /// Waits for the end of a command that the end of its lease must cause, and of its processes.
    async fn ends_with_lease(&self, mut running: Running, child: u32) {
        let ended = self.runs.wait(&mut running).await.unwrap();
        assert_eq!(ended.how, How::LeaseEnded);
        until(|| !is_alive(child));
    }
}

#[tokio::test]
async fn a_command_is_not_started_after_the_lease() {
    let place = place();
    let not_run = async |what: &str| {
        let how = place
            .run(&place.spec_under_lease("echo >> count"))
            .await
            .how;
        let How::NotRun(why) = how else {
            panic!("{what}: {how:?}");
        };
        assert!(why.contains("the lease of the session ended"), "{why}");
    };
    not_run("no file").await;
    place.write_content("garbage");
    not_run("garbage").await;
    place.write_lease(clock(), Duration::ZERO);
    not_run("it ended").await;
    let file = LeaseFile::at(place.lease_path());
    file.write("another boot", clock(), LONG).unwrap();
    not_run("another boot").await;
    assert_eq!(place.count(), 0);

    place.write_lease(clock(), LONG);
    let ended = place.run(&place.spec_under_lease("echo >> count")).await;
    assert_eq!((ended.how, place.count()), (How::Exited(0), 1));
}

#[tokio::test]
async fn the_end_of_the_lease_ends_the_whole_group() {
    let place = place();
    for background in [false, true] {
        let spec = Spec {
            background,
            ..place.spec_under_lease(OBEYS_NOBODY)
        };
        let (running, child) = place.begin_under_lease(&spec);
        place.write_lease(clock(), SHORT);
        place.ends_with_lease(running, child).await;
    }
}

#[tokio::test]
async fn a_command_is_asked_before_it_is_killed() {
    let place = place();
    let (running, child) = place.begin_under_lease(&place.spec_under_lease(OBEYS_NOBODY));
    // Since the start of the machine: 5/6 of it are over, 9/10 are not for a long time.
    place.write_lease(Duration::ZERO, clock() * 115 / 100);
    until(|| place.folder.path().join("asked").exists());
    place.write_lease(clock(), Duration::ZERO);
    place.ends_with_lease(running, child).await;
}

#[tokio::test]
async fn a_lease_that_is_extended_lets_a_command_finish() {
    let command = "until [ -e go ]; do sleep 0.01; done";
    loop {
        let place = place();
        let since = clock();
        place.write_lease(since, SHORT);
        let spec = place.spec_under_lease(command);
        let run = place.runs.prepare(&spec).unwrap();
        let mut running = place.runs.start(&run).unwrap();
        until(|| place.info(&run).state != RunState::NotBegun);
        place.write_lease(clock(), LONG);
        let was_in_time = clock() < since + SHORT * 5 / 6;
        until(|| clock() > since + SHORT);
        std::fs::write(place.folder.path().join("go"), "").unwrap();
        let ended = place.runs.wait(&mut running).await.unwrap();
        // On a slow machine, the lease ended before it was extended.
        if was_in_time {
            assert_eq!(ended.how, How::Exited(0));
            return;
        }
    }
}

#[tokio::test]
async fn a_file_without_a_lease_ends_a_command() {
    let place = place();
    let file = LeaseFile::at(place.lease_path());
    let spoil: [&dyn Fn(); 3] = [
        &|| place.write_content("{\"boot\":"),
        &|| std::fs::remove_file(place.lease_path()).unwrap(),
        &|| file.write("another boot", clock(), LONG).unwrap(),
    ];
    for spoil in spoil {
        let spec = place.spec_under_lease("sleep 120 & echo $!; wait");
        let (running, child) = place.begin_under_lease(&spec);
        spoil();
        place.ends_with_lease(running, child).await;
    }
}

/// Its shell has exited, and a process has its output open.
#[tokio::test]
async fn the_end_of_the_lease_ends_a_hook() {
    let place = place();
    place.write_lease(clock(), LONG);
    let spec = Spec {
        hook: Some(HookSpec::default()),
        ..place.spec_under_lease("sleep 120 & echo $!")
    };
    let run = place.runs.prepare_hook(&spec, b"").unwrap();
    let running = place.runs.start(&run).unwrap();
    until(|| place.runs.tail(&run, 100).unwrap().ends_with(b"\n"));
    let printed = String::from_utf8(place.runs.tail(&run, 100).unwrap()).unwrap();
    place.write_lease(clock(), SHORT);
    let child = printed.trim().parse().unwrap();
    place.ends_with_lease(running, child).await;
}
