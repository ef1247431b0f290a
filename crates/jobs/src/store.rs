//! The truth about jobs, one transaction per verb.

use std::time::Duration;

use async_trait::async_trait;
use clapboard_h3::Partition;

use crate::attempt::Attempt;
use crate::backlog::Backlog;
use crate::blob::BlobKey;
use crate::checkpoint::Checkpoint;
use crate::dispatch::Hint;
use crate::fleet::{Orders, WorkerCard, WorkerRecord};
use crate::id::{JobId, Tenant, WorkerId};
use crate::job::{Job, NewJob};
use crate::keyring::{ApiKeyId, Keyring};
use crate::lease::{Beat, Claimant, Claimed, Lease, LeaseError};
use crate::metadata::Metadata;
use crate::outbox::{DeliveryId, EndpointId, Outbox};
use crate::outcome::{HandBack, Outcome};
use crate::progress::Progress;
use crate::state::{JobState, Status};
use crate::submission::Submission;
use crate::time::Micros;
use crate::usage::Usage;

/// Why a store did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The list should go on after a job that never was, or is another tenant's.
    #[error("there is no job {after} to list after")]
    UnknownCursor {
        /// The job that was named.
        after: JobId,
    },
    /// A job of that id is there already.
    #[error("job {id} exists already")]
    Duplicate {
        /// The id.
        id: JobId,
    },
    /// An input that the job names was not noted, or so long ago that it may have been deleted.
    #[error("the inputs of job {id} are not there any more")]
    InputsGone {
        /// The job.
        id: JobId,
    },
    /// The request has made a job before.
    #[error("the request has made job {job} before")]
    Resubmitted {
        /// That job; it may be deleted.
        job: JobId,
    },
    /// The request bears the name of another one.
    #[error("another request of that name has made job {job}")]
    KeyReused {
        /// The job that the other one has made.
        job: JobId,
    },
    /// There is an API key of that id or hash.
    #[error("API key {id} exists already")]
    DuplicateKey {
        /// The id of the one that was to be added.
        id: ApiKeyId,
    },
    /// The list should go on after a delivery that is not there, or is another tenant's.
    #[error("there is no delivery {after} to list after")]
    UnknownDelivery {
        /// The delivery that was named.
        after: DeliveryId,
    },
    /// The tenant has as many endpoints as it may.
    #[error("there may be at most {limit} endpoints")]
    TooManyEndpoints {
        /// How many there may be.
        limit: u32,
    },
    /// Nothing is sent to the endpoint, so that nothing is to be sent to it once more either.
    #[error("endpoint {endpoint} is disabled")]
    EndpointDisabled {
        /// The endpoint.
        endpoint: EndpointId,
    },
    /// A test of the endpoint waits, or is under way.
    #[error("a test of endpoint {endpoint} is pending")]
    TestPending {
        /// The endpoint.
        endpoint: EndpointId,
    },
    /// The tenant has as many jobs waiting as it may.
    #[error("tenant {tenant} has {limit} jobs waiting already, which is as many as it may")]
    QueueFull {
        /// Whose queue.
        tenant: Tenant,
        /// How many it may hold.
        limit: u32,
    },
    /// The store could not be reached or its medium failed.
    #[error("could not reach the job store while {doing}")]
    Unavailable {
        /// What was being done.
        doing: &'static str,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A row holds what this program cannot read.
    #[error("the job store holds a {field} that this program cannot read")]
    Unreadable {
        /// The column.
        field: &'static str,
        /// What the reader said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// How long a worker that says nothing counts as being there. An idle worker silent for longer than this keeps no job from a
/// busy one.
pub const WORKER_MEMORY: Duration = Duration::from_secs(60);

/// The last place in a queue that is told: counting further would cost more with every job that waits.
pub const FARTHEST_PLACE: u64 = 1_000;

/// Which end of a list comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Oldest first.
    Ascending,
    /// Newest first.
    #[default]
    Descending,
}

/// Which jobs to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery {
    /// The last job of the page before; it may have been deleted since.
    pub after: Option<JobId>,
    /// How many at most.
    pub limit: u32,
    /// Which end comes first.
    pub order: Order,
    /// Only those of which a client is told this.
    pub status: Option<Status>,
    /// Only those for which the client named the model so.
    pub model: Option<String>,
    /// Only those with all of these among their metadata.
    pub metadata: Metadata,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self {
            after: None,
            limit: 20,
            order: Order::default(),
            status: None,
            model: None,
            metadata: Metadata::default(),
        }
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// More follow after the last of them.
    pub has_more: bool,
}

/// What came of a cancel.
#[derive(Debug, Clone, PartialEq)]
pub struct Cancelled {
    /// The job as it is now.
    pub job: Job,
    /// This cancel has ended it: until then it waited.
    pub has_ended_it: bool,
}

