//! Keeps leases alive from a thread of its own.
//!
//! The thread has its own small runtime, so that neither the engine nor a busy server keeps it from beating. What it
//! guarantees:
//!
//! * A lease is renewed only while the engine moves: when the phase's stall limit passes without a sign of life, the
//!   beats end and the attempt is told that its engine is wedged.
//! * The engine is stopped before the lease can be given away. A lease ends `duration` after a beat at the earliest,
//!   counted from *before* the call that was answered, on this machine's monotonic clock; when that moment is less than
//!   the margin away and no beat has got through, the attempt is fenced, whether a call hangs or fails.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clapboard_jobs::{Beat, Causes, Lease, LeaseError, Store};
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::options::Options;
use crate::watch::{StopCause, Watch};

/// The heartbeat's thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    runtime: Handle,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Starts the thread.
    ///
    /// Errors: what the system said.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let handle = runtime.handle().clone();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("heartbeat".to_owned()).spawn(move || {
            runtime.block_on(stopped.cancelled());
        })?;
        Ok(Self { runtime: handle, stop, thread: Some(thread) })
    }

    /// Keeps the lease until the attempt is over.
    pub(crate) fn keep(&self, store: Arc<dyn Store>, lease: Lease, watch: Arc<Watch>, options: &Options) {
        let keeper = Keeper { store, lease, watch, interval: options.beat_interval, margin: options.fence_margin };
        self.runtime.spawn(keeper.run().in_current_span());
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the heartbeat's thread had panicked");
        }
    }
}

/// Keeps one lease.
struct Keeper {
    store: Arc<dyn Store>,
    lease: Lease,
    watch: Arc<Watch>,
    interval: Duration,
    margin: Duration,
}

impl Keeper {
    async fn run(self) {
        let watch = &self.watch;
        let mut begun = false;
        let mut heard = false;
        let mut ours = true;
        // The claim itself was the first beat.
        let mut next = Instant::now() + self.interval;
        loop {
            let wake = if ours { next.min(self.fence_at()) } else { next };
            tokio::select! {
                biased;
                () = watch.over.cancelled() => return,
                // A begin that fails is tried again with the next beat.
                () = watch.begun.cancelled(), if !heard => heard = true,
                () = tokio::time::sleep_until(wake.into()) => {}
            }
            let now = Instant::now();
            if let Some(stall) = watch.look(now) {
                tracing::error!(phase = %stall.phase, limit_ms = millis(stall.limit), "nothing moves any more");
                return;
            }
            next = now + self.interval;
            if !ours {
                continue;
            }
            if now >= self.fence_at() {
                tracing::error!("no beat got through and the lease ends soon: stopping the engine");
                watch.stop(StopCause::Fenced);
                ours = false;
                continue;
            }
            match self.call(heard && !begun).await {
                Ok(called) => begun |= called,
                Err(LeaseError::Store(error)) => {
                    tracing::warn!(error = %Causes(&error), "a beat failed");
                }
                // A beat names no result, so only the loss can be meant.
                Err(LeaseError::Lost { .. } | LeaseError::ForeignResult { .. }) => {
                    tracing::info!("the job was deleted or given away: stopping the engine");
                    watch.stop(StopCause::LeaseLost);
                    ours = false;
                }
            }
        }
    }

    /// When the engine has to be stopped unless a beat gets through before.
    fn fence_at(&self) -> Instant {
        let until = self.watch.lease_until();
        until.checked_sub(self.margin).unwrap_or(until)
    }

    /// Records the begin or beats, and returns whether it was the begin; a call that hangs ends when the fence falls.
    async fn call(&self, begin: bool) -> Result<bool, LeaseError> {
        let sent = Instant::now();
        let progress = self.watch.progress();
        let call = async {
            if begin { self.store.begin(&self.lease).await } else { self.store.beat(&self.lease, &progress).await }
        };
        let Ok(answer) = tokio::time::timeout_at(self.fence_at().into(), call).await else {
            tracing::warn!(waited_ms = millis(sent.elapsed()), "a beat was not answered");
            return Ok(false);
        };
        let Beat { cancel_requested, .. } = answer?;
        self.watch.renewed(sent + self.lease.duration);
        if cancel_requested {
            self.watch.stop(StopCause::Cancelled);
        }
        Ok(begin)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
