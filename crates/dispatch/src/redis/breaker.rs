//! Leaving a server alone that has just failed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a server that failed is left alone.
pub(super) const REST: Duration = Duration::from_secs(1);

/// Lets one call try a server that has failed, once in a while, and refuses all others at once.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    open: Mutex<Option<Open>>,
}

/// Until when calls are refused, and what went wrong before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) until: Instant,
    pub(super) why: String,
}

impl Breaker {
    /// Says whether a call may be made at `now`. The call that is let through after a failure is the only one until it
    /// has told how it went, or has taken as long as a rest.
    pub(super) fn admit(&self, now: Instant) -> Result<(), Open> {
        match self.lock().as_mut() {
            None => Ok(()),
            Some(open) if now < open.until => Err(open.clone()),
            Some(open) => {
                open.until = now + REST;
                Ok(())
            }
        }
    }

    /// Returns what refuses calls at `now`, and is not changed by the question.
    pub(super) fn open_at(&self, now: Instant) -> Option<Open> {
        self.lock().clone().filter(|open| now < open.until)
    }

    /// Notes a failure.
    pub(super) fn trip(&self, now: Instant, why: String) {
        *self.lock() = Some(Open { until: now + REST, why });
    }

    /// Notes an answer.
    pub(super) fn reset(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        // It holds one value, written whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failure_one_call_per_rest_is_let_through_until_one_succeeds() {
        let breaker = Breaker::default();
        let start = Instant::now();
        assert_eq!(breaker.admit(start), Ok(()));
        breaker.trip(start, "gone".to_owned());
        let almost = start + REST - Duration::from_millis(1);
        assert_eq!(breaker.admit(almost), Err(Open { until: start + REST, why: "gone".to_owned() }));
        assert!(breaker.open_at(almost).is_some());
        assert_eq!(breaker.open_at(start + REST), None);
        assert_eq!(breaker.admit(start + REST), Ok(()));
        assert!(breaker.admit(start + REST).is_err());
        breaker.reset();
        assert_eq!(breaker.admit(start + REST), Ok(()));
        assert_eq!(breaker.admit(start + REST), Ok(()));
    }
}
