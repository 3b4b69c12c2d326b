//! Servers of a shared session: they do not start after its lease, and end with it.

use rewake::command::How;
use rewake::command::lease_file::{LeaseFile, clock};
use rewake::command::server::describe;
use rewake::store::home_of_machine;

use super::*;

/// A lease that does not end during a test.
const LONG: Duration = Duration::from_secs(3600);
/// A lease that ends during a test.
const SHORT: Duration = Duration::from_secs(1);

impl Place {
    fn lease(&self, lease: Duration) {
        let (_, boot, _) = home_of_machine().unwrap();
        let file = LeaseFile::at(self.folder.path().join("lease"));
        file.write(&boot, clock(), lease).unwrap();
    }

    fn spec_under_lease(&self) -> ServerSpec {
        ServerSpec {
            lease: Some(self.folder.path().join("lease")),
            ..self.spec()
        }
    }
}

#[tokio::test]
async fn a_server_is_not_started_after_the_lease() {
    let place = place();
    let run = place.servers.prepare(&place.spec_under_lease()).unwrap();
    let past = match place.servers.start(&run, &env()).await.unwrap() {
        Attached::Over(past) => past,
        other => panic!("it was started: {other:?}"),
    };
    let why = describe(past.how());
    assert!(why.contains("the lease of the session ended"), "{why}");
    let outcome = past.outcome("call_1").unwrap();
    assert_eq!(outcome, ServerOutcome::NotBegun);
}

#[tokio::test]
async fn the_end_of_the_lease_ends_a_server() {
    let place = place();
    place.lease(LONG);
    let deaf = ServerSpec {
        program: "/bin/sh".into(),
        args: ["-c", "trap '' TERM; while :; do sleep 0.1; done"]
            .map(String::from)
            .into(),
        ..place.spec_under_lease()
    };
    for spec in [place.spec_under_lease(), deaf] {
        place.lease(LONG);
        let (run, client) = place.start_as(&spec).await;
        client
            .send(&place.append("call_1", 600_000), true)
            .await
            .unwrap();
        until(|| place.info(&run).group.is_some());
        let group = Pid::from_raw(place.info(&run).group.unwrap() as i32).unwrap();
        place.lease(SHORT);
        let outcome = client.answer("call_1").await.unwrap();
        assert_eq!(outcome, ServerOutcome::Lost);
        until(|| !place.info(&run).is_kept);
        assert_eq!(place.past(&run).await.how(), &How::LeaseEnded);
        until(|| rustix::process::test_kill_process_group(group).is_err());
    }
}
