//! From the end of a span to the endpoint that takes it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::Uri;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{RetryPolicy, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Layer;

use crate::error::Error;
use crate::traces::TARGET;
use crate::traces::client::Client;

/// How long the end of a process waits for its last spans to be sent.
const FLUSH_PATIENCE: Duration = Duration::from_secs(3);
/// How often it is told that spans cannot be sent.
const TELL_INTERVAL: Duration = Duration::from_secs(60);
/// How many steps of a schedule a span may tell of.
const MOST_EVENTS: u32 = 256;

/// A layer of the process's subscriber.
pub(crate) type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Where spans are sent, and whose they are.
#[derive(Clone)]
pub struct Traces {
    /// The base URL of a collector that takes OTLP over HTTP: `/v1/traces` is added to it.
    pub endpoint: String,
    /// What kind of process this is: `service.name`.
    pub service: String,
    /// Which of them: `service.instance.id`.
    pub instance: String,
    /// Its version: `service.version`.
    pub version: String,
}

/// The endpoint is not shown: it may hold a key.
impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("service", &self.service).finish_non_exhaustive()
    }
}

/// Sends spans in batches, from threads of its own. When some thousands wait, further ones are lost. When it is dropped, the last
/// ones are sent, within [a few seconds](FLUSH_PATIENCE).
#[derive(Debug)]
pub struct Exporting(SdkTracerProvider);

impl Exporting {
    /// Begins to send spans.
    ///
    /// Errors: [`Error::Endpoint`], [`Error::Sender`], [`Error::Exporter`].
    pub(crate) fn start(traces: &Traces) -> Result<Self, Error> {
        let base: Uri = traces.endpoint.parse().map_err(|_| Error::Endpoint)?;
        let is_http = matches!(base.scheme_str(), Some("http" | "https"));
        if !is_http || base.host().is_none_or(str::is_empty) || base.query().is_some() {
            return Err(Error::Endpoint);
        }
        let endpoint = format!("{}/v1/traces", traces.endpoint.trim_end_matches('/'));
        let client = Client::start(base.scheme_str() == Some("https")).map_err(Error::Sender)?;
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(endpoint)
            .with_retry_policy(RetryPolicy::disabled())
            .build()
            .map_err(Error::Exporter)?;
        Ok(Self::over(exporter, traces))
    }

    /// Begins to hand spans to an exporter.
    pub(crate) fn over(exporter: impl SpanExporter + 'static, traces: &Traces) -> Self {
        let resource = Resource::builder()
            .with_service_name(traces.service.clone())
            .with_attributes([
                KeyValue::new("service.namespace", "clapboard"),
                KeyValue::new("service.instance.id", traces.instance.clone()),
                KeyValue::new("service.version", traces.version.clone()),
            ])
            .build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(Told::new(exporter))
            .with_max_events_per_span(MOST_EVENTS)
            .with_resource(resource)
            .build();
        Self(provider)
    }

    /// Returns what makes spans of those that are for traces.
    pub(crate) fn layer(&self) -> BoxedLayer {
        let ours = filter_fn(|metadata| metadata.is_span() && metadata.target() == TARGET);
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("clapboard"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(ours.with_max_level_hint(LevelFilter::INFO))
            .boxed()
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown_with_timeout(FLUSH_PATIENCE) {
            tracing::warn!(%error, "the last spans could not be sent");
        }
    }
}

/// An exporter whose failures are told of, though not each.
#[derive(Debug)]
struct Told<E> {
    exporter: E,
    lost: AtomicU64,
    told_at: Mutex<Option<Instant>>,
}

impl<E> Told<E> {
    fn new(exporter: E) -> Self {
        Self { exporter, lost: AtomicU64::new(0), told_at: Mutex::new(None) }
    }

    /// Counts lost spans, and returns how many there were since the last time that it was told, if it is time to tell again.
    fn lose(&self, spans: u64, now: Instant) -> Option<u64> {
        self.lost.fetch_add(spans, Ordering::Relaxed);
        // A single assignment leaves nothing half done.
        let mut told_at = self.told_at.lock().unwrap_or_else(PoisonError::into_inner);
        if told_at.is_some_and(|at| now.saturating_duration_since(at) < TELL_INTERVAL) {
            return None;
        }
        *told_at = Some(now);
        Some(self.lost.swap(0, Ordering::Relaxed))
    }
}

impl<E: SpanExporter> SpanExporter for Told<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        let result = self.exporter.export(batch).await;
        if let Err(error) = &result
            && let Some(lost) = self.lose(spans, Instant::now())
        {
            tracing::warn!(%error, spans = lost, "spans could not be sent and are lost");
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(endpoint: &str) -> String {
        let text = |text: &str| text.to_owned();
        let traces = Traces { endpoint: text(endpoint), service: text("s"), instance: text("i"), version: text("v") };
        Exporting::start(&traces).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn only_a_url_is_an_endpoint_and_it_is_not_shown() {
        for endpoint in ["", "collector:4318", "grpc://collector", "http://", "http://c/?key=hunter2"] {
            let refused = refusal(endpoint);
            assert_eq!(refused, "the OTLP endpoint must be an http or https URL with a host", "{endpoint}");
        }
    }

    #[test]
    fn what_is_lost_is_told_of_at_once_and_then_once_a_minute() {
        let told = Told::new(());
        let begun = Instant::now();
        assert_eq!(told.lose(3, begun), Some(3));
        assert_eq!(told.lose(4, begun + TELL_INTERVAL / 2), None);
        assert_eq!(told.lose(5, begun + TELL_INTERVAL), Some(9));
    }
}
