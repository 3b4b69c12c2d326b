//! The way to a server: certificates that the system does not know, and proxies.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::cli::{LIMIT, quiet, refused};
use support::{Authority, Home, Options, Run, Says, Server, run};

fn configure(home: &Home, base_url: &str, more: &str) {
    home.write_config(&format!(
        "model = \"local/test-model\"\n[retry]\ntries = 1\n[providers.local]\n\
         protocol = \"openai-chat\"\nbase_url = \"{base_url}/v1\"\napi_key_env = \"LOCAL_KEY\"\n{more}"
    ));
}

#[track_caller]
fn answers(ran: Run, words: &str) {
    let ran = ran.expect(0);
    quiet(&ran);
    assert_eq!(ran.stdout, format!("{words}\n"));
}

fn server_with(authority: &Authority, name: &str) -> Server {
    let options = Options {
        tls: Some(authority.server(name)),
        ..Options::default()
    };
    Server::start_with(options, |_| Says::text("over TLS").into())
}

#[test]
fn a_certificate_is_trusted_if_ca_file_has_its_authority() {
    let authority = Authority::new();
    let server = server_with(&authority, "127.0.0.1");
    let home = Home::new();
    let file = |name: &str| home.rewake_home().join(name);
    std::fs::write(file("own.pem"), authority.pem()).unwrap();
    std::fs::write(file("other.pem"), Authority::new().pem()).unwrap();
    let both = Authority::new().pem() + &authority.pem();
    std::fs::write(file("both.pem"), both).unwrap();

    for ca_file in ["", "ca_file = \"other.pem\"\n"] {
        configure(&home, &server.root(), ca_file);
        refused(
            home.run(["-p", "x"]),
            2,
            &[&server.root(), "certificate", "ca_file"],
        );
    }
    assert!(server.requests().is_empty(), "nothing was sent");
    for ca_file in ["own.pem", "both.pem"] {
        let ca_file = format!("ca_file = \"{ca_file}\"\n");
        configure(&home, &server.root(), &ca_file);
        answers(home.run(["-p", "x"]), "over TLS");
    }
    server.assert_no_violations();
}

#[test]
fn a_trusted_authority_vouches_for_no_other_name() {
    let authority = Authority::new();
    let server = server_with(&authority, "elsewhere.test");
    let home = Home::new();
    std::fs::write(home.rewake_home().join("own.pem"), authority.pem()).unwrap();
    configure(&home, &server.root(), "ca_file = \"own.pem\"\n");
    refused(home.run(["-p", "x"]), 2, &["certificate", "elsewhere.test"]);
    assert!(server.requests().is_empty());
}

#[test]
fn a_system_without_certificates_reaches_a_server_on_this_machine() {
    let home = Home::new();
    let none = home.workspace().join("none.pem");
    std::fs::write(&none, "").unwrap();
    let ask = || {
        let mut command = home.rewake(["-p", "hello"]);
        command.env("SSL_CERT_FILE", &none);
        command.env("SSL_CERT_DIR", home.workspace());
        run(command, LIMIT)
    };
    let server = Server::start(|_| Says::text("without TLS").into());
    configure(&home, &server.root(), "");
    answers(ask(), "without TLS");
    configure(&home, "https://127.0.0.1:1", "");
    let words = ["has no certificates", "install the package ca-certificates"];
    refused(ask(), 2, &words);
}

#[test]
fn a_ca_file_without_certificates_is_named() {
    let authority = Authority::new();
    let server = server_with(&authority, "127.0.0.1");
    let home = Home::new();
    let file = home.rewake_home().join("own.pem");
    configure(&home, &server.root(), "ca_file = \"own.pem\"\n");
    refused(
        home.run(["-p", "x"]),
        2,
        &["own.pem", "No such file", "PEM"],
    );
    let damaged = authority.pem().replace("MII", "???");
    for text in ["", "no certificate\n", &damaged] {
        std::fs::write(&file, text).unwrap();
        refused(home.run(["-p", "x"]), 2, &["own.pem", "PEM"]);
    }
    assert!(server.requests().is_empty());
}

/// A server that says who answered, and notes by which proxied address it was asked.
fn noting(words: &'static str) -> (Server, Arc<Mutex<Vec<Option<String>>>>) {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let to = notes.clone();
    let server = Server::start(move |seen| {
        to.lock().unwrap().push(seen.head.proxied_to.clone());
        Says::text(words).into()
    });
    (server, notes)
}

fn with_env(home: &Home, env: &[(&str, &str)]) -> Command {
    let mut command = home.rewake(["-p", "x"]);
    command.envs(env.iter().copied());
    command
}

