//! From rows to jobs: what the columns of every store's tables say.
//!
//! The stores keep the same columns in the same units, times in microseconds and whole numbers in 64 bits, and read them
//! here.

mod keys;
mod outbox;
mod submissions;

use std::error::Error;
use std::num::TryFromIntError;
use std::str::FromStr;

use clapboard_h3::Partition;
use serde::de::DeserializeOwned;
use uuid::Uuid;

pub use keys::KeyRow;
pub use outbox::{DeliveryRow, DueRow, EndpointRow};
pub use submissions::SubmissionRow;

use crate::attempt::Attempt;
use crate::checkpoint::{Checkpoint, Fingerprint};
use crate::id::{Fence, JobId, WorkerId};
use crate::job::{Job, Told};
use crate::outcome::{JobError, ResultObject};
use crate::preview::Preview;
use crate::progress::Progress;
use crate::spec::SpecRecord;
use crate::store::StoreError;
use crate::time::Micros;

/// Says that the store could not be reached while `doing`.
pub fn unavailable<E>(doing: &'static str) -> impl Fn(E) -> StoreError
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    move |source| StoreError::Unavailable { doing, source: source.into() }
}

/// Says that a column holds what this program cannot read.
pub fn unreadable<E>(field: &'static str) -> impl Fn(E) -> StoreError
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    move |source| StoreError::Unreadable { field, source: source.into() }
}

