//! Telling what is slow from what has stopped.
//!
//! The S3 store does the same for its requests, by itself: it knows nothing of workers, nor they of S3, and the room that
//! both may use, `jobs`, has no runtime and so no timers.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The last moment at which something has moved; to begin with, that at which it was made.
#[derive(Debug)]
pub(crate) struct Pulse(Mutex<Instant>);

impl Default for Pulse {
    fn default() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl Pulse {
    /// Takes note that something moves.
    pub(crate) fn beat(&self) {
        // A single assignment leaves nothing half done.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends once nothing has moved for `patience`.
    pub(crate) async fn stops(&self, patience: Duration) {
        loop {
            let last = self.last();
            tokio::time::sleep_until(last + patience).await;
            if self.last() == last {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_moves_goes_on_and_what_does_not_ends_after_the_patience() {
        let patience = Duration::from_secs(1);
        let pulse = Pulse::default();
        let moving = async {
            for _ in 0..60 {
                tokio::time::sleep(patience / 30).await;
                pulse.beat();
            }
            pulse.last()
        };
        let stopping = async {
            pulse.stops(patience).await;
            Instant::now()
        };
        let (stopped, moved_last) = tokio::join!(stopping, moving);
        assert!(stopped >= moved_last + patience);
    }
}
