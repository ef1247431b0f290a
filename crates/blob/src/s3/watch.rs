//! Ends requests in which no byte moves.
//!
//! A fixed limit for a whole request would cut large objects on slow lines, and the time to the first byte of an answer,
//! which the HTTP client can limit, holds the upload before it. So this stands around the HTTP client, sees every
//! chunk pass in either direction, and gives up once nothing has passed for the whole patience.
//!
//! A worker watches its puts as well, whatever store it has, and gives up a whole put; here a single request ends, so that
//! those of the API and the scheduler do too. The room that both may use, `jobs`, has no timers, so each has its own.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::{RuntimeComponents, RuntimeComponentsBuilder};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::ConfigBag;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

/// No byte has moved for as long as one may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no byte has moved for {} ms", patience.as_millis())]
pub(super) struct Stalled {
    patience: Duration,
}

/// An HTTP client whose requests end when they stall.
#[derive(Debug)]
pub(super) struct WatchedClient {
    inner: SharedHttpClient,
    patience: Duration,
}

impl WatchedClient {
    pub(super) fn new(inner: SharedHttpClient, patience: Duration) -> Self {
        Self { inner, patience }
    }
}

impl HttpClient for WatchedClient {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(Watched::new(inner, self.patience))
    }

    fn validate_base_client_config(
        &self,
        components: &RuntimeComponentsBuilder,
        config: &ConfigBag,
    ) -> Result<(), BoxError> {
        self.inner.validate_base_client_config(components, config)
    }

    fn validate_final_config(&self, components: &RuntimeComponents, config: &ConfigBag) -> Result<(), BoxError> {
        self.inner.validate_final_config(components, config)
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        self.inner.connector_metadata()
    }
}

/// A connector whose requests end when they stall.
#[derive(Debug)]
pub(super) struct Watched<C> {
    inner: C,
    patience: Duration,
}

impl<C> Watched<C> {
    pub(super) fn new(inner: C, patience: Duration) -> Self {
        Self { inner, patience }
    }
}

impl<C: HttpConnector> HttpConnector for Watched<C> {
    fn call(&self, mut request: HttpRequest) -> HttpConnectorFuture {
        let patience = self.patience;
        let moved = Moved::now();
        let body = request.take_body();
        let upload = moved.clone();
        *request.body_mut() = ToldBody::around(body, move || upload.touch());
        let answer = self.inner.call(request);
        HttpConnectorFuture::new(async move {
            let answer = tokio::select! {
                answer = answer => answer?,
                () = moved.stalls(patience) => {
                    // Of no kind that the client would try again: a call ends within its patience.
                    return Err(ConnectorError::other(Stalled { patience }.into(), None));
                }
            };
            Ok(answer.map(|body| SdkBody::from_body_1_x(Download { body, patience, waiting: None })))
        })
    }
}

/// When a byte has moved last.
#[derive(Clone)]
struct Moved(Arc<Mutex<Instant>>);

impl Moved {
    fn now() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn touch(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends once nothing has moved for `patience`.
    async fn stalls(&self, patience: Duration) {
        loop {
            let last = self.last();
            tokio::time::sleep_until(last + patience).await;
            if self.last() == last {
                return;
            }
        }
    }
}

/// The body of a request, which tells when some of it is taken.
pub(super) struct ToldBody<F> {
    body: SdkBody,
    taken: F,
}

impl<F: Fn() + Send + Sync + Unpin + 'static> ToldBody<F> {
    /// Calls `taken` each time that something of `body` is taken.
    pub(super) fn around(body: SdkBody, taken: F) -> SdkBody {
        SdkBody::from_body_1_x(Self { body, taken })
    }
}

impl<F: Fn() + Unpin> Body for ToldBody<F> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_ready() {
            (self.taken)();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        Body::size_hint(&self.body)
    }
}

/// The body of an answer, which ends with an error when nothing comes. Only waiting counts: a reader may take its time.
struct Download {
    body: SdkBody,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download").field("patience", &self.patience).finish_non_exhaustive()
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_ready() {
            self.waiting = None;
            return polled;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match waiting.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err(Stalled { patience }.into()))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        Body::size_hint(&self.body)
    }
}
