//! From many measured times to the two that are told.

use std::time::Duration;

/// Measured times, shortest first.
#[derive(Debug)]
pub(super) struct Latencies(Vec<Duration>);

impl Latencies {
    /// Takes at least one time.
    pub(super) fn new(mut times: Vec<Duration>) -> Self {
        assert!(!times.is_empty(), "nothing was measured");
        times.sort_unstable();
        Self(times)
    }

    /// The time that `percent` of all are not longer than: the nearest rank.
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0[rank - 1]
    }
}

/// Writes a time in milliseconds.
pub(super) fn millis(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}

/// Writes how many of `count` were done each second.
pub(super) fn per_second(count: usize, time: Duration) -> String {
    format!("{:.0}", count as f64 / time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_time_that_was_measured() {
        let of = |count: u64| Latencies::new((1..=count).rev().map(Duration::from_millis).collect());
        assert_eq!(of(200).percentile(50), Duration::from_millis(100));
        assert_eq!(of(200).percentile(99), Duration::from_millis(198));
        assert_eq!(of(1).percentile(99), Duration::from_millis(1));
        assert_eq!(millis(of(3).percentile(50)), "2.00");
    }
}
