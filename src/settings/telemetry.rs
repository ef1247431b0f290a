//! What a service tells about itself besides its log.

use std::net::SocketAddr;

use clapboard_telemetry::traces::Traces;

use crate::host::host_name;

/// Where metrics, health and traces are shown.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Telemetry")]
pub(crate) struct TelemetryArgs {
    /// The address on which GET /metrics, for Prometheus, and GET /health answer, without asking for a key [default: none]
    #[arg(long, env = "CLAPBOARD_METRICS_LISTEN", value_name = "ADDRESS:PORT")]
    metrics_listen: Option<SocketAddr>,
    /// The base URL of a collector that traces are sent to, as OTLP over HTTP; /v1/traces is added to it [default: none]
    #[arg(long, env = "CLAPBOARD_OTLP_ENDPOINT", value_name = "URL", hide_env_values = true)]
    otlp_endpoint: Option<String>,
    /// The same by the name that OpenTelemetry has for it, for where --otlp-endpoint is not given
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL", hide_env_values = true)]
    otel_exporter_otlp_endpoint: Option<String>,
}

impl TelemetryArgs {
    /// Returns the address on which metrics and health are shown, if any.
    pub(crate) fn metrics_listen(&self) -> Option<SocketAddr> {
        self.metrics_listen
    }

    /// Returns where the traces of a process that is started as `command` are sent, if anywhere.
    pub(crate) fn traces(&self, command: &str) -> Option<Traces> {
        let endpoint = self.otlp_endpoint.as_ref().or(self.otel_exporter_otlp_endpoint.as_ref())?;
        Some(Traces {
            endpoint: endpoint.clone(),
            service: format!("clapboard-{command}"),
            instance: format!("{}:{}", host_name(), std::process::id()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        telemetry: TelemetryArgs,
    }

    fn endpoint(arguments: &[&str]) -> Option<String> {
        let cli = Cli::try_parse_from(["x"].iter().chain(arguments)).unwrap();
        cli.telemetry.traces("api").map(|traces| traces.endpoint)
    }

    #[test]
    fn traces_are_off_unless_an_endpoint_is_named_and_ours_goes_before_the_usual_one() {
        assert_eq!(endpoint(&[]), None);
        let usual = ["--otel-exporter-otlp-endpoint", "http://usual:4318"];
        assert_eq!(endpoint(&usual).as_deref(), Some("http://usual:4318"));
        let both = [usual[0], usual[1], "--otlp-endpoint", "http://ours:4318"];
        assert_eq!(endpoint(&both).as_deref(), Some("http://ours:4318"));
    }
}
