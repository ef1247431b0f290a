//! The subscriber behind every log line and every span.

mod json;
mod queue;

use std::io::{self, IsTerminal};
use std::str::FromStr;

use tracing_subscriber::filter::{Directive, FilterExt, filter_fn};
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry};

use crate::error::Error;
use crate::logs::json::JsonLine;
use crate::traces::{self, BoxedLayer, Exporting, Traces};

pub use queue::LastLines;

/// How a log line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// A line for people.
    #[default]
    Text,
    /// A JSON object whose top level holds the event's fields.
    Json,
}

/// The line that tells of lost ones.
fn lost_lines(format: LogFormat, lost: u64) -> String {
    let message = "lines of the log were lost: nobody has read it in time";
    match format {
        LogFormat::Text => format!(" WARN {message} lines={lost}\n"),
        LogFormat::Json => format!("{{\"level\":\"WARN\",\"message\":\"{message}\",\"lines\":{lost}}}\n"),
    }
}

impl FromStr for LogFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(Error::Format { format: text.to_owned() }),
        }
    }
}

/// What is to be kept to the end of the process: when it is dropped, the last spans are sent and the last lines written, within
/// a few seconds.
#[derive(Debug)]
#[must_use = "the last lines and spans are lost unless this lives as long as the process"]
pub struct Telemetry {
    // In this order: what becomes of the last spans is logged.
    _exporting: Option<Exporting>,
    last_lines: LastLines,
}

impl Telemetry {
    /// Returns what waits for the last lines alone.
    pub fn last_lines(&self) -> &LastLines {
        &self.last_lines
    }
}

/// Sends the events of this process that pass `filter` (`info,clapboard_engine=debug`) to standard error, in colour if
/// that is a terminal, and its spans to where `traces` says. Nobody who logs waits until a line is read: when some thousands wait,
/// further ones are lost and counted.
///
/// Errors: [`Error::Directive`] names the part of the filter that is wrong; [`Error::Thread`]; [`Error::Endpoint`],
/// [`Error::Sender`], [`Error::Exporter`]; [`Error::AlreadySet`] on a second call.
pub fn init(filter: &str, format: LogFormat, traces: Option<&Traces>) -> Result<Telemetry, Error> {
    let (queue, last_lines) =
        queue::start(io::stderr(), move |lost| lost_lines(format, lost)).map_err(Error::Thread)?;
    let lines = lines(filter, format, io::stderr().is_terminal(), queue)?;
    let exporting = traces.map(Exporting::start).transpose()?;
    let mut layers = vec![lines];
    layers.extend(exporting.as_ref().map(Exporting::layer));
    Registry::default().with(layers).try_init().map_err(|_| Error::AlreadySet)?;
    Ok(Telemetry { _exporting: exporting, last_lines })
}

/// The layer that writes lines. It sees no span that is for traces alone.
fn lines<W>(filter: &str, format: LogFormat, colour: bool, writer: W) -> Result<BoxedLayer, Error>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let mut directives = EnvFilter::default();
    for part in filter.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let directive: Directive =
            part.parse().map_err(|source| Error::Directive { directive: part.to_owned(), source })?;
        directives = directives.add_directive(directive);
    }
    let filter = directives.and(filter_fn(|metadata| metadata.target() != traces::TARGET));
    let layer = fmt::layer().with_writer(writer);
    Ok(match format {
        LogFormat::Text => layer.with_ansi(colour).with_filter(filter).boxed(),
        LogFormat::Json => layer.fmt_fields(JsonFields::new()).event_format(JsonLine).with_filter(filter).boxed(),
    })
}

#[cfg(test)]
mod tests;
