//! The job and what makes one.

use std::time::Duration;

use clapboard_h3::{GenerationSpec, Partition};

use crate::blob::BlobKey;
use crate::capacity::CapacityClass;
use crate::checkpoint::Checkpoint;
use crate::dispatch::Queue;
use crate::id::{Fence, JobId, Tenant, WorkerId};
use crate::metadata::Metadata;
use crate::outbox::JobHook;
use crate::outcome::{JobError, ResultObject, RunReport};
use crate::preview::Preview;
use crate::progress::Progress;
use crate::rank::Priority;
use crate::spec::SpecRecord;
use crate::state::{JobState, Status};
use crate::submission::Submission;
use crate::time::Micros;
use crate::trace::TraceParent;

/// What is needed to make a job. Built by [`NewJob::new`], then changed field by field.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// The job's name, chosen here so that the caller knows it whatever becomes of the call.
    pub id: JobId,
    /// Whom it belongs to.
    pub tenant: Tenant,
    /// The model by the name the client used, echoed to it.
    pub model: String,
    /// The weights it needs.
    pub partition: Partition,
    /// What to generate.
    pub spec: SpecRecord,
    /// What it costs, in TFLOP: its share in the fair order.
    pub cost_tflop: f64,
    /// The rows of its packed sequence at most: what a worker has to hold.
    pub rows: u64,
    /// The objects that its spec names, each noted before by [`Store::expect_inputs`](crate::Store::expect_inputs).
    pub inputs: Vec<BlobKey>,
    /// How urgent it is.
    pub priority: Priority,
    /// How long after its creation it has to have begun, else it fails; none for whenever.
    pub start_within: Option<Duration>,
    /// How long its result is kept, at most as long as the policy says; none for just as long.
    pub result_life: Option<Duration>,
    /// What its client attached to it.
    pub metadata: Metadata,
    /// What its client wants to be told about it.
    pub told: Told,
    /// The job that it varies.
    pub remixed_from: Option<JobId>,
    /// Who hears of it besides its tenant's endpoints.
    pub hook: Option<JobHook>,
    /// The trace that it belongs to.
    pub trace: Option<TraceParent>,
    /// By what its request is known again.
    pub submission: Option<Submission>,
}

/// What the client of a job said that is told back to it and changes nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Whom the client made it for.
    pub user: Option<String>,
    /// The client wants the metrics of the stages.
    pub stage_metrics: bool,
}

impl NewJob {
    /// Makes a job from a resolved request.
    pub fn new(tenant: Tenant, model: impl Into<String>, spec: &GenerationSpec) -> Self {
        Self {
            id: JobId::new(),
            tenant,
            model: model.into(),
            partition: spec.partition,
            spec: SpecRecord::encode(spec),
            cost_tflop: spec.cost().get(),
            rows: u64::try_from(spec.rows_bound()).expect("a sequence that fits memory fits 64 bits"),
            inputs: Vec::new(),
            priority: Priority::Normal,
            start_within: None,
            result_life: None,
            metadata: Metadata::default(),
            told: Told::default(),
            remixed_from: None,
            hook: None,
            trace: None,
            submission: None,
        }
    }
}

/// A job as its row tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its name.
    pub id: JobId,
    /// Whom it belongs to.
    pub tenant: Tenant,
    /// The model by the name the client used.
    pub model: String,
    /// The weights it needs.
    pub partition: Partition,
    /// What to generate.
    pub spec: SpecRecord,
    /// What it costs, in TFLOP.
    pub cost_tflop: f64,
    /// The rows of its packed sequence at most.
    pub rows: u64,
    /// How urgent it is.
    pub priority: Priority,
    /// Its place in the order of its queue, fixed when it was made; lower runs first.
    pub rank: f64,
    /// Where it stands.
    pub state: JobState,
    /// How far its present or last attempt came.
    pub progress: Progress,
    /// When it was made.
    pub created_at: Micros,
    /// Before when it is not claimed: its creation, or the end of a backoff.
    pub run_at: Micros,
    /// Until when it has to have begun, else it fails; none for whenever, and once it has begun.
    pub start_by: Option<Micros>,
    /// When the present or last attempt really began; none while it waits.
    pub begun_at: Option<Micros>,
    /// When it ended.
    pub finished_at: Option<Micros>,
    /// When somebody asked for its cancel.
    pub cancel_requested_at: Option<Micros>,
    /// How many attempts count so far, the present one included.
    pub attempt: u32,
    /// How many attempts it has.
    pub max_attempts: u32,
    /// How often it was claimed.
    pub fence: Fence,
    /// Who holds it now.
    pub worker: Option<WorkerId>,
    /// Until when the holder's lease lasts.
    pub lease_expires_at: Option<Micros>,
    /// Where a next attempt can go on; none once the job has ended.
    pub checkpoint: Option<Checkpoint>,
    /// Its result, while it is completed and that is kept.
    pub result: Option<ResultObject>,
    /// The pictures of its result, as long as that is kept.
    pub previews: Vec<Preview>,
    /// Until when its result is kept, or was; none for as long as the job.
    pub result_expires_at: Option<Micros>,
    /// What its run said about itself, exactly when it is completed.
    pub report: Option<RunReport>,
    /// Why it has no result, exactly when it failed or was cancelled.
    pub error: Option<JobError>,
    /// What its client attached to it.
    pub metadata: Metadata,
    /// What its client wants to be told about it.
    pub told: Told,
    /// The job that it varies; that one may be gone.
    pub remixed_from: Option<JobId>,
    /// The trace that it belongs to.
    pub trace: Option<TraceParent>,
}

impl Job {
    /// Returns what a client is told about the job.
    pub fn status(&self) -> Status {
        self.state.status(self.begun_at.is_some())
    }

    /// Returns the queue it waits in.
    pub fn queue(&self) -> Queue {
        Queue::of(self.partition, CapacityClass::of_rows(self.rows))
    }
}
