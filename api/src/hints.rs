//! Hints about new jobs, which must not hold up their makers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clapboard_jobs::{Causes, Dispatch, DispatchError, Hint, Queue};

/// How long a push may take. The scheduler pushes again what was given up.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often it is said that hints are lost, while they are.
const SAY_AGAIN: Duration = Duration::from_secs(30);

/// A dispatcher that is given little time, and whose failures are told rarely.
pub(crate) struct Hints {
    inner: Arc<dyn Dispatch>,
    losing: Mutex<Losing>,
}

/// How many hints were lost in a row.
#[derive(Debug, Default)]
struct Losing {
    hints: u64,
    said: Option<Instant>,
}

impl Losing {
    /// Takes note of lost hints and tells whether it is time to say so.
    fn lose(&mut self, hints: usize, now: Instant) -> bool {
        self.hints += hints as u64;
        let says = self.said.is_none_or(|said| now.saturating_duration_since(said) >= SAY_AGAIN);
        if says {
            self.said = Some(now);
        }
        says
    }

    /// Takes note that hints get through, and returns how many were lost before.
    fn recover(&mut self) -> u64 {
        std::mem::take(self).hints
    }
}

impl Hints {
    /// Stands before a dispatcher.
    pub(crate) fn before(inner: Arc<dyn Dispatch>) -> Self {
        Self { inner, losing: Mutex::default() }
    }

    fn losing<T>(&self, with: impl FnOnce(&mut Losing) -> T) -> T {
        with(&mut self.losing.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Dispatch for Hints {
    async fn push(&self, hints: &[Hint]) -> Result<usize, DispatchError> {
        let pushed = match tokio::time::timeout(PATIENCE, self.inner.push(hints)).await {
            Ok(pushed) => pushed,
            Err(elapsed) => Err(DispatchError { doing: "hinting at a new job", source: elapsed.into() }),
        };
        match &pushed {
            Ok(_) => {
                let lost = self.losing(Losing::recover);
                if lost > 0 {
                    tracing::info!(lost, "hints get through again");
                }
            }
            Err(error) if self.losing(|losing| losing.lose(hints.len(), Instant::now())) => {
                tracing::warn!(error = %Causes(error), "hints at new jobs are lost; the scheduler's sweep finds the jobs");
            }
            Err(error) => tracing::debug!(error = %Causes(error), "a hint at a new job is lost"),
        }
        pushed
    }

    async fn pop(&self, queues: &[Queue], wait: Duration) -> Result<Option<Hint>, DispatchError> {
        self.inner.pop(queues, wait).await
    }

    async fn len(&self, queue: Queue) -> Result<u64, DispatchError> {
        self.inner.len(queue).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_at_once_and_then_rarely() {
        let (mut losing, began) = (Losing::default(), Instant::now());
        assert!(losing.lose(1, began));
        assert!(!losing.lose(1, began + SAY_AGAIN - Duration::from_millis(1)));
        assert!(losing.lose(2, began + SAY_AGAIN));
        assert_eq!(losing.recover(), 4);
        assert_eq!(losing.recover(), 0);
        assert!(losing.lose(1, began + SAY_AGAIN), "a new loss is news");
    }
}
