//! Whether work is taken now, told by who runs the process and read by the routes.

use tokio::sync::watch;

/// What the service is doing as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceState {
    /// The engine loads: jobs are accepted and wait.
    Starting,
    /// Jobs run: the worker of this process has loaded its engine, or this process has none and leaves them to others.
    Ready,
    /// The service stops: nothing new is accepted.
    Draining,
    /// The worker of this process has ended, so that nothing would ever run.
    WorkerLost,
}

impl ServiceState {
    /// Tells whether new jobs are accepted.
    pub fn accepts_jobs(self) -> bool {
        matches!(self, Self::Starting | Self::Ready)
    }
}

/// A handle on the service's state, cheap to clone.
#[derive(Debug, Clone)]
pub struct Readiness {
    state: watch::Sender<ServiceState>,
    has_worker: bool,
}

impl Readiness {
    /// Makes the handle of a service that starts, and waits for the worker in its process.
    pub fn new() -> Self {
        Self { state: watch::Sender::new(ServiceState::Starting), has_worker: true }
    }

    /// Makes the handle of a service without a worker in its process: it is ready at once, and jobs wait for workers
    /// elsewhere.
    pub fn new_without_worker() -> Self {
        Self { state: watch::Sender::new(ServiceState::Ready), has_worker: false }
    }

    /// Changes the state for everybody. A service that drains goes on draining.
    pub fn set(&self, state: ServiceState) {
        self.state.send_if_modified(|current| {
            let changes = *current != state && *current != ServiceState::Draining;
            if changes {
                *current = state;
            }
            changes
        });
    }

    /// Returns the state.
    pub fn get(&self) -> ServiceState {
        *self.state.borrow()
    }

    /// Tells whether the process has a worker of its own.
    pub fn has_worker(&self) -> bool {
        self.has_worker
    }

    /// Waits until no jobs are accepted any more.
    pub(crate) async fn closed(&self) {
        let mut states = self.state.subscribe();
        // The sender lives in self, so the channel cannot close under the wait.
        let _ = states.wait_for(|state| !state.accepts_jobs()).await;
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draining_service_does_not_come_back() {
        let readiness = Readiness::new();
        let other = readiness.clone();
        other.set(ServiceState::Ready);
        assert_eq!(readiness.get(), ServiceState::Ready);
        readiness.set(ServiceState::Draining);
        other.set(ServiceState::Ready);
        assert_eq!(other.get(), ServiceState::Draining);
        assert!(!other.get().accepts_jobs());
    }

    #[test]
    fn a_service_without_a_worker_is_ready_at_once_and_stops_like_any_other() {
        let readiness = Readiness::new_without_worker();
        assert!(!readiness.has_worker() && Readiness::new().has_worker());
        assert_eq!(readiness.get(), ServiceState::Ready);
        readiness.set(ServiceState::Draining);
        assert_eq!(readiness.get(), ServiceState::Draining);
    }

    #[tokio::test]
    async fn who_waits_for_the_end_is_woken() {
        let readiness = Readiness::new();
        let waiter = tokio::spawn({
            let readiness = readiness.clone();
            async move { readiness.closed().await }
        });
        readiness.set(ServiceState::WorkerLost);
        waiter.await.unwrap();
    }
}
