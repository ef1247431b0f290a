//! From rows to jobs.

pub(crate) use clapboard_jobs::rows::{AttemptRow, JobRow, column, number, parse, partition};

/// `select_job!("where …", arguments…)`: a checked statement that reads whole jobs.
macro_rules! select_job {
    ($tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            crate::rows::JobRow,
            r#"
            select
                id as "id: uuid::Uuid", tenant, model, partition, spec_version, spec, cost_tflop, rows, priority, rank,
                state, phase, step, total_steps, percent,
                created_at, run_at, start_by, begun_at, finished_at, cancel_requested_at,
                attempt, max_attempts, fence, worker as "worker: uuid::Uuid", lease_expires_at,
                checkpoint_key, checkpoint_step, checkpoint_size_bytes, checkpoint_sha256, checkpoint_fingerprint,
                result_key, result_size_bytes, result_sha256, result_expires_at, report, error_code, error_message
            from jobs
            "# + $tail
            $(, $argument)*
        )
    };
}
pub(crate) use select_job;
