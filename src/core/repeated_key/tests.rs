//! Tests of the search for a key that is there twice.

use super::*;

#[test]
fn a_key_twice_is_found() {
    for json in [
        r#"{"a":1,"a":2}"#,
        r#"{"b":[1,{"a":{"x":"}"},"a":{}}]}"#,
        r#"[{"b":{"a":true,"\u0061":false}}]"#,
        r#"{"a\\":"\\\":","a\\":1}"#,
    ] {
        assert!(has_key_twice(json), "{json}");
    }
    for json in [
        "1",
        "{\"a\":1,\"a\":",
        "{}",
        "\"::\"",
        r#"{"a":{"b":1},"b":[{"b":2}]}"#,
        r#"{"a:\"b":"\\","c":"{\"d\":1,\"d\":2}\\"}"#,
    ] {
        assert!(!has_key_twice(json), "{json}");
    }
}
