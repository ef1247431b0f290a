//! `clapboard jobs`: looking at jobs, and the few things that an operator does to them.

mod change;
mod describe;
mod fleet;
mod list;
mod show;
#[cfg(test)]
mod tests;
mod usage;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Subcommand;
use clapboard_jobs::{Job, JobId, Store, Tenant};

use crate::process::block_on;
use crate::settings::JobStoreArgs;

/// List jobs, show one with its attempts, retry or cancel one, and tell what tenants have used
///
/// Works over the database of the distributed mode, or over the data directory of a standalone service, which may be
/// running.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::Args),
    Show(show::Args),
    Retry(change::RetryArgs),
    Cancel(change::CancelArgs),
    Usage(usage::Args),
}

/// Which job, where, and how it is told.
#[derive(Debug, clap::Args)]
struct JobArgs {
    #[command(flatten)]
    from: JobStoreArgs,
    /// Only if it is this tenant's [default: whosever it is]
    #[arg(long, env = "CLAPBOARD_TENANT", value_name = "NAME")]
    tenant: Option<Tenant>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The job
    #[arg(value_name = "ID")]
    job: JobId,
}

impl JobArgs {
    /// Opens the job store and finds the job in it.
    ///
    /// Errors: a sentence where it cannot be opened, or there is no such job, or it is not of the tenant that was named.
    async fn find(&self) -> anyhow::Result<(Arc<dyn Store>, Job)> {
        let store = self.from.open().await?;
        let job = match &self.tenant {
            Some(tenant) => {
                let job = store.get(tenant, self.job).await?;
                job.with_context(|| format!("tenant {tenant} has no job {}", self.job))?
            }
            None => store.find(self.job).await?.with_context(|| self.none())?,
        };
        Ok((store, job))
    }

    /// Says that there is no such job, or none any more.
    fn none(&self) -> String {
        format!("there is no job {}", self.job)
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    block_on(async {
        match args.command {
            Command::List(args) => list::run(args).await,
            Command::Show(args) => show::run(args).await,
            Command::Retry(args) => change::retry(args).await,
            Command::Cancel(args) => change::cancel(args).await,
            Command::Usage(args) => usage::run(args).await,
        }
    })
    .map(|()| ExitCode::SUCCESS)
}
