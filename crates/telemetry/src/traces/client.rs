//! Sends what the exporter has encoded, from a thread that does nothing else.

use std::fmt;
use std::io;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::{Builder, Handle, Runtime};

/// How long a batch may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How much of an answer is read.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// A client with a runtime of its own, so that it depends on none that may be busy or gone.
pub(super) struct Client {
    http: HyperClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
    owned: Option<Runtime>,
}

impl Client {
    /// Starts the thread.
    ///
    /// Errors: what the system said, also where it has no certificates to trust, if any are needed.
    pub(super) fn start(encrypted: bool) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("traces").enable_all().build()?;
        let connector = if encrypted {
            HttpsConnectorBuilder::new().with_provider_and_native_roots(rustls::crypto::ring::default_provider())?
        } else {
            HttpsConnectorBuilder::new().with_tls_config(trusting_nobody()?)
        };
        let connector = connector.https_or_http().enable_http1().build();
        let http = HyperClient::builder(TokioExecutor::new()).build(connector);
        Ok(Self { http, runtime: runtime.handle().clone(), owned: Some(runtime) })
    }
}

/// What is never used, since nothing is encrypted.
fn trusting_nobody() -> io::Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into());
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let http = self.http.clone();
        let sending = async move {
            let answer = http.request(request.map(Full::new)).await?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        let sent = self.runtime.spawn(async { tokio::time::timeout(TIMEOUT, sending).await });
        sent.await??
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Also where it is dropped within another runtime, and without waiting for an answer that never comes.
        if let Some(runtime) = self.owned.take() {
            runtime.shutdown_background();
        }
    }
}
