//! How a claim ends, whoever ends it.
//!
//! Each function belongs to a transaction that has found the claim in force, and each repeats the condition: id, fence,
//! token and `state = 'running'`.

use std::time::Duration;

use clapboard_jobs::{
    AttemptEnd, FailureCode, JobError, JobEvent, JobState, LeaseError, Micros, ResultObject, RunReport,
};
use sqlx::SqliteConnection;

use crate::error::{unavailable, unreadable};
use crate::held::Held;
use crate::{attempts, objects, outbox, usage};

impl Held {
    /// Returns the state that `event` leads to from `running`.
    pub(crate) fn after(event: JobEvent) -> JobState {
        JobState::Running.on(event).expect("requeue, complete, fail and cancel all lead out of running")
    }

    /// Ends the job without a result: failed, or cancelled if the error says so or somebody had asked for it.
    pub(crate) async fn fail(
        &self,
        tx: &mut SqliteConnection,
        now: i64,
        error: &JobError,
        doing: &'static str,
    ) -> Result<JobState, LeaseError> {
        let cancelled = JobError::cancelled();
        let error = if self.cancel_requested { &cancelled } else { error };
        let state = Self::after(error.event());
        let ending = if state == JobState::Cancelled { AttemptEnd::Cancelled } else { AttemptEnd::Failed };
        self.end_without_result(tx, now, error, ending, doing).await
    }

    /// Ends the job without a result, with the attempt's end given.
    pub(crate) async fn end_without_result(
        &self,
        tx: &mut SqliteConnection,
        now: i64,
        error: &JobError,
        ending: AttemptEnd,
        doing: &'static str,
    ) -> Result<JobState, LeaseError> {
        let (id, fence, token) = self.condition();
        let state = Self::after(error.event());
        let (name, code) = (state.as_str(), error.code.as_str());
        let done = sqlx::query!(
            r#"
            update jobs
            set state = ?, finished_at = ?, error_code = ?, error_message = ?,
                checkpoint_key = null, checkpoint_step = null, checkpoint_size_bytes = null, checkpoint_sha256 = null,
                checkpoint_fingerprint = null,
                claim_token = null, worker = null, lease_expires_at = null
            where id = ? and fence = ? and claim_token = ? and state = 'running'
            "#,
            name,
            now,
            code,
            error.message,
            id,
            fence,
            token
        )
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
        self.applied(done.rows_affected())?;
        attempts::close(tx, self, now, ending, Some(error), doing).await?;
        outbox::tell(tx, id, state, now, doing).await?;
        Ok(state)
    }

    /// Ends the job with its result. It has begun then, also where the worker was done before it could say so.
    pub(crate) async fn complete(
        &self,
        tx: &mut SqliteConnection,
        now: i64,
        object: &ResultObject,
        report: &RunReport,
        life: Option<Duration>,
        doing: &'static str,
    ) -> Result<JobState, LeaseError> {
        let (id, fence, token) = self.condition();
        let state = Self::after(JobEvent::Complete);
        let (name, key) = (state.as_str(), object.key.as_str());
        let size = i64::try_from(object.size_bytes).map_err(unreadable("result_size_bytes"))?;
        let report = serde_json::to_string(report).map_err(unreadable("report"))?;
        let expires_at = life.map(|life| Micros(now).plus(life).0);
        let done = sqlx::query!(
            r#"
            update jobs
            set state = ?1, finished_at = ?2, begun_at = coalesce(begun_at, ?2), start_by = null, percent = 100,
                result_key = ?3, result_size_bytes = ?4, result_sha256 = ?5, report = ?6, result_expires_at = ?7,
                checkpoint_key = null, checkpoint_step = null, checkpoint_size_bytes = null, checkpoint_sha256 = null,
                checkpoint_fingerprint = null,
                claim_token = null, worker = null, lease_expires_at = null
            where id = ?8 and fence = ?9 and claim_token = ?10 and state = 'running'
            "#,
            name,
            now,
            key,
            size,
            object.sha256,
            report,
            expires_at,
            id,
            fence,
            token
        )
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
        self.applied(done.rows_affected())?;
        let named = objects::name(tx, object.key.as_str(), id, doing).await?;
        // A result that the table does not name would be swept away under its job.
        self.applied(named)?;
        attempts::close(tx, self, now, AttemptEnd::Completed, None, doing).await?;
        usage::add_completed(tx, id, doing).await?;
        outbox::tell(tx, id, state, now, doing).await?;
        Ok(state)
    }

    /// Lets the job wait again until `run_at`; `counts` says whether the attempt does.
    pub(crate) async fn requeue(
        &self,
        tx: &mut SqliteConnection,
        now: i64,
        again: Again<'_>,
        doing: &'static str,
    ) -> Result<JobState, LeaseError> {
        let (id, fence, token) = self.condition();
        let state = Self::after(JobEvent::Requeue);
        let name = state.as_str();
        let attempt = if again.counts { self.attempt } else { self.attempt - 1 };
        let done = sqlx::query!(
            r#"
            update jobs
            set state = ?, run_at = ?, attempt = ?, begun_at = null,
                phase = 'prepare', step = 0, total_steps = 0, percent = 0,
                claim_token = null, worker = null, lease_expires_at = null
            where id = ? and fence = ? and claim_token = ? and state = 'running'
            "#,
            name,
            again.run_at,
            attempt,
            id,
            fence,
            token
        )
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
        self.applied(done.rows_affected())?;
        attempts::close(tx, self, now, again.ending, again.error, doing).await?;
        Ok(state)
    }

    /// Takes back a claim whose worker is gone: queued, failed when the attempts are used up, or cancelled.
    pub(crate) async fn reclaim(
        &self,
        tx: &mut SqliteConnection,
        now: i64,
        doing: &'static str,
    ) -> Result<JobState, LeaseError> {
        if self.cancel_requested {
            let error = JobError::cancelled();
            return self.end_without_result(tx, now, &error, AttemptEnd::LeaseLost, doing).await;
        }
        if self.attempt >= self.max_attempts {
            let error = JobError::new(
                FailureCode::WorkerLost,
                format!("the worker was lost in attempt {} of {}", self.attempt, self.max_attempts),
            );
            return self.end_without_result(tx, now, &error, AttemptEnd::LeaseLost, doing).await;
        }
        let again = Again { run_at: now, counts: true, ending: AttemptEnd::LeaseLost, error: None };
        self.requeue(tx, now, again, doing).await
    }
}

/// How a job goes back to wait.
#[derive(Debug)]
pub(crate) struct Again<'a> {
    /// Before when it is not claimed.
    pub(crate) run_at: i64,
    /// Whether the attempt counts.
    pub(crate) counts: bool,
    /// How the attempt ended.
    pub(crate) ending: AttemptEnd,
    /// What went wrong in it.
    pub(crate) error: Option<&'a JobError>,
}
