//! Immutable objects: finished videos and denoising states.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use serde::{Deserialize, Serialize};

use crate::id::{ClaimToken, Fence, JobId, Tenant};
use crate::preview::PreviewKind;
use crate::time::Micros;

/// Why a text cannot be an object's key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} cannot be an object key: {rule}")]
pub struct InvalidKey {
    /// What was given.
    pub text: String,
    /// The rule that it breaks.
    pub rule: &'static str,
}

/// Names an object: segments of `a-z A-Z 0-9 . _ -` joined by `/`, at most 512 bytes, none of them empty, `.` or `..`.
///
/// So a key is a safe relative path on a disk and needs no escaping in a URL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobKey(String);

impl BlobKey {
    /// The longest key, in bytes.
    pub const MAX_LEN: usize = 512;

    /// Returns the key of a claim's result: `v1/{tenant}/{job}/{fence}-{token8}.mp4`.
    ///
    /// Fence and token make it private to that claim, which is why no result can overwrite another's.
    pub fn result(tenant: &Tenant, job: JobId, fence: Fence, token: ClaimToken) -> Self {
        Self(format!("v1/{tenant}/{job}/{fence}-{}.mp4", token.short()))
    }

    /// Returns the key of a claim's denoising state: `v1/{tenant}/{job}/{fence}-{token8}-step{step}.safetensors`.
    pub fn checkpoint(tenant: &Tenant, job: JobId, fence: Fence, token: ClaimToken, step: u32) -> Self {
        Self(format!("v1/{tenant}/{job}/{fence}-{}-step{step}.safetensors", token.short()))
    }

    /// Returns the key of a claim's picture of its result: `v1/{tenant}/{job}/{fence}-{token8}-{kind}.{webp or jpg}`.
    pub fn preview(tenant: &Tenant, job: JobId, fence: Fence, token: ClaimToken, kind: PreviewKind) -> Self {
        Self(format!("v1/{tenant}/{job}/{fence}-{}-{}.{}", token.short(), kind.as_str(), kind.extension()))
    }

    /// Returns the key of the `index`th medium of a job's request: `v1/{tenant}/{job}/input-{index}-{sha256, 16 digits}`.
    ///
    /// It belongs to one job, also where another has the same bytes: what goes with a job is then never another's.
    pub fn input(tenant: &Tenant, job: JobId, index: usize, sha256: &str) -> Self {
        let digits: String = sha256.chars().filter(char::is_ascii_hexdigit).take(16).collect();
        Self(format!("v1/{tenant}/{job}/input-{index}-{digits}"))
    }

