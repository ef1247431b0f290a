//! Objects on an S3 server.
//!
//! Keys are private to a claim, and a put never overwrites: it carries `If-None-Match: *` where the server honours that.
//! An object appears when its last byte and its checksum have arrived, so it is there whole or not at all. Whether a
//! put that was cut off has been done is found out by looking: length and SHA-256, which is kept beside the object, say
//! whether what lies there is ours.
//!
//! What a process that dies leaves unfinished are parts of multipart uploads, which are no objects, but paid for: a
//! lifecycle rule of the bucket (`AbortIncompleteMultipartUpload`) removes them.
//!
//! Nothing here logs keys of access, their secrets or signed URLs.

mod client;
mod error;
mod link;
mod list;
mod multipart;
mod options;
mod probe;
mod put;
mod read;
mod support;
mod trial;
mod watch;

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use clapboard_jobs::blob::{ObjectInfo, Opened, Put};
use clapboard_jobs::{Blob, BlobError, BlobKey};
use tokio::sync::OnceCell;

pub use error::OpenError;
pub use options::{ConditionalPut, InvalidOption, S3Options, Sse};
pub use probe::{Capabilities, Capability};

use error::Failure;
use support::PutSupport;

use crate::ticks;

/// A media store in a bucket of an S3 server. Clones share connections.
#[derive(Clone)]
pub struct S3Blob {
    bucket: Arc<Bucket>,
}

/// A bucket and all that is needed to use it.
struct Bucket {
    client: Client,
    options: S3Options,
    /// What stands before every key: nothing, or the prefix and a slash.
    root: String,
    /// What the server can do for a put; empty until the first.
    support: OnceCell<PutSupport>,
}

impl Bucket {
    /// Returns the name under which S3 knows an object.
    fn path(&self, key: &BlobKey) -> String {
        format!("{}{key}", self.root)
    }
}

impl S3Blob {
    /// Opens the store, asking the server for one name in it to see that it, the bucket and the credentials are there.
    ///
    /// Errors: [`OpenError`], which tells a wrong setting, wrong credentials, a missing bucket, a missing permission and a
    /// server that does not answer apart.
    pub async fn open(options: S3Options) -> Result<Self, OpenError> {
        options.validate()?;
        let client = client::connect(&options).await?;
        let root = options.prefix.as_ref().map(|prefix| format!("{prefix}/")).unwrap_or_default();
        let bucket = Bucket { client, root, options, support: OnceCell::new() };
        if let Err(failure) = list::page(&bucket, "", None, 1).await {
            let (name, endpoint) = (bucket.options.bucket.clone(), client::endpoint(&bucket.client, &bucket.options));
            let region = bucket.client.config().region().map(ToString::to_string).unwrap_or_default();
            return Err(failure.refuse_to_open(name, endpoint, region));
        }
        Ok(Self { bucket: Arc::new(bucket) })
    }

    /// Finds out what the server can do, with some small objects below `probe/` that are deleted again.
    ///
    /// Errors: [`BlobError::Unavailable`] when the server cannot be reached or refuses the simplest things.
    pub async fn capabilities(&self) -> Result<Capabilities, BlobError> {
        probe::capabilities(&self.bucket).await
    }
}

impl fmt::Debug for S3Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Blob").field("options", &self.bucket.options).finish_non_exhaustive()
    }
}

#[async_trait]
impl Blob for S3Blob {
    async fn put_file(&self, key: &BlobKey, file: &Path, moved: &(dyn Fn() + Send + Sync)) -> Result<Put, BlobError> {
        ticks::heard(moved, |ticks| put::put_file(&self.bucket, key, file, ticks)).await
    }

    async fn head(&self, key: &BlobKey) -> Result<Option<ObjectInfo>, BlobError> {
        let found = read::head(&self.bucket, key).await;
        found.map_err(|failure| failure.blob_error("looking for an object"))
    }

    async fn open(&self, key: &BlobKey, range: Option<Range<u64>>) -> Result<Option<Opened>, BlobError> {
        read::open(&self.bucket, key, range).await
    }

    /// Returns a presigned URL, whose life is at most seven days, and no longer than that of the credentials that
    /// signed it: those of a role live for hours.
    async fn link(&self, key: &BlobKey, life: Duration, file_name: &str) -> Result<Option<String>, BlobError> {
        link::link(&self.bucket, key, life, file_name)
            .await
            .map(Some)
            .map_err(|failure| failure.blob_error("signing an address"))
    }

    async fn delete(&self, key: &BlobKey) -> Result<(), BlobError> {
        let deleted = delete(&self.bucket, &self.bucket.path(key)).await;
        deleted.map_err(|failure| failure.blob_error("deleting an object"))
    }

    async fn list(&self, prefix: &str, after: Option<&BlobKey>, limit: usize) -> Result<Vec<ObjectInfo>, BlobError> {
        list::list(&self.bucket, prefix, after, limit).await.map_err(|failure| failure.blob_error("listing objects"))
    }
}

/// Removes what lies at a path, if anything does.
async fn delete(bucket: &Bucket, path: &str) -> Result<(), Failure> {
    match bucket.client.delete_object().bucket(&bucket.options.bucket).key(path).send().await.map_err(Failure::of) {
        Ok(_) => Ok(()),
        Err(failure) if failure.is_missing_object() => Ok(()),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests;
