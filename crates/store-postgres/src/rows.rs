//! From rows to jobs.

use std::str::FromStr;

use clapboard_h3::Partition;
use clapboard_jobs::{
    Attempt, Checkpoint, Fence, Fingerprint, Job, JobError, JobId, Micros, Progress, ResultObject, SpecRecord,
    StoreError, WorkerId,
};
use uuid::Uuid;

use crate::error::unreadable;

/// One row of `jobs`, column by column.
#[derive(Debug)]
pub(crate) struct JobRow {
    pub(crate) id: Uuid,
    pub(crate) tenant: String,
    pub(crate) model: String,
    pub(crate) partition: String,
    pub(crate) rows: i64,
    pub(crate) priority: String,
    pub(crate) spec_version: i64,
    pub(crate) spec: String,
    pub(crate) cost_tflop: f64,
    pub(crate) rank: f64,
    pub(crate) state: String,
    pub(crate) phase: String,
    pub(crate) step: i64,
    pub(crate) total_steps: i64,
    pub(crate) percent: i32,
    pub(crate) created_at: i64,
    pub(crate) run_at: i64,
    pub(crate) start_by: Option<i64>,
    pub(crate) begun_at: Option<i64>,
    pub(crate) finished_at: Option<i64>,
    pub(crate) cancel_requested_at: Option<i64>,
    pub(crate) attempt: i64,
    pub(crate) max_attempts: i64,
    pub(crate) fence: i64,
    pub(crate) worker: Option<Uuid>,
    pub(crate) lease_expires_at: Option<i64>,
    pub(crate) checkpoint_key: Option<String>,
    pub(crate) checkpoint_step: Option<i64>,
    pub(crate) checkpoint_size_bytes: Option<i64>,
    pub(crate) checkpoint_sha256: Option<String>,
    pub(crate) checkpoint_fingerprint: Option<String>,
    pub(crate) result_key: Option<String>,
    pub(crate) result_size_bytes: Option<i64>,
    pub(crate) result_sha256: Option<String>,
    pub(crate) result_expires_at: Option<i64>,
    pub(crate) report: Option<String>,
    pub(crate) error_code: Option<String>,
    pub(crate) error_message: Option<String>,
}

/// `job_rows!("with …", "from …", arguments…)`: a checked statement that reads whole jobs. What goes before may have
/// several parts: `"with …" | ", …"`.
///
/// The types say for themselves which columns can be null, because Postgres cannot tell for what comes out of a `with`.
macro_rules! job_rows {
    ($($head:literal)|+, $tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            crate::rows::JobRow,
            $($head +)+
            r#"
            select
                id as "id!", tenant as "tenant!", model as "model!", partition as "partition!", rows as "rows!",
                priority as "priority!", spec_version as "spec_version!", spec::text as "spec!",
                cost_tflop as "cost_tflop!", rank as "rank!",
                state as "state!", phase as "phase!", step as "step!", total_steps as "total_steps!",
                percent as "percent!",
                created_at as "created_at!", run_at as "run_at!", start_by as "start_by?", begun_at as "begun_at?",
                finished_at as "finished_at?", cancel_requested_at as "cancel_requested_at?",
                attempt as "attempt!", max_attempts as "max_attempts!", fence as "fence!", worker as "worker?",
                lease_expires_at as "lease_expires_at?",
                checkpoint_key as "checkpoint_key?", checkpoint_step as "checkpoint_step?",
                checkpoint_size_bytes as "checkpoint_size_bytes?", checkpoint_sha256 as "checkpoint_sha256?",
                checkpoint_fingerprint as "checkpoint_fingerprint?",
                result_key as "result_key?", result_size_bytes as "result_size_bytes?",
                result_sha256 as "result_sha256?", result_expires_at as "result_expires_at?",
                report::text as "report?", error_code as "error_code?", error_message as "error_message?"
            "#
            + $tail
            $(, $argument)*
        )
    };
}
pub(crate) use job_rows;

pub(crate) fn parse<T>(field: &'static str, text: &str) -> Result<T, StoreError>
where
    T: FromStr,
    T::Err: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    text.parse().map_err(unreadable(field))
}

/// Reads a column of `partition`.
pub(crate) fn partition(text: &str) -> Result<Partition, StoreError> {
    parse("partition", text)
}

