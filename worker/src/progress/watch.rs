//! What the engine, the heartbeat and the attempt tell each other while a job runs.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clapboard_engine::{Command, Control, Phase as EnginePhase, ProgressEvent};
use clapboard_h3::Partition;
use clapboard_jobs::{Phase, Progress};
use clapboard_telemetry::metrics::names;
use clapboard_telemetry::traces;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::options::StallLimits;
use crate::progress::meter::{GENERATED_PERCENT, Meter};
use crate::progress::pace::Pace;

/// Why an attempt is stopped before its end, the weightiest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StopCause {
    /// The worker drains.
    Drain,
    /// Somebody wants the job cancelled.
    Cancelled,
    /// No beat got through, and the lease may be given away soon.
    Fenced,
    /// The job is no longer this claim's.
    LeaseLost,
}

/// An engine that stopped moving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stall {
    pub(crate) phase: Phase,
    pub(crate) limit: Duration,
}

/// How far an attempt has come on its way through the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It makes ready what the engine will need.
    Preparing,
    /// It waits for the engine or for the media store, where nothing moves, or for a decoder, which is watched over by
    /// itself.
    Waiting,
    /// It has the engine.
    Generating,
    /// Its video is encoded and stored, for which no engine has to be stopped.
    Finishing,
}

/// One attempt as its three threads see it: the engine's [`Control`] and [`clapboard_engine::Progress`] in one.
#[derive(Debug)]
pub(crate) struct Watch {
    stall_limits: StallLimits,
    /// The attempt's, for what the engine's thread logs, and what the stages are traced below.
    span: tracing::Span,
    /// The partition of the job, for metrics.
    partition: &'static str,
    command: AtomicU8,
    state: Mutex<State>,
    /// The engine has given its first sign of life.
    pub(crate) begun: CancellationToken,
    /// The attempt is to stop, for whatever cause.
    pub(crate) stopping: CancellationToken,
    /// The attempt is to be given up, and nothing of it is wanted any more: every cause but a drain.
    pub(crate) abandoned: CancellationToken,
    /// A drain has lasted as long as it may.
    pub(crate) overdue: CancellationToken,
    /// The engine has stopped moving.
    pub(crate) wedged: CancellationToken,
    /// How the attempt ends is being written: that its claim holds no more is no news.
    pub(crate) ending: CancellationToken,
    /// The attempt is over, however it ended.
    pub(crate) over: CancellationToken,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    meter: Meter,
    pace: Pace,
    /// What the engine is at, and since when.
    phase: Option<Running>,
    moved_at: Instant,
    lease_until: Instant,
    cause: Option<StopCause>,
    /// When somebody was first heard to want the job cancelled.
    cancelled_at: Option<Instant>,
    stall: Option<Stall>,
}

/// A phase of the engine that is under way.
#[derive(Debug)]
struct Running {
    phase: EnginePhase,
    since: Instant,
    /// When the last step was done, or the phase began.
    step_at: Instant,
    span: tracing::Span,
}

const RUN: u8 = 0;
const STOP: u8 = 1;
const CANCEL: u8 = 2;

impl Watch {
    /// Begins an attempt, that of the current span, whose lease lasts until `lease_until` unless it is renewed.
    pub(crate) fn new(stall_limits: StallLimits, lease_until: Instant) -> Self {
        let state = State {
            stage: Stage::Preparing,
            meter: Meter::new(),
            pace: Pace::default(),
            phase: None,
            moved_at: Instant::now(),
            lease_until,
            cause: None,
            cancelled_at: None,
            stall: None,
        };
        Self {
            stall_limits,
            span: tracing::Span::current(),
            partition: "unknown",
            command: AtomicU8::new(RUN),
            state: Mutex::new(state),
            begun: CancellationToken::new(),
            stopping: CancellationToken::new(),
            abandoned: CancellationToken::new(),
            overdue: CancellationToken::new(),
            wedged: CancellationToken::new(),
            ending: CancellationToken::new(),
            over: CancellationToken::new(),
        }
    }

    /// Says of which partition the job is.
    pub(crate) fn of(self, partition: Partition) -> Self {
        Self { partition: partition.as_str(), ..self }
    }

