//! Logging in to a server over HTTP, and what becomes of its tokens.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;

use super::*;
use support::Live;

/// A server that wants a login, and its own authorization server. `token-1` is given for a code,
/// `token-2`, … for the refresh token before it; only the newest is taken.
#[derive(Clone)]
struct Guarded {
    given: Arc<Mutex<usize>>,
    /// The tokens say that they end at once.
    short: bool,
    issuer: &'static str,
}

impl Guarded {
    fn new() -> Guarded {
        Guarded {
            given: Arc::default(),
            short: false,
            issuer: "",
        }
    }

    fn start(self) -> McpServer {
        McpServer::start(move |asked| self.answer(asked))
    }

    fn answer(&self, asked: &Asked) -> Gives {
        let root = format!("http://{}", asked.header("host").unwrap());
        match asked.path.as_str() {
            "/mcp" => self.serve(asked, &root),
            "/.well-known/oauth-protected-resource/mcp" => Gives::json(&json!({
                "resource": format!("{root}/mcp"), "authorization_servers": [root],
                "scopes_supported": ["read"] })),
            "/.well-known/oauth-authorization-server" => Gives::json(&json!({
                "issuer": root,
                "authorization_endpoint": format!("{root}/authorize"),
                "token_endpoint": format!("{root}/token"),
                "registration_endpoint": format!("{root}/register"),
                "authorization_response_iss_parameter_supported": true,
                "code_challenge_methods_supported": ["S256"] })),
            "/register" => Gives::json(&json!({ "client_id": "client" })),
            "/authorize" => {
                let query = query(&asked.query);
                let iss = if self.issuer.is_empty() {
                    &root
                } else {
                    self.issuer
                };
                let to = format!(
                    "{}?code=c1&state={}&iss={iss}",
                    query["redirect_uri"], query["state"]
                );
                Gives::status(302).with("location", &to)
            }
            "/token" => self.give(asked),
            _ => Gives::status(404),
        }
    }

    fn serve(&self, asked: &Asked, root: &str) -> Gives {
        let given = *self.given.lock().unwrap();
        let wanted = format!("Bearer token-{given}");
        if given == 0 || asked.header("authorization") != Some(&wanted) {
            let metadata = format!("{root}/.well-known/oauth-protected-resource/mcp");
            let said = format!("Bearer resource_metadata=\"{metadata}\"");
            return Gives::status(401).with("www-authenticate", &said);
        }
        with_handshake(asked).unwrap_or_else(|| done(asked))
    }

    fn give(&self, asked: &Asked) -> Gives {
        let form = query(&asked.body);
        let mut given = self.given.lock().unwrap();
        let is_right = match form["grant_type"].as_str() {
            "authorization_code" => form["code"] == "c1" && form.contains_key("code_verifier"),
            _ => form["refresh_token"] == format!("refresh-{given}"),
        };
        if !is_right || !form["resource"].ends_with("/mcp") {
            return Gives::Status(400, vec![], json!({ "error": "invalid_grant" }).to_string());
        }
        *given += 1;
        Gives::json(&json!({
            "access_token": format!("token-{given}"), "token_type": "Bearer",
            "refresh_token": format!("refresh-{given}"),
            "expires_in": if self.short { 1 } else { 3600 } }))
    }
}

fn query(text: &str) -> HashMap<String, String> {
    let url = reqwest::Url::parse(&format!("http://x/?{text}")).unwrap();
    url.query_pairs().into_owned().collect()
}

fn probed(home: &Home, server: &McpServer) -> Run {
    probe(home, server, &["--call", "do"])
}

/// Where a page redirects to.
fn redirect(address: &str) -> Option<String> {
    let url = reqwest::Url::parse(address).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", url.port().unwrap())).unwrap();
    let path = &address[address.find(url.path()).unwrap()..];
    let host = url.port().unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{host}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if line.is_empty() {
            break;
        }
        answer.push_str(&line);
        answer.push('\n');
    }
    let mut lines = answer.lines();
    let location = lines.find_map(|line| line.strip_prefix("location: "));
    location.map(str::to_string)
}

/// As a person with a browser does it.
fn log_in(home: &Home, server: &McpServer) -> Run {
    let url = server.url();
    let live = Live::spawn(home.rewake(["mcp", "login", "--no-browser", &url]));
    let address = live.wait_for(LIMIT, |line| line.contains("/authorize?"));
    assert!(address.contains("code_challenge_method=S256"), "{address}");
    assert!(address.contains("scope=read"), "{address}");
    let back = redirect(&address).expect("it redirects");
    assert!(back.starts_with("http://127.0.0.1:"), "{back}");
    assert_eq!(redirect(&back), None);
    live.wait(LIMIT)
}

