//! A request's body that is read up to a limit.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use axum::body::BodyDataStream;
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};

use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// A body that ends with an error once more than its limit has come.
///
/// Clones read the same bytes: a parser owns one, and whoever made it keeps another, to feed it and to ask about the limit.
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
    /// The next one.
    One,
}

/// How many bytes are given at a time at most: a body need not come in small pieces.
const PIECE_BYTES: usize = 64 << 10;

/// What part of the bytes that a parser holds already has to come before it gets more: with each piece it may look through all
/// of them again, so that a body of single bytes would cost the square of its length.
const LEAST_PART: usize = 16;

struct Reading {
    stream: BodyDataStream,
    /// Nothing comes any more.
    ended: bool,
    /// Why nothing comes any more, if not because this is all; told once.
    failure: Option<axum::Error>,
    /// What has come and was not given yet.
    rest: BytesMut,
    limit_bytes: usize,
    left_bytes: usize,
    exceeded: bool,
    gate: Gate,
}

impl Reading {
    /// Returns how many bytes are worth a step of the parser, unless fewer are the last.
    fn least_bytes(&self) -> usize {
        (self.limit_bytes.saturating_sub(self.left_bytes) / LEAST_PART).clamp(1, PIECE_BYTES)
    }

    /// Waits until there are so many, or the last have come.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.ended && self.rest.len() < self.least_bytes() {
            match ready!(self.stream.poll_next_unpin(cx)) {
                Some(Ok(chunk)) => self.rest.extend_from_slice(&chunk),
                Some(Err(error)) => (self.failure, self.ended) = (Some(error), true),
                None => self.ended = true,
            }
        }
        Poll::Ready(())
    }
}