/// Reads a number that the column is wider than.
pub(crate) fn number<T>(field: &'static str, value: i64) -> Result<T, StoreError>
where
    T: TryFrom<i64, Error = std::num::TryFromIntError>,
{
    T::try_from(value).map_err(unreadable(field))
}

/// Returns a number as columns hold it.
pub(crate) fn column(field: &'static str, value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(unreadable(field))
}

/// Returns a text as Postgres can hold it, which knows no NUL.
pub(crate) fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

pub(crate) fn job_error(code: Option<String>, message: Option<String>) -> Result<Option<JobError>, StoreError> {
    let (Some(code), Some(message)) = (code, message) else {
        return Ok(None);
    };
    Ok(Some(JobError { code: parse("error_code", &code)?, message }))
}

impl JobRow {
    fn result(&self) -> Result<Option<ResultObject>, StoreError> {
        let (Some(key), Some(size), Some(sha256)) = (&self.result_key, self.result_size_bytes, &self.result_sha256)
        else {
            return Ok(None);
        };
        Ok(Some(ResultObject {
            key: parse("result_key", key)?,
            size_bytes: number("result_size_bytes", size)?,
            sha256: sha256.clone(),
        }))
    }

    fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        let (Some(key), Some(step), Some(size), Some(sha256), Some(fingerprint)) = (
            &self.checkpoint_key,
            self.checkpoint_step,
            self.checkpoint_size_bytes,
            &self.checkpoint_sha256,
            &self.checkpoint_fingerprint,
        ) else {
            return Ok(None);
        };
        Ok(Some(Checkpoint {
            key: parse("checkpoint_key", key)?,
            step: number("checkpoint_step", step)?,
            size_bytes: number("checkpoint_size_bytes", size)?,
            sha256: sha256.clone(),
            fingerprint: Fingerprint(fingerprint.clone()),
        }))
    }
}

impl TryFrom<JobRow> for Job {
    type Error = StoreError;

    fn try_from(row: JobRow) -> Result<Self, StoreError> {
        let (result, checkpoint) = (row.result()?, row.checkpoint()?);
        let report = row.report.map(|json| serde_json::from_str(&json).map_err(unreadable("report"))).transpose()?;
        Ok(Self {
            id: JobId::from_uuid(row.id),
            tenant: parse("tenant", &row.tenant)?,
            model: row.model,
            partition: partition(&row.partition)?,
            spec: SpecRecord { version: number("spec_version", row.spec_version)?, json: row.spec },
            cost_tflop: row.cost_tflop,
            rows: number("rows", row.rows)?,
            priority: parse("priority", &row.priority)?,
            rank: row.rank,
            state: parse("state", &row.state)?,
            progress: Progress {
                phase: parse("phase", &row.phase)?,
                step: number("step", row.step)?,
                total_steps: number("total_steps", row.total_steps)?,
                percent: number("percent", i64::from(row.percent))?,
            },
            created_at: Micros(row.created_at),
            run_at: Micros(row.run_at),
            start_by: row.start_by.map(Micros),
            begun_at: row.begun_at.map(Micros),
            finished_at: row.finished_at.map(Micros),
            cancel_requested_at: row.cancel_requested_at.map(Micros),
            attempt: number("attempt", row.attempt)?,
            max_attempts: number("max_attempts", row.max_attempts)?,
            fence: Fence(row.fence),
            worker: row.worker.map(WorkerId),
            lease_expires_at: row.lease_expires_at.map(Micros),
            checkpoint,
            result,
            result_expires_at: row.result_expires_at.map(Micros),
            report,
            error: job_error(row.error_code, row.error_message)?,
        })
    }
}

/// One row of `job_attempts`.
#[derive(Debug)]
pub(crate) struct AttemptRow {
    pub(crate) fence: i64,
    pub(crate) number: i64,
    pub(crate) worker: Uuid,
    pub(crate) claimed_at: i64,
    pub(crate) begun_at: Option<i64>,
    pub(crate) ended_at: Option<i64>,
    pub(crate) ending: Option<String>,
    pub(crate) error_code: Option<String>,
    pub(crate) error_message: Option<String>,
}

impl TryFrom<AttemptRow> for Attempt {
    type Error = StoreError;

    fn try_from(row: AttemptRow) -> Result<Self, StoreError> {
        let ended = match (row.ended_at, row.ending) {
            (Some(at), Some(ending)) => Some((Micros(at), parse("ending", &ending)?)),
            _ => None,
        };
        Ok(Self {
            fence: Fence(row.fence),
            number: number("number", row.number)?,
            worker: WorkerId(row.worker),
            claimed_at: Micros(row.claimed_at),
            begun_at: row.begun_at.map(Micros),
            ended,
            error: job_error(row.error_code, row.error_message)?,
        })
    }
}
