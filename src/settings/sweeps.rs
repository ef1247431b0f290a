//! What the scheduler goes by.

use std::time::Duration;

use anyhow::anyhow;
use clapboard_scheduler::{InvalidOptions, Options};

use super::{WebhookArgs, duration};

/// How often what time does to jobs is looked after.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sweeps")]
pub(crate) struct SweepArgs {
    /// How often hints are pushed again for the jobs that can run
    #[arg(long, env = "CLAPBOARD_REFILL_INTERVAL", value_name = "DURATION", default_value = "5s",
          value_parser = duration::parse)]
    refill_interval: Duration,
    /// How many hints are pushed for each queue at most, those of the jobs that come first
    #[arg(long, env = "CLAPBOARD_REFILL_WINDOW", value_name = "N", default_value_t = Options::default().refill_window)]
    refill_window: u32,
    /// How often ended leases are looked for, besides the moments when they end
    #[arg(long, env = "CLAPBOARD_REAPER_INTERVAL", value_name = "DURATION", default_value = "1500ms",
          value_parser = duration::parse)]
    reaper_interval: Duration,
    /// How often jobs that did not begin in time are looked for, besides the moments when their time passes
    #[arg(long, env = "CLAPBOARD_DEADLINE_INTERVAL", value_name = "DURATION", default_value = "1500ms",
          value_parser = duration::parse)]
    deadline_interval: Duration,
    /// How often videos and jobs that were kept long enough are looked for, besides the moments when their time passes
    #[arg(long, env = "CLAPBOARD_RETENTION_INTERVAL", value_name = "DURATION", default_value = "60s",
          value_parser = duration::parse)]
    retention_interval: Duration,
    /// How often files of deleted jobs are looked for, besides the moments when they may be deleted
    #[arg(long, env = "CLAPBOARD_GARBAGE_INTERVAL", value_name = "DURATION", default_value = "60s",
          value_parser = duration::parse)]
    garbage_interval: Duration,
    /// How often all stored files are compared with the jobs
    #[arg(long, env = "CLAPBOARD_ORPHAN_INTERVAL", value_name = "DURATION", default_value = "6h",
          value_parser = duration::parse)]
    orphan_interval: Duration,
    /// How old a stored file that no job knows must be before it is deleted
    #[arg(long, env = "CLAPBOARD_ORPHAN_AGE", value_name = "DURATION", default_value = "24h",
          value_parser = duration::parse)]
    orphan_age: Duration,
    /// How long deleting one stored file may take before it is left for later
    #[arg(long, env = "CLAPBOARD_DELETION_TIMEOUT", value_name = "DURATION", default_value = "30s",
          value_parser = duration::parse)]
    deletion_timeout: Duration,
}

impl SweepArgs {
    /// Checks the settings.
    ///
    /// Errors: a sentence about the first one that cannot be.
    pub(crate) fn options(&self, webhooks: &WebhookArgs) -> anyhow::Result<Options> {
        let options = Options {
            refill_interval: self.refill_interval,
            refill_window: self.refill_window,
            reaper_interval: self.reaper_interval,
            deadline_interval: self.deadline_interval,
            retention_interval: self.retention_interval,
            garbage_interval: self.garbage_interval,
            orphan_interval: self.orphan_interval,
            orphan_age: self.orphan_age,
            deletion_timeout: self.deletion_timeout,
            webhook_timeout: webhooks.timeout(),
            allow_http_webhook_hosts: webhooks.hosts(),
            ..Options::default()
        };
        options.validated().map_err(|refused| match refused {
            InvalidOptions::IntervalTooShort { sweep, interval } => {
                let least = Options::LEAST_INTERVAL;
                anyhow!("--{sweep}-interval must be at least {least:?}, got {interval:?}")
            }
            InvalidOptions::DeletionTimeoutTooShort { timeout } => {
                let least = Options::LEAST_DELETION_TIMEOUT;
                anyhow!("--deletion-timeout must be at least {least:?}, got {timeout:?}")
            }
            InvalidOptions::WebhookTimeoutTooShort { timeout } => {
                let least = Options::LEAST_WEBHOOK_TIMEOUT;
                anyhow!("--webhook-timeout must be at least {least:?}, got {timeout:?}")
            }
            InvalidOptions::Nothing { setting } => {
                anyhow!("--{} must be at least 1", setting.replace(' ', "-"))
            }
        })
    }

    /// Returns how many hints a queue of a dispatcher in this process has to hold: those of a refill, and as many of new
    /// jobs.
    pub(crate) fn window(&self) -> usize {
        usize::try_from(self.refill_window).unwrap_or(usize::MAX).saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        sweeps: SweepArgs,
        #[command(flatten)]
        webhooks: WebhookArgs,
    }

    fn options(arguments: &[&str]) -> anyhow::Result<Options> {
        let cli = Cli::try_parse_from(["scheduler"].iter().chain(arguments))?;
        cli.sweeps.options(&cli.webhooks)
    }

    #[test]
    fn the_defaults_are_those_of_the_scheduler_itself() {
        assert_eq!(options(&[]).unwrap(), Options::default());
    }

    #[test]
    fn a_refusal_names_the_flag() {
        for sweep in ["refill", "reaper", "deadline", "retention", "garbage", "orphan"] {
            let flag = format!("--{sweep}-interval");
            let refused = options(&[&flag, "1ms"]).unwrap_err().to_string();
            assert_eq!(refused, format!("{flag} must be at least 100ms, got 1ms"));
        }
        let refused = options(&["--webhook-timeout", "0s"]).unwrap_err().to_string();
        assert_eq!(refused, "--webhook-timeout must be at least 100ms, got 0ns");
        let refused = options(&["--refill-window", "0"]).unwrap_err().to_string();
        assert_eq!(refused, "--refill-window must be at least 1");
    }
}