/// What a sweep over lost leases did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Jobs that wait for their next attempt.
    pub requeued: Vec<JobId>,
    /// Jobs that have ended: attempts used up, or a cancel was asked for.
    pub ended: Vec<JobId>,
}

impl Reclaimed {
    /// Tells whether nothing was there to reclaim.
    pub fn is_empty(&self) -> bool {
        self.requeued.is_empty() && self.ended.is_empty()
    }
}

/// Keeps the jobs.
///
/// Every verb is one transaction: when it returns, what it did survives a loss of power; when it fails, it did nothing,
/// except that a failure to hear the answer ([`StoreError::Unavailable`]) leaves open which of the two it was. Times
/// are of the store's clock, and a cancel that was accepted is kept: the job then ends cancelled, whatever its worker
/// reports.
///
/// The verbs of a worker (from [`begin`](Store::begin) to [`hand_back`](Store::hand_back)) need its [`Lease`]
/// and answer [`LeaseError::Lost`] when it holds no more; [`lease`](crate::lease) is the argument.
#[async_trait]
pub trait Store: Keyring + Outbox {
    /// Returns the time by the store's clock.
    async fn now(&self) -> Result<Micros, StoreError>;

    /// Tells, before anything is done for it, whether a job of a tenant's would be made now. It costs little, and a tenant
    /// without a cap on its queue hardly anything; it keeps no place, so that only [`create`](Store::create) decides.
    ///
    /// Errors: [`StoreError::QueueFull`], as `create` would answer, also where the create would be one that is sent again.
    async fn check_room(&self, tenant: &Tenant) -> Result<(), StoreError>;

    /// Takes note that the inputs of a job that is about to be made will be stored under these keys, so that no object is ever
    /// unknown to the tables. Unless [`create`](Store::create) names them within `life`, they are garbage then. A key that is
    /// known already stays what it is.
    async fn expect_inputs(&self, job: JobId, keys: &[BlobKey], life: Duration) -> Result<(), StoreError>;

    /// Gives up the inputs of a job that will not be made: those of `keys` that wait for it can be collected at once, and no
    /// [`create`](Store::create) takes them any more. Nobody may still be storing them. Other keys are left alone: what is a
    /// job's, or was until its end, what was noted for another job, and what is not known.
    async fn abandon_inputs(&self, job: JobId, keys: &[BlobKey]) -> Result<(), StoreError>;

    /// Tells which job a request has made before, if it has: as [`create`](Store::create) would.
    ///
    /// Errors: [`StoreError::KeyReused`].
    async fn submitted(&self, tenant: &Tenant, submission: &Submission) -> Result<Option<JobId>, StoreError>;

    /// Makes a job, which exists from now on, and its inputs with it: they are kept for as long as it can still run, which a
    /// failed job can again, and a completed or cancelled one cannot.
    ///
    /// Errors: [`StoreError::Duplicate`] when there is one of that id, also where its inputs are gone by now; else
    /// [`StoreError::InputsGone`], after which the inputs are to be stored anew for a job of another id; else
    /// [`StoreError::QueueFull`], which leaves the inputs for another try. There is no job then. With a
    /// [`submission`](NewJob::submission), and after the first of these: [`StoreError::Resubmitted`] or
    /// [`StoreError::KeyReused`].
    async fn create(&self, job: NewJob) -> Result<Job, StoreError>;

