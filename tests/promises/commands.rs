//! The history is listed and searched.

use crate::scenes::{bash, calling, history, quiet};

#[test]
fn history_lists_and_finds() {
    let home = calling(&[bash("echo a needle in the output")]);
    let empty = home.run(["history"]).expect(0);
    assert_eq!(empty.stdout, "");
    assert!(empty.stderr.contains("no sessions yet"), "{}", empty.stderr);
    home.run(["-p", "look for the haystack"]).expect(0);
    home.run(["-p", "another"]).expect(0);
    let lines = history(&home);
    assert!(lines[0].1.contains("another") && lines[1].1.contains("look for the haystack"));
    assert!(
        lines[1].1.contains("  done ") && lines[1].1.ends_with("  here"),
        "{lines:?}"
    );

    for query in ["haystack", "needle", "HAYSTACK", "look haystack"] {
        let found = home.run(["history", query]).expect(0).stdout;
        assert!(found.contains(&lines[1].0), "{query}: {found}");
    }
    let words = home.run(["history", "look", "for", "haystack"]).expect(0);
    assert!(words.stdout.contains(&lines[1].0), "{}", words.stdout);
    for query in [
        "nothing-of-the-kind",
        "\"",
        "a AND (",
        "*",
        "col:x",
        "NEAR(",
    ] {
        let none = home.run(["history", query]).expect(0);
        quiet(&none);
        assert_eq!(none.stdout, "", "{query}");
    }
    let elsewhere = home.run(["history", "-C", "/"]).expect(0).stdout;
    assert!(
        elsewhere.contains(&*home.workspace().to_string_lossy()),
        "{elsewhere}"
    );
}