impl LimitedBody {
    /// Wraps a body of which at most `limit_bytes` are to be kept.
    pub(crate) fn new(stream: BodyDataStream, limit_bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(Reading {
            stream,
            ended: false,
            failure: None,
            rest: BytesMut::new(),
            limit_bytes,
            left_bytes: limit_bytes,
            exceeded: false,
            gate: Gate::Open,
        })))
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
        let mut asked = false;
        poll_fn(|cx| {
            loop {
                if !asked {
                    self.reading().gate = Gate::Closed;
                    if let Poll::Ready(done) = step.as_mut().poll(cx) {
                        return Poll::Ready(done);
                    }
                    asked = self.reading().gate == Gate::Asked;
                    if !asked {
                        return Poll::Pending; // it waits for something else
                    }
                }
                // The parser is not polled before there is something to give, since each time it looks through all that it has.
                ready!(self.reading().poll_fill(cx));
                asked = false;
                self.reading().gate = Gate::One;
                if let Poll::Ready(done) = step.as_mut().poll(cx) {
                    return Poll::Ready(done);
                }
                if self.reading().gate == Gate::One {
                    return Poll::Pending; // it did not take it, and waits for something else
                }
            }
        })
        .await
    }

    /// Takes bytes off the count that are not held by the parser any more.
    pub(super) fn refund(&self, bytes: usize) {
        let mut reading = self.reading();
        reading.left_bytes = reading.left_bytes.saturating_add(bytes);
    }

    /// Tells whether more than the limit has come.
    pub(crate) fn exceeded(&self) -> bool {
        self.reading().exceeded
    }

    /// Returns the next bytes; none at the end.
    ///
    /// Errors: `invalid_value` when the connection broke. At the limit the error is the caller's to make.
    pub(super) async fn chunk(&self) -> Result<Option<Bytes>, ApiError> {
        let chunk = self.clone().next().await;
        chunk.transpose().map_err(|_| ApiError::new(ErrorCode::InvalidValue, "the body ended early"))
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
        ready!(reading.poll_fill(cx));
        if reading.rest.is_empty() {
            return Poll::Ready(reading.failure.take().map(|failure| Err(io::Error::other(failure))));
        }
        let piece_bytes = reading.rest.len().min(PIECE_BYTES);
        let chunk = reading.rest.split_to(piece_bytes).freeze();
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
                reading.rest = BytesMut::new();
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

    async fn read_all(body: &LimitedBody) -> Result<Vec<u8>, ApiError> {
        let mut whole = Vec::new();
        while let Some(chunk) = body.chunk().await? {
            whole.extend_from_slice(&chunk);
        }
        Ok(whole)
    }

    #[tokio::test]
    async fn a_large_piece_is_given_in_small_ones_and_what_is_given_back_counts_no_more() {
        let large = Bytes::from(vec![7; 5 * PIECE_BYTES + 1]);
        let stream = Body::from_stream(futures_util::stream::iter([Ok::<_, io::Error>(large)])).into_data_stream();
        let body = LimitedBody::new(stream, PIECE_BYTES);
        let (mut reader, mut bytes) = (body.clone(), 0);
        while let Some(piece) = reader.next().await {
            let piece = piece.unwrap();
            assert!(piece.len() <= PIECE_BYTES);
            bytes += piece.len();
            body.refund(piece.len());
        }
        assert_eq!((bytes, body.exceeded()), (5 * PIECE_BYTES + 1, false));
    }

    #[tokio::test]
    async fn what_comes_byte_by_byte_is_given_in_pieces_that_grow_with_what_the_parser_holds() {
        let bytes = futures_util::stream::iter((0..100_000).map(|_| Ok::<_, io::Error>(Bytes::from_static(b"x"))));
        let body = LimitedBody::new(Body::from_stream(bytes).into_data_stream(), 1 << 20);
        let (mut reader, mut held, mut looked_at, mut pieces) = (body.clone(), 0, 0, 0);
        while let Some(piece) = reader.next().await {
            held += piece.unwrap().len();
            looked_at += held;
            pieces += 1;
        }
        assert_eq!(held, 100_000, "the last bytes are given although they are few");
        assert!(pieces < 200 && looked_at < 30 * held, "{pieces} pieces, {looked_at} bytes looked at");
        // What the parser has let go of is not looked at again.
        let bytes = futures_util::stream::iter((0..1000).map(|_| Ok::<_, io::Error>(Bytes::from_static(b"x"))));
        let body = LimitedBody::new(Body::from_stream(bytes).into_data_stream(), 1 << 20);
        let mut reader = body.clone();
        while let Some(piece) = reader.next().await {
            let piece = piece.unwrap();
            assert_eq!(piece.len(), 1);
            body.refund(piece.len());
        }
    }

    #[tokio::test]
    async fn a_parser_is_not_polled_for_less_than_what_is_worth_it() {
        // One byte at a time, each after a while.
        let bytes = futures_util::stream::unfold(100_000, |left: u32| async move {
            tokio::task::yield_now().await;
            (left > 0).then(|| (Ok::<_, io::Error>(Bytes::from_static(b"x")), left - 1))
        });
        let body = LimitedBody::new(Body::from_stream(bytes).into_data_stream(), 1 << 20);
        let mut parser = body.clone();
        let (mut held, mut polls) = (0, 0);
        let step = poll_fn(|cx| {
            polls += 1;
            loop {
                match ready!(parser.poll_next_unpin(cx)) {
                    Some(piece) => held += piece.unwrap().len(),
                    None => return Poll::Ready(()),
                }
            }
        });
        body.feed(step).await;
        assert_eq!(held, 100_000);
        assert!(polls < 500, "{polls} polls");
    }

    #[tokio::test]
    async fn what_came_before_the_connection_broke_is_given_and_then_the_failure() {
        let chunks = [Ok(Bytes::from_static(b"0123456789")), Err(io::Error::other("reset"))];
        let stream = Body::from_stream(futures_util::stream::iter(chunks)).into_data_stream();
        let mut body = LimitedBody::new(stream, 160);
        assert_eq!(body.next().await.unwrap().unwrap(), "0123456789");
        assert!(body.next().await.unwrap().is_err());
        assert!(body.next().await.is_none());
    }

    #[tokio::test]
    async fn a_body_of_just_the_limit_is_read() {
        let body = body_of(3, 30);
        assert_eq!(read_all(&body).await.unwrap().len(), 30);
        assert!(!body.exceeded());
    }

    #[tokio::test]
    async fn one_byte_more_is_too_many() {
        let body = body_of(1000, 29);
        assert!(read_all(&body).await.is_err());
        assert!(body.exceeded());
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
}
