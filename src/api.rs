//! `clapboard api`: the HTTP side alone, over Postgres, Redis and S3.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clapboard_api::{Readiness, ServiceState};
use clapboard_engine::checkpoint::Checkpoint;
use clapboard_h3::{ModelProfile, Partition};
use clapboard_jobs::{Policy, Store};
use clapboard_media::MediaTools;
use clapboard_telemetry::metrics::Process;

use crate::interrupt::Interrupts;
use crate::monitor::{self, Watched};
use crate::output;
use crate::process::{CLOSING_TIME, Parts, block_on};
use crate::profile::RELEASED_NAME;
use crate::rooms::{self, Shared};
use crate::settings::{
    Distributed, DistributedArgs, Http, HttpArgs, MediaArgs, PolicyArgs, TelemetryArgs, WebhookArgs, partition,
};
use crate::spool::Spool;

/// Serve HTTP only, over Postgres, Redis and S3; any number of these may run
///
/// Needs no engine and no weights. While Redis is away jobs are accepted all the same; while Postgres is away requests
/// are answered with 503 and retry-after. SIGTERM or SIGINT drains, a second signal exits at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    webhooks: WebhookArgs,
    #[command(flatten)]
    media: MediaArgs,
    /// The directory of what is being uploaded, with room for --max-uploads requests. Processes may share it, and remove
    /// there what others left that were killed [default: a new one among the system's temporary files, which nobody removes if
    /// this process is killed]
    #[arg(long, env = "CLAPBOARD_SPOOL", value_name = "DIR", help_heading = "HTTP")]
    spool: Option<PathBuf>,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    distributed: DistributedArgs,
    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
}

/// What the workers serve.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Model")]
struct ModelArgs {
    /// The checkpoint that the workers load, of which only the configs are read [default: a released one]
    #[arg(long, env = "CLAPBOARD_CHECKPOINT", value_name = "DIR")]
    checkpoint: Option<PathBuf>,
    /// For which transformer weights there are workers, or will be, separated by commas: fl2va for t2va and fl2va, ref2va
    /// for ref2va [default: those of the checkpoint, or both]
    #[arg(long, env = "CLAPBOARD_SERVE_PARTITIONS", value_name = "PARTITIONS", value_delimiter = ',',
          value_parser = partition())]
    serve_partitions: Option<Vec<Partition>>,
}

impl ModelArgs {
    /// Returns what requests are resolved against.
    ///
    /// Errors: those of reading the checkpoint's configs.
    fn profile(&self) -> anyhow::Result<ModelProfile> {
        let chosen = |there: &[Partition]| match &self.serve_partitions {
            None => there.to_vec(),
            Some(named) => Partition::ALL.into_iter().filter(|partition| named.contains(partition)).collect(),
        };
        match &self.checkpoint {
            Some(root) => {
                let checkpoint = Checkpoint::open(root)?;
                Ok(checkpoint.profile(&chosen(&checkpoint.partitions()))?)
            }
            None => Ok(ModelProfile::released(RELEASED_NAME, chosen(&Partition::ALL))),
        }
    }
}

/// The checked settings.
struct Config {
    profile: ModelProfile,
    http: Http,
    tools: MediaTools,
    spool: Option<PathBuf>,
    policy: Policy,
    distributed: Distributed,
    metrics_listen: Option<SocketAddr>,
}

impl TryFrom<Args> for Config {
    type Error = anyhow::Error;

    /// Errors: a sentence about the first setting that is missing or cannot be.
    fn try_from(args: Args) -> anyhow::Result<Self> {
        let mut http = Http::try_from(args.http)?;
        args.webhooks.apply(&mut http.options);
        Ok(Self {
            http,
            tools: args.media.find()?,
            spool: args.spool,
            policy: args.policy.policy()?,
            distributed: Distributed::try_from(args.distributed)?,
            metrics_listen: args.telemetry.metrics_listen(),
            profile: args.model.profile()?,
        })
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = Config::try_from(args)?;
    block_on(serve(config)).map(|()| ExitCode::SUCCESS)
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let interrupts = Interrupts::listen()?;
    let spool = Spool::open(config.spool.as_deref())?;
    let sweeping = tokio::spawn(spool.sweeper());
    let servers = config.distributed.open(&config.policy).await?;
    let shared = Shared {
        store: Arc::clone(&servers.store) as Arc<dyn Store>,
        dispatch: Arc::new(servers.dispatch.for_new_jobs()),
        blob: servers.blob,
    };
    let readiness = Readiness::new_without_worker();
    let mut parts = Parts::new();
    let limit = config.http.options.closing_grace + CLOSING_TIME;
    let api = rooms::Api {
        http: config.http,
        tools: config.tools,
        spool: spool.path(),
        profile: config.profile,
        readiness: readiness.clone(),
        limiter: Arc::new(servers.limiter),
    };
    let watched =
        Watched { command: "api", processes: &[Process::Api], liveness: None, store: Some(Arc::clone(&servers.store)) };
    let _monitor = monitor::start(config.metrics_listen, watched).await?;
    let address = rooms::spawn_api(&mut parts, &shared, api).await?;
    output::status(format_args!("clapboard listens on http://{address}"));
    let outcome = parts.run(interrupts, Some(limit), |_| readiness.set(ServiceState::Draining)).await;
    sweeping.abort();
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

    const SERVERS: [&str; 7] =
        ["api", "--database-url", "postgres://u:hunter2@h/d", "--redis-url", "redis://h", "--s3-bucket", "media"];

    fn config(more: &[&str]) -> anyhow::Result<Config> {
        Config::try_from(Cli::try_parse_from(SERVERS.iter().chain(more))?.args)
    }

    fn refusal(more: &[&str]) -> String {
        config(more).map(|_| ()).map_err(|error| format!("{error:#}")).unwrap_err()
    }

    #[test]
    fn a_released_checkpoint_is_served_unless_another_is_named() {
        let profile = config(&[]).unwrap().profile;
        assert_eq!((profile.name.as_str(), &profile.partitions[..]), ("minimax-h3", &Partition::ALL[..]));
        let profile = config(&["--serve-partitions", "ref2va,fl2va"]).unwrap().profile;
        assert_eq!(profile.partitions, Partition::ALL);
        let profile = config(&["--serve-partitions", "ref2va"]).unwrap().profile;
        assert_eq!(profile.partitions, [Partition::Ref2va]);
        let refused = refusal(&["--checkpoint", "/nowhere"]);
        assert!(refused.contains("could not open /nowhere"), "{refused}");
    }

    #[test]
    fn each_server_that_is_not_named_is_asked_for() {
        for (left_out, expected) in [
            (1..3, "--database-url is missing: say where the Postgres database is (or set DATABASE_URL)"),
            (3..5, "--redis-url is missing: say where the Redis server is (or set REDIS_URL)"),
            (5..7, "--s3-bucket is missing: say where videos are stored (or set CLAPBOARD_S3_BUCKET)"),
        ] {
            let mut arguments = SERVERS.to_vec();
            arguments.drain(left_out);
            let config = Config::try_from(Cli::try_parse_from(arguments).unwrap().args);
            assert_eq!(config.map(|_| ()).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let args = Cli::try_parse_from(SERVERS.iter().chain(&["--s3-secret-access-key", "hunter2"])).unwrap().args;
        assert!(!format!("{args:?}").contains("hunter2"), "{args:?}");
        let refused = refusal(&["--s3-secret-access-key", "hunter2"]);
        assert_eq!(refused, "--s3-access-key-id must be given with --s3-secret-access-key");
    }
}
