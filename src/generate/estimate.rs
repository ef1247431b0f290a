//! How long a run still takes, as far as that can be known.

use std::time::Duration;

use clapboard_jobs::{Phase, Progress};

/// Before this much time, and below this percentage, there is nothing to reckon from.
const LEAST_TIME: Duration = Duration::from_secs(3);
const LEAST_PERCENT: u8 = 5;
/// Less than this would be shown as nothing.
const LEAST_LEFT: Duration = Duration::from_secs(1);

/// Reckons the time left from the time gone, and keeps silent when the reckoning has proved wrong.
///
/// The percentage weighs phases as they take time on a released checkpoint. Another may decode for longer than it
/// denoises: a phase that outlasts all the time that seemed left when it began shows that the weights do not hold.
#[derive(Debug, Default)]
pub(super) struct Estimate {
    phase: Option<Phase>,
    /// The time gone when the phase began.
    began: Duration,
    /// The time left as it seemed then.
    expected: Option<Duration>,
}

impl Estimate {
    /// Returns the time left after `elapsed`; none while that is unknown.
    pub(super) fn left(&mut self, progress: &Progress, elapsed: Duration) -> Option<Duration> {
        let left = by_percent(progress.percent, elapsed);
        if self.phase != Some(progress.phase) {
            *self = Self { phase: Some(progress.phase), began: elapsed, expected: left };
        }
        let in_phase = elapsed.saturating_sub(self.began);
        let is_overdue = self.expected.is_some_and(|expected| in_phase > expected);
        left.filter(|left| elapsed >= LEAST_TIME && *left >= LEAST_LEFT && !is_overdue)
    }
}

/// The time left if the rest goes as fast as what is done.
fn by_percent(percent: u8, elapsed: Duration) -> Option<Duration> {
    let rest = u32::from(100_u8.saturating_sub(percent));
    (percent >= LEAST_PERCENT).then(|| elapsed * rest / u32::from(percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(phase: Phase, percent: u8) -> Progress {
        Progress { phase, step: 0, total_steps: 0, percent }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_rest_goes_as_fast_as_what_is_done() {
        let mut estimate = Estimate::default();
        estimate.left(&at(Phase::Denoise, 3), seconds(10));
        assert_eq!(estimate.left(&at(Phase::Denoise, 20), seconds(100)), Some(seconds(400)));
        assert_eq!(estimate.left(&at(Phase::Denoise, 50), seconds(250)), Some(seconds(250)));
    }

    #[test]
    fn nothing_is_said_before_there_is_something_to_reckon_from() {
        let mut estimate = Estimate::default();
        assert_eq!(estimate.left(&at(Phase::Denoise, 40), seconds(2)), None);
        assert_eq!(estimate.left(&at(Phase::Denoise, 4), seconds(100)), None);
        assert_eq!(estimate.left(&at(Phase::Denoise, 40), seconds(3)), Some(Duration::from_millis(4500)));
    }

    #[test]
    fn the_time_left_grows_while_a_phase_is_stuck() {
        let mut estimate = Estimate::default();
        estimate.left(&at(Phase::Denoise, 3), seconds(1));
        let left = [10, 20, 40].map(|now| estimate.left(&at(Phase::Denoise, 40), seconds(now)).unwrap());
        assert_eq!(left, [seconds(15), seconds(30), seconds(60)]);
    }

    #[test]
    fn a_phase_that_outlasts_what_seemed_left_ends_the_guessing() {
        let mut estimate = Estimate::default();
        assert_eq!(estimate.left(&at(Phase::DecodeVideo, 80), seconds(40)), Some(seconds(10)));
        assert!(estimate.left(&at(Phase::DecodeVideo, 80), seconds(50)).is_some());
        assert_eq!(estimate.left(&at(Phase::DecodeVideo, 80), seconds(51)), None);
        assert_eq!(estimate.left(&at(Phase::DecodeVideo, 90), seconds(300)), None);
        assert!(estimate.left(&at(Phase::Upload, 97), seconds(301)).is_some(), "each phase is judged anew");
    }

    #[test]
    fn nothing_left_is_never_said() {
        for percent in 0..=100 {
            for gone in 0..60 {
                let left = Estimate::default().left(&at(Phase::DecodeVideo, percent), seconds(gone));
                assert!(left.is_none_or(|left| left >= LEAST_LEFT), "{percent} % after {gone} s: {left:?}");
            }
        }
    }
}
