//! Servers that restart during a session: they are waited for, and asked for their window again.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cli::{LIMIT, refused, streamed};
use support::{Home, Live, Options, Protocol, Says, Server};

fn server(port: u16, window: u64) -> Server {
    let settings = json!({"default_generation_settings": {"n_ctx": window}, "chat_template": "x"});
    let options = Options {
        port,
        pages: vec![("/props", settings)],
        ..Options::default()
    };
    Server::start_with(options, |_| Says::text("here").into())
}

/// The session is in the middle of a request whose server is away.
fn waiting(home: &Home, args: &[&str]) -> Live {
    let args = [args, &["--output-format", "stream-json"]].concat();
    let live = Live::spawn(home.rewake(args));
    let says = |line: &str| line.contains("\"retry\"") && line.contains("waiting for the server");
    live.wait_for(LIMIT, says);
    live
}

#[test]
fn a_server_that_restarts_is_waited_for_also_after_a_kill() {
    let first = server(0, 8_192);
    let home = Home::with(&first, Protocol::Chat);
    home.run(["-p", "one"]).expect(0);
    let port = first.address().port();
    drop(first);

    let mut killed = waiting(&home, &["-p", "-c", "two"]);
    killed.kill();
    killed.wait(LIMIT);
    let stopped = waiting(&home, &["-p", "-c"]);
    let pid = Pid::from_raw(stopped.id() as i32).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(stopped.wait(LIMIT).code(), Some(130));

    let resumed = waiting(&home, &["-p", "-c", "three"]);
    let again = server(port, 8_192);
    let run = resumed.wait(LIMIT).expect(0);
    assert_eq!(run.events().pop().unwrap()["result"], "here");
    again.assert_no_violations();
}

/// Nothing has answered there: the port is wrong.
#[test]
fn a_server_that_never_answered_is_not_waited_for() {
    let gone = server(0, 8_192);
    let home = Home::with(&gone, Protocol::Chat);
    drop(gone);
    let run = home.run(["-p", "one", "--set", "retry.base_ms=1"]);
    assert!(!run.stderr.contains("waiting for"), "{}", run.stderr);
    let words = [
        "cannot reach ",
        ": connection refused",
        "tried 6 times",
        "start the server",
    ];
    refused(run, 75, &words);
}

#[test]
fn the_window_of_a_server_that_restarted_is_learnt() {
    let first = server(0, 8_192);
    let home = Home::with(&first, Protocol::Chat);
    let port = first.address().port();
    let learnt = |args: &[&str]| -> Vec<Value> {
        let events = streamed(&home, args).expect(0).events();
        let learnt = events.iter().filter(|line| line["type"] == "entry.learned");
        learnt.map(|line| line["limit"].clone()).collect()
    };
    assert_eq!(learnt(&["-p", "one"]), [8_192]);
    assert_eq!(learnt(&["-p", "-c", "two"]), [0; 0]);
    drop(first);
    for window in [16_384, 4_096] {
        let again = server(port, window);
        assert_eq!(learnt(&["-p", "-c", "three"]), [window]);
        drop(again);
    }
}
