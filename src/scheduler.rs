//! `clapboard scheduler`: the sweeps alone, over Postgres, Redis and S3.

use std::process::ExitCode;
use std::sync::Arc;

use clapboard_jobs::{Policy, Store};
use clapboard_scheduler::Options;

use crate::interrupt::Interrupts;
use crate::output;
use crate::process::{CLOSING_TIME, Parts, block_on};
use crate::rooms::{self, Shared};
use crate::settings::{Distributed, DistributedArgs, PolicyArgs, SweepArgs};

/// Look after what time does to jobs: hints, ended leases, deadlines, retention; any number of these may run
///
/// No replica leads: each may die at any moment, and two that run at once do not disturb each other. SIGTERM or SIGINT
/// ends it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sweeps: SweepArgs,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    distributed: DistributedArgs,
}

/// The checked settings.
struct Config {
    sweeps: Options,
    policy: Policy,
    distributed: Distributed,
}

impl TryFrom<Args> for Config {
    type Error = anyhow::Error;

    /// Errors: a sentence about the first setting that is missing or cannot be.
    fn try_from(args: Args) -> anyhow::Result<Self> {
        Ok(Self {
            sweeps: args.sweeps.options()?,
            policy: args.policy.policy()?,
            distributed: Distributed::try_from(args.distributed)?,
        })
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = Config::try_from(args)?;
    block_on(sweep(config)).map(|()| ExitCode::SUCCESS)
}

async fn sweep(config: Config) -> anyhow::Result<()> {
    let interrupts = Interrupts::listen()?;
    let servers = config.distributed.open(&config.policy).await?;
    let shared =
        Shared { store: Arc::clone(&servers.store) as Arc<dyn Store>, dispatch: servers.dispatch, blob: servers.blob };
    let mut parts = Parts::new();
    rooms::spawn_scheduler(&mut parts, &shared, config.sweeps)?;
    output::line(format_args!("clapboard sweeps"));
    let outcome = parts.run(interrupts, Some(CLOSING_TIME), |_| ()).await;
    servers.store.close().await;
    outcome
}
