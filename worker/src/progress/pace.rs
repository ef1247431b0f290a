//! When the running generation will be over.

use std::time::{Duration, Instant};

/// A moment and how far the run had come by then, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Mark {
    at: Instant,
    percent: f64,
}

/// Follows how fast a run moves and predicts its end.
///
/// The speed is that of the present phase, between its first sign of progress and its last: so neither what a phase
/// prepares nor the steps that a resumed run has skipped count. Until a phase has shown two signs, the speed of the
/// phase before it is taken.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pace {
    first: Option<Mark>,
    last: Option<Mark>,
    /// Of the phase before, in percent per second.
    speed_before: Option<f64>,
}

impl Pace {
    /// Takes note that a phase begins.
    pub(crate) fn enter(&mut self) {
        self.speed_before = self.speed();
        self.first = None;
        self.last = None;
    }

    /// Takes note of how far the run has come.
    pub(crate) fn note(&mut self, at: Instant, percent: f64) {
        let mark = Mark { at, percent };
        self.first.get_or_insert(mark);
        self.last = Some(mark);
    }

    /// Predicts how long it takes from `now` until the run has come to `end` percent; none as long as nothing is known, and
    /// once the run is later than predicted by more than `lateness`.
    pub(crate) fn remaining(&self, now: Instant, end: f64, lateness: Duration) -> Option<Duration> {
        let (last, speed) = (self.last?, self.speed()?);
        let left = Duration::try_from_secs_f64((end - last.percent).max(0.0) / speed).ok()?;
        let since = now.saturating_duration_since(last.at);
        (since <= left.saturating_add(lateness)).then(|| left.saturating_sub(since))
    }

    fn speed(&self) -> Option<f64> {
        let in_this_phase = || {
            let (first, last) = (self.first?, self.last?);
            let seconds = last.at.saturating_duration_since(first.at).as_secs_f64();
            let speed = (last.percent - first.percent) / seconds;
            (speed.is_finite() && speed > 0.0).then_some(speed)
        };
        in_this_phase().or(self.speed_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LATENESS: Duration = Duration::from_secs(10);

    #[test]
    fn nothing_is_predicted_before_two_signs_of_progress() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.remaining(start, 97.0, LATENESS), None);
        pace.note(start, 10.0);
        assert_eq!(pace.remaining(start + SECOND, 97.0, LATENESS), None);
        pace.note(start + SECOND, 10.0);
        assert_eq!(pace.remaining(start + SECOND, 97.0, LATENESS), None);
    }

    #[test]
    fn a_steady_run_ends_when_it_was_predicted_to() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        for second in 0..=10 {
            pace.note(start + second * SECOND, f64::from(second));
        }
        let now = start + 10 * SECOND;
        assert_eq!(pace.remaining(now, 97.0, LATENESS), Some(87 * SECOND));
        assert_eq!(pace.remaining(now + 7 * SECOND, 97.0, LATENESS), Some(80 * SECOND));
        assert_eq!(pace.remaining(now + 97 * SECOND, 97.0, LATENESS), Some(Duration::ZERO));
        assert_eq!(
            pace.remaining(now + 98 * SECOND, 97.0, LATENESS),
            None,
            "a run that is silent for longer is of no known end"
        );
    }

    #[test]
    fn steps_that_a_resumed_run_skips_do_not_count_as_speed() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        pace.note(start, 0.1);
        pace.enter();
        pace.note(start + SECOND, 60.0);
        pace.note(start + 11 * SECOND, 61.0);
        assert_eq!(pace.remaining(start + 11 * SECOND, 85.0, LATENESS), Some(240 * SECOND));
    }

    #[test]
    fn a_new_phase_goes_by_the_speed_of_the_one_before_until_it_has_its_own() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        pace.note(start, 80.0);
        pace.note(start + SECOND, 85.0);
        pace.enter();
        assert_eq!(pace.remaining(start + SECOND, 95.0, LATENESS), None);
        pace.note(start + 2 * SECOND, 85.0);
        assert_eq!(pace.remaining(start + 2 * SECOND, 95.0, LATENESS), Some(2 * SECOND));
        pace.note(start + 4 * SECOND, 86.0);
        assert_eq!(pace.remaining(start + 4 * SECOND, 96.0, LATENESS), Some(20 * SECOND));
    }
}