    /// The partition of the job, as metrics have it.
    pub(crate) fn partition(&self) -> &'static str {
        self.partition
    }

    /// The span of the attempt.
    pub(crate) fn span(&self) -> &tracing::Span {
        &self.span
    }

    /// Does a part of the attempt as a stage of its trace, and takes note of how long that took.
    pub(crate) async fn timed<T>(&self, name: &'static str, work: impl Future<Output = T>) -> T {
        let since = Instant::now();
        let done = work.instrument(traces::stage(&self.span, name)).await;
        names::JOB_PHASE_SECONDS.record(since.elapsed(), [self.partition, name]);
        done
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each statement leaves the state whole, so a panic elsewhere leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far the attempt has come.
    pub(crate) fn progress(&self) -> Progress {
        self.state().meter.progress()
    }

    /// Takes note that the worker itself begins a phase.
    pub(crate) fn enter(&self, phase: Phase) {
        let mut state = self.state();
        state.meter.enter(phase);
        state.moved_at = Instant::now();
    }

    /// Where the attempt is.
    pub(crate) fn stage(&self) -> Stage {
        self.state().stage
    }

    /// Takes note that there is nothing to do but to wait, for the engine, for what is no part of this machine or for what is
    /// watched over by itself.
    pub(crate) fn waits(&self) {
        self.state().stage = Stage::Waiting;
    }

    /// Takes note that something is made ready again.
    pub(crate) fn prepares(&self) {
        let mut state = self.state();
        state.stage = Stage::Preparing;
        state.moved_at = Instant::now();
    }

    /// Takes note that the attempt has the engine.
    pub(crate) fn seated(&self) {
        let mut state = self.state();
        state.stage = Stage::Generating;
        state.moved_at = Instant::now();
    }

    /// Takes note that the engine is done with its last phase.
    pub(crate) fn generated(&self) {
        let ended = {
            let mut state = self.state();
            state.stage = Stage::Finishing;
            state.moved_at = Instant::now();
            state.phase.take()
        };
        self.tell(ended);
    }

    /// Predicts for how long the attempt still needs the engine; none as long as nothing is known, once it is later than
    /// predicted by more than `lateness`, and while it only waits for room to finish its video.
    pub(crate) fn remaining(&self, now: Instant, lateness: Duration) -> Option<Duration> {
        let state = self.state();
        if state.stage == Stage::Finishing { None } else { state.pace.remaining(now, GENERATED_PERCENT, lateness) }
    }

    /// Logs and measures a phase that has ended just now, whose span ends as well.
    fn tell(&self, ended: Option<Running>) {
        if let Some(Running { phase, since, .. }) = ended {
            let took = since.elapsed();
            names::JOB_PHASE_SECONDS.record(took, [self.partition, phase.as_str()]);
            let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            self.span.in_scope(|| tracing::info!(%phase, duration_ms, "a phase is done"));
        }
    }

    /// Takes note of a sign of life that is no progress.
    pub(crate) fn touch(&self) {
        self.state().moved_at = Instant::now();
    }

    /// Until when the lease lasts at least, by this machine's monotonic clock.
    pub(crate) fn lease_until(&self) -> Instant {
        self.state().lease_until
    }

    /// Takes note that the lease was renewed.
    pub(crate) fn renewed(&self, until: Instant) {
        self.state().lease_until = until;
    }

    /// Stops the attempt; a weightier cause replaces a lighter one.
    pub(crate) fn stop(&self, cause: StopCause) {
        let cause = {
            let mut state = self.state();
            let weightier = state.cause.map_or(cause, |known| known.max(cause));
            state.cause = Some(weightier);
            if cause == StopCause::Cancelled {
                state.cancelled_at.get_or_insert_with(Instant::now);
            }
            weightier
        };
        if cause == StopCause::Drain {
            self.command.store(STOP, Ordering::Relaxed);
        } else {
            self.command.store(CANCEL, Ordering::Relaxed);
            self.abandoned.cancel();
        }
        self.stopping.cancel();
    }

    /// Why the attempt is stopped, if it is.
    pub(crate) fn cause(&self) -> Option<StopCause> {
        self.state().cause
    }

    /// When somebody was first heard to want the job cancelled.
    pub(crate) fn cancelled_at(&self) -> Option<Instant> {
        self.state().cancelled_at
    }

    /// Looks whether anything still moves, and tells nobody.
    pub(crate) fn stalled(&self, now: Instant) -> Option<Stall> {
        self.stall_of(&self.state(), now)
    }

    fn stall_of(&self, state: &State, now: Instant) -> Option<Stall> {
        if state.stage == Stage::Waiting {
            return None;
        }
        let phase = state.meter.progress().phase;
        let limit = self.stall_limits.of(phase);
        (now.saturating_duration_since(state.moved_at) >= limit).then_some(Stall { phase, limit })
    }

    /// Looks whether the engine still moves; the first time that it does not, everybody is told.
    pub(crate) fn look(&self, now: Instant) -> Option<Stall> {
        let stall = {
            let mut state = self.state();
            let stall = self.stall_of(&state, now)?;
            *state.stall.get_or_insert(stall)
        };
        self.wedged.cancel();
        Some(stall)
    }

    /// How the engine stopped moving, once it has.
    pub(crate) fn stall(&self) -> Option<Stall> {
        self.state().stall
    }

    /// Ends the attempt: beats stop, and an engine that still runs is told to.
    pub(crate) fn end(&self) {
        self.over.cancel();
        self.command.store(CANCEL, Ordering::Relaxed);
    }
}

impl Control for Watch {
    fn command(&self) -> Command {
        match self.command.load(Ordering::Relaxed) {
            RUN => Command::Run,
            STOP => Command::CheckpointAndStop,
            _ => Command::Cancel,
        }
    }
}

