//! What every service does around its work: it starts a runtime, runs its parts beside each other, and drains.

use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::interrupt::Interrupts;

/// How long the last writes get, beyond the times that the parts themselves ask for.
pub(crate) const CLOSING_TIME: Duration = Duration::from_secs(5);

/// Runs a service to its end.
///
/// An engine that still loads, or hangs, is not waited for: nothing of a job is lost with it.
///
/// Errors: those of the service.
pub(crate) fn block_on<T>(service: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("could not start the runtime")?;
    let result = runtime.block_on(service);
    runtime.shutdown_background();
    result
}

/// A part of a service that has ended, and how.
struct Ended {
    part: &'static str,
    result: anyhow::Result<()>,
}

/// The parts of a service that run beside each other until the process is asked to end, or one of them does.
pub(crate) struct Parts {
    running: JoinSet<Ended>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Parts {
    /// A service without parts yet.
    pub(crate) fn new() -> Self {
        Self { running: JoinSet::new(), stop: CancellationToken::new(), tasks: TaskTracker::new() }
    }

    /// Returns what tells a part to end.
    pub(crate) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Returns where work that outlives its request is counted, so that the end of the process waits for it.
    pub(crate) fn tasks(&self) -> TaskTracker {
        self.tasks.clone()
    }

    /// Starts a part that goes on until it is told to stop; its end before that is a failure.
    pub(crate) fn spawn(
        &mut self,
        part: &'static str,
        work: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        let stop = self.stop();
        self.spawn_drainable(part, async move {
            work.await?;
            ensure!(stop.is_cancelled(), "it ended by itself");
            Ok(())
        });
    }

    /// Starts a part that may also end in good order by itself, which then ends the others.
    pub(crate) fn spawn_drainable(
        &mut self,
        part: &'static str,
        work: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        self.running.spawn(async move { Ended { part, result: work.await } });
    }

    /// Runs until a signal comes or a part ends, tells `closing` which part has failed if one has, and then gives the
    /// rest `limit` to end, or any time if there is none. A second signal ends the process at once.
    ///
    /// Errors: what ended the first part that failed, before or while the service drained; a drain that took too long.
    pub(crate) async fn run(
        mut self,
        mut interrupts: Interrupts,
        limit: Option<Duration>,
        closing: impl FnOnce(Option<&'static str>),
    ) -> anyhow::Result<()> {
        let (failed, outcome) = tokio::select! {
            signal = interrupts.next() => {
                tracing::info!(%signal, "draining; a second signal exits at once");
                (None, Ok(()))
            }
            Some(ended) = self.running.join_next() => first_end(ended),
        };
        interrupts.exit_at_the_next();
        closing(failed);
        self.stop.cancel();
        let closed = match limit {
            None => self.close().await,
            Some(limit) => timeout(limit, self.close()).await.unwrap_or_else(|_| {
                Err(anyhow!("the service did not drain in time; a job that it ran runs again elsewhere or later"))
            }),
        };
        outcome.and(closed).inspect(|()| tracing::info!("drained"))
    }

    /// Waits for the parts and for what outlives its requests; the first error is told.
    async fn close(&mut self) -> anyhow::Result<()> {
        let mut first_error = Ok(());
        while let Some(ended) = self.running.join_next().await {
            let result = match ended {
                Ok(Ended { part, result }) => result.with_context(|| format!("the {part} failed while it drained")),
                Err(error) => Err(error).context("a part of the service failed while it drained"),
            };
            first_error = first_error.and(result);
        }
        self.tasks.close();
        self.tasks.wait().await;
        first_error
    }
}

/// Says which part has failed, if it has, and how.
fn first_end(ended: Result<Ended, JoinError>) -> (Option<&'static str>, anyhow::Result<()>) {
    match ended {
        Ok(Ended { part, result: Ok(()) }) => {
            tracing::info!(part, "a part has ended as it was asked to: draining the rest");
            (None, Ok(()))
        }
        Ok(Ended { part, result: Err(error) }) => (Some(part), Err(error.context(format!("the {part} ended")))),
        Err(error) => (None, Err(anyhow::Error::new(error).context("a part of the service ended"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Option<Duration> = Some(Duration::from_secs(30));

    #[tokio::test]
    async fn a_part_that_fails_ends_the_others_and_is_named() {
        let mut parts = Parts::new();
        let stop = parts.stop();
        parts.spawn("API", async move {
            stop.cancelled().await;
            Ok(())
        });
        parts.spawn_drainable("worker", async { Err(anyhow!("no disk")) });
        let mut told = None;
        let error = parts.run(Interrupts::listen().unwrap(), LIMIT, |failed| told = failed).await.unwrap_err();
        assert_eq!((told, format!("{error:#}").as_str()), (Some("worker"), "the worker ended: no disk"));
    }

    #[tokio::test]
    async fn only_a_part_that_may_end_by_itself_ends_the_service_well() {
        let mut parts = Parts::new();
        parts.spawn_drainable("worker", async { Ok(()) });
        parts.run(Interrupts::listen().unwrap(), LIMIT, |failed| assert_eq!(failed, None)).await.unwrap();

        let mut parts = Parts::new();
        parts.spawn("scheduler", async { Ok(()) });
        let error = parts.run(Interrupts::listen().unwrap(), LIMIT, |_| ()).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "the scheduler ended: it ended by itself");
    }

    #[tokio::test]
    async fn a_part_that_does_not_end_is_not_waited_for_any_longer_than_it_may_take() {
        let mut parts = Parts::new();
        parts.spawn("API", std::future::pending());
        parts.spawn_drainable("worker", async { Ok(()) });
        let limit = Some(Duration::from_millis(50));
        let error = parts.run(Interrupts::listen().unwrap(), limit, |_| ()).await.unwrap_err();
        assert!(error.to_string().starts_with("the service did not drain in time"), "{error:#}");
    }
}