/// Reads a column that holds a name.
///
/// Errors: [`StoreError::Unreadable`].
pub fn parse<T>(field: &'static str, text: &str) -> Result<T, StoreError>
where
    T: FromStr,
    T::Err: Into<Box<dyn Error + Send + Sync>>,
{
    text.parse().map_err(unreadable(field))
}

/// Reads a column of `partition`.
///
/// Errors: [`StoreError::Unreadable`].
pub fn partition(text: &str) -> Result<Partition, StoreError> {
    parse("partition", text)
}

/// Reads a column that is wider than what it holds.
///
/// Errors: [`StoreError::Unreadable`].
pub fn number<T>(field: &'static str, value: i64) -> Result<T, StoreError>
where
    T: TryFrom<i64, Error = TryFromIntError>,
{
    T::try_from(value).map_err(unreadable(field))
}

/// Returns a number as columns hold it.
///
/// Errors: [`StoreError::Unreadable`] where it is larger than any column.
pub fn column(field: &'static str, value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(unreadable(field))
}

/// Reads a column that holds a list of names in JSON.
///
/// Errors: [`StoreError::Unreadable`].
pub fn names<T>(field: &'static str, json: &str) -> Result<Vec<T>, StoreError>
where
    T: FromStr,
    T::Err: Into<Box<dyn Error + Send + Sync>>,
{
    let names: Vec<String> = serde_json::from_str(json).map_err(unreadable(field))?;
    names.iter().map(|name| parse(field, name)).collect()
}

/// Reads a column that holds something in JSON; what is empty is the default.
fn json<T: Default + DeserializeOwned>(field: &'static str, column: Option<&str>) -> Result<T, StoreError> {
    column.map(|json| serde_json::from_str(json).map_err(unreadable(field))).transpose().map(Option::unwrap_or_default)
}

/// Returns pictures as the column holds them: none where there are none.
///
/// Errors: [`StoreError::Unreadable`].
pub fn previews(previews: &[Preview]) -> Result<Option<String>, StoreError> {
    if previews.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(previews).map(Some).map_err(unreadable("previews"))
}

/// Reads the columns of an error; none where they are empty.
///
/// Errors: [`StoreError::Unreadable`].
pub fn job_error(code: Option<String>, message: Option<String>) -> Result<Option<JobError>, StoreError> {
    let (Some(code), Some(message)) = (code, message) else {
        return Ok(None);
    };
    Ok(Some(JobError { code: parse("error_code", &code)?, message }))
}

/// One row of `jobs`, column by column.
#[derive(Debug)]
#[expect(missing_docs, reason = "each column is described by the field of Job that it becomes")]
pub struct JobRow {
    pub id: Uuid,
    pub tenant: String,
    pub model: String,
    pub partition: String,
    pub spec_version: i64,
    pub spec: String,
    pub cost_tflop: f64,
    pub rows: i64,
    pub priority: String,
    pub rank: f64,
    pub state: String,
    pub phase: String,
    pub step: i64,
    pub total_steps: i64,
    pub percent: i64,
    pub created_at: i64,
    pub run_at: i64,
    pub start_by: Option<i64>,
    pub begun_at: Option<i64>,
    pub finished_at: Option<i64>,
    pub cancel_requested_at: Option<i64>,
    pub attempt: i64,
    pub max_attempts: i64,
    pub fence: i64,
    pub worker: Option<Uuid>,
    pub lease_expires_at: Option<i64>,
    pub checkpoint_key: Option<String>,
    pub checkpoint_step: Option<i64>,
    pub checkpoint_size_bytes: Option<i64>,
    pub checkpoint_sha256: Option<String>,
    pub checkpoint_fingerprint: Option<String>,
    pub result_key: Option<String>,
    pub result_size_bytes: Option<i64>,
    pub result_sha256: Option<String>,
    pub result_expires_at: Option<i64>,
    pub report: Option<String>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub previews: Option<String>,
    pub metadata: Option<String>,
    pub end_user: Option<String>,
    pub stage_metrics: bool,
    pub remixed_from: Option<Uuid>,
    pub trace: Option<String>,
}

impl JobRow {
    fn result(&mut self) -> Result<Option<ResultObject>, StoreError> {
        let (Some(key), Some(size), Some(sha256)) =
            (&self.result_key, self.result_size_bytes, self.result_sha256.take())
        else {
            return Ok(None);
        };
        Ok(Some(ResultObject {
            key: parse("result_key", key)?,
            size_bytes: number("result_size_bytes", size)?,
            sha256,
        }))
    }

    fn checkpoint(&mut self) -> Result<Option<Checkpoint>, StoreError> {
        let (Some(key), Some(step), Some(size), Some(sha256), Some(fingerprint)) = (
            &self.checkpoint_key,
            self.checkpoint_step,
            self.checkpoint_size_bytes,
            self.checkpoint_sha256.take(),
            self.checkpoint_fingerprint.take(),
        ) else {
            return Ok(None);
        };
        Ok(Some(Checkpoint {
            key: parse("checkpoint_key", key)?,
            step: number("checkpoint_step", step)?,
            size_bytes: number("checkpoint_size_bytes", size)?,
            sha256,
            fingerprint: Fingerprint(fingerprint),
        }))
    }
}

impl TryFrom<JobRow> for Job {
    type Error = StoreError;

    fn try_from(mut row: JobRow) -> Result<Self, StoreError> {
        let (result, checkpoint) = (row.result()?, row.checkpoint()?);
        // Programs that do not know pictures leave them in the row of a job whose result they give up.
        let previews = json("previews", row.previews.as_deref().filter(|_| result.is_some()))?;
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
                percent: number("percent", row.percent)?,
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
            previews,
            metadata: json("metadata", row.metadata.as_deref())?,
            told: Told { user: row.end_user, stage_metrics: row.stage_metrics },
            remixed_from: row.remixed_from.map(JobId::from_uuid),
            trace: row.trace.map(|text| parse("trace", &text)).transpose()?,
        })
    }
}

/// One row of `job_attempts`, column by column.
#[derive(Debug)]
#[expect(missing_docs, reason = "each column is described by the field of Attempt that it becomes")]
pub struct AttemptRow {
    pub fence: i64,
    pub number: i64,
    pub worker: Uuid,
    pub claimed_at: i64,
    pub begun_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub ending: Option<String>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_names_its_column() {
        assert_eq!(number::<u32>("step", 7).unwrap(), 7);
        let negative = number::<u32>("step", -1).unwrap_err();
        assert_eq!(negative.to_string(), "the job store holds a step that this program cannot read");
        let unknown = partition("fl3va").unwrap_err();
        assert!(matches!(unknown, StoreError::Unreadable { field: "partition", .. }), "{unknown}");
        assert!(column("rows", u64::MAX).is_err());
        assert!(job_error(None, None).unwrap().is_none());
        assert!(job_error(Some("no_such_code".to_owned()), Some("why".to_owned())).is_err());
    }
}
