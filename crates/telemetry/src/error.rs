//! Why a process cannot tell about itself.

use std::io;

use opentelemetry_otlp::ExporterBuildError;
use tracing_subscriber::filter::ParseError;

/// Why logging or tracing could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A part of the filter is not `level`, `target` or `target=level`.
    #[error("log filter directive {directive:?} is not valid")]
    Directive {
        /// The part between commas.
        directive: String,
        /// What is wrong with it.
        #[source]
        source: ParseError,
    },
    /// No such format.
    #[error("log format must be text or json, not {format:?}")]
    Format {
        /// What was asked for.
        format: String,
    },
    /// The thread that writes the lines could not be started.
    #[error("could not start the thread of the log")]
    Thread(#[source] io::Error),
    /// The endpoint that is to take traces is no http or https URL. It is not shown: it may hold a key.
    #[error("the OTLP endpoint must be an http or https URL with a host")]
    Endpoint,
    /// What sends traces could not be started.
    #[error("could not start what sends traces")]
    Sender(#[source] io::Error),
    /// A variable of OpenTelemetry's own that says how traces are sent cannot be.
    #[error("traces cannot be sent as the variables of OpenTelemetry say")]
    Exporter(#[source] ExporterBuildError),
    /// The process has a subscriber already.
    #[error("logging is set up already")]
    AlreadySet,
}
