//! The spans themselves.

use std::fmt::Display;

use opentelemetry::trace::{SpanContext, SpanId, Status, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry::{Context, KeyValue};
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// What `messaging.system` says.
const SYSTEM: &str = "clapboard";

// The macros take no constant for a target.
macro_rules! span {
    ($($rest:tt)*) => {
        tracing::info_span!(target: "clapboard_trace", $($rest)*)
    };
}

/// Begins the span of a request to `route`, the pattern and not the path; as a child of `traceparent`, the client's, if it has
/// one.
pub fn request(method: &str, route: &str, traceparent: Option<&str>) -> Span {
    let span = span!(
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
    );
    adopt(&span, traceparent);
    span
}

/// Takes note of how a request was answered.
pub fn status(span: &Span, status: u16) {
    span.record("http.response.status_code", status);
    if status >= 500 {
        fail(span, &status);
    }
}

/// Begins the span of putting a job into the queue of `destination`, a partition; within the current one.
pub fn send(destination: &str, job: &dyn Display) -> Span {
    span!(
        "send",
        otel.name = format!("send {destination}"),
        otel.kind = "producer",
        messaging.system = SYSTEM,
        messaging.operation.name = "send",
        messaging.operation.r#type = "send",
        messaging.destination.name = destination,
        messaging.message.id = %job,
    )
}

/// An attempt at a job.
pub struct Attempt<'a> {
    /// The partition of its queue.
    pub destination: &'a str,
    /// The job.
    pub job: &'a dyn Display,
    /// Its number, of those that count.
    pub attempt: u32,
    /// How often the job was claimed.
    pub fence: u64,
    /// Who has claimed it.
    pub worker: &'a dyn Display,
    /// The `traceparent` that the job's row keeps.
    pub submission: Option<&'a str>,
}

/// Begins the span of an attempt: a child of the submission's for the first claim, else that of a new trace which links to it.
pub fn process(attempt: &Attempt<'_>) -> Span {
    let Attempt { destination, job, attempt, fence, worker, submission } = attempt;
    let span = span!(
        "process",
        otel.name = format!("process {destination}"),
        otel.kind = "consumer",
        messaging.system = SYSTEM,
        messaging.operation.name = "process",
        messaging.operation.r#type = "process",
        messaging.destination.name = destination,
        messaging.message.id = %job,
        clapboard.attempt = attempt,
        clapboard.fence = fence,
        clapboard.worker.id = %worker,
    );
    if *fence <= 1 {
        adopt(&span, *submission);
    } else if let Some(context) = submission.and_then(remote) {
        span.add_link(context);
    }
    span
}

/// Begins the span of a stage of an attempt.
pub fn stage(attempt: &Span, name: &str) -> Span {
    span!(parent: attempt, "stage", otel.name = name)
}

/// Takes note of a step of the current stage.
pub fn step(stage: &Span, done: usize, total: usize) {
    if !stage.is_disabled() {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        stage.add_event("step", vec![KeyValue::new("done", number(done)), KeyValue::new("total", number(total))]);
    }
}

/// One try of one delivery.
pub struct Try<'a> {
    /// The delivery.
    pub delivery: &'a dyn Display,
    /// The job that it tells of.
    pub job: &'a dyn Display,
    /// What it tells.
    pub event: &'a str,
    /// Which try it is, from 1.
    pub number: u32,
    /// The `traceparent` that the job's row keeps.
    pub submission: Option<&'a str>,
}

/// Begins the span of a try, as a child of the submission's.
pub fn tried(attempt: &Try<'_>) -> Span {
    let Try { delivery, job, event, number, submission } = attempt;
    let span = span!(
        "webhook",
        otel.kind = "client",
        http.request.method = "POST",
        http.response.status_code = Empty,
        messaging.message.id = %job,
        clapboard.webhook.id = %delivery,
        clapboard.webhook.event = event,
        clapboard.webhook.number = number,
    );
    adopt(&span, *submission);
    span
}

/// Takes note that what the span stands for has failed, for a reason that is one of few.
pub fn fail(span: &Span, reason: &dyn Display) {
    if !span.is_disabled() {
        span.set_attribute("error.type", reason.to_string());
        span.set_status(Status::error(""));
    }
}

/// Returns the `traceparent` of what comes of a span; none where it is not traced.
pub fn parent_of(span: &Span) -> Option<String> {
    if span.is_disabled() {
        return None;
    }
    let context = span.context();
    let span = context.span();
    let context = span.span_context();
    context.is_valid().then(|| format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), context.trace_flags()))
}

/// Makes a span that has not begun the child of one elsewhere.
fn adopt(span: &Span, traceparent: Option<&str>) {
    if span.is_disabled() {
        return;
    }
    if let Some(context) = traceparent.and_then(remote) {
        // It fails where the span has begun, which it has not.
        let _ = span.set_parent(Context::new().with_remote_span_context(context));
    }
}

/// Reads a `traceparent` of version 00; none where it is something else.
fn remote(traceparent: &str) -> Option<SpanContext> {
    let parts: Vec<&str> = traceparent.split('-').collect();
    let ["00", trace, span, flags] = parts[..] else { return None };
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
    let context = SpanContext::new(trace, span, flags, true, TraceState::default());
    context.is_valid().then_some(context)
}
