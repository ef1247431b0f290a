//! A body that is read to its end although nobody wants the rest of it.
//!
//! A client that is answered in the middle of sending goes on sending. If the connection were closed with its bytes unread,
//! the system would reset it, and the client might never see the answer: it would take a refusal for a broken network, and send
//! the same again. So whoever lets go of a body early, whatever the route and the reason, leaves the rest to be thrown away.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::runtime::Handle;

use crate::options::Options;

/// Lets what is left of a request's body be read and thrown away once nobody holds it any more, within
/// [`Options::drain_bytes`] and [`Options::drain_timeout`].
pub(crate) fn drained(request: Request, options: &Options) -> Request {
    if request.body().is_end_stream() {
        return request;
    }
    let waits = request.headers().contains_key(header::EXPECT);
    let (most_bytes, patience) = (options.drain_bytes, options.drain_timeout);
    request.map(|body| Body::new(Drained { body: Some(body), waits, most_bytes, patience }))
}

/// A body whose rest is drained when it is dropped.
struct Drained {
    /// What is still to come; none at its end.
    body: Option<Body>,
    /// The client waits for a "100 Continue" and sends nothing before; reading would ask for it.
    waits: bool,
    most_bytes: u64,
    patience: Duration,
}

impl HttpBody for Drained {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        self.waits = false;
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        let (most_bytes, patience) = (self.most_bytes, self.patience);
        let Some(body) = self.body.take().filter(|body| !self.waits && !body.is_end_stream()) else {
            return;
        };
        // Where the runtime is gone, so are its connections.
        if let Ok(runtime) = Handle::try_current() {
            // Out of time, the connection is closed with the rest unread: all that is left to do.
            runtime.spawn(async move { drop(tokio::time::timeout(patience, drain(body, most_bytes)).await) });
        }
    }
}

/// Reads on without keeping anything, until the end or `most_bytes`.
async fn drain(mut body: Body, most_bytes: u64) {
    let mut bytes = 0u64;
    while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        if bytes > most_bytes {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::StreamExt;

    use super::*;

    /// A request of a thousand chunks of ten bytes, and how many of them have been taken.
    fn request(options: &Options, expects: bool) -> (Request, Arc<AtomicUsize>) {
        let taken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&taken);
        let chunks = futures_util::stream::iter(0..1000).map(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok::<_, io::Error>(Bytes::from_static(b"0123456789"))
        });
        let mut request = Request::new(Body::from_stream(chunks));
        if expects {
            request.headers_mut().insert(header::EXPECT, "100-continue".parse().unwrap());
        }
        (drained(request, options), taken)
    }

    /// Lets what was spawned come to its end.
    async fn settle() {
        for _ in 0..2000 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_nobody_reads_is_read_to_its_end() {
        let (request, taken) = request(&Options::default(), false);
        drop(request);
        settle().await;
        assert_eq!(taken.load(Ordering::SeqCst), 1000);
        let (request, taken) = self::request(&Options::default(), true);
        let mut stream = request.into_body().into_data_stream();
        stream.next().await.unwrap().unwrap();
        drop(stream);
        settle().await;
        assert_eq!(taken.load(Ordering::SeqCst), 1000, "who was let go on sending is read too");
    }

    #[tokio::test]
    async fn draining_stops_at_its_own_limit() {
        let (request, taken) = request(&Options { drain_bytes: 50, ..Options::default() }, false);
        drop(request);
        settle().await;
        assert_eq!(taken.load(Ordering::SeqCst), 6);
    }

    #[tokio::test]
    async fn who_waits_to_be_let_on_is_not_asked_to_send() {
        let (request, taken) = request(&Options::default(), true);
        drop(request);
        settle().await;
        assert_eq!(taken.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_body_is_what_it_was() {
        let request = drained(Request::new(Body::from("abc")), &Options::default());
        assert_eq!((request.body().size_hint().exact(), request.body().is_end_stream()), (Some(3), false));
        let bytes = axum::body::to_bytes(request.into_body(), 10).await.unwrap();
        assert_eq!(bytes, "abc");
        assert!(drained(Request::new(Body::empty()), &Options::default()).body().is_end_stream());
    }
}
