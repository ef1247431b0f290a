//! `clapboard scheduler`: the sweeps alone, over Postgres, Redis and S3.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use clapboard_jobs::{Policy, Store};
use clapboard_scheduler::Options;
use clapboard_telemetry::metrics::Process;

use crate::interrupt::Interrupts;
use crate::monitor::{self, Watched};
use crate::output;
use crate::process::{CLOSING_TIME, Parts, block_on};
use crate::rooms::{self, Shared};
use crate::settings::{Distributed, DistributedArgs, PolicyArgs, SweepArgs, TelemetryArgs, WebhookArgs};

/// Look after what time does to jobs: hints, ended leases, deadlines, retention, webhooks; any number of these may run
///
/// No replica leads: each may die at any moment, and two that run at once do not disturb each other. SIGTERM or SIGINT
/// ends it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sweeps: SweepArgs,
    #[command(flatten)]
    webhooks: WebhookArgs,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    distributed: DistributedArgs,
    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
}

/// The checked settings.
struct Config {
    sweeps: Options,
    policy: Policy,
    distributed: Distributed,
    metrics_listen: Option<SocketAddr>,
}

impl TryFrom<Args> for Config {
    type Error = anyhow::Error;

    /// Errors: a sentence about the first setting that is missing or cannot be.
    fn try_from(args: Args) -> anyhow::Result<Self> {
        let sweeps = args.sweeps.options(&args.webhooks)?;
        let policy = args.policy.policy()?;
        let distributed = Distributed::try_from(args.distributed)?;
        distributed.has_room_for_refills_of(sweeps.refill_window)?;
        Ok(Self { sweeps, policy, distributed, metrics_listen: args.telemetry.metrics_listen() })
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = Config::try_from(args)?;
    block_on(sweep(config)).map(|()| ExitCode::SUCCESS)
}

async fn sweep(config: Config) -> anyhow::Result<()> {
    let interrupts = Interrupts::listen()?;
    let servers = config.distributed.open(&config.policy).await?;
    let shared = Shared {
        store: Arc::clone(&servers.store) as Arc<dyn Store>,
        dispatch: Arc::new(servers.dispatch),
        blob: servers.blob,
    };
    let watched = Watched {
        command: "scheduler",
        processes: &[Process::Scheduler],
        liveness: None,
        store: Some(Arc::clone(&servers.store)),
    };
    let _monitor = monitor::start(config.metrics_listen, watched).await?;
    let mut parts = Parts::new();
    rooms::spawn_scheduler(&mut parts, &shared, config.sweeps)?;
    output::status(format_args!("clapboard sweeps"));
    let outcome = parts.run(interrupts, Some(CLOSING_TIME), |_| ()).await;
    servers.store.close().await;
    outcome
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn config(more: &[&str]) -> anyhow::Result<Config> {
        let servers = ["--database-url", "postgres://h/d", "--redis-url", "redis://h", "--s3-bucket", "media"];
        Config::try_from(Cli::try_parse_from(["scheduler"].iter().chain(&servers).chain(more))?.args)
    }

    #[test]
    fn a_queue_has_room_for_a_refill_beside_new_jobs() {
        assert!(config(&[]).is_ok());
        assert!(config(&["--redis-window", "200", "--refill-window", "100"]).is_ok());
        for window in ["100", "199"] {
            let refused = config(&["--redis-window", window, "--refill-window", "100"]).map(|_| ()).unwrap_err();
            let expected = format!(
                "--redis-window {window} is too small for --refill-window 100: it must be at least twice as large, \
                 since new jobs take up to one half of it"
            );
            assert_eq!(refused.to_string(), expected);
        }
    }
}
