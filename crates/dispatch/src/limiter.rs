//! Counting requests in the memory of one process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::{Allowance, Limiter, Rate};
use tokio::time::Instant;

/// How many there may be of whom to remember something. Those whose burst is whole again are forgotten first, and cost
/// nothing.
const MAX_REMEMBERED: usize = 100_000;

/// Counts the requests of this process alone.
#[derive(Debug)]
pub struct MemoryLimiter {
    began: Instant,
    /// When each may have a whole burst again, counted from `began`.
    full_at: Mutex<HashMap<String, Duration>>,
}

impl MemoryLimiter {
    /// Makes a limiter that has counted nothing.
    pub fn new() -> Self {
        Self { began: Instant::now(), full_at: Mutex::default() }
    }

    /// Counts a request by a clock that says `now`.
    fn take_at(&self, who: &str, rate: Rate, now: Duration) -> Allowance {
        // Each value is written whole.
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let (allowance, kept) = rate.decide(full_at.get(who).copied(), now);
        if let Some(known) = full_at.get_mut(who) {
            *known = kept;
            return allowance;
        }
        if full_at.len() >= MAX_REMEMBERED {
            full_at.retain(|_, at| *at > now);
        }
        if full_at.len() >= MAX_REMEMBERED {
            // So many at once are no clients of ours: each gets one more burst.
            full_at.clear();
        }
        full_at.insert(who.to_owned(), kept);
        allowance
    }
}

impl Default for MemoryLimiter {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Limiter for MemoryLimiter {
    async fn take(&self, who: &str, rate: Rate) -> Allowance {
        self.take_at(who, rate, self.began.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_minute: 2 };

    fn allowed(limiter: &MemoryLimiter, who: &str, now_s: u64) -> bool {
        limiter.take_at(who, RATE, Duration::from_secs(now_s)).allowed
    }

    #[test]
    fn each_is_counted_alone_and_gets_one_more_in_time() {
        let limiter = MemoryLimiter::new();
        assert!(allowed(&limiter, "ann", 0) && allowed(&limiter, "ann", 0));
        assert!(!allowed(&limiter, "ann", 29) && allowed(&limiter, "bob", 29));
        assert!(allowed(&limiter, "ann", 30) && !allowed(&limiter, "ann", 30));
    }

    #[test]
    fn the_memory_is_bounded_and_drops_what_is_past_first() {
        let limiter = MemoryLimiter::new();
        for who in 0..MAX_REMEMBERED - 1 {
            assert!(allowed(&limiter, &who.to_string(), 0));
        }
        assert!(allowed(&limiter, "ann", 1000) && allowed(&limiter, "ann", 1000));
        assert!(allowed(&limiter, "bob", 1000));
        assert_eq!(limiter.full_at.lock().unwrap().len(), 2);
        assert!(!allowed(&limiter, "ann", 1000));
        for who in 0..2 * MAX_REMEMBERED {
            assert!(allowed(&limiter, &who.to_string(), 1000));
        }
        assert!(limiter.full_at.lock().unwrap().len() <= MAX_REMEMBERED);
    }
}
