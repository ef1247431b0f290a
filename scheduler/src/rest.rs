//! How long sweeps rest.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use clapboard_jobs::{Micros, Store};

use crate::error::Error;
use crate::options::Options;
use crate::sweep::Sweep;

/// How long a sweep may wait for the store to say when something falls due: it goes by its interval then.
const PATIENCE: Duration = Duration::from_millis(500);
/// Within how much more than the moment itself replicas wake for what falls due, so that they do not all come at once.
const DUE_SPREAD: Duration = Duration::from_millis(200);
/// The longest rest after a failure of the job store. Leases go on ending while it is away.
const LONGEST_STORE_RETRY: Duration = Duration::from_secs(2);
/// The longest rest after any other failure.
const LONGEST_RETRY: Duration = Duration::from_secs(300);

/// Asks for the time, for a sweep that wakes when something falls due; none when the store does not say.
pub(crate) async fn time(store: &dyn Store) -> Option<Micros> {
    match tokio::time::timeout(PATIENCE, store.now()).await {
        Ok(Ok(now)) => Some(now),
        Ok(Err(_)) | Err(_) => None,
    }
}

/// Returns how long it is until something falls due that was not due at `before`; none when nothing will, or the store does
/// not say.
pub(crate) async fn until_due(store: &dyn Store, before: Micros) -> Option<Duration> {
    let due = match tokio::time::timeout(PATIENCE, store.next_due(before)).await {
        Ok(Ok(due)) => due?,
        Ok(Err(_)) | Err(_) => return None,
    };
    Some(due.since(time(store).await?))
}

/// Returns how long to rest: until the next moment that matters, at most the interval.
pub(crate) fn rest(until_due: Option<Duration>, interval: Duration) -> Duration {
    let interval = shortened(interval);
    let due = until_due.map_or(interval, |until| until.saturating_add(DUE_SPREAD.mul_f64(random())));
    due.min(interval).max(Options::LEAST_INTERVAL)
}

/// Returns how long to rest after the `failures`-th failure in a row: twice as long after each, up to a bound.
///
/// A job store that is away is tried again within seconds. What else may be away is looked for no more often than the sweep
/// runs anyway.
pub(crate) fn retry(sweep: &dyn Sweep, error: &Error, failures: u32) -> Duration {
    let interval = sweep.interval();
    let longest = match error {
        Error::Store(_) => interval.min(LONGEST_STORE_RETRY),
        Error::Dispatch(_) | Error::Blob(_) => interval.min(LONGEST_RETRY),
    };
    let doublings = failures.saturating_sub(1).min(16);
    let doubled = Options::LEAST_INTERVAL.saturating_mul(1 << doublings);
    shortened(doubled.min(longest)).max(Options::LEAST_INTERVAL)
}

/// Returns between three quarters of a time and all of it, so that replicas that started together drift apart.
fn shortened(time: Duration) -> Duration {
    time.mul_f64(0.75 + 0.25 * random())
}

/// Returns a number from 0 to 1.
fn random() -> f64 {
    // The standard library's hasher keys are random for every state: no more is needed here.
    let random = RandomState::new().hash_one(0u8) % 1024;
    random as f64 / 1024.0
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use clapboard_jobs::{DispatchError, StoreError};

    use super::*;
    use crate::sweep::Swept;

    const INTERVAL: Duration = Duration::from_secs(5);

    #[test]
    fn a_rest_ends_when_something_falls_due_and_at_the_interval() {
        for _ in 0..100 {
            let two = Duration::from_secs(2);
            let due = rest(Some(two), INTERVAL);
            assert!(due >= two && due <= two + DUE_SPREAD, "{due:?}");
            for until_due in [None, Some(Duration::from_secs(60)), Some(Duration::MAX)] {
                let whole = rest(until_due, INTERVAL);
                assert!(whole >= INTERVAL.mul_f64(0.75) && whole <= INTERVAL, "{whole:?}");
            }
        }
    }

    #[test]
    fn what_is_due_already_does_not_make_it_spin() {
        for _ in 0..100 {
            let soon = rest(Some(Duration::ZERO), INTERVAL);
            assert!(soon >= Options::LEAST_INTERVAL && soon <= DUE_SPREAD, "{soon:?}");
        }
    }

    /// A sweep of some interval.
    struct Every(Duration);

    #[async_trait]
    impl Sweep for Every {
        fn name(&self) -> &'static str {
            "every"
        }

        fn interval(&self) -> Duration {
            self.0
        }

        fn when_due(&self) -> bool {
            false
        }

        async fn sweep_once(&self) -> Result<Swept, Error> {
            Ok(Swept { done: 0, more: false })
        }
    }

    #[test]
    fn a_store_that_is_away_is_tried_again_within_seconds_and_never_at_once() {
        let error = Error::Store(StoreError::Unavailable { doing: "testing", source: "away".into() });
        for interval in [Duration::from_millis(1500), Duration::from_secs(60), Duration::from_secs(6 * 3600)] {
            let sweep = Every(interval);
            assert!(retry(&sweep, &error, 1) <= Options::LEAST_INTERVAL);
            for failures in [1, 2, 10, 1000, u32::MAX] {
                let wait = retry(&sweep, &error, failures);
                assert!(wait >= Options::LEAST_INTERVAL && wait <= LONGEST_STORE_RETRY, "{wait:?}");
            }
        }
    }

    #[test]
    fn a_dispatcher_that_is_away_is_not_looked_for_more_often_than_usual() {
        let error = Error::Dispatch(DispatchError { doing: "testing", source: "away".into() });
        let wait = retry(&Every(INTERVAL), &error, 100);
        assert!(wait >= INTERVAL.mul_f64(0.75) && wait <= INTERVAL, "{wait:?}");
        assert!(retry(&Every(Duration::from_secs(6 * 3600)), &error, 100) <= LONGEST_RETRY);
    }
}
