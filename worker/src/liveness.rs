//! Whether the worker moves, for whoever watches over its process from outside.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use clapboard_h3::Partition;
use clapboard_jobs::{Phase, WorkerState};
use clapboard_telemetry::metrics::names;
use tokio::sync::watch;

use crate::heartbeat::turns::Turns;
use crate::progress::watch::{Stall, Watch};

/// Why a worker should be started anew, or is not to be counted on yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    /// It has not loaded its engine yet.
    #[error("the engine is being loaded")]
    Starting,
    /// Its engine, or what prepares or stores a video, has stopped moving.
    #[error("nothing has moved in the phase {phase} for {limit:?}")]
    Stalled {
        /// What it is at.
        phase: Phase,
        /// For how long that may be.
        limit: Duration,
    },
    /// The thread that keeps its leases has stopped moving.
    #[error("no heartbeat was sent for {silence:?}")]
    Heartbeat {
        /// How long.
        silence: Duration,
    },
}

/// Tells whether a worker moves; cheap to clone, and of use before there is a worker.
///
/// The rules are those by which the worker goes itself: an attempt moves while its [watch](Watch) says so, and one that waits,
/// or no attempt at all, is well. Heartbeats are sent while the thread that sends them moves. That the job store does not
/// answer is no reason to start a worker anew: it waits and recovers by itself, and a new one would have to load its weights.
#[derive(Debug, Clone, Default)]
pub struct Liveness(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    running: OnceLock<Running>,
    attempts: Mutex<Vec<Weak<Watch>>>,
}

/// What a worker that runs is watched by.
#[derive(Debug)]
struct Running {
    turns: Arc<Turns>,
    patience: Duration,
    standing: watch::Receiver<WorkerState>,
    partitions: Vec<Partition>,
}

impl Liveness {
    /// Takes note that the worker runs. Its heartbeat is silent for less than `patience`, or stuck.
    pub(crate) fn begin(
        &self,
        turns: Arc<Turns>,
        patience: Duration,
        standing: watch::Receiver<WorkerState>,
        partitions: Vec<Partition>,
    ) {
        // It fails where the worker was begun before, which it is once.
        let _ = self.0.running.set(Running { turns, patience, standing, partitions });
    }

    /// Watches an attempt as long as it lasts.
    pub(crate) fn follow(&self, attempt: &Arc<Watch>) {
        let mut attempts = self.attempts();
        attempts.retain(|attempt| attempt.strong_count() > 0);
        attempts.push(Arc::downgrade(attempt));
    }

    /// Tells whether the worker moves, or has nothing to do.
    ///
    /// Errors: [`Stuck`].
    pub fn check(&self) -> Result<(), Stuck> {
        self.check_at(Instant::now())
    }

    fn check_at(&self, now: Instant) -> Result<(), Stuck> {
        let Some(running) = self.0.running.get() else {
            return Err(Stuck::Starting);
        };
        let attempts: Vec<Arc<Watch>> = self.attempts().iter().filter_map(Weak::upgrade).collect();
        for attempt in attempts.iter().filter(|attempt| !attempt.over.is_cancelled()) {
            if let Some(Stall { phase, limit }) = attempt.stalled(now) {
                return Err(Stuck::Stalled { phase, limit });
            }
        }
        let silence = now.saturating_duration_since(running.turns.moved_at());
        if silence > running.patience { Err(Stuck::Heartbeat { silence }) } else { Ok(()) }
    }

    /// Shows what only changes with time, or is read where it stands.
    pub fn measure(&self) {
        let Some(Running { turns, standing, partitions, .. }) = self.0.running.get() else {
            return;
        };
        names::HEARTBEAT_AGE_SECONDS.set(turns.heard_at().elapsed().as_secs_f64(), []);
        let standing = *standing.borrow();
        for partition in partitions {
            for state in WorkerState::ALL {
                let value = f64::from(u8::from(state == standing));
                names::WORKER_STATE.set(value, [partition.as_str(), state.as_str()]);
            }
        }
    }

    fn attempts(&self) -> MutexGuard<'_, Vec<Weak<Watch>>> {
        // What is done under the lock leaves nothing half done.
        self.0.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use crate::options::StallLimits;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);
    const LIMIT: Duration = Duration::from_secs(10);

    fn running() -> Liveness {
        let liveness = Liveness::default();
        let (_, standing) = watch::channel(WorkerState::Idle);
        liveness.begin(Turns::new(PATIENCE, Duration::ZERO), PATIENCE, standing, vec![Partition::Fl2va]);
        liveness
    }

    #[test]
    fn a_worker_that_loads_its_engine_is_not_well_yet() {
        assert_eq!(Liveness::default().check(), Err(Stuck::Starting));
        assert_eq!(running().check(), Ok(()));
    }

    #[test]
    fn an_engine_that_has_stopped_moving_is_told_until_its_attempt_is_over() {
        let liveness = running();
        let attempt = Arc::new(Watch::new(StallLimits::all(LIMIT), Instant::now() + PATIENCE));
        liveness.follow(&attempt);
        attempt.seated();
        let moved = Instant::now();
        assert_eq!(liveness.check_at(moved + LIMIT / 2), Ok(()));
        let stalled = Err(Stuck::Stalled { phase: Phase::Prepare, limit: LIMIT });
        assert_eq!(liveness.check_at(moved + LIMIT), stalled);
        assert!(!attempt.wedged.is_cancelled(), "who looks from outside decides nothing");
        attempt.waits();
        assert_eq!(liveness.check_at(moved + LIMIT), Ok(()), "one that waits cannot hang");
        attempt.prepares();
        assert_eq!(liveness.check_at(Instant::now() + LIMIT), stalled);
        attempt.end();
        assert_eq!(liveness.check_at(Instant::now() + LIMIT), Ok(()));
    }

    #[tokio::test]
    async fn a_heartbeat_that_is_not_sent_is_told_and_one_that_is_not_answered_is_not() {
        let liveness = running();
        let turns = Arc::clone(&liveness.0.running.get().unwrap().turns);
        let begun = turns.moved_at();
        let stuck = Err(Stuck::Heartbeat { silence: PATIENCE * 2 });
        assert_eq!(liveness.check_at(begun + PATIENCE * 2), stuck);
        turns.call(Instant::now(), async { Err::<(), ()>(()) }).await.unwrap().unwrap_err();
        assert!(turns.moved_at() > begun && turns.heard_at() <= begun);
    }
}
