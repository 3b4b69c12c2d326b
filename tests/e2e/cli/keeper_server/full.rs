//! A disk that is full, on either side.

#![cfg(target_os = "linux")]

use rustix::process::{Resource, Rlimit, prlimit};

use super::*;

/// No file of the keeper may grow beyond this, or all may again.
fn limit(place: &Place, run: &str, bytes: Option<u64>) {
    let keeper = Pid::from_raw(place.keeper(run) as i32).unwrap();
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(Some(keeper), Resource::Fsize, limit).unwrap();
}

#[tokio::test]
async fn a_request_that_cannot_be_recorded_is_not_sent() {
    let place = place();
    let (run, client) = place.start().await;
    ask(&client, "call_1", "echo", json!(1)).await;
    limit(&place, &run, Some(0));
    let refused = client
        .send(&place.append("call_2", 0), true)
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("cannot be written down"),
        "{refused}"
    );
    assert_eq!(client.outcome("call_2").unwrap(), ServerOutcome::NotBegun);
    limit(&place, &run, None);
    // All that was handed over before it is done now.
    assert_eq!(ask(&client, "call_3", "echo", json!(3)).await, json!(3));
    assert_eq!(place.appended(), [""; 0]);
    client.send(&place.append("call_2", 0), true).await.unwrap();
    client.answer("call_2").await.unwrap();
    assert_eq!(place.appended(), ["call_2"]);
    client.leave().await;
}

#[tokio::test]
async fn an_answer_that_cannot_be_written_down_is_held_until_it_can() {
    let place = place();
    let (run, client) = place.start().await;
    client
        .send(&place.append_until_go("call_1"), true)
        .await
        .unwrap();
    client
        .send(&request("call_2", "echo", json!(2)), true)
        .await
        .unwrap();
    limit(&place, &run, Some(0));
    place.go();
    let since = Instant::now();
    while client.paused().is_none() {
        assert!(since.elapsed() < Duration::from_secs(90), "it was not told");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(client.outcome("call_1").unwrap(), ServerOutcome::Running);
    // Also for the next agent.
    drop(client);
    let client = place.attach(&run).await;
    assert_eq!(client.outcome("call_1").unwrap(), ServerOutcome::Running);
    limit(&place, &run, None);
    assert_eq!(
        result(client.answer("call_1").await.unwrap()),
        json!("appended")
    );
    assert_eq!(result(client.answer("call_2").await.unwrap()), json!(2));
    assert_eq!(client.paused(), None);
    assert_eq!(place.appended(), ["call_1"]);
    client.leave().await;
}
