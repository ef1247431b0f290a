//! `clapboard worker`: one engine that takes jobs from Postgres.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clapboard_engine::EngineConfig;
use clapboard_h3::Partition;
use clapboard_jobs::{Policy, Store};
use clapboard_media::MediaTools;
use clapboard_store_postgres::{Options, PostgresStore};
use clapboard_telemetry::metrics::Process;
use clapboard_worker::{Liveness, try_media_store, work_folder};

use crate::interrupt::Interrupts;
use crate::locked_dir::LockedDir;
use crate::monitor::{self, Watched};
use crate::output;
use crate::process::{CLOSING_TIME, Parts, block_on};
use crate::profile::read_profile;
use crate::rooms::{self, Engine, Shared};
use crate::settings::{
    Distributed, DistributedArgs, EngineArgs, MediaArgs, PolicyArgs, TelemetryArgs, WorkerArgs, WorkerSettings,
    partition,
};

/// Run jobs of one partition, taken from Postgres; any number of these may run
///
/// SIGTERM or SIGINT drains: the running job is handed back uncounted with its denoising state, and goes on elsewhere;
/// with --drain finish it is completed first. A second signal exits at once. Exits with 1 when its engine hangs,
/// to be started anew by a supervisor.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    engine: EngineArgs,
    /// Which transformer weights to load: fl2va for t2va and fl2va, ref2va for ref2va
    #[arg(long, env = "CLAPBOARD_PARTITION", value_name = "PARTITION", default_value = "fl2va", help_heading = "Engine",
          value_parser = partition())]
    partition: Partition,
    #[command(flatten)]
    media: MediaArgs,
    /// The directory of unfinished files, with room for a few videos; one worker at a time may use it
    #[arg(long, env = "CLAPBOARD_SCRATCH", value_name = "DIR", help_heading = "Worker")]
    scratch: PathBuf,
    #[command(flatten)]
    worker: WorkerArgs,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    distributed: DistributedArgs,
    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
}

/// The checked settings.
struct Config {
    engine: EngineConfig,
    tools: MediaTools,
    scratch: PathBuf,
    worker: WorkerSettings,
    policy: Policy,
    distributed: Distributed,
    metrics_listen: Option<SocketAddr>,
}

impl TryFrom<Args> for Config {
    type Error = anyhow::Error;

    /// Errors: a sentence about the first setting that is missing or cannot be.
    fn try_from(args: Args) -> anyhow::Result<Self> {
        let policy = args.policy.policy()?;
        Ok(Self {
            worker: args.worker.settings(&policy)?,
            policy,
            distributed: Distributed::try_from(args.distributed)?,
            metrics_listen: args.telemetry.metrics_listen(),
            engine: args.engine.config(vec![args.partition])?,
            tools: args.media.find()?,
            scratch: args.scratch,
        })
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = Config::try_from(args)?;
    // Found before anything is made or reached: a checkpoint that cannot be served.
    read_profile(&config.engine)?;
    let config = Config { worker: config.worker.within(config.engine.largest_rows()?), ..config };
    block_on(work(config)).map(|()| ExitCode::SUCCESS)
}

async fn work(config: Config) -> anyhow::Result<()> {
    let interrupts = Interrupts::listen()?;
    let scratch = LockedDir::open("scratch", &config.scratch)?;
    let servers = config.distributed.open(&config.policy).await?;
    let liveness = Liveness::default();
    let watched = Watched {
        command: "worker",
        processes: &[Process::Worker],
        liveness: Some(liveness.clone()),
        store: Some(Arc::clone(&servers.store)),
    };
    let _monitor = monitor::start(config.metrics_listen, watched).await?;
    // Before the engine is loaded: a key that may list the bucket and put nothing into it.
    try_media_store(&*servers.blob, scratch.path()).await?;
    // Heartbeats have a connection of their own, so that nothing else can keep one waiting.
    let alone = Options { max_connections: 1, ..config.distributed.database.clone() };
    let heartbeat_store = PostgresStore::lazy(&alone, config.policy)?;
    let shared = Shared {
        store: Arc::clone(&servers.store) as Arc<dyn Store>,
        dispatch: Arc::new(servers.dispatch),
        blob: servers.blob,
    };
    let limit = config.worker.drain_limit().map(|limit| limit + CLOSING_TIME);
    let engine = Engine {
        config: config.engine,
        tools: config.tools,
        heartbeat_store: Arc::new(heartbeat_store),
        options: config.worker.options(work_folder(scratch.path())),
        liveness,
    };
    let mut parts = Parts::new();
    rooms::spawn_worker(&mut parts, &shared, engine, || output::status(format_args!("clapboard works")));
    let outcome = parts.run(interrupts, limit, |_| ()).await;
    servers.store.close().await;
    outcome
}
