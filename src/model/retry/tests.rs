//! Tests of what is tried again.

use super::*;

const RETRY: Retry = Retry {
    tries: 3,
    base_ms: 100,
    cap_ms: 300,
};

fn refused(class: FailureClass, retry_after_s: Option<u64>) -> Refused {
    Refused {
        failure: Failure {
            class,
            message: "asking p".into(),
            hint: None,
        },
        retry_after: retry_after_s.map(Duration::from_secs),
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
fn what_the_server_asks_for_is_the_least() {
    let asked = Some(Duration::from_secs(7));
    assert_eq!(RETRY.delay(1, asked, 1.0), Duration::from_secs(7));
    let asked = Some(Duration::from_millis(1));
    assert_eq!(RETRY.delay(1, asked, 1.0), Duration::from_millis(100));
}

#[test]
fn only_what_may_pass_is_tried_again_and_not_for_ever() {
    use FailureClass::*;
    for class in [RateLimit, Overloaded, Network] {
        assert!(RETRY.next(1, refused(class, None), 0.5).is_ok());
        let last = RETRY.next(3, refused(class, None), 0.5).unwrap_err();
        assert_eq!(last.message, "asking p (tried 3 times)");
    }
    for class in [TooLong, Auth, BadRequest, Protocol, Nonsense] {
        let failure = RETRY.next(1, refused(class, None), 0.5).unwrap_err();
        assert_eq!(failure.message, "asking p");
    }
}

#[test]
fn a_wait_that_is_too_long_is_told_at_once() {
    let failure = RETRY
        .next(1, refused(FailureClass::RateLimit, Some(3600)), 0.5)
        .unwrap_err();
    assert!(failure.message.contains("3600 s"), "{}", failure.message);
    assert!(
        RETRY
            .next(1, refused(FailureClass::RateLimit, Some(300)), 0.5)
            .is_ok()
    );
}

#[test]
fn retry_after_is_read_in_all_its_forms() {
    let now: Timestamp = "2026-10-21T07:27:30Z".parse().unwrap();
    let read = |ms, after| retry_after(ms, after, now).map(|d| d.as_millis());
    assert_eq!(read(Some("1500"), Some("9")), Some(1500));
    assert_eq!(read(None, Some("2")), Some(2000));
    assert_eq!(read(None, Some(" 0.5 ")), Some(500));
    assert_eq!(
        read(None, Some("Wed, 21 Oct 2026 07:28:00 GMT")),
        Some(30_000)
    );
    assert_eq!(read(None, Some("Wed, 21 Oct 2026 07:00:00 GMT")), Some(0));
    assert_eq!(read(None, Some("soon")), None);
    assert_eq!(read(None, Some("-1")), None);
    assert_eq!(read(None, Some("1e300")), None);
    assert_eq!(read(None, None), None);
}

#[test]
fn jitter_is_spread_between_0_and_1() {
    let values: Vec<f64> = (0..100).map(|_| jitter()).collect();
    assert!(values.iter().all(|v| (0.0..1.0).contains(v)));
    assert!(values.iter().any(|v| *v < 0.5) && values.iter().any(|v| *v > 0.5));
}
