//! A worker's hold on a job, and why a worker that lost it can do no harm.
//!
//! A claim is one conditional update: it takes a queued job, raises its fence, draws a random token and sets the end
//! of the lease by the store's clock. From then on every write about the job says
//! `where id = ? and fence = ? and claim_token = ? and state = 'running'`. Zero rows is an answer: the lease is
//! [lost](LeaseError::Lost), because it ended and the job was given away, or somebody cancelled or deleted the job. The
//! worker then stops, removes what it has uploaded and reports nothing.
//!
//! Why at most one result can ever be seen:
//!
//! 1. Two claims of one job have different fences, since the update that raises it locks the row; and different tokens,
//!    even if a restored store handed out the same fence again.
//! 2. All that an attempt uploads goes to [`Lease::result_key`], which holds both, and no put ever overwrites. So two
//!    attempts never write the same object.
//! 3. The object becomes the job's result in the same transaction that ends the job, under the condition above. Only
//!    one claim can pass it, and it leaves the state `running` for good.
//! 4. Readers reach objects through the row alone.

use std::time::Duration;

use clapboard_h3::{GenerationSpec, Partition};

use crate::blob::BlobKey;
use crate::capacity::CapacityClass;
use crate::dispatch::Queue;
use crate::id::{ClaimToken, Fence, JobId, Tenant, WorkerId};
use crate::job::Job;
use crate::preview::{Preview, PreviewKind};
use crate::store::StoreError;
use crate::time::Micros;

/// Who wants a job, and which jobs it can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// This run of the worker's process.
    pub worker: WorkerId,
    /// The weights it has loaded.
    pub partitions: Vec<Partition>,
    /// The spec versions it can decode.
    pub spec_versions: Vec<u32>,
    /// The longest packed sequence it can hold, in rows; none for any.
    pub max_rows: Option<u64>,
    /// It still runs another job: it gets one only if no other worker that could run it is idle.
    pub ahead: bool,
}

impl Claimant {
    /// Describes an idle worker of this program that holds jobs of any size.
    pub fn new(worker: WorkerId, partitions: Vec<Partition>) -> Self {
        Self {
            worker,
            partitions,
            spec_versions: GenerationSpec::KNOWN_VERSIONS.to_vec(),
            max_rows: None,
            ahead: false,
        }
    }

    /// Returns the queues all of whose jobs it can hold: those whose hints are for it.
    ///
    /// Jobs of the next larger class that happen to fit are found by [`Store::claim_next`](crate::Store::claim_next).
    pub fn queues(&self) -> Vec<Queue> {
        let classes = || CapacityClass::held_whole(self.max_rows);
        self.partitions.iter().flat_map(|&partition| classes().map(move |class| Queue::of(partition, class))).collect()
    }
}

/// A hold on a running job: what every later write must present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The job.
    pub job: JobId,
    /// Whose job it is; part of its objects' keys.
    pub tenant: Tenant,
    /// Which claim of the job this is.
    pub fence: Fence,
    /// The claim's secret.
    pub token: ClaimToken,
    /// Who claimed.
    pub worker: WorkerId,
    /// When it ends unless it is renewed, by the store's clock.
    pub expires_at: Micros,
    /// How long one beat renews it, to be counted on the worker's own monotonic clock from *before* the call that
    /// answered.
    pub duration: Duration,
}

impl Lease {
    /// Returns the only key that this claim's result may be put under.
    pub fn result_key(&self) -> BlobKey {
        BlobKey::result(&self.tenant, self.job, self.fence, self.token)
    }

    /// Returns the only key that this claim's picture of its result may be put under.
    pub fn preview_key(&self, kind: PreviewKind) -> BlobKey {
        BlobKey::preview(&self.tenant, self.job, self.fence, self.token, kind)
    }

    /// Refuses pictures that do not lie under this claim's keys, and those of a kind that is there already.
    ///
    /// Errors: [`LeaseError::ForeignObject`].
    pub fn require_own_previews(&self, previews: &[Preview]) -> Result<(), LeaseError> {
        for (number, preview) in previews.iter().enumerate() {
            let expected = self.preview_key(preview.kind);
            let is_double = previews[..number].iter().any(|other| other.kind == preview.kind);
            if preview.object.key != expected || is_double {
                return Err(LeaseError::foreign_preview(self.job, preview, expected));
            }
        }
        Ok(())
    }

    /// Returns the only key that this claim's checkpoint after `step` steps may be put under.
    pub fn checkpoint_key(&self, step: u32) -> BlobKey {
        BlobKey::checkpoint(&self.tenant, self.job, self.fence, self.token, step)
    }
}

/// A fresh claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The hold.
    pub lease: Lease,
    /// The job as it stands now.
    pub job: Job,
}

/// The answer to a beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// When the renewed lease ends, by the store's clock.
    pub lease_expires_at: Micros,
    /// Somebody wants the job cancelled: stop and finish it as such.
    pub cancel_requested: bool,
}

/// Why a write under a lease did not take effect.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The job is another claim's now, or has ended, or is gone: stop, remove what was uploaded, report nothing.
    #[error("the lease on job {job} (fence {fence}) is no longer ours")]
    Lost {
        /// The job.
        job: JobId,
        /// The fence of the lost claim.
        fence: Fence,
    },
    /// The result or checkpoint lies under a key that is not this claim's, so it cannot become the job's.
    #[error("an object of job {job} lies under {found}, not under its claim's key {expected}")]
    ForeignObject {
        /// The job.
        job: JobId,
        /// The key that was reported.
        found: BlobKey,
        /// The claim's key.
        expected: BlobKey,
    },
    /// The store could not say; the lease may still be ours.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LeaseError {
    /// Says that a picture is not one that was expected under that key.
    pub fn foreign_preview(job: JobId, preview: &Preview, expected: BlobKey) -> Self {
        Self::ForeignObject { job, found: preview.object.key.clone(), expected }
    }
}