impl clapboard_engine::Progress for Watch {
    fn report(&self, event: ProgressEvent) {
        let ended = {
            let mut state = self.state();
            let now = Instant::now();
            state.meter.note(event);
            state.moved_at = now;
            match event {
                ProgressEvent::Phase(phase) => {
                    state.pace.enter();
                    let span = traces::stage(&self.span, phase.as_str());
                    state.phase.replace(Running { phase, since: now, step_at: now, span })
                }
                ProgressEvent::Part { .. } | ProgressEvent::Step { .. } => {
                    if let (ProgressEvent::Step { done, total }, Some(running)) = (event, &mut state.phase) {
                        traces::step(&running.span, done, total);
                        names::GPU_STEP_SECONDS.record(now.duration_since(running.step_at), [self.partition]);
                        running.step_at = now;
                    }
                    let percent = state.meter.exact_percent();
                    state.pace.note(now, percent);
                    None
                }
            }
        };
        self.tell(ended);
        self.begun.cancel();
    }

    /// Weights that are loaded for a job are no beginning of it: it is not to blame for what comes of that.
    fn loading(&self) {
        self.touch();
    }
}

#[cfg(test)]
mod tests {
    use clapboard_engine::Progress as _;

    use super::*;

    fn watch() -> Watch {
        Watch::new(StallLimits::all(Duration::from_secs(10)), Instant::now() + Duration::from_secs(60))
    }

    #[test]
    fn a_weightier_cause_replaces_a_lighter_one_and_not_the_other_way() {
        let watch = watch();
        assert_eq!(watch.command(), Command::Run);
        watch.stop(StopCause::Drain);
        assert_eq!(watch.command(), Command::CheckpointAndStop);
        assert!(watch.stopping.is_cancelled() && !watch.abandoned.is_cancelled());
        watch.stop(StopCause::LeaseLost);
        watch.stop(StopCause::Cancelled);
        watch.stop(StopCause::Drain);
        assert_eq!(watch.cause(), Some(StopCause::LeaseLost));
        assert_eq!(watch.command(), Command::Cancel);
        assert!(watch.abandoned.is_cancelled());
    }

    #[test]
    fn an_engine_is_wedged_when_its_phases_limit_has_passed_without_a_sign() {
        let mut limits = StallLimits::all(Duration::from_secs(10));
        limits.denoise = Duration::from_secs(100);
        let watch = Watch::new(limits, Instant::now());
        watch.waits();
        assert_eq!(watch.look(Instant::now() + Duration::from_secs(1000)), None, "one that waits cannot hang");
        watch.seated();
        watch.report(ProgressEvent::Phase(EnginePhase::Denoise));
        let moved = Instant::now();
        assert_eq!(watch.look(moved + Duration::from_secs(99)), None);
        assert!(!watch.wedged.is_cancelled());
        let stall = watch.look(moved + Duration::from_secs(100)).unwrap();
        assert_eq!((stall.phase, stall.limit), (Phase::Denoise, Duration::from_secs(100)));
        assert_eq!(watch.stall(), Some(stall));
        assert!(watch.wedged.is_cancelled());
    }

    #[test]
    fn an_attempt_that_makes_ready_may_hang_as_any_other() {
        let watch = watch();
        assert_eq!(watch.look(Instant::now() + Duration::from_secs(1)), None);
        let stall = watch.look(Instant::now() + Duration::from_secs(11)).unwrap();
        assert_eq!(stall.phase, Phase::Prepare);
    }

    #[test]
    fn an_attempt_that_only_finishes_predicts_nothing_of_its_engine() {
        let (watch, soon) = (watch(), Duration::from_secs(60));
        watch.seated();
        watch.report(ProgressEvent::Phase(EnginePhase::Denoise));
        for done in [10, 20] {
            std::thread::sleep(Duration::from_millis(1));
            watch.report(ProgressEvent::Part { done, total: 100 });
        }
        assert!(watch.remaining(Instant::now(), soon).is_some());
        watch.generated();
        assert_eq!(watch.remaining(Instant::now(), soon), None);
    }

    #[test]
    fn an_engine_that_loads_weights_moves_and_has_not_begun() {
        let watch = Watch::new(StallLimits::all(Duration::from_millis(200)), Instant::now());
        watch.seated();
        std::thread::sleep(Duration::from_millis(1));
        let before = Instant::now();
        watch.loading();
        assert_eq!(watch.look(before + Duration::from_millis(200)), None);
        assert!(!watch.begun.is_cancelled());
        let stall = watch.look(Instant::now() + Duration::from_millis(200)).unwrap();
        assert_eq!(stall.phase, Phase::Prepare);
    }

    #[test]
    fn the_first_sign_of_life_is_told() {
        let watch = watch();
        assert!(!watch.begun.is_cancelled());
        watch.report(ProgressEvent::Phase(EnginePhase::TextEncode));
        assert!(watch.begun.is_cancelled());
    }
}
