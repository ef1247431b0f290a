//! From rows to jobs.

use std::collections::BTreeMap;

use clapboard_jobs::{Metadata, StoreError};

use crate::error::unreadable;

pub(crate) use clapboard_jobs::rows::{
    AttemptRow, DeliveryRow, DueRow, EndpointRow, JobRow, KeyRow, SubmissionRow, column, number, parse, partition,
};

/// `job_rows!("with …", "from …", arguments…)`: a checked statement that reads whole jobs. What goes before and what follows may
/// have several parts: `"with …" | ", …"`.
///
/// The types say for themselves which columns can be null, because Postgres cannot tell for what comes out of a `with`.
macro_rules! job_rows {
    ($($head:literal)|+, $($tail:literal)|+ $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            crate::rows::JobRow,
            $($head +)+
            r#"
            select
                id as "id!", tenant as "tenant!", model as "model!", partition as "partition!", rows as "rows!",
                priority as "priority!", spec_version as "spec_version!", spec::text as "spec!",
                cost_tflop as "cost_tflop!", rank as "rank!",
                state as "state!", phase as "phase!", step as "step!", total_steps as "total_steps!",
                percent::bigint as "percent!",
                created_at as "created_at!", run_at as "run_at!", start_by as "start_by?", begun_at as "begun_at?",
                finished_at as "finished_at?", cancel_requested_at as "cancel_requested_at?",
                attempt as "attempt!", max_attempts as "max_attempts!", fence as "fence!", worker as "worker?",
                lease_expires_at as "lease_expires_at?",
                checkpoint_key as "checkpoint_key?", checkpoint_step as "checkpoint_step?",
                checkpoint_size_bytes as "checkpoint_size_bytes?", checkpoint_sha256 as "checkpoint_sha256?",
                checkpoint_fingerprint as "checkpoint_fingerprint?",
                result_key as "result_key?", result_size_bytes as "result_size_bytes?",
                result_sha256 as "result_sha256?", result_expires_at as "result_expires_at?",
                report::text as "report?", error_code as "error_code?", error_message as "error_message?",
                previews::text as "previews?", metadata::text as "metadata?", end_user as "end_user?",
                stage_metrics as "stage_metrics!", remixed_from as "remixed_from?", trace as "trace?"
            "#
            $(+ $tail)+
            $(, $argument)*
        )
    };
}
pub(crate) use job_rows;

/// Returns metadata as the column holds them: none where there are none.
pub(crate) fn metadata(metadata: &Metadata) -> Result<Option<String>, StoreError> {
    if metadata.is_empty() {
        return Ok(None);
    }
    let pairs: BTreeMap<String, String> =
        metadata.pairs().iter().map(|(key, value)| (text(key), text(value))).collect();
    serde_json::to_string(&pairs).map(Some).map_err(unreadable("metadata"))
}

/// Returns a text as Postgres can hold it, which knows no NUL.
pub(crate) fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
