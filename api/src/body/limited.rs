//! A request's body that is read up to a limit, and drained beyond it.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::BodyDataStream;
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};

use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// A body that ends with an error once more than its limit has come.
///
/// Clones read the same bytes: a parser owns one and whoever made it keeps another, to drain what the parser left.
#[derive(Clone)]
pub(crate) struct LimitedBody(Arc<Mutex<Reading>>);

/// Which polls get bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// All.
    Open,
    /// None, and nobody has asked.
    Closed,
    /// None, and somebody has asked.
    Asked,
    /// The next one that finds a chunk.
    One,
}

struct Reading {
    stream: BodyDataStream,
    left_bytes: usize,
    exceeded: bool,
    gate: Gate,
}

impl LimitedBody {
    /// Wraps a body of which at most `limit_bytes` are to be kept.
    pub(crate) fn new(stream: BodyDataStream, limit_bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(Reading { stream, left_bytes: limit_bytes, exceeded: false, gate: Gate::Open })))
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().expect("no holder of the lock panics")
    }

    /// Runs a step of a parser that reads a clone of this body, giving it a chunk only when it cannot do without.
    ///
    /// A multipart parser polls for bytes before it looks at those that it has, and keeps all that it gets: left alone
    /// it would read megabytes of a file before it saw the file's head.
    pub(super) async fn feed<T>(&self, step: impl Future<Output = T>) -> T {
        let mut step = pin!(step);
        poll_fn(|cx| {
            loop {
                self.reading().gate = Gate::Closed;
                if let Poll::Ready(done) = step.as_mut().poll(cx) {
                    return Poll::Ready(done);
                }
                if self.reading().gate == Gate::Closed {
                    return Poll::Pending; // it waits for something else
                }
                self.reading().gate = Gate::One;
                if let Poll::Ready(done) = step.as_mut().poll(cx) {
                    return Poll::Ready(done);
                }
                if self.reading().gate == Gate::One {
                    return Poll::Pending; // no chunk has come yet, and the connection will wake us
                }
            }
        })
        .await
    }

    /// Tells whether more than the limit has come.
    pub(crate) fn exceeded(&self) -> bool {
        self.reading().exceeded
    }

    /// Reads all of it.
    ///
    /// Errors: `invalid_value` when the connection broke. At the limit the error is the caller's to make.
    pub(crate) async fn read_all(&self) -> Result<Bytes, ApiError> {
        let mut body = self.clone();
        let mut whole = BytesMut::new();
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|_| ApiError::new(ErrorCode::InvalidValue, "the body ended early"))?;
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// Reads on without keeping anything, until the end, `most_bytes` or `patience`, whichever comes first.
    pub(crate) async fn drain(&self, most_bytes: u64, patience: Duration) {
        let drained = async {
            let mut bytes = 0u64;
            while let Some(Ok(chunk)) = poll_fn(|cx| self.reading().stream.poll_next_unpin(cx)).await {
                bytes += chunk.len() as u64;
                if bytes > most_bytes {
                    break;
                }
            }
        };
        // Out of time, the connection is closed with the rest unread: all that is left to do.
        let _ = tokio::time::timeout(patience, drained).await;
    }
}

impl Stream for LimitedBody {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut reading = self.reading();
        if reading.exceeded {
            return Poll::Ready(None);
        }
        if matches!(reading.gate, Gate::Closed | Gate::Asked) {
            reading.gate = Gate::Asked;
            return Poll::Pending;
        }
        let chunk = ready!(reading.stream.poll_next_unpin(cx));
        let Some(chunk) = chunk else {
            return Poll::Ready(None);
        };
        let chunk = chunk.map_err(io::Error::other)?;
        match reading.left_bytes.checked_sub(chunk.len()) {
            Some(left_bytes) => {
                reading.left_bytes = left_bytes;
                if reading.gate == Gate::One {
                    reading.gate = Gate::Closed;
                }
                Poll::Ready(Some(Ok(chunk)))
            }
            None => {
                reading.exceeded = true;
                Poll::Ready(Some(Err(io::Error::other("the body is larger than its limit"))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn body_of(chunks: usize, limit_bytes: usize) -> LimitedBody {
        let chunks =
            futures_util::stream::iter((0..chunks).map(|_| Ok::<_, io::Error>(Bytes::from_static(b"0123456789"))));
        LimitedBody::new(Body::from_stream(chunks).into_data_stream(), limit_bytes)
    }

    async fn is_used_up(body: &LimitedBody) -> bool {
        poll_fn(|cx| body.reading().stream.poll_next_unpin(cx)).await.is_none()
    }

    #[tokio::test]
    async fn a_body_of_just_the_limit_is_read() {
        let body = body_of(3, 30);
        assert_eq!(body.read_all().await.unwrap().len(), 30);
        assert!(!body.exceeded());
    }

    #[tokio::test]
    async fn one_byte_more_is_too_many_and_the_rest_can_be_drained() {
        let body = body_of(1000, 29);
        assert!(body.read_all().await.is_err());
        assert!(body.exceeded());
        body.drain(u64::MAX, Duration::from_secs(60)).await;
        assert!(is_used_up(&body).await);
    }

    #[tokio::test]
    async fn a_parser_is_fed_only_what_it_needs() {
        let body = body_of(1000, 10_000);
        let mut parser = body.clone();
        // Polls for more than it needs, as multipart parsers do.
        let mut kept = 0;
        let step = poll_fn(|cx| {
            while let Poll::Ready(Some(Ok(chunk))) = parser.poll_next_unpin(cx) {
                kept += chunk.len();
            }
            if kept >= 25 { Poll::Ready(kept) } else { Poll::Pending }
        });
        assert_eq!(body.feed(step).await, 30);
    }

    #[tokio::test]
    async fn draining_stops_at_its_own_limit() {
        let body = body_of(1000, 0);
        assert!(body.read_all().await.is_err());
        body.drain(50, Duration::from_secs(60)).await;
        assert!(!is_used_up(&body).await);
    }
}
