//! One connection of a client. It is closed if for a while nothing was written and little was
//! read. So a client that stops reading or sending, or sends single bytes, cannot keep it for
//! long. The head of the first request has to arrive sooner. A connection without a request is
//! closed when a limit of [`super::admission`] is reached.
//!
//! A stream of events sends keep-alive lines, so a client that reads is never idle.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::admission::AdmissionSlot;

/// Maximum idle time. It is longer than the interval of the keep-alive lines of a stream.
const IDLE: Duration = Duration::from_secs(60);

/// Time limit for the head of the first request.
const HEAD: Duration = Duration::from_secs(10);

/// The end of a head (RFC 9112, 2.1).
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Number of bytes that restart the timer. A request without a body is answered before it expires.
const MIN_BYTES: usize = 16 * 1024;

/// The beginning of an HTTP/2 connection. The HTTP library supports it if any dependency enables
/// that feature. It is refused here, because its streams would bypass the limits.
const HTTP_2: &[u8] = b"PRI * HTTP/2.0";

pub(super) struct Connection<S> {
    stream: S,
    idle: Pin<Box<Sleep>>,
    /// Number of bytes that were read since the timer was last restarted.
    read: usize,
    /// Number of bytes of [`HTTP_2`] that the connection began with. `None`: it began with other
    /// bytes.
    http_2: Option<usize>,
    /// Number of bytes of [`HEAD_END`] at the end of the data so far. `None`: the first head is
    /// complete.
    head: Option<usize>,
    /// Time after which the connection is closed.
    longest: Duration,
    place: AdmissionSlot,
}

impl<S> Connection<S> {
    pub(super) fn new(stream: S, place: AdmissionSlot) -> Connection<S> {
        Connection::closed_after(HEAD, IDLE, stream, place)
    }

    fn closed_after(
        head: Duration,
        longest: Duration,
        stream: S,
        place: AdmissionSlot,
    ) -> Connection<S> {
        Connection {
            stream,
            idle: Box::pin(sleep(head)),
            read: 0,
            http_2: Some(0),
            head: Some(0),
            longest,
            place,
        }
    }

    /// Returns whether these bytes complete the beginning of HTTP/2, together with the earlier
    /// ones.
    fn is_http_2(&mut self, bytes: &[u8]) -> bool {
        let Some(known) = self.http_2 else {
            return false;
        };
        let rest = &HTTP_2[known..];
        let common = rest.len().min(bytes.len());
        self.http_2 = (rest[..common] == bytes[..common]).then_some(known + common);
        self.http_2 == Some(HTTP_2.len())
    }

    /// Searches for the end of the first head. Until it arrives, the time limit of a head applies.
    fn hear(&mut self, bytes: &[u8]) {
        let Some(mut found) = self.head else {
            return self.place.is_asked();
        };
        for byte in bytes {
            found = match *byte {
                byte if byte == HEAD_END[found] => found + 1,
                b'\r' => 1,
                _ => 0,
            };
            if found == HEAD_END.len() {
                self.head = None;
                self.place.is_asked();
                return self.expect_next_head();
            }
        }
        self.head = Some(found);
    }

    fn expect_next_head(&mut self) {
        self.read = 0;
        let end = Instant::now() + self.longest;
        self.idle.as_mut().reset(end);
    }

    /// Checks the clock, because a timer that nobody polls does not notice its deadline.
    fn is_late(&self) -> bool {
        self.idle.deadline() <= Instant::now()
    }

    fn unless_idle<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        match self.idle.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.place.is_evicted(cx.waker()) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buf.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            Poll::Ready(Ok(())) if self.is_http_2(&buf.filled()[before..]) => {
                Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
            }
            Poll::Ready(Ok(())) => {
                self.hear(&buf.filled()[before..]);
                let is_first = self.read == 0;
                self.read += buf.filled().len() - before;
                if self.head.is_some() {
                    if self.is_late() {
                        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                    }
                } else if self.read >= MIN_BYTES {
                    self.expect_next_head();
                } else if is_first {
                    // A request after a while without one.
                    let end = Instant::now() + self.longest;
                    self.idle.as_mut().reset(end);
                } else if self.is_late() {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(failed) => Poll::Ready(failed),
            Poll::Pending => self.unless_idle(cx),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(cx, bytes) {
            Poll::Ready(done) => {
                self.expect_next_head();
                self.place.is_answered();
                Poll::Ready(done)
            }
            Poll::Pending => self.unless_idle(cx),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::super::admission::{Admission, SlotAvailability};
    use super::*;

    const SOON: Duration = Duration::from_millis(200);
    const NEVER: Duration = Duration::from_secs(3600);

    fn connection<S>(head: Duration, longest: Duration, stream: S) -> Connection<S> {
        let admission = Arc::new(Admission::new(1024));
        let SlotAvailability::Place(place) = admission.admit(None, Instant::now()) else {
            panic!("there is room");
        };
        Connection::closed_after(head, longest, stream, place)
    }

    /// Some of each write of the client, after this head, until the connection is closed. `None`:
    /// it is not.
    fn written(head: &[u8], piece: usize, limits: (Duration, Duration)) -> Option<usize> {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut client, server) = duplex(1 << 20);
            let mut connection = connection(limits.0, limits.1, server);
            client.write_all(head).await.unwrap();
            connection
                .read_exact(&mut vec![0; head.len()])
                .await
                .unwrap();
            let mut buffer = vec![0; piece];
            for n in 0..100 {
                client.write_all(&vec![b'x'; piece]).await.unwrap();
                match connection.read_exact(&mut buffer).await {
                    Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                        return Some(n);
                    }
                }
            }
            None
        })
    }

    const WHOLE_HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    #[test]
    fn a_client_that_sends_a_byte_now_and_then_is_left() {
        assert!(written(WHOLE_HEAD, 1, (NEVER, SOON)).is_some());
    }

    #[test]
    fn a_client_that_sends_a_long_body_is_heard_to_its_end() {
        assert_eq!(written(WHOLE_HEAD, MIN_BYTES, (NEVER, SOON)), None);
    }

    /// However much it sends of it.
    #[test]
    fn a_head_that_does_not_end_is_left() {
        let limits = (SOON, NEVER);
        for piece in [1, MIN_BYTES] {
            assert!(written(&WHOLE_HEAD[..20], piece, limits).is_some());
        }
        assert_eq!(written(WHOLE_HEAD, 1, limits), None);
    }

    #[test]
    fn a_client_that_sends_nothing_is_left() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let (_client, server) = duplex(64);
            let mut connection = connection(SOON, NEVER, server);
            let read = connection.read(&mut [0; 8]).await;
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
        });
    }
}
