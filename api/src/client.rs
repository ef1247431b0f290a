//! The client at the other end of a connection: its bytes, and whether it is still there.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Sleep, sleep};

use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// How often a client is looked at that has sent more than the request which is being answered.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Tells whether a client still sends. It rides along with each request, as an extension.
#[derive(Debug, Clone)]
pub(crate) struct Client(Arc<OwnedReadHalf>);

impl Client {
    /// Waits until the client has closed the connection, or its own half of it: a server cannot tell the two apart.
    pub(crate) async fn gone(&self) {
        while let Ok(ready) = self.0.ready(Interest::READABLE).await
            && !ready.is_read_closed()
        {
            sleep(LOOK_AGAIN).await;
        }
    }
}

/// Waits until a client has gone that is watched.
pub(crate) async fn gone(client: Option<Client>) {
    match client {
        Some(client) => client.gone().await,
        None => std::future::pending().await,
    }
}

/// Makes the answer to a client that has closed its half of the connection, should it still read.
pub(crate) fn unwanted() -> ApiError {
    let message = "the video is cancelled: the client closed the connection, or its half of it, before the video was \
        finished; with x-keep-job: 1 it goes on";
    ApiError::new(ErrorCode::VideoFailed, message)
}

/// A connection whose writing fails once the client has taken nothing for too long.
pub(crate) struct Socket {
    reading: Arc<OwnedReadHalf>,
    writing: OwnedWriteHalf,
    write_timeout: Duration,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    /// Takes over a connection.
    pub(crate) fn new(stream: TcpStream, write_timeout: Duration) -> Self {
        let (reading, writing) = stream.into_split();
        Self { reading: Arc::new(reading), writing, write_timeout, stalled: None }
    }

    /// Returns who is at the other end.
    pub(crate) fn client(&self) -> Client {
        Client(Arc::clone(&self.reading))
    }

    /// Passes on what a write came to, unless it has been pending for too long.
    fn in_time(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let write_timeout = self.write_timeout;
        ready!(self.stalled.get_or_insert_with(|| Box::pin(sleep(write_timeout))).as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes no bytes")))
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let stream: &TcpStream = (*self.reading).as_ref();
            ready!(stream.poll_read_ready(cx))?;
            match stream.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|_| ())),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.writing).poll_write(cx, bytes);
        self.in_time(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.writing).poll_write_vectored(cx, slices);
        self.in_time(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.writing.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writing).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writing).poll_shutdown(cx)
    }
}
