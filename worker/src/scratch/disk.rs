//! Waiting for the scratch disk, though not for ever.

use std::io;
use std::time::Duration;

use crate::attempt::classify::AttemptError;
use crate::progress::watch::Watch;
use crate::video::upload::wedged;

/// How long a disk, or an encoder that is to be killed, may take once nobody has any use for what it does.
pub(crate) const ABORT_PATIENCE: Duration = Duration::from_secs(5);

/// Does what blocks on the disk, as long as the attempt is wanted: a disk that hangs must not hold what watches over it.
/// Work that nobody waits for any more ends by itself, and what it returns is dropped.
///
/// Errors: [`AttemptError::Wedged`] when it has moved nothing for too long, [`AttemptError::Stopped`].
pub(crate) async fn on_disk<T: Send + 'static>(
    watch: &Watch,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<io::Result<T>, AttemptError> {
    let working = tokio::task::spawn_blocking(work);
    tokio::select! {
        biased;
        done = working => Ok(done.map_err(io::Error::other).flatten()),
        () = watch.wedged.cancelled() => Err(wedged(watch)),
        () = watch.abandoned.cancelled() => Err(AttemptError::Stopped),
        () = watch.overdue.cancelled() => Err(AttemptError::Stopped),
    }
}

/// Does what blocks on the disk and that nobody needs the answer of: it goes on by itself where it takes too long.
pub(crate) async fn let_clean(work: impl FnOnce() + Send + 'static) {
    let working = tokio::task::spawn_blocking(work);
    match tokio::time::timeout(ABORT_PATIENCE, working).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the cleaning up of an attempt failed"),
        Err(_) => tracing::error!(limit = ?ABORT_PATIENCE, "the scratch disk does not let an attempt be cleaned up"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use clapboard_jobs::Phase;

    use crate::options::StallLimits;
    use crate::progress::watch::StopCause;

    use super::*;

    /// A disk that hangs until the sender is dropped.
    fn hanging() -> (mpsc::Sender<()>, impl FnOnce() -> io::Result<()> + Send + 'static) {
        let (release, hung) = mpsc::channel::<()>();
        (release, move || hung.recv().map_err(io::Error::other))
    }

    fn watch() -> Watch {
        Watch::new(StallLimits::all(Duration::from_secs(1)), Instant::now() + Duration::from_secs(60))
    }

    #[tokio::test]
    async fn a_disk_that_hangs_holds_neither_the_watchdog_nor_a_cancel_nor_a_drain() {
        let (wedges, cancelled, overdue) = (watch(), watch(), watch());
        let stall = wedges.look(Instant::now() + Duration::from_secs(2)).unwrap();
        assert_eq!(stall.phase, Phase::Prepare);
        cancelled.stop(StopCause::Cancelled);
        overdue.overdue.cancel();
        for watch in [&wedges, &cancelled, &overdue] {
            let (release, work) = hanging();
            let error = on_disk(watch, work).await.unwrap_err();
            assert_eq!(matches!(error, AttemptError::Wedged(_)), std::ptr::eq(watch, &raw const wedges), "{error:?}");
            drop(release);
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_long_until_a_hanging_disk_is_clean() {
        let (release, work) = hanging();
        let held = tokio::spawn(let_clean(move || drop(work())));
        tokio::time::timeout(ABORT_PATIENCE * 2, held).await.unwrap().unwrap();
        drop(release);
    }
}
