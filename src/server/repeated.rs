//! Requests that a client sends again with the same `Idempotency-Key`: they are carried out once,
//! and answered as the first time (draft-ietf-httpapi-idempotency-key-header).
//!
//! A key is a file of the state folder, so it outlives this server. The file exists before the
//! request is carried out, and gets the answer afterwards. A request that was refused (4xx, 503) did
//! nothing: its file is removed, and it may be sent again. After another error it may have been
//! carried out in part: the file stays without an answer.
//!
//! Invariant: a request whose file has no answer is not carried out again. Its outcome is unknown
//! to this server, and the client is told so.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::answer::bytes_as;
use super::problem::Problem;
use super::{App, Shared, body};
use crate::config::make_private_folder;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Maximum length of a key.
const MAX_KEY_BYTES: usize = 255;

/// Time that an answer is stored.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// Maximum number of stored answers. The newest are kept.
const MAX_REMEMBERED: usize = 10_000;

/// Maximum size of the answer to a request with a key.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// The number of requests with a key after which old keys are removed.
const LOOK_AFTER: u64 = 1_000;

/// The folder with a file for each key.
pub(super) struct Repeated {
    folder: PathBuf,
    looks: AtomicU64,
}

/// The state of a request with a key.
#[derive(Debug)]
enum RequestState {
    /// The request is new and is recorded now.
    Never(Recorded),
    Answered(Response),
    /// The request is in progress, or the server died before it answered.
    Unknown,
    /// The key was used for a different request.
    OfAnother,
}

/// The file of a request in progress.
#[derive(Debug)]
struct Recorded {
    path: PathBuf,
    request: String,
}

impl Repeated {
    pub(super) fn new(state_dir: &Path) -> Repeated {
        Repeated {
            folder: state_dir.join("requests"),
            looks: AtomicU64::new(0),
        }
    }

    /// Looks a request up by its key, and records it if it is the first. `request` is a hash of
    /// all of it.
    fn look_up(&self, key: &str, request: &str) -> io::Result<RequestState> {
        make_private_folder(&self.folder)?;
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        if looks.is_multiple_of(LOOK_AFTER)
            && let Err(error) = forget_old(&self.folder)
        {
            tracing::warn!(%error, "old idempotency keys were not removed");
        }
        let path = self.folder.join(key);
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        match made {
            Ok(mut file) => {
                writeln!(file, "{request}")?;
                file.sync_all()?;
                fs::File::open(&self.folder)?.sync_all()?;
                Ok(RequestState::Never(Recorded {
                    path,
                    request: request.to_string(),
                }))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(read(&fs::read(&path)?, request))
            }
            Err(error) => Err(error),
        }
    }
}

/// The first line has the hash of the request, the second the status of its answer.
fn read(file: &[u8], request: &str) -> RequestState {
    let mut parts = file.splitn(3, |byte| *byte == b'\n');
    // If the server died while it wrote this line, the file counts as one without an answer.
    match parts.next() {
        Some(line) if line == request.as_bytes() => {}
        Some(line) if line.len() == request.len() => return RequestState::OfAnother,
        _ => return RequestState::Unknown,
    }
    let status = parts
        .next()
        .and_then(|line| StatusCode::from_bytes(line).ok());
    match (status, parts.next()) {
        (Some(status), Some(answer)) => {
            RequestState::Answered(bytes_as(status, "application/json", answer.to_vec()))
        }
        _ => RequestState::Unknown,
    }
}

impl Recorded {
    /// Adds the answer to the file, or removes the file of a request that was refused.
    async fn answered(self, response: Response) -> Response {
        let status = response.status();
        if !status.is_success() {
            if status.is_client_error() || status == StatusCode::SERVICE_UNAVAILABLE {
                let _ = fs::remove_file(&self.path);
            }
            return response;
        }
        let (parts, body) = response.into_parts();
        let bytes = match to_bytes(body, MAX_ANSWER_BYTES).await {
            Ok(bytes) => bytes,
            Err(error) => return Problem::inside(&error).into_response(),
        };
        if let Err(error) = self.keep(status, &bytes) {
            // The request was carried out, and the client has its answer. A repeated request will
            // not get it.
            tracing::warn!(%error, "the answer of an idempotency key is not recorded");
        }
        Response::from_parts(parts, Body::from(bytes))
    }

    fn keep(&self, status: StatusCode, answer: &[u8]) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut beside = tempfile::NamedTempFile::new_in(folder)?;
        write!(beside, "{}\n{}\n", self.request, status.as_str())?;
        beside.write_all(answer)?;
        beside.as_file().sync_all()?;
        beside.persist(&self.path).map_err(|e| e.error)?;
        Ok(())
    }
}

