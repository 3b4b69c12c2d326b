//! Tests of fetching with a server on loopback, and with a resolver that lies.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A server that answers each connection in the same way, and counts them.
struct Server {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Server {
    fn start(answer: impl Fn(&mut std::net::TcpStream, &str) + Send + 'static) -> Server {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                    head.push(byte[0]);
                }
                answer(&mut stream, &String::from_utf8_lossy(&head));
            }
        });
        Server { port, connections }
    }

    /// Answers with these headers and this body.
    fn with(head: &'static str, body: &'static [u8]) -> Server {
        Server::start(move |stream, _| {
            let head = format!("HTTP/1.1 {head}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(body);
        })
    }

    fn url(&self, host: &str) -> Url {
        parse(&format!("http://{host}:{}/a?b=c", self.port)).unwrap()
    }

    fn count(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// A web that resolves every name to these addresses, one list after the other.
fn resolving(lists: &[&[&str]], private: &[String]) -> Web {
    let asked = AtomicUsize::new(0);
    let lists: Vec<Vec<IpAddr>> = lists
        .iter()
        .map(|list| {
            list.iter()
                .map(|address| address.parse().unwrap())
                .collect()
        })
        .collect();
    Web {
        private: private.to_vec(),
        within: FETCHED_WITHIN,
        lookup: Arc::new(move |_| {
            let at = asked.fetch_add(1, Ordering::SeqCst).min(lists.len() - 1);
            let found = lists[at].clone();
            Box::pin(async move { Ok(found) })
        }),
    }
}

/// A web in which the server may be reached as `site.test`.
fn open(server: &Server) -> Web {
    resolving(&[&["127.0.0.1"]], &[format!("site.test:{}", server.port)])
}

async fn fetched(server: &Server) -> Result<PageContent, String> {
    let page = open(server).fetch(server.url("site.test")).await;
    page.map(|page| page.content)
}

#[tokio::test]
async fn no_hostile_address_is_connected_to() {
    let server = Server::with("200 OK\r\ncontent-type: text/plain", b"secret");
    let port = server.port;
    // As a literal in many spellings, as a name of this machine, and as the address of a name.
    let literals = [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "127.0.0.1.",
        "0x7f.1",
        "0x7f000001",
        "017700000001",
        "2130706433",
        "0177.0.0.1",
        "127.000.000.001",
        "127.8.8.8",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[0:0:0:0:0:0:0:1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "[2001::1]",
        "[fe80::1]",
        "[fec0::1]",
        "[fd00::1]",
        "[fd00:ec2::254]",
        "[ff02::1]",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "[::ffff:169.254.169.254]",
        "168.63.129.16",
        "192.0.0.192",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "１２７.0.0.1",
    ];
    let names = [
        "127.0.0.1",
        "0.0.0.0",
        "10.1.1.1",
        "169.254.169.254",
        "192.168.1.1",
        "::1",
        "::",
        "fe80::1",
        "::ffff:127.0.0.1",
        "fd00:ec2::254",
        "168.63.129.16",
        "64:ff9b::7f00:1",
        "2001::7f00:1",
    ];
    let public = resolving(&[&["93.184.216.34"]], &[]);
    let mut attacks = 0;
    for host in literals {
        let url = parse(&format!("http://{host}:{port}/")).unwrap();
        public.fetch(url).await.unwrap_err();
        attacks += 1;
    }
    for address in names {
        // A public address beside it does not help.
        let web = resolving(&[&["127.0.0.1", address], &["93.184.216.34", address]], &[]);
        web.fetch(server.url("site.test")).await.unwrap_err();
        web.fetch(server.url("site.test")).await.unwrap_err();
        attacks += 2;
    }
    for address in [
        "169.254.169.254",
        "fe80::1",
        "168.63.129.16",
        "fd00:ec2::254",
    ] {
        // Not even if the user's config allows the place.
        let web = resolving(&[&["127.0.0.1", address]], &[format!("site.test:{port}")]);
        web.fetch(server.url("site.test")).await.unwrap_err();
        attacks += 1;
    }
    assert!(attacks >= 60, "{attacks}");
    assert_eq!(server.count(), 0, "of {attacks}");
}

#[tokio::test]
async fn a_name_is_not_resolved_again_after_its_check() {
    let server = Server::with("200 OK\r\ncontent-type: text/plain", b"here");
    // The second answer would be reached if the client resolved the name itself.
    let place = [format!("site.test:{}", server.port)];
    let web = resolving(&[&["127.0.0.1"], &["127.0.0.2"]], &place);
    let page = web.fetch(server.url("site.test.")).await.unwrap();
    assert_eq!(page.content, PageContent::Text("here".to_string()));
    assert_eq!(server.count(), 1);
    let url = parse("http://127.0.0.1/").unwrap();
    let refused = resolving(&[&[]], &place).fetch(url).await.unwrap_err();
    assert!(refused.contains("[web] private"), "{refused}");
}

#[test]
fn only_web_addresses_without_users_are_parsed() {
    for wrong in [
        "file:///etc/passwd",
        "ftp://a.test/",
        "javascript:x",
        "a.test",
        "",
        "http://",
        "https://u@a.test/",
        "https://u:p@a.test/",
        "http://a..:1/",
        "data:text/html,x",
        "http://[::1",
        "http://a b/",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    let parsed = |text: &str| parse(text).unwrap().to_string();
    assert_eq!(
        parsed(" HTTPS://EXAMPLE.test./a#b "),
        "https://example.test/a"
    );
    assert_eq!(parsed("http://bücher.test/"), "http://xn--bcher-kva.test/");
}

#[tokio::test]
async fn redirects_are_checked_and_counted() {
    let to_metadata = Server::with("302 Found\r\nlocation: http://169.254.169.254/", b"");
    let elsewhere = fetched(&to_metadata).await.unwrap();
    let next = Url::parse("http://169.254.169.254/").unwrap();
    assert_eq!(elsewhere, PageContent::Elsewhere(next.clone()));
    // The next call is for that address, which is refused.
    assert!(open(&to_metadata).fetch(next).await.is_err());

    let around = Server::with("301 Moved\r\nlocation: /a", b"");
    let refused = fetched(&around).await.unwrap_err();
    assert!(refused.contains("more than 5 redirects"), "{refused}");
    assert_eq!(around.count(), MAX_REDIRECTS + 1);

    let to_file = Server::with("302 Found\r\nlocation: file:///etc/passwd", b"");
    assert!(
        fetched(&to_file)
            .await
            .unwrap_err()
            .contains("only http and https")
    );

    // The second resolution, for the redirect, is checked as the first one.
    let rebinding = Server::with("302 Found\r\nlocation: /b", b"");
    let place = [format!("site.test:{}", rebinding.port)];
    let web = resolving(&[&["127.0.0.1"], &["169.254.169.254"]], &place);
    let refused = web.fetch(rebinding.url("site.test")).await.unwrap_err();
    assert!(refused.contains("never fetched"), "{refused}");
    assert_eq!(rebinding.count(), 1);
}

#[tokio::test]
async fn nothing_of_the_user_is_sent() {
    let server = Server::start(|stream, head| {
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{head}",
            head.len()
        );
        let _ = stream.write_all(answer.as_bytes());
    });
    let Ok(PageContent::Text(head)) = fetched(&server).await else {
        panic!("no page");
    };
    let names: Vec<String> = head
        .lines()
        .skip(1)
        .filter_map(|line| Some(line.split_once(':')?.0.to_ascii_lowercase()))
        .collect();
    assert_eq!(
        names,
        ["accept", "user-agent", "accept-encoding", "host"],
        "{head}"
    );
}

#[tokio::test]
async fn statuses_and_types_are_named_in_words() {
    for (head, words) in [
        ("404 Not Found", "there is no such page (HTTP 404"),
        (
            "429 Too Many Requests\r\nretry-after: 120",
            "asks to wait until \"120\"",
        ),
        ("204 No Content", "the page is empty (204"),
        ("304 Not Modified", "sends no page"),
        ("401 Unauthorized", "needs a login"),
        ("503 Service Unavailable", "the server failed"),
        (
            "200 OK\r\ncontent-type: application/pdf\r\ncontent-length: 2048",
            "2 KiB of type \"application/pdf\"",
        ),
        ("200 OK\r\ncontent-type: image/png", "only pages of text"),
        ("200 OK\r\ncontent-encoding: br", "only gzip"),
        ("200 OK\r\ncontent-length: 209715200", "larger than 5 MiB"),
    ] {
        let server = Server::with(head, b"");
        let why = fetched(&server).await.unwrap_err();
        assert!(why.contains(words), "{head}: {why}");
        assert_eq!(server.count(), 1, "{head}: no second try");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_not_fetched_over_https() {
    let server = Server::with("200 OK", b"x");
    let url = parse(&format!("https://site.test:{}/", server.port)).unwrap();
    let why = open(&server).fetch(url).await.unwrap_err();
    assert!(
        why.contains("site.test") || why.contains("certificates"),
        "{why}"
    );
}

#[tokio::test]
async fn a_body_without_an_end_ends_at_the_limit() {
    let endless = Server::start(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n");
        while stream.write_all(&[b'x'; 65536]).is_ok() {}
    });
    assert!(
        fetched(&endless)
            .await
            .unwrap_err()
            .contains("larger than 5 MiB")
    );
    let bomb = Server::start(|stream, _| {
        // 1 GiB of zeros: empty stored blocks would be no bomb, so one match is repeated.
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-encoding: gzip\r\n\r\n";
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(include_bytes!("bomb.gz"));
    });
    assert!(
        fetched(&bomb)
            .await
            .unwrap_err()
            .contains("larger than 5 MiB")
    );
}

#[tokio::test]
async fn a_slow_body_ends_at_the_time_limit() {
    let slow = Server::start(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let web = Web {
        within: Duration::from_secs(1),
        ..open(&slow)
    };
    let why = web.fetch(slow.url("site.test")).await.unwrap_err();
    assert!(why.contains("did not arrive within 1 s"), "{why}");
}

#[tokio::test]
async fn a_page_is_decoded() {
    let (sjis, ..) = encoding_rs::SHIFT_JIS.encode("<html>日本");
    let body: &'static [u8] = Box::leak(sjis.into_owned().into_boxed_slice());
    let server = Server::with("200 OK\r\ncontent-type: text/html; charset=shift_jis", body);
    let html = PageContent::Html("<html>日本".to_string());
    assert_eq!(fetched(&server).await, Ok(html));
}
