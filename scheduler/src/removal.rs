//! Deleting objects from a media store that may be away, slow or unwilling.

use std::sync::Arc;
use std::time::Duration;

use clapboard_jobs::{Blob, BlobError, BlobKey};
use tokio::time::timeout;

/// A key under which no object lies, to ask whether the store answers at all.
const NOBODY: &str = "probe/nobody";

/// Why an object is still there.
#[derive(Debug)]
pub(crate) enum Kept {
    /// The store answers and does not delete this object: others may go.
    Object(BlobError),
    /// The store does not answer: neither will it for others.
    Store(BlobError),
}

/// Deletes objects, each within a time.
pub(crate) struct Remover {
    blob: Arc<dyn Blob>,
    timeout: Duration,
}

impl Remover {
    pub(crate) fn new(blob: Arc<dyn Blob>, timeout: Duration) -> Self {
        Self { blob, timeout }
    }

    /// Deletes an object; one that is not there is already deleted.
    ///
    /// Errors: [`Kept`]. Where a deletion failed for want of an answer, the store is asked something else: its answer makes
    /// the failure that object's own.
    pub(crate) async fn remove(&self, key: &BlobKey) -> Result<(), Kept> {
        let error = match timeout(self.timeout, self.blob.delete(key)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error,
            Err(_) => {
                let source = format!("no answer within {:?}", self.timeout).into();
                BlobError::Unavailable { doing: "deleting an object", source }
            }
        };
        let is_away = matches!(error, BlobError::Unavailable { .. }) && !self.answers().await;
        Err(if is_away { Kept::Store(error) } else { Kept::Object(error) })
    }

    async fn answers(&self) -> bool {
        let nobody: BlobKey = NOBODY.parse().expect("the key is legal");
        // A refusal is an answer.
        matches!(timeout(self.timeout, self.blob.head(&nobody)).await, Ok(Ok(_) | Err(BlobError::Denied { .. })))
    }
}
