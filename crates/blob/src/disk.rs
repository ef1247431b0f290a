//! Objects as files below one folder.
//!
//! `objects/` holds the objects under their keys, `incoming/` what is still being written. Both lie in one file system,
//! so that a finished file can be linked under its key: a hard link never replaces what is there, which makes a put
//! all or nothing and first come, first served. A lock guards the folders alone, which deletes remove when they are empty.

mod put;
mod walk;

use std::fs;
use std::io::{self, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::blob::{ObjectInfo, Opened, Put};
use clapboard_jobs::{Blob, BlobError, BlobKey, Micros};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;
use uuid::Uuid;

use crate::ticks;

/// How much of an object is read at once.
const READ_CHUNK_BYTES: usize = 128 * 1024;

/// Why a folder cannot serve as a media store.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot hold media: could not {doing}", path.display())]
pub struct OpenError {
    /// The folder, or the file in it.
    pub path: PathBuf,
    /// What could not be done.
    pub doing: &'static str,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// A media store in a folder that this process alone writes.
#[derive(Debug, Clone)]
pub struct DiskBlob {
    objects: PathBuf,
    incoming: PathBuf,
    /// Held while a put makes the folders of its key, and while a delete removes those it leaves empty.
    folders: Arc<Mutex<()>>,
}

impl DiskBlob {
    /// Opens the store in `folder`, which is made when it is not there, and removes what an earlier process left
    /// unfinished.
    ///
    /// Errors: [`OpenError`] when the folder cannot be written or its file system has no hard links.
    pub async fn open(folder: &Path) -> Result<Self, OpenError> {
        let store =
            Self { objects: folder.join("objects"), incoming: folder.join("incoming"), folders: Arc::default() };
        let opening = store.clone();
        let opened = tokio::task::spawn_blocking(move || opening.prepare()).await;
        opened.unwrap_or_else(|error| {
            Err(OpenError { path: folder.to_owned(), doing: "be prepared", source: io::Error::other(error) })
        })?;
        Ok(store)
    }

    fn prepare(&self) -> Result<(), OpenError> {
        let refuse = |path: &Path, doing| {
            let path = path.to_owned();
            move |source| OpenError { path, doing, source }
        };
        for folder in [&self.objects, &self.incoming] {
            put::make_folder(folder).map_err(refuse(folder, "make it"))?;
        }
        let leftovers = fs::read_dir(&self.incoming).map_err(refuse(&self.incoming, "read it"))?;
        for leftover in leftovers {
            let path = leftover.map_err(refuse(&self.incoming, "read it"))?.path();
            fs::remove_file(&path).map_err(refuse(&path, "remove what was left unfinished"))?;
        }
        self.probe().map_err(refuse(&self.incoming, "write and hard-link a file in it"))
    }

    /// Does once, on an empty file, what every put does.
    fn probe(&self) -> io::Result<()> {
        let (file, link) = (self.incoming.join("probe"), self.incoming.join("probe-link"));
        fs::write(&file, [])?;
        let linked = fs::hard_link(&file, &link);
        fs::remove_file(&file)?;
        linked?;
        fs::remove_file(&link)
    }

    fn path(&self, key: &BlobKey) -> PathBuf {
        self.objects.join(key.as_str())
    }
}

#[async_trait]
impl Blob for DiskBlob {
    async fn put_file(&self, key: &BlobKey, file: &Path, moved: &(dyn Fn() + Send + Sync)) -> Result<Put, BlobError> {
        let incoming = self.incoming.join(Uuid::new_v4().simple().to_string());
        let (target, key, file) = (self.path(key), key.clone(), file.to_owned());
        let (objects, folders) = (self.objects.clone(), Arc::clone(&self.folders));
        ticks::heard(moved, |ticks| {
            blocking("storing an object", move || {
                put::put(&key, &file, &incoming, &target, &objects, &folders, &|| ticks.tick())
            })
        })
        .await
    }

    async fn head(&self, key: &BlobKey) -> Result<Option<ObjectInfo>, BlobError> {
        let (key, path) = (key.clone(), self.path(key));
        blocking("looking for an object", move || {
            let Some(metadata) = found(fs::metadata(&path)).map_err(unavailable("looking for an object"))? else {
                return Ok(None);
            };
            info(key, &metadata).map_err(unavailable("looking for an object"))
        })
        .await
    }

    async fn open(&self, key: &BlobKey, range: Option<Range<u64>>) -> Result<Option<Opened>, BlobError> {
        let doing = "opening an object";
        let Some(mut file) = found(tokio::fs::File::open(self.path(key)).await).map_err(unavailable(doing))? else {
            return Ok(None);
        };
        let metadata = file.metadata().await.map_err(unavailable(doing))?;
        let Some(info) = info(key.clone(), &metadata).map_err(unavailable(doing))? else {
            return Ok(None);
        };
        let size_bytes = info.size_bytes;
        let range = range.unwrap_or(0..size_bytes);
        let whole = range == (0..size_bytes);
        if !whole && (range.is_empty() || range.end > size_bytes) {
            return Err(BlobError::RangeOutside { key: key.clone(), range, size_bytes });
        }
        file.seek(SeekFrom::Start(range.start)).await.map_err(unavailable(doing))?;
        let bytes = file.take(range.end - range.start);
        let stream = Box::pin(ReaderStream::with_capacity(bytes, READ_CHUNK_BYTES));
        Ok(Some(Opened { info, range, stream }))
    }

    async fn link(&self, _key: &BlobKey, _life: Duration, _file_name: &str) -> Result<Option<String>, BlobError> {
        Ok(None)
    }

    async fn delete(&self, key: &BlobKey) -> Result<(), BlobError> {
        let (path, objects, folders) = (self.path(key), self.objects.clone(), Arc::clone(&self.folders));
        blocking("deleting an object", move || {
            put::remove(&path, &objects, &folders).map_err(unavailable("deleting an object"))
        })
        .await
    }

    async fn list(&self, prefix: &str, after: Option<&BlobKey>, limit: usize) -> Result<Vec<ObjectInfo>, BlobError> {
        let (objects, prefix, after) = (self.objects.clone(), prefix.to_owned(), after.cloned());
        blocking("listing objects", move || {
            walk::list(&objects, &prefix, after.as_ref(), limit).map_err(unavailable("listing objects"))
        })
        .await
    }
}

/// Runs what waits for the disk on a thread that may.
async fn blocking<T, F>(doing: &'static str, work: F) -> Result<T, BlobError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, BlobError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(BlobError::Unavailable { doing, source: error.into() }),
    }
}

fn unavailable(doing: &'static str) -> impl Fn(io::Error) -> BlobError {
    move |source| BlobError::Unavailable { doing, source: source.into() }
}

/// Turns "there is no such file" into none. A file where a folder of the key should be means the same.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Describes a file; none for a folder, which is no object.
fn info(key: BlobKey, metadata: &fs::Metadata) -> io::Result<Option<ObjectInfo>> {
    if !metadata.is_file() {
        return Ok(None);
    }
    let modified_at = Micros::from_system_time(metadata.modified()?);
    Ok(Some(ObjectInfo { key, size_bytes: metadata.len(), modified_at }))
}

#[cfg(test)]
mod tests;
