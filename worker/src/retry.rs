//! Waiting between tries, so that many who failed together do not come back together.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The longest wait after a first try.
const BASE: Duration = Duration::from_millis(200);
/// The longest wait after any try.
const CAP: Duration = Duration::from_secs(5);

/// Waits that double up to a few seconds, each spread over its second half.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    tries: u32,
}

impl Waits {
    /// Returns how long to wait before the next try.
    pub(crate) fn next(&mut self) -> Duration {
        let longest = BASE.saturating_mul(1 << self.tries.min(16)).min(CAP);
        self.tries = self.tries.saturating_add(1);
        spread(longest)
    }
}

/// A random duration between half of `longest` and all of it.
pub(crate) fn spread(longest: Duration) -> Duration {
    let half = longest / 2;
    // The standard library's hasher keys are random for every state: no more is needed to keep workers apart.
    let random = RandomState::new().hash_one(0u8) % 1024;
    half + half.mul_f64(random as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_and_stay_within_bounds() {
        let mut waits = Waits::default();
        let first = waits.next();
        assert!(first >= BASE / 2 && first <= BASE);
        let later: Vec<Duration> = (0..100).map(|_| waits.next()).collect();
        assert!(later.iter().all(|wait| *wait >= BASE / 2 && *wait <= CAP));
        assert!(later[50..].iter().all(|wait| *wait >= CAP / 2));
    }
}
