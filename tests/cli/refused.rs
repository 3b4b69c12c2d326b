//! Sessions that an older version could not go on with: what a server sent once was refused
//! ever after, by the store or by the server.

use serde_json::Value;

use crate::support::{Answer, Home, Options, Protocol, Run, Server};
use crate::{history, streamed};

/// `golden/refused-v3.sql` is what version 0.1 left behind: in one session the server counted
/// 18,446,744,073,709,551,615 tokens, and every append behind that failed; in the other the
/// model read a file that only begins like a PNG, and the server refused every request.
const COUNTED: &str = "01a20080-7039-72b5-b0b2-c9eedaf3c8d9";

fn left_behind(server: &Server) -> Home {
    let home = Home::with(server, Protocol::Chat);
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/refused-v3.sql");
    let sql = std::fs::read_to_string(golden).unwrap();
    let database = rusqlite::Connection::open(home.rewake_home().join("rewake.db")).unwrap();
    database.execute_batch(&sql).unwrap();
    home
}

fn result(run: &Run) -> Value {
    run.events().pop().unwrap()
}

#[test]
fn a_session_whose_server_counted_nonsense_goes_on() {
    let server = Server::start(|_| Answer::text("counted"));
    let home = left_behind(&server);
    let shown = home.run(["show", COUNTED]).expect(0).stdout;
    assert!(shown.contains("tokens    0 in, 5 cached"), "{shown}");
    for _ in 0..2 {
        let run = streamed(&home, &["-p", "-r", COUNTED, "go on"]).expect(0);
        assert_eq!(result(&run)["result"], "counted");
    }
    server.assert_no_violations();
    // What is true is counted on.
    let tokens = result(&streamed(&home, &["-p", "-r", COUNTED, "again"]).expect(0));
    let input = tokens["usage"]["input"].as_u64().unwrap();
    assert!((1..100_000).contains(&input), "{tokens}");
    let exported = home.run(["export", COUNTED, "--json"]).expect(0).stdout;
    let exported: Value = serde_json::from_str(&exported).unwrap();
    let sum = &exported["session"]["usage"]["input"];
    assert!(sum.as_u64().is_some_and(|n| n < 1_000_000), "{sum}");
    assert!(
        history(&home)
            .iter()
            .any(|(id, line)| COUNTED.starts_with(id) && line.contains("done"))
    );
}

/// Every number that a server may send for one of its counts.
#[test]
fn a_server_that_counts_nonsense_breaks_no_session() {
    let body = |count: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"hello\"}},\"finish_reason\":\"stop\"}}],\
             \"usage\":{{\"prompt_tokens\":{count},\"completion_tokens\":{count}}}}}\n\ndata: [DONE]\n\n"
        )
    };
    let counts = [
        "18446744073709551615",
        "-1",
        "1.5e18",
        "\"many\"",
        "9223372036854775807",
    ];
    let server = Server::start_with(Options::default(), move |seen| Answer::Raw {
        status: 200,
        content_type: "text/event-stream",
        body: body(counts[seen.turn % counts.len()]),
    });
    let home = Home::with(&server, Protocol::Chat);
    home.run(["-p", "hi"]).expect(0);
    for _ in counts {
        home.run(["-p", "-c", "hi"]).expect(0);
    }
}
