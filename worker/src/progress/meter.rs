//! From the engine's signs of life to the progress that a client sees.

use clapboard_engine::{Phase as EnginePhase, ProgressEvent};
use clapboard_jobs::{Phase, Progress};

/// Follows one run and knows how far it has come.
///
/// The percentage weighs the phases as they take time on a released checkpoint, where denoising is by far the longest.
/// It never falls, and stays below 100: that belongs to a stored result.
#[derive(Debug, Clone)]
pub struct Meter {
    progress: Progress,
    /// The percentage before it is rounded down.
    exact: f64,
}

/// The percentage at which the engine is done.
pub(crate) const GENERATED_PERCENT: f64 = ends_at(Phase::DecodeVideo) as f64;

/// Up to which percentage each phase leads.
const fn ends_at(phase: Phase) -> u8 {
    match phase {
        Phase::Prepare => 0,
        Phase::TextEncode => 3,
        Phase::Denoise => 85,
        Phase::DecodeAudio => 87,
        Phase::DecodeVideo => 97,
        Phase::Upload => Progress::MAX_PERCENT_UNSTORED,
    }
}

/// From which percentage each phase starts: where the one before it ends.
const fn begins_at(phase: Phase) -> u8 {
    match phase {
        Phase::Prepare | Phase::TextEncode => ends_at(Phase::Prepare),
        Phase::Denoise => ends_at(Phase::TextEncode),
        Phase::DecodeAudio => ends_at(Phase::Denoise),
        Phase::DecodeVideo => ends_at(Phase::DecodeAudio),
        Phase::Upload => ends_at(Phase::DecodeVideo),
    }
}

const fn phase_of(phase: EnginePhase) -> Phase {
    match phase {
        EnginePhase::TextEncode | EnginePhase::EncodeInputs => Phase::TextEncode,
        EnginePhase::Denoise => Phase::Denoise,
        EnginePhase::DecodeAudio => Phase::DecodeAudio,
        EnginePhase::DecodeVideo => Phase::DecodeVideo,
    }
}

impl Meter {
    /// Begins at nothing.
    pub const fn new() -> Self {
        Self { progress: Progress::START, exact: 0.0 }
    }

    /// Takes note of a sign of life.
    pub fn note(&mut self, event: ProgressEvent) {
        match event {
            ProgressEvent::Phase(phase) => self.enter(phase_of(phase)),
            ProgressEvent::Part { done, total } => {
                self.fraction(done, total);
                // The steps of denoising are those of the schedule, which have their own event.
                if self.progress.phase != Phase::Denoise {
                    self.steps(done, total);
                }
            }
            ProgressEvent::Step { done, total } => {
                self.fraction(done, total);
                self.steps(done, total);
            }
        }
    }

    /// Takes note that a phase begins.
    pub fn enter(&mut self, phase: Phase) {
        self.progress.phase = phase;
        self.progress.step = 0;
        self.progress.total_steps = 0;
        self.raise(f64::from(begins_at(phase)));
    }

    /// How far the run has come.
    pub const fn progress(&self) -> Progress {
        self.progress
    }

    /// How far the run has come, in percent that are not rounded.
    pub(crate) const fn exact_percent(&self) -> f64 {
        self.exact
    }

    fn steps(&mut self, done: usize, total: usize) {
        self.progress.total_steps = u32::try_from(total).unwrap_or(u32::MAX);
        self.progress.step = u32::try_from(done).unwrap_or(u32::MAX).min(self.progress.total_steps);
    }

    fn fraction(&mut self, done: usize, total: usize) {
        let (begin, end) = (begins_at(self.progress.phase), ends_at(self.progress.phase));
        let share = done.min(total) as f64 / total.max(1) as f64;
        self.raise(f64::from(begin) + f64::from(end - begin) * share);
    }

    fn raise(&mut self, percent: f64) {
        self.exact = self.exact.max(percent).min(f64::from(Progress::MAX_PERCENT_UNSTORED));
        // The sum of a whole number and its share of another may come out a rounding error below a whole number.
        self.progress.percent = (self.exact + 1e-9) as u8;
    }
}

impl Default for Meter {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a run with `layers` layers, `steps` steps of `blocks` blocks, and `tiles` tiles.
    fn run(layers: usize, steps: usize, blocks: usize, tiles: usize) -> Vec<ProgressEvent> {
        let mut events = vec![ProgressEvent::Phase(EnginePhase::TextEncode)];
        events.extend((1..=layers).map(|done| ProgressEvent::Part { done, total: layers }));
        events.push(ProgressEvent::Phase(EnginePhase::Denoise));
        for step in 1..=steps {
            let first = (step - 1) * blocks;
            events.extend((1..=blocks).map(|block| ProgressEvent::Part { done: first + block, total: steps * blocks }));
            events.push(ProgressEvent::Step { done: step, total: steps });
        }
        events.push(ProgressEvent::Phase(EnginePhase::DecodeAudio));
        events.push(ProgressEvent::Phase(EnginePhase::DecodeVideo));
        events.extend((1..=tiles).map(|done| ProgressEvent::Part { done, total: tiles }));
        events
    }

    #[test]
    fn the_percentage_only_grows_and_ends_below_a_hundred() {
        for (layers, steps, blocks, tiles) in [(50, 49, 40, 100), (1, 1, 1, 1), (3, 199, 2, 7)] {
            let mut meter = Meter::new();
            let mut percents = vec![meter.progress().percent];
            for event in run(layers, steps, blocks, tiles) {
                meter.note(event);
                percents.push(meter.progress().percent);
            }
            meter.enter(Phase::Upload);
            percents.push(meter.progress().percent);
            assert!(percents.is_sorted(), "{percents:?}");
            assert_eq!(percents.last(), Some(&97));
        }
    }

    #[test]
    fn denoising_shows_the_steps_of_the_schedule_and_moves_between_them() {
        let mut meter = Meter::new();
        meter.note(ProgressEvent::Phase(EnginePhase::Denoise));
        meter.note(ProgressEvent::Step { done: 1, total: 4 });
        let one = meter.progress();
        assert_eq!((one.phase, one.step, one.total_steps, one.percent), (Phase::Denoise, 1, 4, 23));
        meter.note(ProgressEvent::Part { done: 60, total: 160 });
        let between = meter.progress();
        assert_eq!((between.step, between.total_steps, between.percent), (1, 4, 33));
    }

    #[test]
    fn nonsense_counts_do_no_harm() {
        let mut meter = Meter::new();
        meter.note(ProgressEvent::Phase(EnginePhase::DecodeVideo));
        meter.note(ProgressEvent::Part { done: 7, total: 0 });
        meter.note(ProgressEvent::Part { done: 9, total: 3 });
        assert_eq!((meter.progress().step, meter.progress().percent), (3, 97));
    }
}