    /// Returns a tenant's job; none when it has none of that id.
    async fn get(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError>;

    /// Returns a job whatever its tenant; none when there is none of that id. For operators alone: what a client asks for is its
    /// tenant's.
    async fn find(&self, id: JobId) -> Result<Option<Job>, StoreError>;

    /// Returns a tenant's jobs in the order of their creation, ties by id.
    ///
    /// A filter by model alone, or by one pair of metadata alone that few of the jobs have, costs what it finds and not what the
    /// tenant has. What is asked for besides one pair (a status, a model, another pair) is looked for among the jobs that have
    /// the pair; where very many have it, the list may be gone through instead, whose jobs it then passes over one by one.
    ///
    /// Errors: [`StoreError::UnknownCursor`] when `after` never was a job of the tenant's.
    async fn list(&self, tenant: &Tenant, query: &ListQuery) -> Result<JobPage, StoreError>;

    /// Returns the claims of a tenant's job, oldest first; none of them when it has no such job.
    async fn attempts(&self, tenant: &Tenant, id: JobId) -> Result<Vec<Attempt>, StoreError>;

    /// Returns the place of a tenant's waiting job in its queue: 1 for the next to be claimed, 0 when it is claimed and
    /// not begun; none when it does not wait, and beyond [`FARTHEST_PLACE`].
    async fn queue_position(&self, tenant: &Tenant, id: JobId) -> Result<Option<u64>, StoreError>;

    /// Cancels a tenant's job, and returns it and whether this call has ended it; none when there is no such job.
    ///
    /// A waiting job ends at once. A running one is marked, its worker hears of it with its next beat and the job ends when
    /// the worker says so or loses its lease. An ended job stays as it is. Of many cancels of a job one at most has ended it.
    async fn cancel(&self, tenant: &Tenant, id: JobId) -> Result<Option<Cancelled>, StoreError>;

    /// Deletes a tenant's job, whatever its state, and returns the state it was in; none when there is no such job.
    ///
    /// The job is gone for everybody at once and nothing brings it back: a worker that still runs it has lost its
    /// lease. Its objects become garbage.
    async fn delete(&self, tenant: &Tenant, id: JobId) -> Result<Option<JobState>, StoreError>;

    /// Lets a tenant's failed job run again, with all its attempts, and returns it as it is then; none when there is no such
    /// job. A job that has not failed stays as it is. Its history and its place in the order stay.
    async fn retry(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError>;

    /// Claims the job of a hint, if it waits, is due, may still begin, and the claimant can run it.
    ///
    /// A job that had to begin before now is not claimed, since it could not [`begin`](Store::begin): it is for
    /// [`fail_overdue`](Store::fail_overdue), and those behind it do not wait for that.
    ///
    /// This and [`claim_next`](Store::claim_next) keep the caps: no job is claimed of a paused partition, none of a tenant
    /// that has as many running as it may, and none for a worker that is still [busy](Claimant::ahead) while another that
    /// could run it is idle: one that holds the weights and has the room, knows the spec version, and is not asked to drain.
    async fn claim(&self, id: JobId, claimant: &Claimant) -> Result<Option<Claimed>, StoreError>;

    /// Claims the waiting job of the lowest rank, ties by id, among those that are due, may still begin, and the claimant can run.
    async fn claim_next(&self, claimant: &Claimant) -> Result<Option<Claimed>, StoreError>;

    /// Records that the worker has really begun: from now on clients are told `in_progress`. Repeats change nothing.
    ///
    /// A job never begins after the time by which it had to: the lease is lost then, and the job is for
    /// [`fail_overdue`](Store::fail_overdue).
    async fn begin(&self, lease: &Lease) -> Result<Beat, LeaseError>;

    /// Renews the lease and records the progress.
    async fn beat(&self, lease: &Lease, progress: &Progress) -> Result<Beat, LeaseError>;

    /// Takes note that the claim is about to store its state after `step` steps under [`Lease::checkpoint_key`], so that no
    /// object is ever unknown to the tables.
    async fn expect_checkpoint(&self, lease: &Lease, step: u32) -> Result<(), LeaseError>;

    /// Takes note that the claim is about to store pictures of its result under [`Lease::preview_key`], of every kind.
    async fn expect_previews(&self, lease: &Lease) -> Result<(), LeaseError>;

    /// Makes a stored state the one where a next attempt goes on; the one before becomes garbage. It stays the job's until the
    /// job ends or another replaces it.
    ///
    /// Errors: [`LeaseError::ForeignObject`] when it does not lie under the lease's key or was not expected.
    async fn keep_checkpoint(&self, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), LeaseError>;

    /// Ends the job and returns how: as the outcome says, or cancelled if somebody had asked for that.
    ///
    /// A result becomes the job's in the same transaction, and every endpoint of its tenant gets its delivery; what the
    /// claim has stored besides becomes garbage. A job that had to begin before and has not is not completed any more, as it does
    /// not [begin](Store::begin) any more.
    ///
    /// Errors: [`LeaseError::ForeignObject`] when the result or a picture of it does not lie under the lease's key, or a
    /// picture was not expected.
    async fn finish(&self, lease: &Lease, outcome: Outcome) -> Result<JobState, LeaseError>;

    /// Gives the job back unfinished and returns what became of it, as [`Tally::hand_back`](crate::Tally::hand_back) says:
    /// queued; or failed when that was the last attempt; or cancelled if somebody had asked for that.
    async fn hand_back(&self, lease: &Lease, hand_back: HandBack) -> Result<JobState, LeaseError>;

    /// Returns, for each queue, up to `limit` waiting jobs that are due and may run, lowest rank first: none that had to begin
    /// before now, none of a paused partition, of each tenant no more than it may still have running, and none of a spec version that is not known to any
    /// of the workers heard of within [`WORKER_MEMORY`] that could run jobs of the queue; of all versions where there is no such
    /// worker.
    async fn ready(&self, limit: u32) -> Result<Vec<Hint>, StoreError>;

    /// Takes back up to `limit` jobs whose leases have ended, as [`Tally::lost`](crate::Tally::lost) says: an attempt counts
    /// if it had begun, and a job whose attempts are used up fails with [`WorkerLost`](crate::FailureCode::WorkerLost).
    async fn reclaim_expired(&self, limit: u32) -> Result<Reclaimed, StoreError>;

    /// Takes back all jobs held by workers other than `living`, without waiting for their leases to end.
    ///
    /// Only for a caller who knows that no other worker lives: the start of a standalone service, which holds the
    /// lock of its data directory.
    async fn reclaim_from_dead(&self, living: &[WorkerId]) -> Result<Reclaimed, StoreError>;

    /// Fails up to `limit` jobs whose time to begin has passed, with
    /// [`StartDeadlineExceeded`](crate::FailureCode::StartDeadlineExceeded), and returns them: those that wait, and those that a
    /// worker has claimed and not begun, which loses its lease. One of those that is asked to stop ends cancelled, and is returned
    /// too. A job that has once begun is not among them.
    async fn fail_overdue(&self, limit: u32) -> Result<Vec<JobId>, StoreError>;

    /// Gives up the results of up to `limit` completed jobs whose time has passed, and returns the jobs: the objects become
    /// garbage, the jobs stay.
    async fn expire_results(&self, limit: u32) -> Result<Vec<JobId>, StoreError>;

    /// Deletes up to `limit` ended jobs that were kept as long as the policy says, and returns them; forgets workers not heard
    /// of for a day.
    async fn purge_records(&self, limit: u32) -> Result<Vec<JobId>, StoreError>;

    /// Forgets what is left of up to `limit` jobs that were deleted as long ago as the policy keeps records, and returns of
    /// how many: no list goes on after them any more, and what was told about them is gone. Forgets up to as many requests whose
    /// [memory](crate::Resend::memory) has ended, and returns their number where that is the larger one.
    async fn forget_deleted(&self, limit: u32) -> Result<usize, StoreError>;

    /// Returns the first moment later than `after` at which a job falls due, has to have begun, loses its result or its
    /// record, or is forgotten, a lease ends or garbage can be collected; none when nothing of this will happen by itself.
    ///
    /// A sweep reads [`now`](Store::now), does its work, and sleeps until the moment after the time it read.
    async fn next_due(&self, after: Micros) -> Result<Option<Micros>, StoreError>;

    /// Returns up to `limit` keys that a row once named and none names now, and which nobody can still be writing.
    ///
    /// However a claim ends, an object that it expected and did not name may still be on its way: a put that was given up can
    /// arrive later. Its key is returned from the moment on at which the lease would have ended. What a row named was stored
    /// whole, and its key is returned at once; only where a running job is deleted does it wait for the lease too.
    async fn garbage(&self, limit: u32) -> Result<Vec<BlobKey>, StoreError>;

    /// Forgets garbage whose objects have been deleted; keys that are not garbage are left alone.
    async fn forget_garbage(&self, keys: &[BlobKey]) -> Result<(), StoreError>;

    /// Puts garbage off whose objects could not be deleted, so that it does not stand before younger garbage: longer each time,
    /// as [`backoff::garbage_delay`](crate::backoff::garbage_delay) says. Keys that are not garbage are left alone, and so are
    /// those that cannot be collected yet: another sweep has put them off just now.
    async fn postpone_garbage(&self, keys: &[BlobKey]) -> Result<(), StoreError>;

    /// Returns those of `keys` that no row names: neither as a result, nor as one to come, nor as an input, nor as garbage.
    ///
    /// A sweep over the objects themselves finds with it what a worker put after it had lost its lease.
    async fn unnamed(&self, keys: &[BlobKey]) -> Result<Vec<BlobKey>, StoreError>;

    /// Returns how much waits now, of jobs and of what is to be told, counted no further than
    /// [`MOST_COUNTED`](crate::backlog::MOST_COUNTED): what that costs does not grow with what waits.
    async fn backlog(&self) -> Result<Backlog, StoreError>;

    /// Returns what each tenant has used, by name.
    async fn usage(&self) -> Result<Vec<Usage>, StoreError>;

    /// Pauses a partition, none of whose jobs is then claimed, or lets it go on. Running jobs are left alone.
    async fn set_paused(&self, partition: Partition, paused: bool) -> Result<(), StoreError>;

    /// Returns the paused partitions.
    async fn paused(&self) -> Result<Vec<Partition>, StoreError>;

    /// Takes note of a worker and returns what it is asked to do.
    async fn announce(&self, card: &WorkerCard) -> Result<Orders, StoreError>;

    /// Forgets a worker that has ended in good order.
    async fn retire(&self, worker: WorkerId) -> Result<(), StoreError>;

    /// Returns the workers that were heard of within [`WORKER_MEMORY`], oldest first.
    async fn workers(&self) -> Result<Vec<WorkerRecord>, StoreError>;

    /// Asks a worker to drain, and tells whether there is such a worker.
    async fn ask_drain(&self, worker: WorkerId) -> Result<bool, StoreError>;
}
