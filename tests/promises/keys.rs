//! A key is stored in a file that only its owner can read.

use std::os::unix::fs::MetadataExt;

use crate::scenes::LIMIT;
use crate::scenes::keys::*;
use support::{Home, run};

#[test]
fn a_key_is_kept_named_and_removed_and_never_shown() {
    let home = Home::new();
    let kept = keep(&home, &["key", "openai"], &format!("{SECRET}\n")).expect(0);
    let file = home.rewake_home().join("keys/openai");
    assert!(kept.stdout.contains(&file.display().to_string()));
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let doctor = home.run(["doctor"]);
    assert!(
        doctor.stdout.contains("openai: from the key kept in"),
        "{}",
        doctor.stdout
    );
    for run in [&kept, &doctor] {
        assert!(!format!("{}{}", run.stdout, run.stderr).contains("very-secret"));
    }
    // The variable goes before it, and the program says so.
    let mut command = home.rewake(["doctor"]);
    command.env("OPENAI_API_KEY", "sk-of-the-environment");
    let doctor = run(command, LIMIT);
    assert!(
        doctor
            .stdout
            .contains("openai: from environment variable OPENAI_API_KEY")
    );
    home.run(["key", "openai", "--remove"]).expect(0);
    assert!(!file.exists());
    assert!(
        home.run(["key", "openai", "--remove"])
            .expect(0)
            .stdout
            .contains("no key")
    );
}
