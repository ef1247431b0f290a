//! What the scheduler goes by.

use std::time::Duration;

use anyhow::Context;
use clapboard_scheduler::Options;

use super::duration;

/// How often what time does to jobs is looked after.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sweeps")]
pub(crate) struct SweepArgs {
    /// How often hints are pushed again for every job that can run
    #[arg(long, env = "CLAPBOARD_REFILL_INTERVAL", value_name = "DURATION", default_value = "5s",
          value_parser = duration::parse)]
    refill_interval: Duration,
    /// How many hints are pushed for each queue at most
    #[arg(long, env = "CLAPBOARD_REFILL_WINDOW", value_name = "N", default_value_t = Options::default().refill_window)]
    refill_window: u32,
    /// How often ended leases are looked for, besides the moments when they end
    #[arg(long, env = "CLAPBOARD_REAPER_INTERVAL", value_name = "DURATION", default_value = "1500ms",
          value_parser = duration::parse)]
    reaper_interval: Duration,
    /// How often jobs that did not begin in time are looked for, besides the moments when their time passes
    #[arg(long, env = "CLAPBOARD_DEADLINE_INTERVAL", value_name = "DURATION", default_value = "5s",
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
}

impl SweepArgs {
    /// Checks the settings.
    ///
    /// Errors: a sentence about the first one that cannot be.
    pub(crate) fn options(&self) -> anyhow::Result<Options> {
        let options = Options {
            refill_interval: self.refill_interval,
            refill_window: self.refill_window,
            reaper_interval: self.reaper_interval,
            deadline_interval: self.deadline_interval,
            retention_interval: self.retention_interval,
            garbage_interval: self.garbage_interval,
            orphan_interval: self.orphan_interval,
            orphan_age: self.orphan_age,
            ..Options::default()
        };
        options.validated().context("the settings of the sweeps")
    }

    /// Returns how many hints a queue of the dispatcher has to hold.
    pub(crate) fn window(&self) -> usize {
        usize::try_from(self.refill_window).unwrap_or(usize::MAX)
    }
}
