//! Whom webhooks may reach and how long they may take: APIs check URLs and wait for trials by it, and the scheduler delivers
//! by it.

use std::time::Duration;

use clapboard_api::{AllowedHost, InvalidHost, Options};

use super::duration;

/// Whom webhooks may reach, and how long they may take.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Webhooks")]
pub(crate) struct WebhookArgs {
    /// Hosts that webhooks may be sent to without TLS and although their addresses are private, separated by commas
    #[arg(long, env = "CLAPBOARD_ALLOW_HTTP_WEBHOOK_HOST", value_name = "HOST", value_delimiter = ',',
          value_parser = url_host)]
    allow_http_webhook_host: Vec<String>,
    /// How long a receiver may take to answer a webhook before it is tried again later
    #[arg(long, env = "CLAPBOARD_WEBHOOK_TIMEOUT", value_name = "DURATION", default_value = "15s",
          value_parser = duration::parse)]
    webhook_timeout: Duration,
}

/// How much longer than a receiver may take an API waits to hear how its trial went.
const TO_HEAR_OF_IT: Duration = Duration::from_secs(5);

impl WebhookArgs {
    /// Lets the API go by this.
    pub(crate) fn apply(&self, options: &mut Options) {
        options.allow_http_webhook_hosts.clone_from(&self.allow_http_webhook_host);
        options.webhook_test_wait = self.webhook_timeout.saturating_add(TO_HEAR_OF_IT);
    }

    /// Returns how long a receiver may take.
    pub(super) fn timeout(&self) -> Duration {
        self.webhook_timeout
    }

    /// Returns the hosts as the scheduler takes them.
    pub(super) fn hosts(&self) -> Vec<AllowedHost> {
        let parse = |host: &String| host.parse().expect("each was parsed as a host before");
        self.allow_http_webhook_host.iter().map(parse).collect()
    }
}

/// Checks the name or address of a host.
pub(crate) fn url_host(text: &str) -> Result<String, InvalidHost> {
    text.parse::<AllowedHost>().map(|_| text.to_owned())
}
