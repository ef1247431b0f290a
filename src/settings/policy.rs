//! What the job store goes by.

use std::time::Duration;

use anyhow::{Context, ensure};
use clapboard_jobs::Policy;

use super::duration;

/// How jobs are kept. Processes that share a database should be given the same.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Jobs")]
pub(crate) struct PolicyArgs {
    /// How often a job is tried before it fails
    #[arg(long, env = "CLAPBOARD_MAX_ATTEMPTS", value_name = "N", default_value_t = Policy::default().max_attempts)]
    max_attempts: u32,
    /// How long a worker keeps a job without a heartbeat, before another may run it
    #[arg(long, env = "CLAPBOARD_LEASE", value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    lease: Duration,
    /// How long the video of a completed job is kept [default: as long as the job]
    #[arg(long, env = "CLAPBOARD_RESULT_LIFE", value_name = "DURATION", value_parser = duration::parse)]
    result_life: Option<Duration>,
    /// How long an ended job is kept, with its prompt and all that belongs to it [default: until somebody deletes it]
    #[arg(long, env = "CLAPBOARD_RECORD_LIFE", value_name = "DURATION", value_parser = duration::parse)]
    record_life: Option<Duration>,
}

impl PolicyArgs {
    /// Checks the settings.
    ///
    /// Errors: a sentence about the first one that cannot be.
    pub(crate) fn policy(&self) -> anyhow::Result<Policy> {
        let &Self { max_attempts, lease, result_life, record_life } = self;
        for (name, life) in [("--result-life", result_life), ("--record-life", record_life)] {
            ensure!(life != Some(Duration::ZERO), "{name} must not be zero: leave it out to keep what there is");
        }
        let policy = Policy { lease, max_attempts, result_life, record_life };
        policy.validated().context("--lease, --max-attempts, --result-life and --record-life")
    }
}
