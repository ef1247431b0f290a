//! Where an attempt begins: at its noise, or at a stored state.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use clapboard_jobs::{Blob, BlobError, Causes, Checkpoint, Fingerprint, Job};
use tokio::io::AsyncReadExt;
use tokio_util::io::StreamReader;

use crate::machine::media_store::PART_PATIENCE;
use crate::retry::Waits;
use crate::scratch::digest;

/// More bytes than any state has that an engine of today can hold.
const MAX_STATE_BYTES: u64 = 4 << 30;
/// How much is read at once.
const CHUNK_BYTES: u64 = 1 << 20;
/// How often an unreachable state is tried before the attempt begins at its noise.
const TRIES: u32 = 3;

/// Where an attempt begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    /// The state to go on from; none for the beginning.
    pub(crate) state: Option<Arc<[u8]>>,
    /// A state of this many steps is stored and good, so that none of fewer may replace it.
    pub(crate) known: usize,
}

impl Start {
    /// The beginning.
    pub(crate) const NOISE: Self = Self { state: None, known: 0 };
}

/// Why a stored state cannot be gone on from.
#[derive(Debug, thiserror::Error)]
enum StateError {
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error("could not read the state")]
    Read(#[source] io::Error),
    #[error("the state is gone")]
    Gone,
    #[error("the state has {found} bytes, its row says {expected}")]
    Size { found: u64, expected: u64 },
    #[error("a state of {size_bytes} bytes is larger than any can be")]
    TooLarge { size_bytes: u64 },
    #[error("the state does not have the SHA-256 that its row says")]
    Digest,
}

impl StateError {
    /// Tells whether the state itself may be good.
    fn is_of_the_way(&self) -> bool {
        matches!(self, Self::Blob(BlobError::Unavailable { .. } | BlobError::Denied { .. }) | Self::Read(_))
    }
}

/// Finds where the attempt begins. A state that another engine made, or that cannot be read within `limit`, is passed
/// over.
pub(crate) async fn start_of(job: &Job, engine: &Fingerprint, blob: &dyn Blob, limit: Duration) -> Start {
    let Some(checkpoint) = &job.checkpoint else { return Start::NOISE };
    if checkpoint.fingerprint != *engine {
        tracing::info!(step = checkpoint.step, "the stored state is another engine's, starting over");
        return Start::NOISE;
    }
    let known = usize::try_from(checkpoint.step).unwrap_or(usize::MAX);
    tokio::time::timeout(limit, fetched(checkpoint, known, blob)).await.unwrap_or_else(|_| {
        tracing::warn!(step = checkpoint.step, ?limit, "the stored state takes too long to read, starting over");
        Start { state: None, known }
    })
}

/// Tries to read a state of `known` steps.
async fn fetched(checkpoint: &Checkpoint, known: usize, blob: &dyn Blob) -> Start {
    let mut waits = Waits::default();
    for tries_left in (0..TRIES).rev() {
        let error = match read(checkpoint, blob).await {
            Ok(state) => {
                tracing::info!(step = checkpoint.step, size_bytes = state.len(), "going on from a stored state");
                return Start { state: Some(state), known };
            }
            Err(error) => error,
        };
        if !error.is_of_the_way() {
            tracing::warn!(error = %Causes(&error), "the stored state cannot be used, starting over");
            return Start::NOISE;
        }
        tracing::warn!(error = %Causes(&error), tries_left, "could not read the stored state");
        if tries_left > 0 {
            tokio::time::sleep(waits.next()).await;
        }
    }
    tracing::warn!(step = checkpoint.step, "the stored state is out of reach, starting over");
    Start { state: None, known }
}

/// Reads a state whole, never more of it than its row says.
async fn read(checkpoint: &Checkpoint, blob: &dyn Blob) -> Result<Arc<[u8]>, StateError> {
    let expected = checkpoint.size_bytes;
    if expected > MAX_STATE_BYTES {
        return Err(StateError::TooLarge { size_bytes: expected });
    }
    let opened = in_time(blob.open(&checkpoint.key, None)).await??.ok_or(StateError::Gone)?;
    if opened.info.size_bytes != expected {
        return Err(StateError::Size { found: opened.info.size_bytes, expected });
    }
    let mut reader = StreamReader::new(opened.stream);
    let mut bytes = Vec::new();
    loop {
        let mut part = (&mut reader).take(CHUNK_BYTES);
        let count = in_time(part.read_to_end(&mut bytes)).await?.map_err(StateError::Read)?;
        let found = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if found > expected || (count == 0 && found < expected) {
            return Err(StateError::Size { found, expected });
        }
        if count == 0 {
            break;
        }
    }
    let hashed = tokio::task::spawn_blocking(move || (digest::of_bytes(&bytes), bytes)).await;
    let (sha256, bytes) = hashed.map_err(|error| StateError::Read(io::Error::other(error)))?;
    if sha256 == checkpoint.sha256 { Ok(bytes.into()) } else { Err(StateError::Digest) }
}

/// Waits for an answer of the media store's, but not for ever.
async fn in_time<T>(answer: impl Future<Output = T>) -> Result<T, StateError> {
    let heard = tokio::time::timeout(PART_PATIENCE, answer).await;
    heard.map_err(|silence| StateError::Read(io::Error::new(io::ErrorKind::TimedOut, silence)))
}
