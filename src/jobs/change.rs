//! `clapboard jobs retry` and `clapboard jobs cancel`.

use anyhow::{Context, bail};
use clapboard_jobs::{Job, JobState};

use super::{JobArgs, describe};
use crate::output;

/// Let a failed job run again, with all its attempts
#[derive(Debug, clap::Args)]
pub(super) struct RetryArgs {
    #[command(flatten)]
    which: JobArgs,
}

/// Cancel a job: a waiting one at once, a running one at the next block of its engine
#[derive(Debug, clap::Args)]
pub(super) struct CancelArgs {
    #[command(flatten)]
    which: JobArgs,
}

pub(super) async fn retry(args: RetryArgs) -> anyhow::Result<()> {
    let (store, before) = args.which.find().await?;
    if before.state != JobState::Failed {
        bail!("job {} is {}, and only a failed one can be retried", before.id, before.state);
    }
    let job = store.retry(&before.tenant, before.id).await?.with_context(|| args.which.none())?;
    tell(&job, args.which.json, "it runs again as soon as a worker is free");
    Ok(())
}

pub(super) async fn cancel(args: CancelArgs) -> anyhow::Result<()> {
    let (store, before) = args.which.find().await?;
    let job = store.cancel(&before.tenant, before.id).await?.with_context(|| args.which.none())?.job;
    let meaning = match job.state {
        JobState::Cancelled => "it does not run any more",
        JobState::Running => "its worker hears of the cancel with its next heartbeat",
        JobState::Queued => "its cancel is on its way",
        JobState::Completed | JobState::Failed => bail!("job {} has ended already: it is {}", job.id, job.state),
    };
    tell(&job, args.which.json, meaning);
    Ok(())
}

fn tell(job: &Job, as_json: bool, meaning: &str) {
    if as_json {
        output::json(&describe::job(job));
    } else {
        output::line(format_args!("{} of tenant {} is {}: {meaning}", job.id, job.tenant, job.state));
    }
}
