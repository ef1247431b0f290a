//! A log line as one JSON object, flat, so that every field can be searched for by its name.

use std::fmt;
use std::time::SystemTime;

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime as Clock};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes an event's time, level and target, its own fields, and those of the spans around it, the inner ones before the outer
/// ones where they have the same name. A dot in a name becomes an underscore: `job.id` is `job_id`. Where traces are on,
/// `trace_id` and `span_id` say to which span it belongs.
pub(super) struct JsonLine;

impl<S> FormatEvent<S, JsonFields> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Map::new();
        let mut timestamp = String::new();
        // It fails where the clock cannot be read, and the line is worth more than its time.
        if Clock.format_time(&mut Writer::new(&mut timestamp)).is_err() {
            timestamp = format!("{:?}", SystemTime::now());
        }
        line.insert("timestamp".to_owned(), timestamp.into());
        line.insert("level".to_owned(), event.metadata().level().as_str().into());
        line.insert("target".to_owned(), event.metadata().target().into());
        let mut fields = Fields(Map::new());
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            let formatted = extensions.get::<FormattedFields<JsonFields>>();
            // What the formatter of fields has written is an object, or nothing.
            if let Some(Ok(Value::Object(of_span))) = formatted.map(|text| serde_json::from_str(text)) {
                of_span.into_iter().for_each(|(name, value)| fields.insert(&name, value));
            }
        }
        event.record(&mut fields);
        line.append(&mut fields.0);
        let active = Context::current();
        let span = active.span().span_context().clone();
        if span.is_valid() {
            line.insert("trace_id".to_owned(), span.trace_id().to_string().into());
            line.insert("span_id".to_owned(), span.span_id().to_string().into());
        }
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// The fields of a line.
struct Fields(Map<String, Value>);

impl Fields {
    fn insert(&mut self, name: &str, value: Value) {
        self.0.insert(name.replace('.', "_"), value);
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field.name(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field.name(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field.name(), format!("{value:?}").into());
    }
}
