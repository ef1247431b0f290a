//! Whether the media store takes what a job makes.

use std::path::Path;

use clapboard_jobs::{Blob, BlobError, BlobKey, WorkerId};

use crate::error::Error;

/// Does in small what every job does with the media store: puts an object and removes it again. The file that it puts lies in
/// `scratch` meanwhile.
///
/// A worker does so at its start, before it loads its engine: what lets it list the store need not let it put something.
///
/// Errors: [`Error::MediaStore`].
pub async fn try_media_store(blob: &dyn Blob, scratch: &Path) -> Result<(), Error> {
    try_out(blob, scratch).await.map_err(Error::MediaStore)
}

pub(crate) async fn try_out(blob: &dyn Blob, scratch: &Path) -> Result<(), BlobError> {
    // Left behind by a process that dies, the object is found by the sweep over objects of nobody.
    let name = WorkerId::new();
    let key: BlobKey = format!("probe/{name}").parse().expect("an id may stand in a key");
    let file = scratch.join(format!("attempt-probe-{name}"));
    let written = tokio::fs::write(&file, "probe").await;
    let put = match written {
        Ok(()) => blob.put_file(&key, &file, &|| ()).await,
        Err(source) => Err(BlobError::Source { path: file.clone(), source }),
    };
    // It was made a moment ago, and one that cannot be removed is removed with what dead attempts leave.
    let _ = tokio::fs::remove_file(&file).await;
    put?;
    blob.delete(&key).await
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

    use clapboard_blob::DiskBlob;

    use super::*;

    #[tokio::test]
    async fn a_store_that_takes_objects_is_left_as_it_was_and_another_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (media, scratch) = (folder.path().join("media"), folder.path().join("scratch"));
        fs::create_dir(&scratch).unwrap();
        let blob = DiskBlob::open(&media).await.unwrap();
        try_media_store(&blob, &scratch).await.unwrap();
        assert_eq!(blob.list("", None, 10).await.unwrap(), []);
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);

        fs::remove_dir_all(&media).unwrap();
        fs::write(&media, "no folder").unwrap();
        let error = try_media_store(&blob, &scratch).await.unwrap_err();
        assert_eq!(error.to_string(), "the media store did not take an object and give it up again");
        assert!(matches!(&error, Error::MediaStore(error) if is_of_worker(error)), "{error:?}");
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
    }
}
