//! Where it listens, and what keeps it from that; what becomes of it when the store goes away.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use serde_json::json;

use crate::server::client::{LIMIT, Serve};
use crate::server::{done_session, scripted, step};
use support::Live;

#[test]
fn a_port_in_use_is_reported() {
    let home = scripted(&[]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let run = home.run(["serve", "--listen", &address]).expect(1);
    assert!(run.stderr.contains("cannot listen on"), "{}", run.stderr);
    assert!(
        run.stderr.contains("hint: another program listens there"),
        "{}",
        run.stderr
    );
}

#[test]
fn an_address_that_others_can_reach_needs_a_proxy() {
    let home = scripted(&[]);
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let run = home.run(["serve", "--listen", address]).expect(2);
        assert!(
            run.stderr.contains("nothing is encrypted"),
            "{}",
            run.stderr
        );
        assert!(run.stderr.contains("--behind-proxy"), "{}", run.stderr);
    }
    for wrong in ["localhost:7391", "7391", "127.0.0.1"] {
        home.run(["serve", "--listen", wrong]).expect(2);
    }
    let behind = Live::spawn(home.rewake([
        "serve",
        "--listen",
        "0.0.0.0:0",
        "--behind-proxy",
        "--host",
        "desk.example",
    ]));
    let link = behind.wait_for(LIMIT, |line| line.contains("#token="));
    assert!(link.starts_with("https://desk.example/#token="), "{link}");
    let nowhere = home
        .run(["serve", "--listen", "192.0.2.1:80", "--behind-proxy"])
        .expect(1);
    assert!(
        nowhere.stderr.contains("--listen [::1]:7391"),
        "{}",
        nowhere.stderr
    );
}

#[test]
fn the_server_listens_on_an_ipv6_address() {
    if TcpListener::bind("[::1]:0").is_err() {
        return support::skip("the address ::1");
    }
    let home = scripted(&[]);
    let live = Live::spawn(home.rewake(["serve", "--listen", "[::1]:0"]));
    let link = live.wait_for(LIMIT, |line| line.contains("/#token="));
    let port = link
        .split("]:")
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .to_string();
    let mut stream = std::net::TcpStream::connect(format!("[::1]:{port}")).unwrap();
    write!(
        stream,
        "GET /health HTTP/1.1\r\nHost: [::1]:{port}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}

#[test]
fn a_socket_is_for_its_owner_alone() {
    let home = scripted(&[]);
    let folder = home.user().join("sockets");
    let path = folder.join("rewake");
    let listen = format!("unix:{}", path.display());
    let mut live = Live::spawn(home.rewake(["serve", "--listen", &listen]));
    live.wait_for(LIMIT, |line| line.contains("#token="));
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
    let asks = || {
        let mut stream = UnixStream::connect(&path).unwrap();
        write!(
            stream,
            "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(asks().starts_with("HTTP/1.1 200"));
    let second = home.run(["serve", "--listen", &listen]).expect(1);
    assert!(
        second.stderr.contains("another program listens"),
        "{}",
        second.stderr
    );
    // One that is left from a kill is replaced.
    live.kill();
    live.wait(LIMIT);
    assert!(path.exists());
    let again = Live::spawn(home.rewake(["serve", "--listen", &listen]));
    again.wait_for(LIMIT, |line| line.contains("#token="));
    assert!(asks().starts_with("HTTP/1.1 200"));
    drop(again);
    // A file is not, and neither is a folder used that others can look into.
    let file = folder.join("file");
    std::fs::write(&file, "mine").unwrap();
    let run = home
        .run(["serve", "--listen", &format!("unix:{}", file.display())])
        .expect(2);
    assert!(run.stderr.contains("it is not a socket"), "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = home.run(["serve", "--listen", &listen]).expect(2);
    assert!(
        run.stderr.contains("others can look into its folder"),
        "{}",
        run.stderr
    );
    let long = format!(
        "unix:{}/{}",
        home.user().join("s").display(),
        "x".repeat(120)
    );
    let run = home.run(["serve", "--listen", &long]).expect(2);
    assert!(run.stderr.contains("100 bytes"), "{}", run.stderr);
}

/// A model that could start a server would answer itself.
#[test]
fn a_command_of_an_agent_neither_serves_nor_reads_the_token() {
    let home = scripted(&[]);
    let mut command = home.rewake(["serve", "--listen", "127.0.0.1:0"]);
    command.env("REWAKE_RUN", "0197");
    let run = support::run(command, LIMIT).expect(2);
    assert!(run.stderr.contains("inside a command"), "{}", run.stderr);

    let server = Serve::start(&home, &[]);
    let token = home.rewake_home().join("keys/.serve.token");
    assert!(
        std::fs::read_to_string(&token)
            .unwrap()
            .contains(&server.token)
    );
    let script = format!("cat {}; echo ended", token.display());
    for access in ["read", "workspace", "network"] {
        let run = home.run(["sandbox", "--access", access, "sh", "-c", &script]);
        if run.stderr.contains("hint: ") && !run.stdout.contains("ended") {
            return support::skip("a kernel with Landlock");
        }
        assert!(run.stdout.contains("ended"), "{run:?}");
        assert!(
            !run.stdout.contains(&server.token),
            "{access} reads the token"
        );
    }
}

#[test]
fn a_store_that_is_moved_away_is_missed_and_found_again() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &[]);
    server.get("/agent/history").expect(200);
    let follow = server.follow(&format!("/sessions/{id}/events"), None);
    follow.until(|all, _| all.iter().any(|event| event.name == "state"));
    let (here, away) = (home.rewake_home(), home.user().join("away"));
    std::fs::rename(&here, &away).unwrap();
    for path in [
        "/agent/history".to_string(),
        "/questions".into(),
        format!("/sessions/{id}"),
        "/events".into(),
    ] {
        server.get(&path).refused(503, "put it back");
    }
    server
        .post(&format!("/sessions/{id}/messages"), &json!({"text": "x"}))
        .refused(503, "put it back");
    assert!(!here.exists(), "an empty store was made");
    let ended = follow.until(|_, is_over| is_over);
    assert_eq!(ended.last().unwrap().name, "problem", "{ended:?}");
    std::fs::rename(&away, &here).unwrap();
    let found = server.get("/agent/history").expect(200).json();
    assert_eq!(found["sessions"][0]["id"], id.as_str());
    server
        .post(&format!("/sessions/{id}/messages"), &json!({"text": "x"}))
        .expect(202);
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let home = scripted(&[step("ok", &[])]);
    done_session(&home, "x");
    let server = Serve::start(&home, &[]);
    server.get("/agent/history").expect(200);
    let database = home.rewake_home().join("rewake.db");
    let connection = rusqlite::Connection::open(&database).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    // Connections that are idle are closed; then the schema is looked at again.
    let end = std::time::Instant::now() + LIMIT;
    while server.get("/agent/history").status == 200 {
        assert!(
            std::time::Instant::now() < end,
            "the newer schema is not seen"
        );
        std::thread::sleep(std::time::Duration::from_secs(7));
    }
    server.get("/agent/history").refused(503, "update rewake");
    let run = home.run(["serve", "--listen", "127.0.0.1:0"]).expect(1);
    assert!(run.stderr.contains("update rewake"), "{}", run.stderr);
}

#[test]
fn the_server_exits_on_sigterm() {
    let home = scripted(&[]);
    let server = Serve::start(&home, &[]);
    let follow = server.follow("/events", None);
    follow.until(|_, _| true);
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.live.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    server.live.wait(LIMIT).expect(0);
}
