//! Keeps one lease alive, as long as that is right.
//!
//! * A lease is renewed only while the attempt moves: when the phase's stall limit passes without a sign of life, the
//!   beats end, the job is given back from here, and the attempt is told that it is wedged.
//! * The engine is stopped before the lease can be given away. A lease ends `duration` after a beat at the earliest,
//!   counted from *before* the call that was answered, on this machine's monotonic clock; when that moment is less than
//!   the margin away and no beat has got through, the attempt is fenced, whether a call hangs or fails. A finished video
//!   needs no engine, so it is held until the lease itself has ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clapboard_jobs::{Beat, Causes, Lease, LeaseError, Store};

use clapboard_telemetry::metrics::names;

use crate::attempt::classify::AttemptError;
use crate::attempt::ending::{self, Ending, Line, Written};
use crate::heartbeat::turns::Turns;
use crate::options::Options;
use crate::progress::watch::{Stage, Stall, StopCause, Watch};

/// Keeps one lease.
pub(crate) struct Keeper {
    store: Arc<dyn Store>,
    turns: Arc<Turns>,
    lease: Lease,
    watch: Arc<Watch>,
    interval: Duration,
    margin: Duration,
    unwell_pause: Duration,
}

/// What became of a call that was no error.
enum Called {
    /// The begin is recorded.
    Begin,
    /// The lease is renewed.
    Beat,
    /// Nobody has answered in time.
    InVain,
}

