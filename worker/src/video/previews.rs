//! Pictures of the finished video: made beside its upload, and stored after it.
//!
//! Nobody has to have them. Whatever goes wrong with them is told in the log, and the video completes without.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clapboard_jobs::{
    Blob, BlobError, Causes, Lease, LeaseError, Preview, PreviewKind, ResultObject, Store, StoreError,
};
use clapboard_media::{Ffmpeg, preview};
use tokio::task::JoinHandle;

use crate::progress::watch::Watch;
use crate::retry::Waits;

/// How often it is told that the attempt still moves, while the pictures are waited for.
const SIGN_INTERVAL: Duration = Duration::from_millis(100);

/// Why a video lacks a picture, or all of them.
#[derive(Debug, thiserror::Error)]
enum PreviewError {
    #[error("could not make it")]
    Make(#[source] preview::Error),
    #[error("making the pictures panicked")]
    Panicked,
    #[error("could not announce the pictures to the job store")]
    Announce(#[source] LeaseError),
    #[error("could not write it to the scratch folder")]
    Write(#[source] io::Error),
    #[error("could not store it")]
    Put(#[source] BlobError),
}

/// How the storing of a picture ended that did not fail.
enum End {
    /// It is done.
    Done,
    /// The attempt is abandoned: nobody wants the picture any more.
    Unwanted,
}

/// For how long a stored video waits for its pictures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// In all.
    pub(crate) timeout: Duration,
    /// While no beat gets through.
    pub(crate) silence: Duration,
}

/// Pictures that are being made; when this is dropped, ffmpeg is killed, and nothing is left on the disk.
pub(crate) struct Previews {
    making: JoinHandle<Result<preview::Previews, preview::Error>>,
    aborted: Arc<AtomicBool>,
}

impl Drop for Previews {
    fn drop(&mut self) {
        self.aborted.store(true, Ordering::Relaxed);
    }
}

impl Previews {
    /// Begins to make the pictures of a finished video.
    pub(crate) fn begin(ffmpeg: &Ffmpeg, video: &Path) -> Self {
        let aborted = Arc::new(AtomicBool::new(false));
        let (ffmpeg, video, wanted_no_more) = (ffmpeg.clone(), video.to_owned(), Arc::clone(&aborted));
        let making = tokio::task::spawn_blocking(move || preview::make(&ffmpeg, &video, &wanted_no_more));
        Self { making, aborted }
    }

    /// Stores the pictures once they are made, under the claim's own keys, and returns those that are stored.
    ///
    /// The video is stored already and waits for them, for no longer than `timeout`, and only while beats get through: once
    /// none has for as long as `silence` says, what is left of the lease is kept for the video's own end. Until then the
    /// attempt counts as one that moves, and stores that are out of reach are tried again. Each picture is stored for itself, so that one which
    /// cannot be had is no loss of the other. A cancel ends the wait once the puts that run have ended; all else that ends
    /// it does so at once, so that a put may still land. The job store was told of the keys before: what lies
    /// under them and is not returned becomes garbage, which is collected once nobody can be writing it any more.
    pub(crate) async fn store(
        mut self,
        store: &dyn Store,
        blob: &dyn Blob,
        lease: &Lease,
        video: &Path,
        watch: &Watch,
        Patience { timeout, silence }: Patience,
    ) -> Vec<Preview> {
        let since = Instant::now();
        let (mut thumbnail, mut spritesheet) = (None, None);
        let storing = async {
            let made = tokio::select! {
                biased;
                made = &mut self.making => made.map_err(|_| PreviewError::Panicked)?.map_err(PreviewError::Make)?,
                () = watch.abandoned.cancelled() => return Ok(End::Unwanted),
            };
            let any_made = made.thumbnail.is_ok() || made.spritesheet.is_ok();
            if any_made && let End::Unwanted = announce(store, lease, watch).await? {
                return Ok(End::Unwanted);
            }
            let shelf = Shelf { blob, lease, video, watch };
            tokio::join!(
                shelf.keep(PreviewKind::Thumbnail, made.thumbnail, &mut thumbnail),
                shelf.keep(PreviewKind::Spritesheet, made.spritesheet, &mut spritesheet),
            );
            Ok::<_, PreviewError>(End::Done)
        };
        let stored = tokio::select! {
            stored = tokio::time::timeout(timeout, storing) => stored.map_err(|_| "they took too long"),
            () = watch.overdue.cancelled() => Err("the drain has lasted as long as it may"),
            () = tell_of_life(watch, lease, silence) => Err("the job store does not answer, and the lease runs out"),
        };
        let previews: Vec<Preview> = thumbnail.into_iter().chain(spritesheet).collect();
        let count = previews.len();
        match stored {
            // Nobody wants them any more, or each that is lacking has been told of by itself.
            Ok(Ok(_)) if count == 0 => {}
            Ok(Ok(_)) => {
                let duration_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                tracing::info!(count, duration_ms, "stored pictures of the video");
            }
            Ok(Err(error)) => tracing::warn!(error = %Causes(&error), "the video has no pictures"),
            Err(why) => tracing::warn!(?timeout, count, "the video lacks pictures: {why}"),
        }
        previews
    }
}

/// Tells the job store which keys there will be, and tells it again while it is out of reach.
async fn announce(store: &dyn Store, lease: &Lease, watch: &Watch) -> Result<End, PreviewError> {
    let mut waits = Waits::default();
    loop {
        let error = match store.expect_previews(lease).await {
            Ok(()) => return Ok(End::Done),
            Err(error) => error,
        };
        if !matches!(error, LeaseError::Store(StoreError::Unavailable { .. })) {
            return Err(PreviewError::Announce(error));
        }
        let wait = waits.next();
        tracing::info!(error = %Causes(&error), ?wait, "could not announce pictures to the job store, trying again");
        if let End::Unwanted = pause(watch, wait).await {
            return Ok(End::Unwanted);
        }
    }
}

/// Waits before another try, unless nobody wants one.
async fn pause(watch: &Watch, wait: Duration) -> End {
    tokio::select! {
        biased;
        () = watch.abandoned.cancelled() => End::Unwanted,
        () = tokio::time::sleep(wait) => End::Done,
    }
}

/// Lets the lease be kept while the pictures are waited for, which is bounded by itself, until no beat has got through for as
/// long as `silence` says.
async fn tell_of_life(watch: &Watch, lease: &Lease, silence: Duration) {
    let least = lease.duration.saturating_sub(silence);
    while watch.lease_until().saturating_duration_since(Instant::now()) >= least {
        watch.touch();
        tokio::time::sleep(SIGN_INTERVAL).await;
    }
}

/// Where the pictures of one video are put.
struct Shelf<'a> {
    blob: &'a dyn Blob,
    lease: &'a Lease,
    video: &'a Path,
    watch: &'a Watch,
}

impl Shelf<'_> {
    /// Stores one picture into `kept`, or tells why the video lacks it.
    async fn keep(&self, kind: PreviewKind, made: Result<Vec<u8>, preview::Error>, kept: &mut Option<Preview>) {
        match self.put(kind, made).await {
            Ok(preview) => *kept = preview,
            Err(error) => {
                tracing::warn!(kind = kind.as_str(), error = %Causes(&error), "the video lacks a picture");
            }
        }
    }

    /// Stores one picture, by way of a file beside the video, and again while the media store is out of reach; none once
    /// nobody wants it.
    async fn put(
        &self,
        kind: PreviewKind,
        made: Result<Vec<u8>, preview::Error>,
    ) -> Result<Option<Preview>, PreviewError> {
        let bytes = made.map_err(PreviewError::Make)?;
        let (key, file) = (self.lease.preview_key(kind), self.video.with_extension(kind.extension()));
        let written = {
            let file = file.clone();
            tokio::task::spawn_blocking(move || std::fs::write(file, bytes)).await
        };
        written.map_err(io::Error::other).flatten().map_err(PreviewError::Write)?;
        let mut waits = Waits::default();
        loop {
            if self.watch.abandoned.is_cancelled() {
                return Ok(None);
            }
            let error = match self.blob.put_file(&key, &file, &|| ()).await {
                Ok(put) => {
                    let object = ResultObject { key, size_bytes: put.size_bytes, sha256: put.sha256 };
                    return Ok(Some(Preview { kind, object }));
                }
                Err(error) => error,
            };
            if !matches!(error, BlobError::Unavailable { .. }) {
                return Err(PreviewError::Put(error));
            }
            let wait = waits.next();
            tracing::info!(
                kind = kind.as_str(), error = %Causes(&error), ?wait, "could not store a picture, trying again"
            );
            if let End::Unwanted = pause(self.watch, wait).await {
                return Ok(None);
            }
        }
    }
}
