use std::sync::{Arc, Mutex};

use opentelemetry::trace::{SpanKind, Status};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

use super::*;

const CLIENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Keeps what it is to export.
#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Kept {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

/// The spans that `work` makes.
fn traced(work: impl FnOnce()) -> Vec<SpanData> {
    let kept = Kept::default();
    let text = |text: &str| text.to_owned();
    let traces = Traces { endpoint: String::new(), service: text("s"), instance: text("i"), version: text("v") };
    let exporting = Exporting::over(kept.clone(), &traces);
    let subscriber = Registry::default().with(vec![exporting.layer()]);
    tracing::subscriber::with_default(subscriber, work);
    drop(exporting);
    kept.0.lock().unwrap().clone()
}

fn attempt(fence: u64, submission: Option<&str>) -> tracing::Span {
    let attempt = Attempt { destination: "fl2va", job: &"j", attempt: 1, fence, worker: &"w", submission };
    process(&attempt)
}

fn find<'a>(spans: &'a [SpanData], name: &str) -> &'a SpanData {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name} in {spans:#?}"))
}

#[test]
fn a_job_is_one_trace_from_its_clients_span_to_its_stages() {
    let spans = traced(|| {
        let request = request("POST", "/v1/videos", Some(CLIENT));
        let submission = request
            .in_scope(|| tracing::info_span!("of the log").in_scope(|| parent_of(&send("fl2va", &"j")).unwrap()));
        status(&request, 200);
        let attempt = attempt(1, Some(&submission));
        let denoise = stage(&attempt, "denoise");
        step(&denoise, 1, 2);
    });
    assert_eq!(spans.len(), 4, "what is for the log alone is no span: {spans:#?}");
    let [send, request, denoise, process] =
        ["send fl2va", "POST /v1/videos", "denoise", "process fl2va"].map(|name| find(&spans, name));
    for span in &spans {
        assert_eq!(span.span_context.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736", "{}", span.name);
    }
    assert_eq!(request.parent_span_id.to_string(), "00f067aa0ba902b7");
    assert_eq!(send.parent_span_id, request.span_context.span_id());
    assert_eq!(process.parent_span_id, send.span_context.span_id());
    assert_eq!(denoise.parent_span_id, process.span_context.span_id());
    let kinds = [&send.span_kind, &request.span_kind, &process.span_kind];
    assert_eq!(kinds, [&SpanKind::Producer, &SpanKind::Server, &SpanKind::Consumer]);
    assert_eq!(denoise.events.events[0].name, "step");
}

#[test]
fn a_later_attempt_begins_a_trace_and_links_to_the_submission() {
    let spans = traced(|| drop(attempt(2, Some(CLIENT))));
    let process = find(&spans, "process fl2va");
    assert_ne!(process.span_context.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(process.links.links[0].span_context.span_id().to_string(), "00f067aa0ba902b7");
}

#[test]
fn what_failed_says_why_in_a_word() {
    let spans = traced(|| {
        let request = request("GET", "/v1/videos", None);
        status(&request, 503);
    });
    let request = find(&spans, "GET /v1/videos");
    assert!(matches!(request.status, Status::Error { .. }));
    assert!(request.attributes.iter().any(|it| it.key.as_str() == "error.type" && it.value.as_str() == "503"));
}

#[test]
fn a_trace_that_its_client_does_not_sample_is_not_sampled_here() {
    let unsampled = format!("{}00", &CLIENT[..CLIENT.len() - 2]);
    assert!(traced(|| drop(request("POST", "/v1/videos", Some(&unsampled)))).is_empty());
}

#[test]
fn what_is_no_traceparent_begins_a_trace_of_its_own() {
    for wrong in ["", "00-x-y-01", "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"] {
        let spans = traced(|| drop(request("POST", "/v1/videos", Some(wrong))));
        assert_eq!(spans.len(), 1, "{wrong}");
    }
}

#[test]
fn where_traces_are_off_there_is_nothing_to_pass_on() {
    assert_eq!(parent_of(&send("fl2va", &"j")), None);
    step(&stage(&attempt(1, None), "denoise"), 1, 2);
}
