//! Small objects by which a server is tried out, and which are removed afterwards.
//!
//! They lie below `probe/`, under keys like those of any object: should a process die before it has removed them, the sweep
//! finds them as objects of nobody.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError};

use aws_sdk_s3::primitives::ByteStream;
use clapboard_jobs::BlobKey;
use uuid::Uuid;

use super::Bucket;
use super::error::Failure;
use super::put::{self, Object};
use super::support::PutSupport;
use crate::hash::{self, Sha256Sum};

/// A folder of small objects.
pub(super) struct Trial<'a> {
    pub(super) bucket: &'a Bucket,
    folder: String,
    used: Mutex<BTreeSet<String>>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(bucket: &'a Bucket) -> Self {
        Self { bucket, folder: format!("probe/{}/", Uuid::new_v4().simple()), used: Mutex::default() }
    }

    /// Returns the key of an object, without the store's root.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.folder)
    }

    /// Returns the name under which S3 knows an object.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}{}{name}", self.bucket.root, self.folder)
    }

    /// Returns a name with which the key is as long as a key may be.
    pub(super) fn longest_name(&self) -> String {
        let length = BlobKey::MAX_LEN - self.folder.len();
        (0..length).map(|index| if index % 200 == 199 { '/' } else { 'x' }).collect()
    }

    /// Describes an object that is to be put, and remembers to remove it.
    pub(super) fn object(&self, name: &str, bytes: &[u8]) -> Object {
        let path = self.path(name);
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone());
        Object { path, content_type: "application/octet-stream", size_bytes: bytes.len() as u64, sha256: sum(bytes) }
    }

    /// Puts an object, asking the server for what `support` says.
    pub(super) async fn put(&self, name: &str, bytes: &'static [u8], support: PutSupport) -> Result<(), Failure> {
        put::send(self.bucket, &self.object(name, bytes), ByteStream::from_static(bytes), support).await
    }

    /// Removes every object that may have been put.
    pub(super) async fn clean(&self) -> Result<(), Failure> {
        let used: Vec<String> = self.used.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        let mut cleaned = Ok(());
        for path in used {
            let deleted = super::delete(self.bucket, &path).await;
            cleaned = cleaned.and(deleted);
        }
        cleaned
    }
}

/// Returns the SHA-256 of some bytes.
pub(super) fn sum(mut bytes: &[u8]) -> Sha256Sum {
    hash::copy(&mut bytes, &mut io::sink(), &|| ()).expect("memory can be read").sha256
}
