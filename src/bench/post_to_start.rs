//! From `POST /v1/videos` to the start of the engine on an idle worker, and the API's memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clapboard_dispatch::RedisDispatch;
use clapboard_h3::Partition;
use clapboard_jobs::{JobId, JobState, Policy, Store, Tenant, WorkerId};
use clapboard_media::decode::image::HeifTool;
use clapboard_media::{Ffmpeg, MediaTools};
use clapboard_store_postgres::PostgresStore;
use clapboard_worker::{Options, Worker};
use tokio_util::sync::CancellationToken;

use super::client::{Client, smallest};
use super::figures::Latencies;
use super::noop::NoopEngine;
use super::processes::Process;
use super::queue::Servers;

/// How long the worker is idle before the next request is sent.
const REST: Duration = Duration::from_millis(25);
/// Of the jobs that only have to be accepted, how many go before the first look at the API's memory.
const WARM_UP: usize = 1_000;
/// How many requests go before the measured ones: each connection of API and worker plans its statements when it first
/// sends them.
const UNMEASURED: usize = 50;

/// An API process that serves a released checkpoint over the servers.
pub(super) async fn api() -> anyhow::Result<(Process, String)> {
    let mut api = Process::start(&["api", "--listen", "127.0.0.1:0"])?;
    let url = api.says("clapboard listens on http://").await?;
    Ok((api, url))
}

/// Sends `requests` requests one by one to an API process beside an idle worker with the no-op engine, and returns the
/// times from each request's first byte to the start of the engine. The worker has its connections to itself, as one has
/// that is a process.
pub(super) async fn latencies(servers: &Servers, requests: usize) -> anyhow::Result<Latencies> {
    let (_api, url) = api().await?;
    let folder = tempfile::tempdir().context("could not make a folder for unfinished files")?;
    let engine = Arc::new(NoopEngine::new());
    let stop = CancellationToken::new();
    let lone = clapboard_store_postgres::Options { max_connections: 1, ..servers.database.clone() };
    let parts = clapboard_worker::Parts {
        store: Arc::new(PostgresStore::lazy(&servers.database, Policy::default())?),
        heartbeat_store: Arc::new(PostgresStore::lazy(&lone, Policy::default())?),
        dispatch: Arc::new(RedisDispatch::open(&servers.redis)?),
        blob: Arc::clone(&servers.blob),
        generator: Arc::clone(&engine) as _,
        tools: MediaTools {
            ffmpeg: Ffmpeg::find().context("the worker encodes real files")?,
            heif: HeifTool::default(),
        },
    };
    let worker = Worker::new(parts, Options::new(WorkerId::new(), folder.path().to_owned()))?;
    let running = tokio::spawn(worker.run(stop.clone()));

    let mut client = Client::connect(&url).await?;
    let mut times = Vec::with_capacity(requests);
    for seed in 0..(UNMEASURED + requests) as u64 {
        tokio::time::sleep(REST).await;
        let request = smallest(seed);
        let sent = Instant::now();
        let (id, started) = tokio::try_join!(client.create(&request), async { Ok(engine.started(seed).await) })?;
        if seed >= UNMEASURED as u64 {
            times.push(started.duration_since(sent));
        }
        completed(&*servers.store, id.parse()?).await?;
    }
    stop.cancel();
    running.await.context("the worker failed")??;
    Ok(Latencies::new(times))
}

/// Waits until the worker is idle again.
async fn completed(store: &dyn Store, id: JobId) -> anyhow::Result<()> {
    loop {
        let job = store.get(&Tenant::default(), id).await?.context("a job is gone")?;
        if job.state == JobState::Completed {
            return Ok(());
        }
        anyhow::ensure!(!job.state.is_final(), "a job ended as {}: {:?}", job.state, job.error);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What an API process holds after some jobs and after many, in bytes.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) before: u64,
    pub(super) after: u64,
    pub(super) jobs: usize,
}

/// Lets an API accept `jobs` jobs, which nobody runs, and looks at its memory.
pub(super) async fn memory(servers: &Servers, jobs: usize) -> anyhow::Result<Memory> {
    // A paused partition: the jobs are there for the next measurement.
    servers.store.set_paused(Partition::Fl2va, true).await?;
    let (api, url) = api().await?;
    let mut client = Client::connect(&url).await?;
    for seed in 0..WARM_UP as u64 {
        client.create(&smallest(seed)).await?;
    }
    let before = api.resident_bytes()?;
    for seed in 0..jobs as u64 {
        client.create(&smallest(seed)).await?;
    }
    let after = api.resident_bytes()?;
    servers.store.set_paused(Partition::Fl2va, false).await?;
    Ok(Memory { before, after, jobs })
}
