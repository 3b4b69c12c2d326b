//! Tests of what is tried again.

use super::*;

const RETRY: Retry = Retry {
    tries: 3,
    base_ms: 100,
    cap_ms: 300,
    max_wait_ms: 600_000,
    waits_for_server: true,
};

fn after(failed: u32) -> SoFar {
    SoFar {
        failed,
        ..SoFar::default()
    }
}

fn refused(class: FailureClass, retry_after_s: Option<u64>) -> Refused {
    Refused {
        failure: Failure::new(class, "request to p failed"),
        retry_after: retry_after_s.map(Duration::from_secs),
        is_away: false,
    }
}

#[test]
fn the_back_off_doubles_up_to_a_cap() {
    let ms = |failed, jitter| RETRY.delay(failed, None, jitter).as_millis();
    assert_eq!(
        [1, 2, 3, 4, 1000].map(|n| ms(n, 1.0)),
        [100, 200, 300, 300, 300]
    );
    assert_eq!(ms(2, 0.5), 100);
    assert_eq!(ms(2, 0.0), 0);
}

#[test]
fn the_retry_delay_is_at_least_what_the_server_asks_for() {
    let asked = Some(Duration::from_secs(7));
    assert_eq!(RETRY.delay(1, asked, 0.0), Duration::from_secs(7));
    let asked = Some(Duration::from_millis(1));
    assert_eq!(RETRY.delay(1, asked, 1.0), Duration::from_millis(100));
}

/// Many clients get the same answer.
#[test]
fn equal_delays_are_spread_and_never_shorter() {
    let asked = Some(Duration::from_secs(30));
    let secs = |jitter| RETRY.delay(1, asked, jitter).as_secs_f64();
    let delays = [0.0, 0.5, 1.0].map(secs);
    assert!(delays[0] == 30.0 && delays.is_sorted() && delays[1] > 31.0 && delays[2] <= 33.0);
    // The longest wait too.
    for class in [FailureClass::RateLimit, FailureClass::Overloaded] {
        let all = RETRY.next(&after(1), refused(class, Some(600)), 1.0);
        assert_eq!(all, Ok(Duration::from_secs(660)));
    }
}

#[test]
fn only_what_may_pass_is_tried_again_and_not_for_ever() {
    use FailureClass::*;
    for class in [Overloaded, Network] {
        assert!(RETRY.next(&after(1), refused(class, None), 0.5).is_ok());
        let last = RETRY
            .next(&after(3), refused(class, None), 0.5)
            .unwrap_err();
        assert_eq!(last.message, "request to p failed (tried 3 times)");
    }
    for class in [TooLong, Auth, BadRequest, Protocol, Nonsense] {
        let failure = RETRY
            .next(&after(1), refused(class, None), 0.5)
            .unwrap_err();
        assert_eq!(failure.message, "request to p failed");
    }
}

#[test]
fn a_wait_that_is_too_long_is_told_at_once() {
    let ask =
        |so_far: &SoFar, s| RETRY.next(so_far, refused(FailureClass::RateLimit, Some(s)), 0.5);
    let failure = ask(&after(1), 3600).unwrap_err();
    assert!(failure.message.contains("3600 s"), "{}", failure.message);
    assert!(ask(&after(1), 600).is_ok());
    let waited = SoFar {
        waited: Duration::from_secs(500),
        ..SoFar::default()
    };
    assert!(ask(&waited, 100).is_ok());
    assert!(ask(&waited, 101).is_err());
}

#[test]
fn a_limit_is_waited_for_as_long_as_there_is_time_and_not_for_ever() {
    let limited = |limited, waited_s| {
        let so_far = SoFar {
            limited,
            waited: Duration::from_secs(waited_s),
            ..SoFar::default()
        };
        RETRY.next(&so_far, refused(FailureClass::RateLimit, None), 0.5)
    };
    // More often than `tries`, with a pause each time.
    for n in 1..50 {
        assert!(limited(n, 599).unwrap() >= Duration::from_millis(50), "{n}");
    }
    assert!(
        limited(3, 600)
            .unwrap_err()
            .message
            .contains("tried 3 times")
    );
    assert!(limited(MAX_LIMITED, 1).is_err());
    // With one try configured, nothing is retried.
    let once = Retry { tries: 1, ..RETRY };
    assert!(!once.waits_for(&refused(FailureClass::RateLimit, None)));
    assert!(
        once.next(&after(1), refused(FailureClass::RateLimit, Some(1)), 0.5)
            .is_err()
    );
}

#[test]
fn a_limit_inside_a_stream_is_waited_for_too() {
    let refused = Refused::from(Failure::new(
        FailureClass::RateLimit,
        "the provider broke off its answer: try again in 20s",
    ));
    assert_eq!(refused.retry_after, Some(Duration::from_secs(20)));
}

#[test]
fn jitter_is_spread_between_0_and_1() {
    let values: Vec<f64> = (0..100).map(|_| jitter()).collect();
    assert!(values.iter().all(|v| (0.0..1.0).contains(v)));
    assert!(values.iter().any(|v| *v < 0.5) && values.iter().any(|v| *v > 0.5));
}

/// A local server takes minutes to load a model. A server that is only busy is given up as before.
#[test]
fn a_server_that_loads_a_model_is_waited_for() {
    let so_far = SoFar {
        failed: 3,
        limited: 40,
        waited: Duration::from_secs(90),
    };
    let elsewhere = Retry {
        waits_for_server: false,
        ..RETRY
    };
    let loading = || Refused {
        is_away: true,
        ..refused(FailureClass::Overloaded, None)
    };
    assert_eq!(RETRY.next(&so_far, loading(), 0.0), Ok(AWAY_PAUSE));
    assert!(elsewhere.next(&so_far, loading(), 0.0).is_err());
    let busy = refused(FailureClass::Overloaded, None);
    assert!(RETRY.next(&so_far, busy, 0.0).is_err());
    let late = SoFar {
        waited: Duration::from_secs(600),
        ..so_far
    };
    assert!(RETRY.next(&late, loading(), 0.0).is_err());
    for (status, body, is_loading) in [
        (503, r#"{"error":{"message":"Loading model"}}"#, true),
        (503, "Model m is currently loading", true),
        (503, "downloading", false),
        (500, "loading model", false),
        (503, "error loading model /m.gguf", false),
        (503, "at capacity", false),
    ] {
        assert_eq!(wait::is_for_loading(status, body), is_loading, "{body}");
    }
}
