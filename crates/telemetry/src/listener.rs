//! A listener that shows a process's metrics and whether it is well, apart from whatever else it serves.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::metrics::Metrics;

/// How often what was measured is summed up.
const TIDY_INTERVAL: Duration = Duration::from_secs(10);
/// The type of the text that Prometheus reads.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be listened on.
    #[error("could not listen on {address} for metrics and health")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Why a process is not well, in words for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwell {
    /// One word for it.
    pub status: &'static str,
    /// What is wrong.
    pub reason: String,
}

/// Tells how a process is.
pub type Health = Arc<dyn Fn() -> Result<(), Unwell> + Send + Sync>;

/// Takes note of what is measured only when somebody asks.
type Measure = Arc<dyn Fn() + Send + Sync>;

/// `GET /metrics` and `GET /health`, until this is dropped.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Clone)]
struct Shown {
    metrics: Metrics,
    health: Health,
    measure: Measure,
}

impl Listener {
    /// Begins to listen. `measure` is called before each answer with metrics, and has to be quick.
    ///
    /// Errors: [`ListenError::Bind`].
    pub async fn start(
        address: SocketAddr,
        metrics: Metrics,
        health: Health,
        measure: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, ListenError> {
        let listened = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listened.await.map_err(|source| ListenError::Bind { address, source })?;
        let tidied = metrics.clone();
        let shown = Shown { metrics, health, measure: Arc::new(measure) };
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router(shown)).await {
                tracing::error!(%error, "metrics and health are shown no more");
            }
        });
        let tidying = tokio::spawn(async move {
            loop {
                tokio::time::sleep(TIDY_INTERVAL).await;
                tidied.tidy();
            }
        });
        Ok(Self { address, tasks: [serving, tidying] })
    }

    /// The address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn router(shown: Shown) -> Router {
    Router::new().route("/metrics", get(metrics)).route("/health", get(health)).with_state(shown)
}

async fn metrics(State(shown): State<Shown>) -> Response {
    (shown.measure)();
    ([(header::CONTENT_TYPE, TEXT_FORMAT)], shown.metrics.render()).into_response()
}

async fn health(State(shown): State<Shown>) -> Response {
    match (shown.health)() {
        Ok(()) => Json(json!({ "status": "ok" })).into_response(),
        Err(Unwell { status, reason }) => {
            (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": status, "reason": reason }))).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use crate::metrics::{Process, install, names};

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn metrics_and_health_are_shown_and_an_address_that_is_taken_is_named() {
        let metrics = install("worker", "1", &[Process::Worker]).unwrap();
        let stalled = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stalled);
        let health: Health = Arc::new(move || match told.load(Ordering::SeqCst) {
            true => Err(Unwell { status: "stalled", reason: "nothing moves".to_owned() }),
            false => Ok(()),
        });
        let measure = || names::HEARTBEAT_AGE_SECONDS.set(3.0, []);
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::start(any, metrics.clone(), Arc::clone(&health), measure).await.unwrap();
        let address = listener.address();
        let answer = get(address, "/metrics").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("text/plain; version=0.0.4"), "{answer}");
        assert!(answer.contains("clapboard_heartbeat_age_seconds 3\n"), "what is measured is not fresh: {answer}");
        let answer = get(address, "/health").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(r#"{"status":"ok"}"#), "{answer}");
        stalled.store(true, Ordering::SeqCst);
        let answer = get(address, "/health").await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains(r#""status":"stalled""#), "{answer}");
        assert!(get(address, "/").await.starts_with("HTTP/1.1 404"));

        let error = Listener::start(address, metrics, health, || ()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("could not listen on {address} for metrics and health"));
    }
}
