//! Whether the media store takes what a job makes.

use std::path::Path;
use std::time::Duration;

use clapboard_jobs::{Blob, BlobError, BlobKey, WorkerId};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use crate::error::Error;
use crate::scratch::work_folder;

/// How long the media store may take for each part of what is read from it.
pub(crate) const PART_PATIENCE: Duration = Duration::from_secs(30);

/// The longest that the media store may take for an object of a few bytes.
pub(crate) const TRIAL_PATIENCE: Duration = Duration::from_secs(30);

/// Does in small what every job does with the media store: puts an object and removes it again. The file that it puts lies in
/// the [`work_folder`] of `root` meanwhile, which a worker clears at its start of what dead processes left.
///
/// A worker does so at its start, before it loads its engine: what lets it list the store need not let it put something.
///
/// Errors: [`Error::Scratch`], [`Error::MediaStore`].
pub async fn try_media_store(blob: &dyn Blob, root: &Path) -> Result<(), Error> {
    let folder = work_folder(root);
    let made = tokio::fs::create_dir_all(&folder).await;
    made.map_err(|source| Error::Scratch { doing: "create the scratch folder", path: folder.clone(), source })?;
    let tried = try_out(blob, &folder, TRIAL_PATIENCE).await.unwrap_or_else(|silence| {
        Err(BlobError::Unavailable { doing: "putting an object and removing it", source: silence.into() })
    });
    tried.map_err(Error::MediaStore)
}

/// Puts an object and removes it; one that nobody waits for any more leaves its file to the next start.
///
/// Errors: [`Elapsed`] when the media store has not answered within `patience`.
pub(crate) async fn try_out(
    blob: &dyn Blob,
    scratch: &Path,
    patience: Duration,
) -> Result<Result<(), BlobError>, Elapsed> {
    // Left behind by a process that dies, the object is found by the sweep over objects of nobody.
    let name = WorkerId::new();
    let key: BlobKey = format!("probe/{name}").parse().expect("an id may stand in a key");
    let file = scratch.join(format!("attempt-probe-{name}"));
    let written = tokio::fs::write(&file, "probe").await;
    let trial = async {
        written.map_err(|source| BlobError::Source { path: file.clone(), source })?;
        blob.put_file(&key, &file, &|| ()).await?;
        blob.delete(&key).await
    };
    let tried = timeout(patience, trial).await;
    // It was made a moment ago, and one that cannot be removed is removed with what dead attempts leave.
    let _ = tokio::fs::remove_file(&file).await;
    tried
}

/// Tells whether storing failed by this worker, as opposed to a media store that is away: a disk of its machine is full, or it
/// is not let in.
pub(crate) fn is_of_worker(error: &BlobError) -> bool {
    match error {
        BlobError::Source { .. } | BlobError::Denied { .. } => true,
        BlobError::Unavailable { source, .. } => source.is::<std::io::Error>(),
        BlobError::Conflict { .. } | BlobError::RangeOutside { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use std::future::pending;
    use std::ops::Range;

    use async_trait::async_trait;
    use clapboard_blob::DiskBlob;
    use clapboard_jobs::blob::{ObjectInfo, Opened, Put};

    use super::*;

    /// A media store that takes nothing and does not say so.
    struct Hanging(DiskBlob);

    #[async_trait]
    impl Blob for Hanging {
        async fn put_file(&self, _: &BlobKey, _: &Path, _: &(dyn Fn() + Send + Sync)) -> Result<Put, BlobError> {
            pending().await
        }

        async fn head(&self, key: &BlobKey) -> Result<Option<ObjectInfo>, BlobError> {
            self.0.head(key).await
        }

        async fn open(&self, key: &BlobKey, range: Option<Range<u64>>) -> Result<Option<Opened>, BlobError> {
            self.0.open(key, range).await
        }

        async fn link(&self, key: &BlobKey, life: Duration, name: &str) -> Result<Option<String>, BlobError> {
            self.0.link(key, life, name).await
        }

        async fn delete(&self, key: &BlobKey) -> Result<(), BlobError> {
            self.0.delete(key).await
        }

        async fn list(
            &self,
            prefix: &str,
            after: Option<&BlobKey>,
            limit: usize,
        ) -> Result<Vec<ObjectInfo>, BlobError> {
            self.0.list(prefix, after, limit).await
        }
    }

    #[tokio::test]
    async fn a_store_that_takes_objects_is_left_as_it_was_and_another_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (media, scratch) = (folder.path().join("media"), folder.path().join("scratch"));
        let work = work_folder(&scratch);
        let blob = DiskBlob::open(&media).await.unwrap();
        try_media_store(&blob, &scratch).await.unwrap();
        assert_eq!(blob.list("", None, 10).await.unwrap(), []);
        assert_eq!(fs::read_dir(&work).unwrap().count(), 0);

        fs::remove_dir_all(&media).unwrap();
        fs::write(&media, "no folder").unwrap();
        let error = try_media_store(&blob, &scratch).await.unwrap_err();
        assert_eq!(error.to_string(), "the media store did not take an object and give it up again");
        assert!(matches!(&error, Error::MediaStore(error) if is_of_worker(error)), "{error:?}");
        assert_eq!(fs::read_dir(&work).unwrap().count(), 0);
        fs::remove_dir(&work).unwrap();
        fs::write(&work, "no folder").unwrap();
        let error = try_media_store(&blob, &scratch).await.unwrap_err();
        assert_eq!(error.to_string(), format!("could not create the scratch folder {}", work.display()));
    }

    #[tokio::test]
    async fn what_a_trial_leaves_when_it_dies_is_removed_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path().join("scratch");
        let disk = DiskBlob::open(&folder.path().join("media")).await.unwrap();
        let hanging = Hanging(disk);
        let trial = try_media_store(&hanging, &scratch);
        timeout(Duration::from_millis(50), trial).await.unwrap_err();
        let work = work_folder(&scratch);
        assert_eq!(fs::read_dir(&work).unwrap().count(), 1);
        assert!(crate::scratch::prepare(&work).unwrap().is_empty());
        assert_eq!(fs::read_dir(&work).unwrap().count(), 0);
        // One that is only not answered leaves nothing.
        try_out(&hanging, &work, Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(fs::read_dir(&work).unwrap().count(), 0);
    }
}
