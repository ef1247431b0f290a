//! The subscriber behind every log line.

mod queue;

use std::io::{self, IsTerminal};
use std::str::FromStr;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{Directive, ParseError};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::util::SubscriberInitExt;

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

/// Why logging could not be set up.
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
    /// The process has a subscriber already.
    #[error("logging is set up already")]
    AlreadySet,
}

/// Sends the events of this process that pass `filter` (`info,clapboard_engine=debug`) to standard error, in colour if
/// that is a terminal. Nobody who logs waits until a line is read: when some thousands wait, further ones are lost and counted.
/// What is returned is to be kept to the end of the process.
///
/// Errors: [`Error::Directive`] names the part of the filter that is wrong; [`Error::Thread`]; [`Error::AlreadySet`] on a
/// second call.
pub fn init(filter: &str, format: LogFormat) -> Result<LastLines, Error> {
    let (queue, last_lines) =
        queue::start(io::stderr(), move |lost| lost_lines(format, lost)).map_err(Error::Thread)?;
    subscriber(filter, format, io::stderr().is_terminal(), queue)?.try_init().map_err(|_| Error::AlreadySet)?;
    Ok(last_lines)
}

fn subscriber<W>(
    filter: &str,
    format: LogFormat,
    colour: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, Error>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let mut directives = EnvFilter::default();
    for part in filter.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let directive: Directive =
            part.parse().map_err(|source| Error::Directive { directive: part.to_owned(), source })?;
        directives = directives.add_directive(directive);
    }
    let builder = fmt::Subscriber::builder().with_env_filter(directives).with_writer(writer);
    Ok(match format {
        LogFormat::Text => Box::new(builder.with_ansi(colour).finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).finish()),
    })
}

#[cfg(test)]
mod tests;
