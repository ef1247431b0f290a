//! Times as the store keeps them.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A moment of the store's clock, in microseconds since 1970-01-01 UTC.
///
/// Only the store reads the clock: workers never send a time, so their clocks may be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(pub i64);

impl Micros {
    /// Returns the whole seconds since 1970, rounded down: what the API shows.
    pub const fn unix_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Returns the moment `by` later; it stops at the end of time instead of wrapping.
    pub fn plus(self, by: Duration) -> Self {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(by))
    }

    /// Returns how long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0).max(0);
        Duration::from_micros(micros.unsigned_abs())
    }

    /// Converts the standard library's time; moments before 1970 become 1970.
    pub fn from_system_time(time: SystemTime) -> Self {
        Self(0).plus(time.duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} µs", self.0)
    }
}

/// Tells the time to a store that has no server to ask for it.
pub trait Clock: Send + Sync {
    /// Returns the present moment.
    fn now(&self) -> Micros;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Micros {
        Micros::from_system_time(SystemTime::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_down() {
        assert_eq!(Micros(1_999_999).unix_seconds(), 1);
        assert_eq!(Micros(-1).unix_seconds(), -1);
    }

    #[test]
    fn arithmetic_stops_at_the_ends() {
        assert_eq!(Micros(i64::MAX).plus(Duration::MAX), Micros(i64::MAX));
        assert_eq!(Micros(1).since(Micros(2)), Duration::ZERO);
        assert_eq!(Micros(5_000_000).plus(Duration::from_secs(1)).since(Micros(5_000_000)), Duration::from_secs(1));
    }

    #[test]
    fn system_times_keep_their_microseconds() {
        let moment = Micros(1_764_499_200_123_456);
        assert_eq!(Micros::from_system_time(UNIX_EPOCH + moment.since(Micros(0))), moment);
    }
}