fn tokens(server: &McpServer) -> Vec<String> {
    let mut asked = server.asked();
    asked.retain(|asked| asked.path == "/token");
    asked
        .iter()
        .map(|asked| query(&asked.body)["grant_type"].clone())
        .collect()
}

/// The files of logins.
fn kept(home: &Home) -> Vec<std::path::PathBuf> {
    let folder = home.rewake_home().join("keys");
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = files.map(|file| file.path());
    paths
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect()
}

#[test]
fn a_login_lasts_until_it_is_forgotten() {
    let (home, server) = (Home::new(), Guarded::new().start());
    let url = server.url();
    let hint = format!("rewake mcp login {url}");
    refused(
        probed(&home, &server),
        1,
        &["requires a login (HTTP 401)", &hint],
    );
    let logged_in = log_in(&home, &server).expect(0);
    assert!(
        logged_in.stdout.contains("logged in at"),
        "{}",
        logged_in.stdout
    );
    probed(&home, &server).expect(0);
    let all: String = server
        .asked()
        .iter()
        .map(|asked| asked.query.clone())
        .collect();
    assert!(!all.contains("token-"), "no token is in an address");
    assert_eq!(kept(&home).len(), 1);
    let mode = std::fs::metadata(&kept(&home)[0])
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    home.run(["mcp", "logout", &url]).expect(0);
    assert_eq!(kept(&home).len(), 0);
    refused(probed(&home, &server), 1, &["requires a login"]);
    let again = home.run(["mcp", "logout", &url]).expect(0);
    assert!(
        again.stderr.contains("nobody is logged in"),
        "{}",
        again.stderr
    );
}

#[test]
fn a_token_that_ends_is_renewed_and_the_old_one_is_not_used_again() {
    let home = Home::new();
    let short = Guarded {
        short: true,
        ..Guarded::new()
    };
    let server = short.start();
    log_in(&home, &server).expect(0);
    probed(&home, &server).expect(0);
    let renewed = tokens(&server);
    assert_eq!(renewed[0], "authorization_code");
    assert!(renewed.len() > 1 && renewed[1..].iter().all(|grant| grant == "refresh_token"));
    probed(&home, &server).expect(0);
}

#[test]
fn a_token_that_is_refused_is_renewed_once_for_all_that_use_it() {
    let (home, guarded) = (Home::new(), Guarded::new());
    let server = guarded.clone().start();
    log_in(&home, &server).expect(0);
    // The server takes no token of before, as one that was started again.
    let refuses = Arc::clone(&guarded.given);
    let file = &kept(&home)[0];
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::write(file, text.replace("token-1", "token-0")).unwrap();
    let probes: Vec<_> = (0..3)
        .map(|_| Live::spawn(home.rewake(["mcp", "probe", "--call", "do", &server.url()])))
        .collect();
    for probe in probes {
        probe.wait(LIMIT).expect(0);
    }
    assert_eq!(tokens(&server), ["authorization_code", "refresh_token"]);
    assert_eq!(*refuses.lock().unwrap(), 2);
}

#[test]
fn a_server_that_takes_no_token_is_not_asked_for_ever() {
    let (home, guarded) = (Home::new(), Guarded::new());
    let server = guarded.clone().start();
    log_in(&home, &server).expect(0);
    *guarded.given.lock().unwrap() = 7;
    let before = server.asked().len();
    refused(
        probed(&home, &server),
        1,
        &["the login is not valid any more", "rewake mcp login"],
    );
    assert!(
        server.asked().len() - before < 10,
        "{}",
        server.asked().len() - before
    );
}

#[test]
fn an_answer_of_another_authorization_server_is_not_taken() {
    let home = Home::new();
    let mixed_up = Guarded {
        issuer: "https://evil.example",
        ..Guarded::new()
    };
    let server = mixed_up.start();
    let run = log_in(&home, &server);
    refused(run, 1, &["not that of the authorization server"]);
    assert!(tokens(&server).is_empty());
    assert!(kept(&home).is_empty());
}

#[test]
fn only_a_server_over_http_is_logged_in_to() {
    let home = Home::new();
    let run = home.run(["mcp", "login", "nobody"]);
    refused(run, 2, &["there is no server \"nobody\""]);
    home.write_config("[mcp_servers.local]\ncommand = \"cat\"\n");
    let run = home.run(["mcp", "login", "local"]);
    refused(run, 2, &["not spoken with over HTTP"]);
}
