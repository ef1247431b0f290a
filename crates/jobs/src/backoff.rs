//! How long a job waits before its next attempt, and garbage before it is deleted once more.

use std::time::Duration;

/// The longest wait after a first attempt.
pub const BASE: Duration = Duration::from_secs(5);
/// The longest wait after any attempt, and the longest that a worker may ask for.
pub const CAP: Duration = Duration::from_secs(600);

/// Returns the wait after attempt number `attempt` (from 1): between half of and the whole of `BASE * 2^(attempt-1)`,
/// and never above [`CAP`].
///
/// `entropy` spreads jobs that failed together; the same entropy gives the same wait.
pub fn delay(attempt: u32, entropy: u64) -> Duration {
    let doublings = attempt.saturating_sub(1).min(31);
    let longest = BASE.saturating_mul(1 << doublings).min(CAP);
    let half = longest / 2;
    let spread = half.as_micros() + 1;
    let extra = u128::from(entropy) % spread;
    half + Duration::from_micros(u64::try_from(extra).expect("half of CAP in microseconds fits 64 bits"))
}

/// Returns the wait that a worker asked for, bounded by [`CAP`], or else the backoff.
pub fn delay_or(asked: Option<Duration>, attempt: u32, entropy: u64) -> Duration {
    asked.map_or_else(|| delay(attempt, entropy), |asked| asked.min(CAP))
}

/// The wait of garbage whose object could not be deleted for the first time.
pub const GARBAGE_BASE: Duration = Duration::from_secs(60);
/// The failure from which on the wait stays the same.
pub const GARBAGE_STEPS: u32 = 12;

/// Returns how long garbage waits after its object could not be deleted for the `failures`-th time: twice as long each time,
/// up to a day and a half.
pub fn garbage_delay(failures: u32) -> Duration {
    GARBAGE_BASE * (1 << failures.clamp(1, GARBAGE_STEPS).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_wait_stays_within_its_bounds(attempt in any::<u32>(), entropy in any::<u64>()) {
            let wait = delay(attempt, entropy);
            prop_assert!(wait >= BASE / 2);
            prop_assert!(wait <= CAP);
        }

        #[test]
        fn the_wait_never_gets_shorter_from_one_attempt_to_the_next(attempt in 1u32..64, a in any::<u64>(), b in any::<u64>()) {
            let shortest_next = delay(attempt + 1, a);
            let this = delay(attempt, b);
            // Half of the next bound is the whole of this one, until both stand at the cap.
            prop_assert!(shortest_next >= this || shortest_next >= CAP / 2);
        }

        #[test]
        fn what_a_worker_asks_for_is_bounded_too(seconds in any::<u64>()) {
            prop_assert!(delay_or(Some(Duration::from_secs(seconds)), 1, 0) <= CAP);
        }
    }

    #[test]
    fn the_spread_reaches_both_ends() {
        assert_eq!(delay(1, 0), BASE / 2);
        assert_eq!(delay(1, 2_500_000), BASE);
        assert_eq!(delay(3, 0), BASE * 2);
    }

    #[test]
    fn a_wait_that_was_asked_for_is_kept() {
        assert_eq!(delay_or(Some(Duration::from_secs(7)), 3, 99), Duration::from_secs(7));
        assert_eq!(delay_or(None, 1, 0), BASE / 2);
    }

    #[test]
    fn garbage_waits_twice_as_long_each_time_up_to_a_bound() {
        assert_eq!((garbage_delay(0), garbage_delay(1)), (GARBAGE_BASE, GARBAGE_BASE));
        assert_eq!((garbage_delay(2), garbage_delay(3)), (GARBAGE_BASE * 2, GARBAGE_BASE * 4));
        let longest = garbage_delay(u32::MAX);
        assert_eq!(garbage_delay(GARBAGE_STEPS), longest);
        assert!(garbage_delay(GARBAGE_STEPS - 1) < longest);
        assert!(longest > Duration::from_secs(24 * 3600) && longest < Duration::from_secs(48 * 3600), "{longest:?}");
    }
}
