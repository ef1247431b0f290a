//! `clapboard serve`: API, scheduler and worker in one process.

mod args;
mod config;
mod data_dir;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clapboard_api::{Readiness, ServiceState};
use clapboard_blob::DiskBlob;
use clapboard_dispatch::{MemoryDispatch, MemoryLimiter};
use clapboard_h3::ModelProfile;
use clapboard_jobs::{Store, SystemClock};
use clapboard_scheduler::take_back_from_dead;
use clapboard_store_sqlite::SqliteStore;
use clapboard_telemetry::metrics::Process;
use clapboard_worker::{Liveness, Worker};

pub(crate) use self::args::Args;
use self::config::Config;
use self::data_dir::DataDir;
pub(crate) use self::data_dir::jobs_of;
use crate::interrupt::Interrupts;
use crate::monitor::{self, Watched};
use crate::output;
use crate::process::{CLOSING_TIME, Parts, block_on};
use crate::profile::read_profile;
use crate::rooms::{self, Api, Engine, Shared};
use crate::spool::Spool;

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = Config::try_from(args)?;
    // Requests are accepted while the weights still load; a checkpoint that serves nothing leaves no data directory.
    let profile = read_profile(&config.engine)?;
    let mut config = Config { worker: config.worker.within(config.engine.largest_rows()?), ..config };
    config.http.options.max_rows = config.worker.max_rows();
    block_on(serve(config, profile)).map(|()| ExitCode::SUCCESS)
}

async fn serve(config: Config, profile: ModelProfile) -> anyhow::Result<()> {
    let interrupts = Interrupts::listen()?;
    let data = DataDir::open(&config.data)?;
    let store = SqliteStore::open(&data.jobs(), config.policy.clone(), Arc::new(SystemClock)).await;
    let store = Arc::new(store.context("could not open the job store")?);
    // Heartbeats have a connection of their own, so that no other write can keep one waiting for its turn.
    let heartbeat_store = SqliteStore::open(&data.jobs(), config.policy.clone(), Arc::new(SystemClock)).await;
    let heartbeat_store = Arc::new(heartbeat_store.context("could not open the job store for heartbeats")?);
    let blob = DiskBlob::open(&data.media()).await.context("could not open the media store")?;
    // Whoever ran jobs here before is dead for certain: its lock on the directory is gone. Its finished videos are stored
    // by the worker that starts now, under the claims that made them.
    let adopted = Worker::forerunners(&data.scratch());
    take_back_from_dead(&*store, &adopted).await.context("could not take back the jobs of the last process")?;

    let liveness = Liveness::default();
    let watched = Watched { command: "serve", processes: Process::ALL, liveness: Some(liveness.clone()), store: None };
    let _monitor = monitor::start(config.metrics_listen, watched).await?;
    let dispatch = MemoryDispatch::new(config.window);
    let shared = Shared {
        store: Arc::clone(&store) as Arc<dyn Store>,
        dispatch: Arc::new(dispatch.clone()),
        blob: Arc::new(blob),
    };
    let shared_with_api = Shared { dispatch: Arc::new(dispatch.for_new_jobs()), ..shared.clone() };
    let readiness = Readiness::new();
    let mut parts = Parts::new();
    let limit = config.worker.drain_limit().map(|limit| limit + config.http.options.closing_grace + CLOSING_TIME);
    let spool = Spool::alone(&data.spool())?;
    let api = Api {
        http: config.http,
        tools: config.tools.clone(),
        spool: spool.path(),
        profile,
        readiness: readiness.clone(),
        limiter: Arc::new(MemoryLimiter::new()),
    };
    let address = rooms::spawn_api(&mut parts, &shared_with_api, api).await?;
    rooms::spawn_scheduler(&mut parts, &shared, config.scheduler)?;
    let engine = Engine {
        config: config.engine,
        tools: config.tools,
        heartbeat_store: Arc::clone(&heartbeat_store) as Arc<dyn Store>,
        options: config.worker.options(data.scratch()),
        liveness,
    };
    let is_ready = readiness.clone();
    rooms::spawn_worker(&mut parts, &shared, engine, move || is_ready.set(ServiceState::Ready));
    output::status(format_args!("clapboard listens on http://{address}"));

    let outcome = parts
        .run(interrupts, limit, |failed| {
            readiness.set(if failed == Some("worker") { ServiceState::WorkerLost } else { ServiceState::Draining });
        })
        .await;
    heartbeat_store.close().await;
    store.close().await;
    outcome
}
