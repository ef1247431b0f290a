//! How often a client may ask.

use std::time::Duration;

use async_trait::async_trait;

/// A rate: so many requests a minute, and as many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Requests a minute; above zero.
    pub per_minute: u32,
}

/// What a limiter says to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// It may go on.
    pub allowed: bool,
    /// How many there may be at once.
    pub limit: u32,
    /// How many more there may be now.
    pub remaining: u32,
    /// How long until there may be `limit` at once again.
    pub reset: Duration,
    /// How long until the next one may be; zero while there may be one now.
    pub retry_after: Duration,
}

impl Rate {
    /// Decides by the generic cell rate algorithm. `full_at` is when there may be a whole burst again, by the clock that says
    /// `now`; beside the answer, returns what to keep as that.
    pub fn decide(self, full_at: Option<Duration>, now: Duration) -> (Allowance, Duration) {
        let limit = self.per_minute.max(1);
        // Whole nanoseconds, so that a burst is exactly as many as the limit.
        let each = Duration::from_secs(60) / limit;
        let burst = each * limit;
        let full_at = full_at.map_or(now, |at| at.max(now));
        let allowed = full_at + each - now <= burst;
        let kept = if allowed { full_at + each } else { full_at };
        let reset = kept - now;
        let room = burst.saturating_sub(reset);
        let remaining = u32::try_from(room.as_nanos() / each.as_nanos()).unwrap_or(limit);
        let retry_after = if remaining > 0 { Duration::ZERO } else { (reset + each).saturating_sub(burst) };
        (Allowance { allowed, limit, remaining, reset, retry_after }, kept)
    }
}

/// Counts requests.
#[async_trait]
pub trait Limiter: Send + Sync {
    /// Counts one request of `who`, unless it goes beyond the rate. Always answers: where what counts for all processes cannot
    /// be reached, it counts for this one alone.
    async fn take(&self, who: &str, rate: Rate) -> Allowance;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(1_000_000 + millis)
    }

    #[test]
    fn as_many_as_the_limit_come_at_once_and_then_one_by_one() {
        let rate = Rate { per_minute: 3 };
        let mut kept = None;
        let mut ask = |millis| {
            let (said, next) = rate.decide(kept, at(millis));
            kept = Some(next);
            (said.allowed, said.remaining, said.retry_after.as_secs(), said.reset.as_secs())
        };
        assert_eq!(ask(0), (true, 2, 0, 20));
        assert_eq!(ask(0), (true, 1, 0, 40));
        assert_eq!(ask(0), (true, 0, 20, 60));
        assert_eq!(ask(1_000), (false, 0, 19, 59));
        assert_eq!(ask(20_000), (true, 0, 20, 60));
        assert_eq!(ask(200_000), (true, 2, 0, 20));
    }

    proptest! {
        #[test]
        fn within_a_minute_no_more_than_twice_the_limit_pass(
            per_minute in 1u32..200, pauses in prop::collection::vec(0u64..2_000, 1..400)
        ) {
            let rate = Rate { per_minute };
            let (mut kept, mut now, mut passed) = (None, 0, Vec::new());
            for pause in pauses {
                now += pause;
                let (said, next) = rate.decide(kept, at(now));
                kept = Some(next);
                if said.allowed { passed.push(now); }
                prop_assert!(said.remaining <= said.limit);
                prop_assert_eq!(said.retry_after > Duration::ZERO, said.remaining == 0);
            }
            for (index, first) in passed.iter().enumerate() {
                let within = passed[index..].iter().take_while(|when| **when - first < 60_000).count();
                prop_assert!(within <= 2 * per_minute as usize, "{} of {}", within, per_minute);
            }
        }
    }
}
