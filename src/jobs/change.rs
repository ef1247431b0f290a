//! `clapboard jobs retry` and `clapboard jobs cancel`.

use anyhow::{Context, bail};
use clapboard_jobs::{Job, JobId, JobState};

use super::{CommonArgs, describe};
use crate::output;

/// Let a failed job run again, with all its attempts
#[derive(Debug, clap::Args)]
pub(super) struct RetryArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// The job
    #[arg(value_name = "ID")]
    job: JobId,
}

/// Cancel a job: a waiting one at once, a running one at the next block of its engine
#[derive(Debug, clap::Args)]
pub(super) struct CancelArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// The job
    #[arg(value_name = "ID")]
    job: JobId,
}

pub(super) async fn retry(args: RetryArgs) -> anyhow::Result<()> {
    let CommonArgs { from, tenant, json } = args.common;
    let store = from.open().await?;
    let none = || format!("tenant {tenant} has no job {}", args.job);
    let before = store.get(&tenant, args.job).await?.with_context(none)?;
    if before.state != JobState::Failed {
        bail!("job {} is {}, and only a failed one can be retried", before.id, before.state);
    }
    let job = store.retry(&tenant, args.job).await?.with_context(none)?;
    tell(&job, json, "it runs again as soon as a worker is free");
    Ok(())
}

pub(super) async fn cancel(args: CancelArgs) -> anyhow::Result<()> {
    let CommonArgs { from, tenant, json } = args.common;
    let store = from.open().await?;
    let job = store.cancel(&tenant, args.job).await?;
    let job = job.with_context(|| format!("tenant {tenant} has no job {}", args.job))?;
    let meaning = match job.state {
        JobState::Cancelled => "it does not run any more",
        JobState::Running => "its worker hears of the cancel with its next heartbeat",
        JobState::Queued => "its cancel is on its way",
        JobState::Completed | JobState::Failed => bail!("job {} has ended already: it is {}", job.id, job.state),
    };
    tell(&job, json, meaning);
    Ok(())
}

fn tell(job: &Job, as_json: bool, meaning: &str) {
    if as_json {
        output::json(&describe::job(job));
    } else {
        output::line(format_args!("{} is {}: {meaning}", job.id, job.state));
    }
}
