//! A bound on what comes before an answer.
//!
//! Before its answer a host may send any number of others that say "not yet" (1xx), which hyper drops one by one. Without a
//! bound on all of them together, one that never ends keeps this machine busy for as long as the request may take.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection that breaks when more has come than a head may have, until it is [told](HeadCame::tell) that the head came.
pub(crate) struct HeadLimited<S> {
    stream: S,
    left: usize,
    came: Arc<AtomicBool>,
}

/// Tells a connection that the head of the answer came.
pub(crate) struct HeadCame(Arc<AtomicBool>);

impl HeadCame {
    /// Lets through whatever follows.
    pub(crate) fn tell(self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Bounds what a stream may bring before the head of the answer has come, in bytes.
pub(crate) fn limited<S>(stream: S, most_bytes: usize) -> (HeadLimited<S>, HeadCame) {
    let came = Arc::new(AtomicBool::new(false));
    (HeadLimited { stream, left: most_bytes, came: Arc::clone(&came) }, HeadCame(came))
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadLimited<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if matches!(read, Poll::Ready(Ok(()))) && !self.came.load(Ordering::Relaxed) {
            match self.left.checked_sub(into.filled().len() - before) {
                Some(left) => self.left = left,
                None => return Poll::Ready(Err(io::Error::other("the head of the answer does not end"))),
            }
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadLimited<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