    /// Returns the key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for BlobKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let refuse = |rule| Err(InvalidKey { text: text.to_owned(), rule });
        if text.len() > Self::MAX_LEN {
            return refuse("it has more than 512 bytes");
        }
        for segment in text.split('/') {
            if matches!(segment, "" | "." | "..") {
                return refuse("a segment is empty, . or ..");
            }
            let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
            if !segment.bytes().all(legal) {
                return refuse("only a-z, A-Z, 0-9, ., _, - and / may stand in it");
            }
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for BlobKey {
    type Error = InvalidKey;

    fn try_from(text: String) -> Result<Self, InvalidKey> {
        text.parse()
    }
}

impl From<BlobKey> for String {
    fn from(key: BlobKey) -> Self {
        key.0
    }
}

/// Why the media store did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// Another object lies under the key: it is left as it is.
    #[error("another object lies under {key} already")]
    Conflict {
        /// The key.
        key: BlobKey,
    },
    /// The bytes asked for are not all there.
    #[error("bytes {}..{} are not within {key}, which has {size_bytes}", range.start, range.end)]
    RangeOutside {
        /// The key.
        key: BlobKey,
        /// The bytes asked for.
        range: Range<u64>,
        /// How many there are.
        size_bytes: u64,
    },
    /// The file to put could not be read.
    #[error("could not read {}", path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The store was reached and does not let us do this: our credentials are wrong, have expired or lack a permission.
    #[error("the media store does not permit {doing}")]
    Denied {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store could not be reached or its medium failed.
    #[error("could not reach the media store while {doing}")]
    Unavailable {
        /// What was being done.
        doing: &'static str,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What a put found and stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// False when the same bytes lay there already: our own write, tried again.
    pub created: bool,
    /// The object's length.
    pub size_bytes: u64,
    /// The SHA-256 of its bytes, as 64 lower-case hex digits.
    pub sha256: String,
}

/// What is known of an object without reading it. Its SHA-256 stands in the row that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its key.
    pub key: BlobKey,
    /// Its length.
    pub size_bytes: u64,
    /// When it was stored, by the media store's clock.
    pub modified_at: Micros,
}

/// The bytes of an object as they come.
pub type ByteStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// An object that is being read.
pub struct Opened {
    /// The object.
    pub info: ObjectInfo,
    /// Which of its bytes the stream holds.
    pub range: Range<u64>,
    /// The bytes; they stay readable even if the object is deleted meanwhile, or the stream ends with an error.
    pub stream: ByteStream,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("info", &self.info).field("range", &self.range).finish_non_exhaustive()
    }
}

/// Keeps objects that never change.
///
/// An object is there whole or not at all, and once a put has returned it survives a loss of power.
#[async_trait]
pub trait Blob: Send + Sync {
    /// Stores a file's bytes under a key where no object lies yet; never overwrites.
    ///
    /// The same bytes under the same key is a success, so that a put may be tried again.
    ///
    /// While it runs, `moved` is called after every chunk or part that was read from the file or handed to the server or
    /// disk, so that whoever waits can tell a slow put from one that hangs. It must not block, and is not called any more
    /// once the put has returned or was dropped.
    ///
    /// Errors: [`BlobError::Conflict`] when other bytes lie there, [`BlobError::Source`] when the file cannot be read.
    async fn put_file(&self, key: &BlobKey, file: &Path, moved: &(dyn Fn() + Send + Sync)) -> Result<Put, BlobError>;

    /// Returns what is known of an object; none when there is none.
    async fn head(&self, key: &BlobKey) -> Result<Option<ObjectInfo>, BlobError>;

    /// Opens an object, whole or the given bytes of it; none when there is none.
    ///
    /// Errors: [`BlobError::RangeOutside`] when the range is empty, reversed or not within the object.
    async fn open(&self, key: &BlobKey, range: Option<Range<u64>>) -> Result<Option<Opened>, BlobError>;

    /// Returns an address from which anybody can download the object for as long as `life`, under the name `file_name`; none
    /// where the store has no such addresses. The object need not be there.
    async fn link(&self, key: &BlobKey, life: Duration, file_name: &str) -> Result<Option<String>, BlobError>;

    /// Removes an object; one that is not there is already removed.
    async fn delete(&self, key: &BlobKey) -> Result<(), BlobError>;

    /// Returns up to `limit` objects whose keys begin with `prefix` and sort after `after`, in the order of their keys.
    async fn list(&self, prefix: &str, after: Option<&BlobKey>, limit: usize) -> Result<Vec<ObjectInfo>, BlobError>;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_that_would_leave_their_folder_are_refused() {
        for wrong in
            ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "a/.", "a\0b", "a b", "a\\b", "ä", &"x".repeat(513)]
        {
            assert!(wrong.parse::<BlobKey>().is_err(), "{wrong:?} was accepted");
        }
        let refused = "a/../b".parse::<BlobKey>().unwrap_err();
        assert_eq!(refused.to_string(), "\"a/../b\" cannot be an object key: a segment is empty, . or ..");
    }

    #[test]
    fn a_result_key_is_a_legal_key_and_private_to_its_claim() {
        let (tenant, job) = (Tenant::default(), JobId::new());
        let key = BlobKey::result(&tenant, job, Fence(3), ClaimToken::random());
        assert_eq!(key.as_str().parse::<BlobKey>().unwrap(), key);
        assert!(key.as_str().starts_with(&format!("v1/default/{job}/3-")));
        assert_ne!(key, BlobKey::result(&tenant, job, Fence(3), ClaimToken::random()));
        assert_ne!(key, BlobKey::result(&tenant, job, Fence(4), ClaimToken::random()));
    }

    proptest! {
        #[test]
        fn an_accepted_key_stays_below_the_folder_it_is_joined_to(text in "[a-z./]{0,20}|\\PC{0,20}") {
            if let Ok(key) = text.parse::<BlobKey>() {
                let path = Path::new(key.as_str());
                prop_assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
            }
        }
    }
}
