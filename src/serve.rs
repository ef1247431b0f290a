//! `clapboard serve`: API, scheduler and worker in one process.

mod args;
mod config;
mod data_dir;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clapboard_api::{AppState, Readiness, ServiceState};
use clapboard_blob::DiskBlob;
use clapboard_dispatch::MemoryDispatch;
use clapboard_engine::EngineHandle;
use clapboard_h3::ModelProfile;
use clapboard_jobs::{Blob, Dispatch, Store, SystemClock, WorkerId};
use clapboard_scheduler::{Scheduler, take_back_from_dead};
use clapboard_store_sqlite::SqliteStore;
use clapboard_worker::Worker;
use tokio::net::TcpListener;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use self::args::Args;
use self::config::Config;
use self::data_dir::DataDir;
use crate::interrupt::Interrupts;
use crate::output;
use crate::profile::read_profile;

/// How long the last writes get, beyond the times of the worker and of the requests in flight.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// A part of the service that has ended, and how.
type Ended = (&'static str, anyhow::Result<()>);

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = Config::try_from(args)?;
    // Requests are accepted while the weights still load; a checkpoint that serves nothing leaves no data directory.
    let profile = read_profile(&config.engine)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("could not start the runtime")?;
    let result = runtime.block_on(serve(config, profile));
    // An engine that still loads, or hangs, is not waited for: nothing of a job is lost with it.
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}

async fn serve(config: Config, profile: ModelProfile) -> anyhow::Result<()> {
    let mut interrupts = Interrupts::listen()?;
    let data = DataDir::open(&config.data)?;
    let store = SqliteStore::open(&data.jobs(), config.policy.clone(), Arc::new(SystemClock)).await;
    let store = Arc::new(store.context("could not open the job store")?);
    let blob: Arc<dyn Blob> = Arc::new(DiskBlob::open(&data.media()).await.context("could not open the media store")?);
    let dispatch: Arc<dyn Dispatch> = Arc::new(MemoryDispatch::new());
    // Whoever ran jobs here before is dead for certain: its lock on the directory is gone.
    take_back_from_dead(&*store, &[]).await.context("could not take back the jobs of the last process")?;

    let listener =
        TcpListener::bind(config.listen).await.with_context(|| format!("could not listen on {}", config.listen))?;
    let address = listener.local_addr().context("could not learn the address that is listened on")?;

    let (readiness, stop, tasks) = (Readiness::new(), CancellationToken::new(), TaskTracker::new());
    let mut parts: JoinSet<Ended> = JoinSet::new();
    let state = AppState {
        store: Arc::clone(&store) as Arc<dyn Store>,
        dispatch: Arc::clone(&dispatch),
        blob: Arc::clone(&blob),
        profile: Arc::new(profile),
        readiness: readiness.clone(),
        options: Arc::new(config.api.clone()),
        tasks: tasks.clone(),
    };
    let router = clapboard_api::router(state);
    let serving = clapboard_api::serve(listener, router, stop.clone().cancelled_owned(), &config.api);
    parts.spawn(async move { ("API", serving.await.context("the API failed")) });
    let swept = clapboard_scheduler::Parts {
        store: Arc::clone(&store) as Arc<dyn Store>,
        dispatch: Arc::clone(&dispatch),
        blob: Arc::clone(&blob),
    };
    let sweeping = Scheduler::new(&swept, config.scheduler.clone())?.run(stop.clone());
    parts.spawn(async move {
        sweeping.await;
        ("scheduler", Ok(()))
    });
    let worker_parts = WorkerParts { store: Arc::clone(&store), dispatch, blob };
    let drain_time = config.worker.drain_timeout + config.api.closing_grace + CLOSING_TIME;
    let working = work(config, data.scratch(), worker_parts, readiness.clone(), stop.clone());
    parts.spawn(async move { ("worker", working.await) });
    output::line(format_args!("clapboard listens on http://{address}"));

    let outcome = tokio::select! {
        signal = interrupts.next() => {
            tracing::info!(%signal, "draining; a second signal exits at once");
            Ok(())
        }
        Some(ended) = parts.join_next() => Err(unexpected_end(ended, &readiness)),
    };
    interrupts.exit_at_the_next();
    readiness.set(ServiceState::Draining);
    stop.cancel();
    let closing = timeout(drain_time, close(&mut parts, &tasks)).await;
    let closed =
        closing.unwrap_or_else(|_| Err(anyhow!("the service did not drain in time; its job runs again later")));
    store.close().await;
    outcome.and(closed).inspect(|()| tracing::info!("drained"))
}

/// What the worker shares with the rest.
struct WorkerParts {
    store: Arc<SqliteStore>,
    dispatch: Arc<dyn Dispatch>,
    blob: Arc<dyn Blob>,
}

/// Loads the engine and works until `stop`.
async fn work(
    config: Config,
    scratch: std::path::PathBuf,
    parts: WorkerParts,
    readiness: Readiness,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let Config { engine, ffmpeg, policy, worker: settings, .. } = config;
    tracing::info!(checkpoint = %engine.checkpoint.display(), "loading the engine");
    let loading = spawn_blocking(move || EngineHandle::start(engine));
    let engine = tokio::select! {
        loaded = loading => loaded.context("loading the engine was interrupted")??,
        () = stop.cancelled() => return Ok(()),
    };
    let parts = clapboard_worker::Parts {
        store: parts.store,
        dispatch: parts.dispatch,
        blob: parts.blob,
        generator: Arc::new(engine),
        ffmpeg,
    };
    let worker = Worker::new(parts, settings.options(WorkerId::new(), scratch, &policy))?;
    readiness.set(ServiceState::Ready);
    worker.run(stop).await.map_err(anyhow::Error::from)
}

/// Turns the end of a part that should have gone on into an error, and tells the API when it was the worker.
fn unexpected_end(ended: Result<Ended, tokio::task::JoinError>, readiness: &Readiness) -> anyhow::Error {
    match ended {
        Ok((part, result)) => {
            if part == "worker" {
                readiness.set(ServiceState::WorkerLost);
            }
            match result {
                Ok(()) => anyhow!("the {part} ended by itself"),
                Err(error) => error.context(format!("the {part} ended")),
            }
        }
        Err(error) => anyhow::Error::new(error).context("a part of the service ended"),
    }
}

/// Waits for the parts and for the cancels that outlive their requests; the first error is told.
async fn close(parts: &mut JoinSet<Ended>, tasks: &TaskTracker) -> anyhow::Result<()> {
    let mut first_error = Ok(());
    while let Some(ended) = parts.join_next().await {
        let result = match ended {
            Ok((part, result)) => result.with_context(|| format!("the {part} failed while it drained")),
            Err(error) => Err(error).context("a part of the service failed while it drained"),
        };
        first_error = first_error.and(result);
    }
    tasks.close();
    tasks.wait().await;
    first_error
}
