//! An answer fits a JSON Schema.

use crate::scenes::structured::*;

#[test]
fn stdout_is_exactly_the_json() {
    for (answer, json) in [
        (r#"{"n": 1.0}"#, r#"{"n": 1.0}"#),
        ("```json\n{\"n\": 2}\n```", r#"{"n": 2}"#),
        ("\n {\"n\":3}\n\n", r#"{"n":3}"#),
    ] {
        let run = asks(&says(&[answer])).expect(0);
        assert_eq!(run.stdout, format!("{json}\n"), "{answer}");
    }
}
