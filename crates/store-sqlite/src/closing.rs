//! How a claim ends, whoever ends it.
//!
//! Each function belongs to a transaction that has found the claim in force, and each repeats the condition: id, fence,
//! token and `state = 'running'`.

use clapboard_jobs::{
    AttemptEnd, ClaimToken, FailureCode, Fence, JobError, JobEvent, JobId, JobState, Lease, LeaseError, ResultObject,
    RunReport, StoreError,
};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::{unavailable, unreadable};

/// A claim that is in force.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) job: JobId,
    pub(crate) fence: Fence,
    pub(crate) token: ClaimToken,
    pub(crate) attempt: i64,
    pub(crate) max_attempts: i64,
    pub(crate) cancel_requested: bool,
    pub(crate) lease_expires_at: i64,
}

/// A row of `jobs`, as far as the end of its claim depends on it.
#[derive(Debug)]
pub(crate) struct HeldRow {
    pub(crate) id: Uuid,
    pub(crate) fence: i64,
    pub(crate) claim_token: Uuid,
    pub(crate) worker: Uuid,
    pub(crate) attempt: i64,
    pub(crate) max_attempts: i64,
    pub(crate) cancel_requested: bool,
    pub(crate) lease_expires_at: i64,
}

/// `select_held!("where …", arguments…)`: a checked statement that reads claims in force.
macro_rules! select_held {
    ($tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            crate::closing::HeldRow,
            r#"
            select
                id as "id: uuid::Uuid", fence, claim_token as "claim_token!: uuid::Uuid",
                worker as "worker!: uuid::Uuid", attempt, max_attempts,
                cancel_requested_at is not null as "cancel_requested!: bool",
                lease_expires_at as "lease_expires_at!: i64"
            from jobs
            "# + $tail
            $(, $argument)*
        )
    };
}
pub(crate) use select_held;

impl From<HeldRow> for Held {
    fn from(row: HeldRow) -> Self {
        Self {
            job: JobId::from_uuid(row.id),
            fence: Fence(row.fence),
            token: ClaimToken(row.claim_token),
            attempt: row.attempt,
            max_attempts: row.max_attempts,
            cancel_requested: row.cancel_requested,
            lease_expires_at: row.lease_expires_at,
        }
    }
}

