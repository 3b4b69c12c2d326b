//! A full context does not end a session.

use std::time::Duration;

use crate::scenes::long::*;
use support::{Live, Protocol};

/// Killed again and again in a window that is always full.
#[test]
fn a_session_killed_in_a_small_window_still_completes() {
    let calls = 60;
    let server = server(8_000, calls, Summaries::Work);
    let home = home(&server, Protocol::Chat, calls);
    let mut seed: u64 = 7;
    let mut args: Vec<&str> = vec![
        "-p",
        "read all the files in data",
        "--yolo",
        "--output-format",
        "stream-json",
    ];
    for kill in 0.. {
        assert!(kill < 200, "it never ends");
        let mut live = Live::spawn(home.rewake(&args));
        if kill < 20 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            std::thread::sleep(Duration::from_millis(60 + (seed >> 33) % 250));
            live.kill();
        }
        let run = live.wait(LIMIT);
        match run.code() {
            Some(0) => break,
            // Killed, or a crash loop: three starts that got nowhere.
            None | Some(75) => {}
            other => panic!("exit {other:?}: {}", run.stderr),
        }
        let has_session = !home.run(["history"]).stdout.trim().is_empty();
        args = match has_session {
            true => vec!["-p", "-c", "go on", "--output-format", "stream-json"],
            false => args,
        };
    }
    server.assert_no_violations();
}
