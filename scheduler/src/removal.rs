//! Deleting objects from a media store that may be away, slow or unwilling.

use std::panic;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clapboard_jobs::{Blob, BlobError, BlobKey, Causes};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A key under which no object lies, to ask whether the store answers at all.
const NOBODY: &str = "probe/nobody";
/// How many deletions are under way at once.
const AT_ONCE: usize = 16;
/// How many time-outs in a row a sweep waits for objects that are not deleted.
const TIMEOUTS: u32 = 4;

/// How much time a sweep may still spend on objects that are not deleted, summed up over all of them.
pub(crate) struct Patience(Duration);

impl Patience {
    fn spend(&mut self, time: Duration) {
        self.0 = self.0.saturating_sub(time);
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.0.is_zero()
    }
}

/// What became of some objects.
#[derive(Default)]
pub(crate) struct Removal {
    /// Those that are there no more.
    pub(crate) deleted: Vec<BlobKey>,
    /// Those that the store, which answers, does not delete.
    pub(crate) kept: Vec<BlobKey>,
    /// Why the last of those is kept.
    pub(crate) failed: Option<BlobError>,
    /// How many were tried, from the first on; the others came too late for the sweep's patience.
    pub(crate) tried: usize,
}

/// Why an object is still there.
#[derive(Debug)]
enum Kept {
    /// The store answers and does not delete this object: others may go.
    Object(BlobError),
    /// The store does not answer: neither will it for others.
    Store(BlobError),
}

/// Deletes objects, each within a time.
#[derive(Clone)]
pub(crate) struct Remover {
    blob: Arc<dyn Blob>,
    timeout: Duration,
}

impl Remover {
    pub(crate) fn new(blob: Arc<dyn Blob>, timeout: Duration) -> Self {
        Self { blob, timeout }
    }

    /// Returns the patience of one sweep.
    pub(crate) fn patience(&self) -> Patience {
        let at_once = u32::try_from(AT_ONCE).expect("a handful");
        Patience(self.timeout.saturating_mul(at_once * TIMEOUTS))
    }

    /// Deletes objects, several at once, in the order of the keys and for as long as the patience lasts; one that is not there is
    /// already deleted. The first goes alone, so that a store that is away is not asked about many.
    ///
    /// Returns with what was done until then that the store is away, if it is: deletions under way are left to themselves, and
    /// count as not done.
    pub(crate) async fn remove(&self, keys: Vec<BlobKey>, patience: &mut Patience) -> (Removal, Option<BlobError>) {
        let mut removal = Removal::default();
        let mut keys = keys.into_iter();
        let mut under_way = JoinSet::new();
        let mut at_once = 1;
        loop {
            while under_way.len() < at_once && !patience.is_spent() {
                let Some(key) = keys.next() else { break };
                removal.tried += 1;
                let remover = self.clone();
                under_way.spawn(async move {
                    let begun = Instant::now();
                    let answer = remover.remove_one(&key).await;
                    (key, answer, begun.elapsed())
                });
            }
            let (key, answer, took) = match under_way.join_next().await {
                None => return (removal, None),
                Some(Ok(ended)) => ended,
                Some(Err(error)) => panic::resume_unwind(error.into_panic()),
            };
            at_once = AT_ONCE;
            match answer {
                Ok(()) => removal.deleted.push(key),
                Err(Kept::Object(error)) => {
                    tracing::debug!(error = %Causes(&error), %key, "could not delete an object");
                    removal.kept.push(key);
                    removal.failed = Some(error);
                    patience.spend(took);
                }
                Err(Kept::Store(error)) => return (removal, Some(error)),
            }
        }
    }

    /// Deletes an object.
    ///
    /// Errors: [`Kept`]. Where a deletion failed for want of an answer, the store is asked something else: its answer makes
    /// the failure that object's own.
    async fn remove_one(&self, key: &BlobKey) -> Result<(), Kept> {
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
