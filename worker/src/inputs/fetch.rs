//! Reading one object into a file.

use std::io;
use std::path::Path;
use std::time::Duration;

use clapboard_jobs::{Blob, BlobError, BlobKey, Causes};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::io::StreamReader;

use crate::attempt::classify::AttemptError;
use crate::machine::media_store::PART_PATIENCE;
use crate::progress::watch::Watch;
use crate::retry::Waits;

/// How much is read at once.
const CHUNK_BYTES: usize = 256 << 10;
/// What is being done, for messages.
const DOING: &str = "fetching an input";

/// Why the bytes of an object did not all come. Not the system's own error, which would pass for one of this machine's.
#[derive(Debug, thiserror::Error)]
enum Cut {
    #[error("its bytes stopped coming")]
    Broken(#[source] io::Error),
    #[error("nothing came for {0:?}")]
    Silent(Duration),
    #[error("{found} of its {expected} bytes came")]
    Size { found: u64, expected: u64 },
}

fn unavailable(source: impl std::error::Error + Send + Sync + 'static) -> AttemptError {
    AttemptError::FetchInput(BlobError::Unavailable { doing: DOING, source: source.into() })
}

/// Reads an object of at most `limit_bytes` into a new file. A media store that is out of reach, silent, or that breaks
/// off is tried again, up to `limit`.
///
/// The time of the media store is bounded by that and is no hang of this machine's; that of the disk is watched over.
///
/// Errors: [`AttemptError::InputGone`], [`AttemptError::InputTooLarge`], [`AttemptError::FetchInput`],
/// [`AttemptError::KeepInput`].
pub(super) async fn fetch(
    blob: &dyn Blob,
    key: &BlobKey,
    file: &Path,
    limit_bytes: u64,
    limit: Duration,
    watch: &Watch,
) -> Result<(), AttemptError> {
    let deadline = Instant::now() + limit;
    let mut waits = Waits::default();
    loop {
        let read = timeout_at(deadline, read(blob, key, file, limit_bytes, watch)).await;
        let error = match read.unwrap_or_else(|_| Err(unavailable(Cut::Silent(limit)))) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let wait = waits.next();
        let may_pass = matches!(error, AttemptError::FetchInput(BlobError::Unavailable { .. }));
        if !may_pass || Instant::now() + wait >= deadline {
            return Err(error);
        }
        tracing::warn!(error = %Causes(&error), ?wait, "could not fetch an input, trying again");
        watch.waits();
        tokio::time::sleep(wait).await;
    }
}

async fn read(
    blob: &dyn Blob,
    key: &BlobKey,
    file: &Path,
    limit_bytes: u64,
    watch: &Watch,
) -> Result<(), AttemptError> {
    let opened = in_time(watch, blob.open(key, None)).await?.map_err(AttemptError::FetchInput)?;
    let opened = opened.ok_or(AttemptError::InputGone)?;
    let expected = opened.info.size_bytes;
    if expected > limit_bytes {
        return Err(AttemptError::InputTooLarge { size_bytes: expected, limit_bytes });
    }
    let mut writer = File::create(file).await.map_err(AttemptError::KeepInput)?;
    let (mut reader, mut chunk) = (StreamReader::new(opened.stream), vec![0; CHUNK_BYTES]);
    let mut found = 0;
    loop {
        let read = in_time(watch, reader.read(&mut chunk)).await?;
        let count = read.map_err(|error| unavailable(Cut::Broken(error)))?;
        found += count as u64;
        if found > expected || (count == 0 && found < expected) {
            return Err(unavailable(Cut::Size { found, expected }));
        }
        if count == 0 {
            break;
        }
        writer.write_all(&chunk[..count]).await.map_err(AttemptError::KeepInput)?;
    }
    // What was written is in the file only then.
    writer.flush().await.map_err(AttemptError::KeepInput)
}

/// Waits for an answer of the media store's, but not for ever, and takes note of a sign of life when it comes.
async fn in_time<T>(watch: &Watch, answer: impl Future<Output = T>) -> Result<T, AttemptError> {
    watch.waits();
    let heard = timeout(PART_PATIENCE, answer).await;
    watch.prepares();
    heard.map_err(|_| unavailable(Cut::Silent(PART_PATIENCE)))
}
