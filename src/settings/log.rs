//! How much is logged, and in which form.

use clapboard_telemetry::traces::Traces;
use clapboard_telemetry::{Error, LogFormat, Telemetry};

/// Settings of the log, which goes to standard error.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogArgs {
    /// What is logged: `level` or `target=level`, separated by commas [default: info for services, warn otherwise]
    #[arg(long, global = true, env = "CLAPBOARD_LOG", value_name = "FILTER")]
    log: Option<String>,
    /// How a line is written: text or json
    #[arg(long, global = true, env = "CLAPBOARD_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

impl LogArgs {
    /// Starts logging, by `default_filter` unless a setting says otherwise, and sending traces. What is returned is to be kept to
    /// the end.
    ///
    /// Errors: those of [`clapboard_telemetry::init`].
    pub(crate) fn init(&self, default_filter: &str, traces: Option<&Traces>) -> Result<Telemetry, Error> {
        clapboard_telemetry::init(self.log.as_deref().unwrap_or(default_filter), self.log_format, traces)
    }
}
