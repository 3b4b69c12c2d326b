//! One connection of a client. It is closed when nothing was written and little was read for a
//! while, so a reader that stopped reading, and a sender that stopped sending or sends a byte now
//! and then, hold nothing for long.
//!
//! A stream of events has a sign of life in between, so a reader that reads is never idle.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep};

/// Longer than the sign of life of a stream takes.
const IDLE: Duration = Duration::from_secs(60);

/// Less that is read in this time counts as nothing. A request without a body is answered before.
const MIN_BYTES: usize = 16 * 1024;

/// How a client begins that speaks HTTP/2. The library below answers it wherever any part of the
/// program has it built in; here nobody asked for it, and its streams would pass the bounds.
const HTTP_2: &[u8] = b"PRI * HTTP/2.0";

pub(super) struct Connection<S> {
    stream: S,
    idle: Pin<Box<Sleep>>,
    /// Bytes that were read since the time was last begun anew.
    read: usize,
    /// So much of [`HTTP_2`] it began with. `None`: it began otherwise.
    http_2: Option<usize>,
    /// After so long it is closed.
    longest: Duration,
    /// One of those that may be open at once.
    _place: OwnedSemaphorePermit,
}

impl<S> Connection<S> {
    pub(super) fn new(stream: S, place: OwnedSemaphorePermit) -> Connection<S> {
        Connection::closed_after(IDLE, stream, place)
    }

    fn closed_after(longest: Duration, stream: S, place: OwnedSemaphorePermit) -> Connection<S> {
        Connection {
            stream,
            idle: Box::pin(sleep(longest)),
            read: 0,
            http_2: Some(0),
            longest,
            _place: place,
        }
    }

    /// Whether these bytes, behind those before, are the beginning of HTTP/2.
    fn is_http_2(&mut self, bytes: &[u8]) -> bool {
        let Some(known) = self.http_2 else {
            return false;
        };
        let rest = &HTTP_2[known..];
        let common = rest.len().min(bytes.len());
        self.http_2 = (rest[..common] == bytes[..common]).then_some(known + common);
        self.http_2 == Some(HTTP_2.len())
    }

    fn begin_anew(&mut self) {
        self.read = 0;
        let end = Instant::now() + self.longest;
        self.idle.as_mut().reset(end);
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
        let before = buf.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            Poll::Ready(Ok(())) if self.is_http_2(&buf.filled()[before..]) => {
                Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
            }
            Poll::Ready(Ok(())) => {
                let is_first = self.read == 0;
                self.read += buf.filled().len() - before;
                if self.read >= MIN_BYTES {
                    self.begin_anew();
                } else if is_first {
                    // A request after a while without one.
                    let end = Instant::now() + self.longest;
                    self.idle.as_mut().reset(end);
                } else if self.idle.is_elapsed() {
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
                self.begin_anew();
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
    use tokio::sync::Semaphore;

    use super::*;

    async fn connection<S>(stream: S) -> Connection<S> {
        let places = Arc::new(Semaphore::new(1));
        let place = places.acquire_owned().await.unwrap();
        Connection::closed_after(Duration::from_millis(200), stream, place)
    }

    /// Some of each write of the client, until the connection is closed. `None`: it is not.
    fn written(piece: usize) -> Option<usize> {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut client, server) = duplex(1 << 20);
            let mut connection = connection(server).await;
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

    #[test]
    fn a_client_that_sends_a_byte_now_and_then_is_left() {
        assert!(written(1).is_some());
    }

    #[test]
    fn a_client_that_sends_a_long_body_is_heard_to_its_end() {
        assert_eq!(written(MIN_BYTES), None);
    }

    #[test]
    fn a_client_that_sends_nothing_is_left() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let (_client, server) = duplex(64);
            let mut connection = connection(server).await;
            let read = connection.read(&mut [0; 8]).await;
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
        });
    }
}