impl Held {
    /// Finds the claim of a lease.
    ///
    /// Errors: [`LeaseError::Lost`] when it is no longer in force.
    pub(crate) async fn find(
        tx: &mut SqliteConnection,
        lease: &Lease,
        doing: &'static str,
    ) -> Result<Self, LeaseError> {
        let (id, fence, token) = (lease.job.as_uuid(), lease.fence.0, lease.token.0);
        let row =
            select_held!("where id = ? and fence = ? and claim_token = ? and state = 'running'", id, fence, token)
                .fetch_optional(tx)
                .await
                .map_err(unavailable(doing))?;
        row.map(Self::from).ok_or(LeaseError::Lost { job: lease.job, fence: lease.fence })
    }

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
        self.end_without_result(tx, now, error, ending, doing).await?;
        Ok(state)
    }

    /// Ends the job without a result, with the attempt's end given.
    pub(crate) async fn end_without_result(
        &self,
        tx: &mut SqliteConnection,
        now: i64,
        error: &JobError,
        ending: AttemptEnd,
        doing: &'static str,
    ) -> Result<(), LeaseError> {
        let (id, fence, token) = self.condition();
        let (state, code) = (Self::after(error.event()).as_str(), error.code.as_str());
        let done = sqlx::query!(
            r#"
            update jobs
            set state = ?, finished_at = ?, error_code = ?, error_message = ?,
                claim_token = null, worker = null, lease_expires_at = null
            where id = ? and fence = ? and claim_token = ? and state = 'running'
            "#,
            state,
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
        self.close_attempt(tx, now, ending, Some(error), doing).await
    }

    /// Ends the job with its result. It has begun then, also where the worker was done before it could say so.
    pub(crate) async fn complete(
        &self,
        tx: &mut SqliteConnection,
        now: i64,
        object: &ResultObject,
        report: &RunReport,
        doing: &'static str,
    ) -> Result<JobState, LeaseError> {
        let (id, fence, token) = self.condition();
        let state = Self::after(JobEvent::Complete);
        let (name, key) = (state.as_str(), object.key.as_str());
        let size = i64::try_from(object.size_bytes).map_err(unreadable("result_size_bytes"))?;
        let report = serde_json::to_string(report).map_err(unreadable("report"))?;
        let done = sqlx::query!(
            r#"
            update jobs
            set state = ?1, finished_at = ?2, begun_at = coalesce(begun_at, ?2), percent = 100,
                result_key = ?3, result_size_bytes = ?4, result_sha256 = ?5, report = ?6,
                claim_token = null, worker = null, lease_expires_at = null
            where id = ?7 and fence = ?8 and claim_token = ?9 and state = 'running'
            "#,
            name,
            now,
            key,
            size,
            object.sha256,
            report,
            id,
            fence,
            token
        )
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
        self.applied(done.rows_affected())?;
        let named = sqlx::query!(
            "update objects set standing = 'named' where key = ? and job_id = ? and standing = 'expected'",
            key,
            id
        )
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
        // A result that the table does not name would be swept away under its job.
        self.applied(named.rows_affected())?;
        self.close_attempt(tx, now, AttemptEnd::Completed, None, doing).await?;
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
        self.close_attempt(tx, now, again.ending, again.error, doing).await?;
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
            self.end_without_result(tx, now, &error, AttemptEnd::LeaseLost, doing).await?;
            return Ok(Self::after(error.event()));
        }
        if self.attempt >= self.max_attempts {
            let error = JobError::new(
                FailureCode::WorkerLost,
                format!("the worker was lost in attempt {} of {}", self.attempt, self.max_attempts),
            );
            self.end_without_result(tx, now, &error, AttemptEnd::LeaseLost, doing).await?;
            return Ok(Self::after(error.event()));
        }
        let again = Again { run_at: now, counts: true, ending: AttemptEnd::LeaseLost, error: None };
        self.requeue(tx, now, again, doing).await
    }

    /// Makes what the claim may have written garbage, to be collected from `collect_after` on.
    pub(crate) async fn discard_object(
        &self,
        tx: &mut SqliteConnection,
        collect_after: i64,
        doing: &'static str,
    ) -> Result<(), StoreError> {
        let id = self.job.as_uuid();
        sqlx::query!(
            "update objects set standing = 'garbage', collect_after = ? where job_id = ? and standing = 'expected'",
            collect_after,
            id
        )
        .execute(tx)
        .await
        .map_err(unavailable(doing))?;
        Ok(())
    }

    async fn close_attempt(
        &self,
        tx: &mut SqliteConnection,
        now: i64,
        ending: AttemptEnd,
        error: Option<&JobError>,
        doing: &'static str,
    ) -> Result<(), LeaseError> {
        let (id, fence, _) = self.condition();
        let ending = ending.as_str();
        let (code, message) = (error.map(|error| error.code.as_str()), error.map(|error| error.message.as_str()));
        sqlx::query!(
            r#"
            update job_attempts
            set ended_at = ?1, ending = ?2, error_code = ?3, error_message = ?4,
                begun_at = iif(?2 = 'completed', coalesce(begun_at, ?1), begun_at)
            where job_id = ?5 and fence = ?6
            "#,
            now,
            ending,
            code,
            message,
            id,
            fence
        )
        .execute(tx)
        .await
        .map_err(unavailable(doing))?;
        Ok(())
    }

    fn condition(&self) -> (Uuid, i64, Uuid) {
        (self.job.as_uuid(), self.fence.0, self.token.0)
    }

    fn applied(&self, rows: u64) -> Result<(), LeaseError> {
        if rows == 0 { Err(LeaseError::Lost { job: self.job, fence: self.fence }) } else { Ok(()) }
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
