//! The queue as a library call, without HTTP and without a video: what peers that are libraries measure.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clapboard_dispatch::RedisDispatch;
use clapboard_h3::Partition;
use clapboard_jobs::{
    Claimant, Dispatch, Hint, JobState, NewJob, Outcome, ResultObject, RunReport, Store, Tenant, WorkerId,
};
use serde_json::Value;
use tokio::task::JoinSet;

use super::figures::Latencies;
use super::queue::{Servers, smallest_spec};

/// How many jobs are worked on at once while a backlog is drained.
const CONCURRENCY: usize = 10;
/// How long the worker is idle before the next job is pushed.
const REST: Duration = Duration::from_millis(25);
const POLL: Duration = Duration::from_secs(1);

/// What was measured.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) jobs: usize,
    pub(super) creating: Duration,
    pub(super) draining: Duration,
    pub(super) idle: Latencies,
}

impl Library {
    /// Tells the figures as the loads of the peers do: see scripts/peers.
    pub(super) fn json(&self) -> Value {
        let per_second = |time: Duration| (self.jobs as f64 / time.as_secs_f64()).round();
        let millis = |percent| (self.idle.percentile(percent).as_secs_f64() * 1e5).round() / 1e2;
        serde_json::json!({
            "peer": concat!("clapboard ", env!("CARGO_PKG_VERSION")),
            "push_per_s": per_second(self.creating),
            "drain_per_s": per_second(self.draining),
            "idle_p50_ms": millis(50),
            "idle_p99_ms": millis(99),
        })
    }
}

/// Creates `jobs` jobs one by one, drains them, then pushes `idle_jobs` single ones to an idle worker.
pub(super) async fn measure(servers: &Servers, jobs: usize, idle_jobs: usize) -> anyhow::Result<Library> {
    let dispatch: Arc<dyn Dispatch> = Arc::new(RedisDispatch::open(&servers.redis)?);
    let store: Arc<dyn Store> = Arc::clone(&servers.store) as _;
    let began = Instant::now();
    for _ in 0..jobs {
        create(&*store, &*dispatch).await?;
    }
    let creating = began.elapsed();

    let left = Arc::new(AtomicUsize::new(jobs));
    let began = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..CONCURRENCY {
        workers.spawn(drain(Arc::clone(&store), Arc::clone(&dispatch), Arc::clone(&left)));
    }
    while let Some(ended) = workers.join_next().await {
        ended.context("a worker of the drain failed")??;
    }
    let draining = began.elapsed();

    let claimant = claimant();
    let mut times = Vec::with_capacity(idle_jobs);
    for _ in 0..idle_jobs {
        tokio::time::sleep(REST).await;
        let sent = Instant::now();
        let (created, started) = tokio::join!(create(&*store, &*dispatch), start_one(&*store, &*dispatch, &claimant));
        created?;
        times.push(started?.duration_since(sent));
    }
    Ok(Library { jobs, creating, draining, idle: Latencies::new(times) })
}

fn claimant() -> Claimant {
    Claimant::new(WorkerId::new(), vec![Partition::Fl2va])
}

async fn create(store: &dyn Store, dispatch: &dyn Dispatch) -> anyhow::Result<()> {
    let job = store.create(NewJob::new(Tenant::default(), "bench", &smallest_spec())).await?;
    dispatch.push(&[Hint { queue: job.queue(), rank: job.rank, job: job.id }]).await?;
    Ok(())
}

/// Takes hints, claims, and ends each job as completed until none is left.
async fn drain(store: Arc<dyn Store>, dispatch: Arc<dyn Dispatch>, left: Arc<AtomicUsize>) -> anyhow::Result<()> {
    let claimant = claimant();
    let queues = claimant.queues();
    while left.load(Ordering::SeqCst) > 0 {
        let claimed = match dispatch.pop(&queues, Duration::ZERO).await? {
            Some(hint) => store.claim(hint.job, &claimant).await?,
            // Beyond the window of hints.
            None => store.claim_next(&claimant).await?,
        };
        if let Some(claimed) = claimed {
            finish(store.as_ref(), &claimed.lease).await?;
            left.fetch_sub(1, Ordering::SeqCst);
        }
    }
    Ok(())
}

/// Waits for one job, and returns the moment at which it was claimed.
async fn start_one(store: &dyn Store, dispatch: &dyn Dispatch, claimant: &Claimant) -> anyhow::Result<Instant> {
    let queues = claimant.queues();
    loop {
        let Some(hint) = dispatch.pop(&queues, POLL).await? else { continue };
        if let Some(claimed) = store.claim(hint.job, claimant).await? {
            let started = Instant::now();
            finish(store, &claimed.lease).await?;
            return Ok(started);
        }
    }
}

async fn finish(store: &dyn Store, lease: &clapboard_jobs::Lease) -> anyhow::Result<()> {
    let object = ResultObject { key: lease.result_key(), size_bytes: 1, sha256: "0".repeat(64) };
    let state =
        store.finish(lease, Outcome::Completed { object, previews: Vec::new(), report: RunReport::default() }).await?;
    ensure!(state == JobState::Completed, "a job ended as {state}");
    Ok(())
}