#[test]
fn a_proxy_of_the_environment_is_used_but_for_what_no_proxy_names() {
    let (server, direct) = noting("itself");
    let (proxy, proxied) = noting("the proxy");
    let home = Home::new();
    // Every address of this machine: it is reached, and is none of its loopback names.
    let base = format!("http://0.0.0.0:{}", server.address().port());
    configure(&home, &base, "");
    let at = proxy.root();
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        answers(run(with_env(&home, &[(name, &at)]), LIMIT), "the proxy");
        assert_eq!(proxied.lock().unwrap().pop(), Some(Some(base.clone())));
    }
    for name in ["NO_PROXY", "no_proxy"] {
        for hosts in ["0.0.0.0", "example.com, 0.0.0.0", "0.0.0.0/8"] {
            let env = [("HTTP_PROXY", &*at), (name, hosts)];
            answers(run(with_env(&home, &env), LIMIT), "itself");
        }
    }
    let env = [("HTTP_PROXY", &*at), ("NO_PROXY", "example.com")];
    answers(run(with_env(&home, &env), LIMIT), "the proxy");
    let env = [("HTTPS_PROXY", &*at)];
    answers(run(with_env(&home, &env), LIMIT), "itself");
    assert!(direct.lock().unwrap().iter().all(Option::is_none));
    assert_eq!(direct.lock().unwrap().len(), 7);
}

/// No proxy could reach it: on the proxy's machine these names mean another one.
#[test]
fn a_server_on_this_machine_is_asked_without_a_proxy() {
    let (server, _) = noting("itself");
    let (proxy, proxied) = noting("the proxy");
    let home = Home::new();
    let port = server.address().port();
    for host in ["127.0.0.1", "localhost"] {
        configure(&home, &format!("http://{host}:{port}"), "");
        let env = [("HTTP_PROXY", &*proxy.root()), ("ALL_PROXY", &proxy.root())];
        answers(run(with_env(&home, &env), LIMIT), "itself");
    }
    assert!(proxied.lock().unwrap().is_empty());
}

#[test]
fn a_proxy_that_is_away_is_told() {
    let home = Home::new();
    configure(&home, "http://model.test", "");
    let command = with_env(&home, &[("HTTP_PROXY", "http://127.0.0.1:1")]);
    let words = ["http://model.test", "check the proxy"];
    refused(run(command, LIMIT), 75, &words);
}

/// A password is missing for good, and another refusal may pass.
#[test]
fn a_proxy_that_refuses_is_told() {
    let page = "<html>blocked</html>";
    for (status, code) in [
        ("407 Proxy Authentication Required", 2),
        ("403 Forbidden", 2),
        ("302 Found", 2),
        ("429 Too Many Requests", 75),
        ("502 Bad Gateway", 75),
        ("503 Away", 75),
    ] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for mut client in listener.incoming().map_while(Result::ok) {
                let _ = client.read(&mut [0; 4096]);
                let length = page.len();
                let _ = write!(
                    client,
                    "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{page}"
                );
            }
        });
        let home = Home::new();
        configure(&home, "https://model.test", "");
        let command = with_env(&home, &[("HTTPS_PROXY", &address)]);
        let number = if code == 2 && !status.starts_with("407") {
            &status[..3]
        } else {
            ""
        };
        refused(run(command, LIMIT), code, &["proxy", "HTTPS_PROXY", number]);
    }
}

/// A proxy that connects whoever asks to one server, whatever was asked for: its address, and
/// the first lines of what it was asked.
fn tunnel(to: SocketAddr) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let asks = asked.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let asks = asks.clone();
            // A client that goes away is no fault of the proxy.
            std::thread::spawn(move || connect(client, to, &asks).ok());
        }
    });
    (address, asked)
}

fn connect(client: TcpStream, to: SocketAddr, asks: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
    let first = head.lines().next().unwrap_or_default().to_string();
    asks.lock().unwrap().push(first);
    let server = TcpStream::connect(to)?;
    (&client).write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
    let (mut back, mut to_client) = (server.try_clone()?, client);
    std::thread::spawn(move || io::copy(&mut back, &mut to_client).ok());
    // What the client sent with its question is in the reader.
    io::copy(&mut reader, &mut &server)?;
    server.shutdown(std::net::Shutdown::Write)
}

#[test]
fn the_proxy_sees_only_connect_requests_for_tls() {
    let authority = Authority::new();
    let server = server_with(&authority, "model.test");
    let (proxy, asked) = tunnel(server.address());
    let home = Home::new();
    std::fs::write(home.rewake_home().join("own.pem"), authority.pem()).unwrap();
    configure(&home, "https://model.test", "ca_file = \"own.pem\"\n");
    let env = [("HTTPS_PROXY", &*proxy)];
    answers(run(with_env(&home, &env), LIMIT), "over TLS");
    // The first connection asks how large the model's window is.
    let asked = asked.lock().unwrap();
    let connect = "CONNECT model.test:443 HTTP/1.1";
    assert!(
        !asked.is_empty() && asked.iter().all(|line| line == connect),
        "{asked:?}"
    );
    server.assert_no_violations();
}
