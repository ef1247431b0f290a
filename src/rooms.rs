//! How the rooms are put to work: the same way in one process and in many.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use clapboard_api::{AppState, Options, Readiness};
use clapboard_engine::{EngineConfig, EngineHandle};
use clapboard_h3::ModelProfile;
use clapboard_jobs::{Blob, Dispatch, Limiter, Store};
use clapboard_media::MediaTools;
use clapboard_scheduler::Scheduler;
use clapboard_telemetry::metrics::names;
use clapboard_worker::{Drained, Liveness, Worker};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

use crate::process::Parts;
use crate::settings::Http;

/// What every room works with.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) dispatch: Arc<dyn Dispatch>,
    pub(crate) blob: Arc<dyn Blob>,
}

/// What the API needs besides.
pub(crate) struct Api {
    pub(crate) http: Http,
    pub(crate) tools: MediaTools,
    /// The folder of what is being uploaded, of this process alone.
    pub(crate) spool: PathBuf,
    pub(crate) profile: ModelProfile,
    pub(crate) readiness: Readiness,
    /// Counts the requests of each client.
    pub(crate) limiter: Arc<dyn Limiter>,
}

/// What a worker needs besides.
pub(crate) struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) tools: MediaTools,
    pub(crate) heartbeat_store: Arc<dyn Store>,
    pub(crate) options: clapboard_worker::Options,
    /// Tells whether the worker moves.
    pub(crate) liveness: Liveness,
}

/// Starts the API and returns the address on which it listens.
///
/// Errors: when that address cannot be listened on.
pub(crate) async fn spawn_api(parts: &mut Parts, shared: &Shared, api: Api) -> anyhow::Result<SocketAddr> {
    let Api { http: Http { listen, options }, tools, spool, profile, readiness, limiter } = api;
    let options = Options { spool, ..options };
    let listener = TcpListener::bind(listen).await.with_context(|| format!("could not listen on {listen}"))?;
    let address = listener.local_addr().context("could not learn the address that is listened on")?;
    let state = AppState {
        store: Arc::clone(&shared.store),
        dispatch: Arc::clone(&shared.dispatch),
        blob: Arc::clone(&shared.blob),
        tools: Arc::new(tools),
        profile: Arc::new(profile),
        readiness,
        limiter,
        options: Arc::new(options.clone()),
        tasks: parts.tasks(),
    };
    let router = clapboard_api::router(state);
    let serving = clapboard_api::serve(listener, router, parts.stop().cancelled_owned(), &options);
    parts.spawn("API", async move { serving.await.context("it could not serve") });
    Ok(address)
}

/// Starts the sweeps.
///
/// Errors: options that cannot be.
pub(crate) fn spawn_scheduler(
    parts: &mut Parts,
    shared: &Shared,
    options: clapboard_scheduler::Options,
) -> anyhow::Result<()> {
    let swept = clapboard_scheduler::Parts {
        store: Arc::clone(&shared.store),
        dispatch: Arc::clone(&shared.dispatch),
        blob: Arc::clone(&shared.blob),
    };
    let sweeping = Scheduler::new(&swept, options)?.run(parts.stop());
    parts.spawn("scheduler", async move {
        sweeping.await;
        Ok(())
    });
    Ok(())
}

/// Starts a worker, which first loads its engine and then calls `ready`. It ends well when it is asked to drain.
pub(crate) fn spawn_worker(parts: &mut Parts, shared: &Shared, engine: Engine, ready: impl FnOnce() + Send + 'static) {
    let (shared, stop) = (shared.clone(), parts.stop());
    parts.spawn_drainable("worker", async move {
        let Engine { config, tools, heartbeat_store, options, liveness } = engine;
        let first = config.partitions.first().map_or("none", |partition| partition.as_str());
        let since = Instant::now();
        tracing::info!(checkpoint = %config.checkpoint.display(), "loading the engine");
        let loading = spawn_blocking(move || EngineHandle::start(config));
        let engine = tokio::select! {
            loaded = loading => loaded.context("loading the engine was interrupted")??,
            () = stop.cancelled() => return Ok(()),
        };
        names::MODEL_LOAD_SECONDS.record(since.elapsed(), [first]);
        let parts = clapboard_worker::Parts {
            store: shared.store,
            heartbeat_store,
            dispatch: shared.dispatch,
            blob: shared.blob,
            generator: Arc::new(engine),
            tools,
        };
        let worker = Worker::new(parts, options)?.watched_by(liveness);
        ready();
        let Drained { by_order } = worker.run(stop).await?;
        if by_order {
            tracing::info!("an operator has asked this worker to drain");
        }
        Ok(())
    });
}
