//! The commands of a shared session have the file with its lease.

use rewake::core::entry::Outcome;
use rewake::world::World;

use super::bench::{Bench, bash, run_of};

/// Here the lease is over.
#[tokio::test]
async fn a_call_after_the_lease_is_not_run_and_the_model_is_told() {
    let mut bench = Bench::new();
    bench.lease_file = Some(bench.folder.path().join("lease"));
    let call = bash("echo >> count");
    let guard = bench.prepared(&call).await;
    let ran = bench.machine().act(&call, &guard).await.unwrap();
    assert!(matches!(ran.outcome, Outcome::Error { .. }), "{ran:?}");
    let (text, _) = ran.outcome.to_model_text();
    let told = "it never ran: the lease of the session ended before it began";
    assert!(text.contains(told), "{text}");
    assert_eq!(bench.count(), 0);
}

#[tokio::test]
async fn a_command_of_the_user_has_the_lease_of_the_session() {
    let mut bench = Bench::new();
    bench.lease_file = Some(bench.folder.path().join("lease"));
    let guard = bench.machine().prepare_for_user("true").await.unwrap();
    let spec = bench.runs().spec(run_of(&guard)).unwrap();
    assert_eq!(spec.lease, bench.lease_file);
}
