//! Whether this machine has what every job needs, and how long to wait when it has not.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clapboard_h3::Partition;
use clapboard_jobs::{Blob, BlobError, Causes};
use clapboard_media::{Error as MediaError, Ffmpeg};

use crate::machine::media_store::{self, TRIAL_PATIENCE, is_of_worker};
use crate::scratch;

/// The longest pause between two examinations, unless the first is longer.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// How an attempt leaves its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// Fit for the next job.
    Well,
    /// Without something that every job needs: the next one would fail as well.
    Unwell,
    /// Without the weights of a partition: the next job of that would fail as well.
    Without(Partition),
}

/// What this machine lacks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lack {
    /// No file can be written in the scratch folder.
    #[error("could not write in the scratch folder")]
    Scratch(#[source] io::Error),
    /// ffmpeg cannot be started.
    #[error("could not run ffmpeg")]
    Ffmpeg(#[source] MediaError),
    /// The media store does not let us in, or its disk takes nothing.
    #[error("could not put an object into the media store")]
    MediaStore(#[source] BlobError),
    /// The media store was reached and does not answer.
    #[error("the media store did not take an object within {0:?}")]
    MediaStoreSilent(Duration),
}

/// Does in small what every job does with this machine: writes a file, starts ffmpeg.
///
/// Errors: [`Lack::Scratch`], [`Lack::Ffmpeg`].
pub(crate) async fn examine(root: PathBuf, ffmpeg: Ffmpeg) -> Result<(), Lack> {
    let examining = tokio::task::spawn_blocking(move || {
        scratch::probe(&root).map_err(Lack::Scratch)?;
        ffmpeg.check().map_err(Lack::Ffmpeg)
    });
    examining.await.map_err(|failed| Lack::Scratch(failed.into()))?
}

/// Does in small what every job does with the media store: puts an object. One that is away is no lack of this machine's:
/// jobs wait for it with their videos. One that is there and silent, for as long as an upload may stand still and for
/// [`TRIAL_PATIENCE`] at most, would stop the next job's upload as well.
///
/// Errors: [`Lack::MediaStore`], [`Lack::MediaStoreSilent`].
pub(crate) async fn try_store(blob: &dyn Blob, root: &Path, stall_limit: Duration) -> Result<(), Lack> {
    let patience = stall_limit.min(TRIAL_PATIENCE);
    match media_store::try_out(blob, root, patience).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if is_of_worker(&error) => Err(Lack::MediaStore(error)),
        Ok(Err(error)) => {
            tracing::warn!(error = %Causes(&error), "the media store is away");
            Ok(())
        }
        Err(_) => Err(Lack::MediaStoreSilent(patience)),
    }
}

/// Pauses that double as long as something is missing.
#[derive(Debug, Clone)]
pub(crate) struct Pauses {
    first: Duration,
    next: Duration,
    longest: Duration,
}

impl Pauses {
    /// Begins with `first` and doubles it up to `longest`, unless that is shorter.
    pub(crate) fn between(first: Duration, longest: Duration) -> Self {
        Self { first, next: first, longest: longest.max(first) }
    }

    /// Returns how long to pause now.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = self.next.saturating_mul(2).min(self.longest);
        pause
    }

    /// Begins anew, once nothing was missing.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_two_minutes_and_begin_anew() {
        let mut pauses = Pauses::between(Duration::from_secs(5), LONGEST_PAUSE);
        let seconds: Vec<u64> = (0..7).map(|_| pauses.next().as_secs()).collect();
        assert_eq!(seconds, [5, 10, 20, 40, 80, 120, 120]);
        pauses.reset();
        assert_eq!(pauses.next(), Duration::from_secs(5));
    }
}
