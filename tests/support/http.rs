//! As much of HTTP/1.1 as a client of the four protocols uses: requests with a length or in
//! chunks, answers in chunks on a connection that is kept.

use std::io::{self, BufRead, Read, Write};

const MAX_HEAD_BYTES: u64 = 64 << 10;
const MAX_BODY_BYTES: u64 = 256 << 20;

#[derive(Debug, Clone, Default)]
pub struct Head {
    pub method: String,
    /// `http://HOST:PORT` before the path, which a client sends to a proxy alone.
    pub proxied_to: Option<String>,
    /// Without the query.
    pub path: String,
    pub query: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The key of `Authorization: Bearer KEY`.
    pub fn bearer(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ")
    }

    /// All that may be keys, in any protocol.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let headers = [self.header("x-api-key"), self.header("x-goog-api-key")];
        let others = [self.bearer(), self.parameter("key")];
        headers.into_iter().chain(others).flatten()
    }

    /// There is a place for a key, be it filled or not.
    pub fn has_key(&self) -> bool {
        self.header("authorization").is_some() || self.keys().next().is_some()
    }

    /// A key for every protocol.
    pub fn add_keys(&mut self) {
        let keys = [
            ("x-api-key", "k"),
            ("x-goog-api-key", "k"),
            ("authorization", "Bearer k"),
        ];
        let keys = keys.map(|(name, value)| (name.to_string(), value.to_string()));
        self.headers.extend(keys);
    }

    /// The value of `key=value` in the query.
    pub fn parameter(&self, key: &str) -> Option<&str> {
        self.query
            .split('&')
            .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
    }
}

/// The next request of a connection; `None` when the other side has closed it.
pub fn read(from: &mut impl BufRead) -> io::Result<Option<(Head, Vec<u8>)>> {
    let mut limited = Read::take(&mut *from, MAX_HEAD_BYTES);
    let Some(first) = line(&mut limited)? else {
        return Ok(None);
    };
    let mut words = first.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(invalid(format!("not a request line: {first:?}")));
    };
    let (proxied_to, target) = match target.strip_prefix("http://") {
        Some(rest) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (Some(format!("http://{host}")), path)
        }
        None => (None, target),
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut head = Head {
        method: method.to_string(),
        proxied_to,
        path: path.to_string(),
        query: query.to_string(),
        headers: Vec::new(),
    };
    loop {
        match line(&mut limited)? {
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(empty) if empty.is_empty() => break,
            Some(header) => {
                let (name, value) = header
                    .split_once(':')
                    .ok_or_else(|| invalid(format!("not a header: {header:?}")))?;
                head.headers
                    .push((name.trim().to_lowercase(), value.trim().to_string()));
            }
        }
    }
    let body = body(&head, from)?;
    Ok(Some((head, body)))
}

fn body(head: &Head, from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    if head.header("transfer-encoding") == Some("chunked") {
        return chunks(from);
    }
    let length: u64 = match head.header("content-length") {
        None => 0,
        Some(text) => text.parse().map_err(|_| invalid("bad content-length"))?,
    };
    exactly(from, length)
}

fn chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let size = line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = u64::from_str_radix(&size, 16).map_err(|_| invalid("bad chunk size"))?;
        whole.extend(exactly(from, size)?);
        line(from)?;
        if size == 0 {
            return Ok(whole);
        }
        if whole.len() as u64 > MAX_BODY_BYTES {
            return Err(invalid("body too large"));
        }
    }
}

fn exactly(from: &mut impl BufRead, bytes: u64) -> io::Result<Vec<u8>> {
    if bytes > MAX_BODY_BYTES {
        return Err(invalid("body too large"));
    }
    // The next one is a little longer: it gets the same room, and no new pages.
    let mut body = Vec::with_capacity((bytes as usize).next_power_of_two());
    if Read::take(from, bytes).read_to_end(&mut body)? as u64 != bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(body)
}

/// Without its line end. `None` at the end of the stream.
fn line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut text = String::new();
    if from.read_line(&mut text)? == 0 {
        return Ok(None);
    }
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_string()))
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// Status line and headers of an answer in chunks.
pub fn head(status: u16, content_type: &str, retry_after_secs: Option<u64>) -> String {
    let retry = match retry_after_secs {
        Some(secs) => format!("retry-after: {secs}\r\n"),
        None => String::new(),
    };
    format!(
        "HTTP/1.1 {status} {}\r\ncontent-type: {content_type}\r\n{retry}transfer-encoding: chunked\r\n\r\n",
        reason(status)
    )
}

/// The whole answer in one write.
pub fn write_whole(to: &mut impl Write, head: &str, body: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(head.len() + body.len() + 32);
    bytes.extend_from_slice(head.as_bytes());
    if !body.is_empty() {
        write_chunk(&mut bytes, body)?;
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    to.write_all(&bytes)
}

/// One write for each chunk, so that each arrives by itself.
pub fn write_chunk(to: &mut impl Write, body: &[u8]) -> io::Result<()> {
    let mut bytes = format!("{:x}\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(b"\r\n");
    to.write_all(&bytes)
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        529 => "Site is overloaded",
        _ => "Other",
    }
}
