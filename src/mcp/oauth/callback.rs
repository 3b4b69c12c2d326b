//! The address on this machine to which the browser returns after a login.

use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::web::LoginError;

/// Time limit for the person.
const PERSON_WITHIN: Duration = Duration::from_secs(300);

const REQUEST_WITHIN: Duration = Duration::from_secs(5);
const REQUEST_MAX_BYTES: usize = 16 * 1024;

/// Maximum number of requests. Other programs on this machine may send some too.
const REQUESTS_MAX: usize = 100;

const PATH: &str = "/callback";

/// A listener on a port that the system selects.
#[derive(Debug)]
pub struct Callback {
    listener: TcpListener,
    address: String,
}

/// The authorization server's answer, which the browser delivers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginAnswer {
    pub code: Option<String>,
    pub state: Option<String>,
    pub iss: Option<String>,
    pub error: Option<String>,
}

impl Callback {
    /// Starts to listen.
    ///
    /// # Errors
    /// The system does not provide a port.
    pub async fn listen() -> Result<Callback, LoginError> {
        let failed = |e: std::io::Error| {
            LoginError::new(format!("listening on 127.0.0.1 for the browser: {e}"))
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Callback {
            listener,
            address: format!("http://127.0.0.1:{port}{PATH}"),
        })
    }

    /// Returns the redirect URI.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits for the browser. Refuses requests without this state, which belong to another login.
    ///
    /// # Errors
    /// The request does not arrive in time.
    pub async fn wait(&self, state: &str) -> Result<LoginAnswer, LoginError> {
        let waiting = async {
            for _ in 0..REQUESTS_MAX {
                let Ok((stream, _)) = self.listener.accept().await else {
                    continue;
                };
                let taken = tokio::time::timeout(REQUEST_WITHIN, take(stream, state)).await;
                if let Ok(Some(answer)) = taken {
                    return Some(answer);
                }
            }
            None
        };
        match tokio::time::timeout(PERSON_WITHIN, waiting).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(LoginError::new(
                "the browser did not bring an answer of this login",
            )),
            Err(_) => Err(LoginError::new(format!(
                "nobody logged in within {} minutes",
                PERSON_WITHIN.as_secs() / 60
            ))),
        }
    }
}

/// Reads the query of a redirect.
pub fn read(url: &Url) -> LoginAnswer {
    let mut answer = LoginAnswer::default();
    for (name, value) in url.query_pairs() {
        let field = match name.as_ref() {
            "code" => &mut answer.code,
            "state" => &mut answer.state,
            "iss" => &mut answer.iss,
            "error" => &mut answer.error,
            _ => continue,
        };
        field.get_or_insert(value.into_owned());
    }
    answer
}

async fn take(mut stream: TcpStream, state: &str) -> Option<LoginAnswer> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut buffer = [0; 2048];
        let read = stream.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        request.extend_from_slice(&buffer[..read]);
        if request.len() > REQUEST_MAX_BYTES {
            return None;
        }
    }
    let text = String::from_utf8_lossy(&request);
    let answer = asked(&text).filter(|answer| answer.state.as_deref() == Some(state));
    let (status, words) = match &answer {
        Some(answer) if answer.code.is_some() => {
            ("200 OK", "The login came back. This page may be closed.")
        }
        Some(_) => ("200 OK", "The login was refused. This page may be closed."),
        None => ("404 Not Found", "Not of this login."),
    };
    let page = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{words}",
        words.len()
    );
    // If the browser closed the connection, its answer still counts.
    let _ = stream.write_all(page.as_bytes()).await;
    let _ = stream.shutdown().await;
    answer
}

fn asked(request: &str) -> Option<LoginAnswer> {
    let target = request.strip_prefix("GET ")?.split(' ').next()?;
    let url = Url::parse("http://127.0.0.1/").ok()?.join(target).ok()?;
    (url.path() == PATH).then(|| read(&url))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(address: &str, query: &str) -> String {
        let url = Url::parse(address).unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", url.port().unwrap()))
            .await
            .unwrap();
        let request = format!("GET {}?{query} HTTP/1.1\r\nhost: x\r\n\r\n", url.path());
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn only_the_answer_of_this_login_is_taken() {
        let callback = Callback::listen().await.unwrap();
        let (answer, _) = tokio::join!(callback.wait("s1"), async {
            let address = callback.address();
            assert!(
                get(address, "code=evil&state=other")
                    .await
                    .starts_with("HTTP/1.1 404")
            );
            assert!(get(address, "code=evil").await.starts_with("HTTP/1.1 404"));
            assert!(
                get(&address.replace("callback", "else"), "state=s1&code=e")
                    .await
                    .contains("404")
            );
            assert!(
                get(address, "code=c%20d&state=s1&iss=https://a")
                    .await
                    .contains("200 OK")
            );
        });
        let answer = answer.unwrap();
        assert_eq!(answer.code.as_deref(), Some("c d"));
        assert_eq!(answer.iss.as_deref(), Some("https://a"));
    }
}
