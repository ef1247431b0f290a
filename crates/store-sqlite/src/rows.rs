//! From rows to jobs.

use clapboard_jobs::{Metadata, StoreError};

use crate::error::unreadable;

pub(crate) use clapboard_jobs::rows::{
    AttemptRow, DeliveryRow, DueRow, EndpointRow, JobRow, KeyRow, SubmissionRow, column, number, parse, partition,
};

/// `select_job!("where …", arguments…)`: a checked statement that reads whole jobs. What follows may have several parts:
/// `"where …" | " and …"`.
macro_rules! select_job {
    ($($tail:literal)|+ $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            crate::rows::JobRow,
            r#"
            select
                id as "id: uuid::Uuid", tenant, model, partition, spec_version, spec, cost_tflop, rows, priority, rank,
                state, phase, step, total_steps, percent,
                created_at, run_at, start_by, begun_at, finished_at, cancel_requested_at,
                attempt, max_attempts, fence, worker as "worker: uuid::Uuid", lease_expires_at,
                checkpoint_key, checkpoint_step, checkpoint_size_bytes, checkpoint_sha256, checkpoint_fingerprint,
                result_key, result_size_bytes, result_sha256, result_expires_at, report, error_code, error_message,
                previews, metadata, end_user, stage_metrics as "stage_metrics: bool",
                remixed_from as "remixed_from: uuid::Uuid", trace
            from jobs
            "# $(+ $tail)+
            $(, $argument)*
        )
    };
}
pub(crate) use select_job;

/// Returns metadata as the column holds them: none where there are none.
pub(crate) fn metadata(metadata: &Metadata) -> Result<Option<String>, StoreError> {
    if metadata.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(metadata).map(Some).map_err(unreadable("metadata"))
}