/// Removes files that are older than a day, and the oldest ones above the limit.
fn forget_old(folder: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort_by_key(|(changed, _)| std::cmp::Reverse(*changed));
    let now = SystemTime::now();
    for (place, (changed, path)) in files.iter().enumerate() {
        let age = now.duration_since(*changed).unwrap_or_default();
        if place >= MAX_REMEMBERED || age > REMEMBERED {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Repeats the recorded answer if the key is known. Otherwise carries out the request.
pub(super) async fn once(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    match request.headers().get(KEY).cloned() {
        Some(key) if changes => carried_out_once(app, &key, request, next)
            .await
            .unwrap_or_else(IntoResponse::into_response),
        _ => next.run(request).await,
    }
}

async fn carried_out_once(
    app: Shared,
    key: &HeaderValue,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if !(1..=MAX_KEY_BYTES).contains(&key.len()) {
        return Err(
            Problem::bad(format!("Idempotency-Key has 1 to {MAX_KEY_BYTES} bytes"))
                .hint("a random UUID is a good one"),
        );
    }
    let (parts, body) = request.into_parts();
    let bytes = body::read(&parts.headers, body).await?;
    let target = format!("{} {}", parts.method, parts.uri.path());
    let key = hash(&[target.as_bytes(), key.as_bytes()]);
    let whole = hash(&[target.as_bytes(), &bytes]);
    let looking = Arc::clone(&app);
    let seen = tokio::task::spawn_blocking(move || looking.repeated.look_up(&key, &whole)).await;
    let seen = seen.map_err(|e| Problem::inside(&e))?;
    let seen = seen.map_err(|e| {
        Problem::busy(format!("the key cannot be recorded: {e}"))
            .hint("nothing was done; free some space, or send it without Idempotency-Key")
    })?;
    match seen {
        RequestState::Answered(response) => Ok(response),
        RequestState::OfAnother => Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "this Idempotency-Key came with another request",
        )
        .hint("give each request another key")),
        RequestState::Unknown => Err(Problem::new(
            StatusCode::CONFLICT,
            "the first request with this Idempotency-Key has no answer yet",
        )
        .hint(
            "it is in progress, or it failed or the server died in it: GET /sessions/{id} shows \
             what is recorded; a request with another key is carried out",
        )),
        RequestState::Never(recorded) => {
            let request = Request::from_parts(parts, Body::from(bytes));
            // The request is carried out completely, even if the client disconnects.
            let done =
                tokio::spawn(async move { recorded.answered(next.run(request).await).await });
            done.await.map_err(|e| Problem::inside(&e))
        }
    }
}

fn hash(parts: &[&[u8]]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_up(repeated: &Repeated, key: &str, request: &str) -> RequestState {
        repeated.look_up(key, &hash(&[request.as_bytes()])).unwrap()
    }

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread();
        { runtime }.build().unwrap().block_on(work)
    }

    #[test]
    fn a_request_without_an_answer_is_not_carried_out_again() {
        let dir = tempfile::tempdir().unwrap();
        let repeated = Repeated::new(dir.path());
        let RequestState::Never(recorded) = look_up(&repeated, "k", "a") else {
            panic!("it was never seen");
        };
        assert!(matches!(
            look_up(&repeated, "k", "a"),
            RequestState::Unknown
        ));
        assert!(matches!(
            look_up(&repeated, "k", "b"),
            RequestState::OfAnother
        ));
        // A server that was started later does not carry it out either.
        let later = Repeated::new(dir.path());
        assert!(matches!(look_up(&later, "k", "a"), RequestState::Unknown));
        fs::write(&recorded.path, "0a").unwrap();
        assert!(matches!(look_up(&later, "k", "a"), RequestState::Unknown));
    }

    #[test]
    fn an_answer_is_given_again_and_a_refusal_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let repeated = Repeated::new(dir.path());
        // It may have been carried out in part.
        let RequestState::Never(recorded) = look_up(&repeated, "500", "a") else {
            panic!("it was never seen");
        };
        block_on(recorded.answered(StatusCode::INTERNAL_SERVER_ERROR.into_response()));
        assert!(matches!(
            look_up(&repeated, "500", "a"),
            RequestState::Unknown
        ));
        for (status, is_remembered) in [(202, true), (429, false), (503, false)] {
            let key = status.to_string();
            let RequestState::Never(recorded) = look_up(&repeated, &key, "a") else {
                panic!("it was never seen");
            };
            let status = StatusCode::from_u16(status).unwrap();
            let answer = bytes_as(status, "application/json", "{\n}");
            assert_eq!(block_on(recorded.answered(answer)).status(), status);
            match look_up(&repeated, &key, "a") {
                RequestState::Answered(again) if is_remembered => {
                    assert_eq!(again.status(), status);
                    let bytes = block_on(to_bytes(again.into_body(), 100)).unwrap();
                    assert_eq!(bytes, "{\n}");
                }
                RequestState::Never(_) if !is_remembered => {}
                seen => panic!("{seen:?}"),
            }
        }
    }

    #[test]
    fn keys_older_than_a_day_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let repeated = Repeated::new(dir.path());
        for key in ["old", "new"] {
            assert!(matches!(
                look_up(&repeated, key, "a"),
                RequestState::Never(_)
            ));
        }
        let old = fs::File::options()
            .write(true)
            .open(repeated.folder.join("old"))
            .unwrap();
        old.set_modified(SystemTime::now() - 2 * REMEMBERED)
            .unwrap();
        let later = Repeated::new(dir.path());
        assert!(matches!(
            look_up(&later, "old", "a"),
            RequestState::Never(_)
        ));
        assert!(matches!(look_up(&later, "new", "a"), RequestState::Unknown));
    }
}
