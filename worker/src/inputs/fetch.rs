//! Reading one object into a file.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use clapboard_jobs::{Blob, BlobError, BlobKey, Causes};
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout};
use tokio_util::io::StreamReader;

use crate::attempt::classify::AttemptError;
use crate::machine::media_store::PART_PATIENCE;
use crate::progress::watch::Watch;
use crate::retry::Waits;
use crate::scratch::digest;
use crate::scratch::disk::on_disk;

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

/// Reads an object of at most `limit_bytes` into a new file, and compares its bytes with the digits in its key. A media store
/// that is out of reach, silent, or that breaks off is tried again, up to `limit`.
///
/// The time of the media store is bounded by that and is no hang of this machine's; that of the disk is watched over.
///
/// Errors: [`AttemptError::InputGone`], [`AttemptError::InputTooLarge`], [`AttemptError::InputAltered`],
/// [`AttemptError::FetchInput`], [`AttemptError::KeepInput`]; [`AttemptError::Wedged`] and [`AttemptError::Stopped`] where the
/// disk is waited for.
pub(super) async fn fetch(
    blob: &dyn Blob,
    key: &BlobKey,
    file: &Path,
    limit_bytes: u64,
    limit: Duration,
    watch: &Watch,
) -> Result<(), AttemptError> {
    let answers = Answers { watch, deadline: Instant::now() + limit };
    let mut waits = Waits::default();
    loop {
        let error = match read(blob, key, file, limit_bytes, &answers).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let wait = waits.next();
        let may_pass = matches!(error, AttemptError::FetchInput(BlobError::Unavailable { .. }));
        if !may_pass || Instant::now() + wait >= answers.deadline {
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
    answers: &Answers<'_>,
) -> Result<(), AttemptError> {
    let opened = answers.hear(blob.open(key, None)).await?.map_err(AttemptError::FetchInput)?;
    let opened = opened.ok_or(AttemptError::InputGone)?;
    let expected = opened.info.size_bytes;
    if expected > limit_bytes {
        return Err(AttemptError::InputTooLarge { size_bytes: expected, limit_bytes });
    }
    let mut writer = Writer::create(file, answers.watch).await?;
    let mut reader = StreamReader::new(opened.stream);
    let mut found = 0;
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = answers.hear(reader.read(&mut chunk)).await?;
        let count = read.map_err(|error| unavailable(Cut::Broken(error)))?;
        found += count as u64;
        if found > expected || (count == 0 && found < expected) {
            return Err(unavailable(Cut::Size { found, expected }));
        }
        if count == 0 {
            break;
        }
        chunk.truncate(count);
        writer = writer.write(chunk, answers.watch).await?;
    }
    if writer.sha256().starts_with(digits(key)) { Ok(()) } else { Err(AttemptError::InputAltered) }
}

/// The first digits of the SHA-256 of an input's bytes, which its key ends in: see [`BlobKey::input`].
fn digits(key: &BlobKey) -> &str {
    let key = key.as_str();
    key.rsplit_once('-').map_or(key, |(_, digits)| digits)
}

/// The media store's answers, which are waited for until the deadline.
struct Answers<'a> {
    watch: &'a Watch,
    deadline: Instant,
}

impl Answers<'_> {
    /// Waits for an answer, but not for ever, and takes note of a sign of life when it comes.
    async fn hear<T>(&self, answer: impl Future<Output = T>) -> Result<T, AttemptError> {
        let patience = PART_PATIENCE.min(self.deadline.saturating_duration_since(Instant::now()));
        self.watch.waits();
        let heard = timeout(patience, answer).await;
        self.watch.prepares();
        heard.map_err(|_| unavailable(Cut::Silent(patience)))
    }
}

/// Writes a file, and digests its bytes, on threads for what blocks.
struct Writer {
    file: File,
    hasher: Sha256,
}

impl Writer {
    async fn create(path: &Path, watch: &Watch) -> Result<Self, AttemptError> {
        let path = path.to_owned();
        let created = on_disk(watch, move || File::create(path)).await?;
        Ok(Self { file: created.map_err(AttemptError::KeepInput)?, hasher: Sha256::new() })
    }

    async fn write(mut self, chunk: Vec<u8>, watch: &Watch) -> Result<Self, AttemptError> {
        let written = on_disk(watch, move || {
            self.file.write_all(&chunk)?;
            self.hasher.update(&chunk);
            Ok(self)
        });
        written.await?.map_err(AttemptError::KeepInput)
    }

    fn sha256(self) -> String {
        digest::hex(&self.hasher.finalize())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use clapboard_blob::DiskBlob;
    use clapboard_jobs::{JobId, Phase, Tenant};
    use tempfile::TempDir;

    use crate::options::StallLimits;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// A media store with one object of three bytes, and its key.
    async fn stored(sha256: &str) -> (DiskBlob, BlobKey, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let blob = DiskBlob::open(&folder.path().join("media")).await.unwrap();
        let key = BlobKey::input(&Tenant::default(), JobId::new(), 0, sha256);
        let file = folder.path().join("sent");
        std::fs::write(&file, "abc").unwrap();
        blob.put_file(&key, &file, &|| ()).await.unwrap();
        (blob, key, folder)
    }

    fn watch() -> Watch {
        Watch::new(StallLimits::all(Duration::from_secs(10)), std::time::Instant::now() + LIMIT)
    }

    #[tokio::test]
    async fn an_object_becomes_a_file_if_it_has_the_digest_and_the_size_that_were_announced() {
        let (blob, key, folder) = stored(&digest::of_bytes(b"abc")).await;
        let file = folder.path().join("input-0");
        fetch(&blob, &key, &file, 3, LIMIT, &watch()).await.unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"abc");
        let error = fetch(&blob, &key, &file, 2, LIMIT, &watch()).await.unwrap_err();
        assert!(matches!(error, AttemptError::InputTooLarge { size_bytes: 3, limit_bytes: 2 }), "{error:?}");
        for other in [&digest::of_bytes(b"abd"), ""] {
            let (blob, key, _folder) = stored(other).await;
            let fetched = fetch(&blob, &key, &file, 3, LIMIT, &watch()).await;
            // A key without digits has nothing to compare with.
            assert_eq!(matches!(fetched, Err(AttemptError::InputAltered)), !other.is_empty(), "{fetched:?}");
        }
    }

    #[tokio::test]
    async fn a_scratch_disk_that_hangs_is_not_taken_for_the_media_store() {
        let (blob, key, folder) = stored(&digest::of_bytes(b"abc")).await;
        // Whoever opens it to write hangs until somebody reads.
        let file = folder.path().join("input-0");
        assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
        let watch = watch();
        let watching = async {
            loop {
                // Nothing is seen while the media store is waited for.
                if let Some(stall) = watch.look(std::time::Instant::now() + Duration::from_secs(20)) {
                    return stall;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let fetching = fetch(&blob, &key, &file, 3, Duration::from_millis(100), &watch);
        let (fetched, stall) = timeout(LIMIT, async { tokio::join!(fetching, watching) }).await.unwrap();
        assert!(matches!(fetched, Err(AttemptError::Wedged(found)) if found == stall), "{fetched:?}");
        assert_eq!(stall.phase, Phase::Prepare);
        drop(File::open(file).unwrap());
    }
}
