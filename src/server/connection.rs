//! One connection of a client. It is closed when nothing was read or written for a while, so a
//! reader that stopped reading, and a sender that stopped sending, hold nothing for long.
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

pub(super) struct Connection<S> {
    stream: S,
    idle: Pin<Box<Sleep>>,
    /// One of those that may be open at once.
    _place: OwnedSemaphorePermit,
}

impl<S> Connection<S> {
    pub(super) fn new(stream: S, place: OwnedSemaphorePermit) -> Connection<S> {
        Connection {
            stream,
            idle: Box::pin(sleep(IDLE)),
            _place: place,
        }
    }

    /// What came of a try to read or to write.
    fn after<T>(
        &mut self,
        cx: &mut Context<'_>,
        tried: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match tried {
            Poll::Ready(done) => {
                self.idle.as_mut().reset(Instant::now() + IDLE);
                Poll::Ready(done)
            }
            Poll::Pending => match self.idle.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Poll::Pending => Poll::Pending,
            },
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.after(cx, tried)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.after(cx, tried)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
