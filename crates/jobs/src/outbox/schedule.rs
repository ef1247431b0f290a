//! When a delivery is tried again.

use std::time::Duration;

/// The waits between the tries, each counted from the end of the one before: about three days together.
const WAITS_S: [u64; 9] = [5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 14 * 3600, 20 * 3600, 24 * 3600];

/// How often a delivery is tried before it is given up: at once, and after each wait.
pub const MAX_TRIES: u32 = 1 + WAITS_S.len() as u32;

/// The longest that a receiver may ask not to be tried again.
pub(super) const LONGEST_ASKED: Duration = Duration::from_secs(24 * 3600);

/// Returns how long a delivery waits after its try `number` (from 1) has failed; none when it was the last.
///
/// The wait of the schedule, or what the receiver `asked` for where that is longer, and up to a fifth more by `entropy`, so
/// that what failed together is not tried together.
pub fn after_failure(number: u32, asked: Option<Duration>, entropy: u64) -> Option<Duration> {
    let index = usize::try_from(number.max(1) - 1).unwrap_or(usize::MAX);
    let scheduled = Duration::from_secs(*WAITS_S.get(index)?);
    let wait = scheduled.max(asked.unwrap_or_default().min(LONGEST_ASKED));
    let fifth = u64::try_from(wait.as_micros() / 5).expect("a day in microseconds fits 64 bits");
    Some(wait + Duration::from_micros(entropy % (fifth + 1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_schedule_is_that_of_standard_webhooks() {
        let waits: Vec<Option<u64>> = (1..=10).map(|n| after_failure(n, None, 0).map(|wait| wait.as_secs())).collect();
        let expected = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400];
        assert_eq!(waits[..9], expected.map(Some));
        assert_eq!(waits[9], None);
        assert_eq!(after_failure(MAX_TRIES, None, 7), None);
        assert_eq!(after_failure(0, None, 0), Some(Duration::from_secs(5)));
    }

    #[test]
    fn a_receiver_is_heard_within_reason() {
        let asked = |seconds| after_failure(1, Some(Duration::from_secs(seconds)), 0).map(|wait| wait.as_secs());
        assert_eq!((asked(1), asked(60), asked(u64::MAX)), (Some(5), Some(60), Some(86_400)));
    }

    proptest! {
        #[test]
        fn the_spread_is_a_fifth_at_most(number in 1u32..10, entropy in any::<u64>()) {
            let least = after_failure(number, None, 0).unwrap();
            let wait = after_failure(number, None, entropy).unwrap();
            prop_assert!(wait >= least && wait <= least + least / 5);
        }
    }
}