impl Keeper {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        turns: Arc<Turns>,
        lease: Lease,
        watch: Arc<Watch>,
        options: &Options,
    ) -> Self {
        let (interval, margin) = (options.beat_interval, options.fence_margin);
        Self { store, turns, lease, watch, interval, margin, unwell_pause: options.unwell_pause }
    }

    /// Keeps the lease until the attempt is over; tells what became of giving the job back if it is wedged.
    pub(crate) async fn run(self) -> Option<Written> {
        let watch = &self.watch;
        let mut begun = false;
        let mut heard = false;
        let mut ours = true;
        let mut unanswered = false;
        // The claim itself was the first beat.
        let mut next = Instant::now() + self.interval;
        loop {
            let wake = if ours { next.min(self.fence_at()) } else { next };
            tokio::select! {
                biased;
                () = watch.over.cancelled() => return None,
                // A begin that fails is tried again with the next beat.
                () = watch.begun.cancelled(), if !heard => heard = true,
                () = tokio::time::sleep_until(wake.into()) => {}
            }
            let now = Instant::now();
            if let Some(stall) = watch.look(now) {
                tracing::error!(phase = %stall.phase, limit_ms = millis(stall.limit), "nothing moves any more");
                return Some(self.give_back(stall).await);
            }
            next = now + self.interval;
            if !ours {
                continue;
            }
            if now >= self.fence_at() {
                tracing::error!("no beat got through and the lease ends soon: stopping the attempt");
                watch.stop(StopCause::Fenced);
                ours = false;
                continue;
            }
            let called = tokio::select! {
                biased;
                () = watch.over.cancelled() => return None,
                called = self.call(heard && !begun, unanswered) => called,
            };
            match called {
                Ok(Called::Begin) => (begun, unanswered) = (true, false),
                Ok(Called::Beat) => unanswered = false,
                Ok(Called::InVain) => {
                    unanswered = true;
                    names::HEARTBEAT_FAILURES.increment([]);
                }
                // A server that gives up waiting for a lock says so as an error: it is no answer either.
                Err(LeaseError::Store(error)) => {
                    unanswered = true;
                    names::HEARTBEAT_FAILURES.increment([]);
                    tracing::warn!(error = %Causes(&error), "a beat failed");
                }
                // A beat names no object, so only the loss can be meant.
                Err(LeaseError::Lost { .. } | LeaseError::ForeignObject { .. }) if watch.ending.is_cancelled() => {
                    // By the ending itself, or its write is told the same.
                    ours = false;
                }
                Err(LeaseError::Lost { .. } | LeaseError::ForeignObject { .. }) => {
                    tracing::info!("the job was deleted, given away, or had to begin before: stopping the engine");
                    watch.stop(StopCause::LeaseLost);
                    ours = false;
                }
            }
        }
    }

    /// When the attempt has to be stopped unless a beat gets through before.
    fn fence_at(&self) -> Instant {
        let until = self.watch.lease_until();
        match self.watch.stage() {
            Stage::Finishing => until,
            Stage::Preparing | Stage::Waiting | Stage::Generating => until.checked_sub(self.margin).unwrap_or(until),
        }
    }

    /// Records the begin or beats. A call that hangs gives way to those of other leases, for longer when the one before was
    /// in vain as well, and is not waited for once the fence falls.
    async fn call(&self, begin: bool, unanswered: bool) -> Result<Called, LeaseError> {
        let (since, fence_at) = (Instant::now(), self.fence_at());
        let due = if unanswered { fence_at + self.lease.duration } else { fence_at };
        let call = self.turns.call(due, async {
            let sent = Instant::now();
            let beat = if begin {
                self.store.begin(&self.lease).await
            } else {
                self.store.beat(&self.lease, &self.watch.progress()).await
            };
            (beat, sent)
        });
        let Ok(Some((beat, sent))) = tokio::time::timeout_at(fence_at.into(), call).await else {
            tracing::warn!(waited_ms = millis(since.elapsed()), "a beat was not answered");
            return Ok(Called::InVain);
        };
        let Beat { cancel_requested, .. } = beat?;
        self.turns.heard();
        self.watch.renewed(sent + self.lease.duration);
        if cancel_requested {
            self.watch.stop(StopCause::Cancelled);
        }
        Ok(if begin { Called::Begin } else { Called::Beat })
    }

    /// Gives the job of an attempt that is wedged back, in its turn: its own thread may never do anything again, and those of
    /// other leases need the connection as well.
    async fn give_back(&self, stall: Stall) -> Written {
        let wedged = AttemptError::Wedged(stall);
        match Ending::of(&wedged, self.watch.cause(), self.unwell_pause) {
            Some(ending) => {
                let line = Line::Heartbeat(&*self.store, &self.turns);
                ending::write(line, &self.lease, &ending, &self.watch).await
            }
            None => Written::Lost,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use clapboard_h3::Partition;
    use clapboard_jobs::fixtures::{FaultyStore, MovedClock, small_spec};
    use clapboard_jobs::{Claimant, Claimed, HandBack, JobState, NewJob, Policy, Tenant, WorkerId};
    use clapboard_store_sqlite::SqliteStore;
    use tempfile::TempDir;
    use tokio::sync::{Notify, oneshot};

    use crate::heartbeat::NOT_PRESSED;
    use crate::options::StallLimits;

    use super::*;

    /// A claim, options of a worker that beats often, and a folder that goes with the store.
    async fn claimed() -> (Arc<dyn Store>, Lease, Options, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(MovedClock::default());
        let store = SqliteStore::open(&folder.path().join("jobs.sqlite"), Policy::default(), clock).await.unwrap();
        let job = store.create(NewJob::new(Tenant::default(), "h3", &small_spec())).await.unwrap();
        let claimant = Claimant::new(WorkerId::new(), vec![Partition::Fl2va]);
        let Claimed { lease, .. } = store.claim(job.id, &claimant).await.unwrap().unwrap();
        let beat_interval = Duration::from_millis(5);
        let options = Options { beat_interval, ..Options::new(claimant.worker, folder.path().to_owned()) };
        (Arc::new(store), lease, options, folder)
    }

    /// Takes a turn until it is told to leave; tells when it has it.
    fn hold(turns: &Arc<Turns>, due: Instant) -> (oneshot::Receiver<()>, Arc<Notify>) {
        let (enter, entered) = oneshot::channel();
        let leave = Arc::new(Notify::new());
        let (turns, left) = (Arc::clone(turns), Arc::clone(&leave));
        tokio::spawn(async move {
            let holding = async {
                enter.send(()).unwrap();
                left.notified().await;
            };
            turns.call(due, holding).await
        });
        (entered, leave)
    }

    /// Waits until so many wait for their turn.
    async fn until_waiting(turns: &Turns, count: usize) {
        let waiting = async {
            while turns.dues().len() != count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
    }

    #[tokio::test]
    async fn a_beat_that_an_ending_overtakes_is_no_loss() {
        let (store, lease, options, _folder) = claimed().await;
        store.hand_back(&lease, HandBack::Drained).await.unwrap();
        for ended in [true, false] {
            let watch = Arc::new(Watch::new(options.stall_limits, Instant::now() + lease.duration));
            if ended {
                watch.ending.cancel();
            }
            let turns = Turns::new(options.lease, options.fence_margin);
            let keeper = Keeper::new(Arc::clone(&store), turns, lease.clone(), Arc::clone(&watch), &options);
            let over = async {
                let stopped = tokio::time::timeout(Duration::from_millis(500), watch.stopping.cancelled()).await;
                watch.end();
                stopped.is_ok()
            };
            let (written, stopped) = tokio::join!(keeper.run(), over);
            assert_eq!((written, stopped), (None, !ended));
        }
    }

    #[tokio::test]
    async fn the_job_of_a_wedged_engine_is_given_back_in_its_turn() {
        let (store, lease, options, _folder) = claimed().await;
        let turns = Turns::new(options.lease, options.fence_margin);
        let (entered, leave) = hold(&turns, Instant::now());
        entered.await.unwrap();
        let stall_limits = StallLimits::all(Duration::from_millis(1));
        let watch = Arc::new(Watch::new(stall_limits, Instant::now() + lease.duration));
        let keeper = Keeper::new(Arc::clone(&store), Arc::clone(&turns), lease.clone(), Arc::clone(&watch), &options);
        let keeping = tokio::spawn(keeper.run());
        watch.wedged.cancelled().await;
        until_waiting(&turns, 1).await;
        assert_eq!(store.get(&lease.tenant, lease.job).await.unwrap().unwrap().state, JobState::Running);
        leave.notify_one();
        assert_eq!(keeping.await.unwrap(), Some(Written::State(JobState::Queued)));
    }

    #[tokio::test]
    async fn a_beat_that_fails_gives_way_to_others_the_next_time() {
        let (store, lease, options, _folder) = claimed().await;
        let faulty = FaultyStore::over(store);
        faulty.refuse_beats();
        let turns = Turns::new(options.lease, options.fence_margin);
        let (entered, leave) = hold(&turns, Instant::now());
        entered.await.unwrap();
        let watch = Arc::new(Watch::new(options.stall_limits, Instant::now() + lease.duration));
        let keeper = Keeper::new(Arc::new(faulty), Arc::clone(&turns), lease.clone(), Arc::clone(&watch), &options);
        let keeping = tokio::spawn(keeper.run());
        until_waiting(&turns, 1).await;
        let first = turns.dues()[0];
        // The next one after the beat, so that the beat after that waits again.
        let (entered, leave_again) = hold(&turns, Instant::now() + NOT_PRESSED);
        until_waiting(&turns, 2).await;
        leave.notify_one();
        entered.await.unwrap();
        until_waiting(&turns, 1).await;
        assert!(turns.dues()[0] >= first + lease.duration);
        watch.end();
        leave_again.notify_one();
        assert_eq!(keeping.await.unwrap(), None);
    }
}
