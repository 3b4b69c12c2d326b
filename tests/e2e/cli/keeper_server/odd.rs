//! Servers that lie, stall, flood and break their lines; agents that are torn in the middle of one.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::*;

#[tokio::test]
async fn the_first_answer_to_what_was_asked_counts() {
    let place = place();
    let (run, client) = place.start().await;
    assert_eq!(
        ask(&client, "call_1", "lie", json!({})).await,
        json!("the truth")
    );
    assert_eq!(
        ask(&client, "call_2", "twice", json!({})).await,
        json!("first")
    );
    assert_eq!(ask(&client, "call_3", "echo", json!(3)).await, json!(3));
    drop(client);
    let client = place.attach(&run).await;
    assert_eq!(result(client.outcome("call_2").unwrap()), json!("first"));
    client.leave().await;
}

#[tokio::test]
async fn a_partial_line_is_not_an_answer() {
    let place = place();
    let (_, client) = place.start().await;
    client
        .send(&request("call_1", "die_in_a_line", json!({})), true)
        .await
        .unwrap();
    assert_eq!(client.answer("call_1").await.unwrap(), ServerOutcome::Lost);
}

#[tokio::test]
async fn a_line_of_a_hundred_megabytes_is_an_error_of_its_call_alone() {
    let place = place();
    let (run, client) = place.start().await;
    client
        .send(&request("call_1", "long", json!({ "mib": 100 })), true)
        .await
        .unwrap();
    let ServerOutcome::Answered(line) = client.answer("call_1").await.unwrap() else {
        panic!("no answer")
    };
    let answer: Value = serde_json::from_slice(&line).unwrap();
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("too long"), "{answer}");
    assert_eq!(ask(&client, "call_2", "echo", json!(2)).await, json!(2));
    let long = ask(&client, "call_3", "long", json!({ "mib": 15 })).await;
    assert_eq!(long.as_str().unwrap().len(), 15 * 1024 * 1024);
    let input = request("call_4", "echo", json!("x".repeat(17 * 1024 * 1024)));
    let refused = client.send(&input, true).await.unwrap_err().to_string();
    assert!(refused.contains("too long"), "{refused}");
    assert_eq!(client.outcome("call_4").unwrap(), ServerOutcome::NotBegun);
    assert_eq!(ask(&client, "call_5", "echo", json!(5)).await, json!(5));
    client.forget();
    ask(&client, "call_6", "echo", json!(6)).await;
    let folder = place.servers.path(&run).unwrap();
    assert!(!folder.join("out.0").exists() && !folder.join("in.1").exists());
    client.leave().await;
}

#[tokio::test]
async fn bytes_that_are_no_text_come_as_they_are() {
    let place = place();
    let (_, client) = place.start().await;
    client
        .send(&request("call_1", "not_utf8", json!({})), true)
        .await
        .unwrap();
    let ServerOutcome::Answered(line) = client.answer("call_1").await.unwrap() else {
        panic!("no answer")
    };
    assert!(line.windows(2).any(|two| two == b"\xff\xfe"));
    client.leave().await;
}

#[tokio::test]
async fn a_flood_fills_no_disk_and_hides_no_answer() {
    let place = place();
    let (run, client) = place.start().await;
    let said = ask(&client, "call_1", "flood", json!({ "lines": 80_000 })).await;
    assert_eq!(said, json!("after the flood"));
    let out = place.servers.path(&run).unwrap();
    let files = std::fs::read_dir(out).unwrap();
    let bytes: u64 = files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes < 66 * 1024 * 1024, "{bytes} bytes");
    // The oldest were let go; none of those that are left is half.
    let mut others = 0;
    while let Some(line) = client.try_other().unwrap() {
        assert_eq!(
            serde_json::from_slice::<Value>(&line).unwrap()["method"],
            "noise"
        );
        others += 1;
    }
    assert_eq!(others, 4096);
    client.leave().await;
}

#[tokio::test]
async fn server_output_that_is_not_a_message_is_not_an_answer() {
    let place = place();
    let (run, client) = place.start().await;
    ask(
        &client,
        "call_1",
        "complain",
        json!({ "words": "out of cheese" }),
    )
    .await;
    let banner = client.other().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&banner).contains("running 1 test"));
    // The words and the end of their line are two writes.
    until(|| place.servers.printed(&run, 1000).unwrap().ends_with(b"\n"));
    let printed = String::from_utf8(place.servers.printed(&run, 1000).unwrap()).unwrap();
    assert_eq!(printed, "out of cheese\n");
    client.leave().await;
}

#[tokio::test]
async fn a_call_is_made_once_however_often_it_is_sent() {
    let place = place();
    let (_, client) = place.start().await;
    let call = place.append_until_go("call_1");
    client.send(&call, true).await.unwrap();
    let refused = client.send(&call, true).await.unwrap_err().to_string();
    assert!(refused.contains("in flight already"), "{refused}");
    place.go();
    client.answer("call_1").await.unwrap();
    assert_eq!(place.appended(), ["call_1"]);
    client.leave().await;
}

/// What an agent sent that died before it heard anything: by hand, on the socket.
#[tokio::test]
async fn complete_requests_of_a_dead_agent_run_and_torn_ones_do_not() {
    // Whether the next one says hello before all is read depends on the scheduler.
    for _ in 0..8 {
        die_before_the_welcome().await;
    }
}

async fn die_before_the_welcome() {
    let place = place();
    let (run, client) = place.start().await;
    // The server is so slow that most of what follows waits in the socket.
    client
        .send(&place.append("call_0", 200), true)
        .await
        .unwrap();
    drop(client);
    let socket = place.servers.path(&run).unwrap().join("socket");
    let mut agent = UnixStream::connect(socket).unwrap();
    agent
        .write_all(b"{\"hello\":{\"version\":1,\"pid\":1}}\n")
        .unwrap();
    let mut welcome = [0; 12];
    agent.read_exact(&mut welcome).unwrap();
    assert_eq!(&welcome, b"{\"welcome\":{");
    let keeper = Pid::from_raw(place.keeper(&run) as i32).unwrap();
    // All of it is unread when the next one says hello.
    kill_process(keeper, Signal::STOP).unwrap();
    // More than is read at once.
    let padding = "x".repeat(8000);
    let line = |id: &str| {
        let params = json!({ "file": place.effects(), "text": id, "padding": padding });
        let line = request(id, "append", params);
        let head = format!(
            "{{\"line\":{{\"bytes\":{},\"durable\":true}}}}\n",
            line.len()
        );
        [head.into_bytes(), line].concat()
    };
    for n in 1..=15 {
        agent.write_all(&line(&format!("call_{n}"))).unwrap();
    }
    let torn = line("call_16");
    agent.write_all(&torn[..torn.len() - 5]).unwrap();
    drop(agent);
    let continuing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        kill_process(keeper, Signal::CONT).unwrap();
    });
    let client = place.attach(&run).await;
    continuing.join().unwrap();
    // A look behind the welcome is final.
    for n in 0..=15 {
        assert_ne!(
            client.outcome(&format!("call_{n}")).unwrap(),
            ServerOutcome::NotBegun,
            "call_{n}"
        );
    }
    assert_eq!(client.outcome("call_16").unwrap(), ServerOutcome::NotBegun);
    for n in 0..=15 {
        let fate = client.answer(&format!("call_{n}")).await.unwrap();
        assert_eq!(result(fate), json!("appended"));
    }
    let want: Vec<String> = (0..=15).map(|n| format!("call_{n}")).collect();
    assert_eq!(place.appended(), want);
    client.leave().await;
}
