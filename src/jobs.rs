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

use clap::Subcommand;
use clapboard_jobs::Tenant;

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

/// Whose jobs, where, and how they are told.
#[derive(Debug, clap::Args)]
struct CommonArgs {
    #[command(flatten)]
    from: JobStoreArgs,
    /// The tenant whose jobs are meant
    #[arg(long, env = "CLAPBOARD_TENANT", value_name = "NAME", default_value_t = Tenant::default())]
    tenant: Tenant,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
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
