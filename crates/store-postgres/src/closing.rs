//! How a claim ends, whoever ends it.
//!
//! Each end is one statement that repeats the condition of the claim (id, fence, token and `state = 'running'`) and does
//! everything that belongs to the end: the row, the attempt's entry, the objects that nobody may name any more, and the
//! deliveries to whoever wants to hear of it.

use clapboard_jobs::{
    AttemptEnd, ClaimToken, FailureCode, Fence, JobError, JobEvent, JobId, JobState, Lease, LeaseError, Notice,
    ResultObject, RunReport, StoreError,
};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::error::{unavailable, unreadable};
use crate::rows::{column, text};

/// A claim that is in force, and locked until the transaction ends.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) job: JobId,
    pub(crate) fence: Fence,
    pub(crate) token: ClaimToken,
    pub(crate) attempt: i64,
    pub(crate) max_attempts: i64,
    pub(crate) cancel_requested: bool,
    pub(crate) lease_expires_at: i64,
    /// The present moment.
    pub(crate) now: i64,
}

/// A row of `jobs`, as far as the end of its claim depends on it.
#[derive(Debug)]
pub(crate) struct HeldRow {
    pub(crate) id: Uuid,
    pub(crate) fence: i64,
    pub(crate) claim_token: Uuid,
    pub(crate) attempt: i64,
    pub(crate) max_attempts: i64,
    pub(crate) cancel_requested: bool,
    pub(crate) lease_expires_at: i64,
    pub(crate) now: i64,
}

/// `select_held!("where …", arguments…)`: a checked statement that reads claims in force.
macro_rules! select_held {
    ($tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            crate::closing::HeldRow,
            r#"
            select
                id, fence, claim_token as "claim_token!", attempt, max_attempts,
                cancel_requested_at is not null as "cancel_requested!",
                lease_expires_at as "lease_expires_at!", now_micros() as "now!"
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
            now: row.now,
        }
    }
}

/// Ends the job with its result, unless somebody has asked for its cancel, and tells whether it did. It has begun then,
/// also where the worker was done before it could say so.
pub(crate) async fn complete(
    executor: impl PgExecutor<'_>,
    lease: &Lease,
    object: &ResultObject,
    report: &RunReport,
    result_life: Option<i64>,
    doing: &'static str,
) -> Result<bool, StoreError> {
    let report = serde_json::to_string(report).map_err(unreadable("report"))?;
    let done = sqlx::query_scalar!(
        r#"
        with ended as (
            update jobs
            set state = $4, finished_at = now_micros(), begun_at = coalesce(begun_at, now_micros()), start_by = null,
                percent = 100,
                result_key = $5, result_size_bytes = $6, result_sha256 = $7, result_expires_at = now_micros() + $8,
                report = ($9::text)::json,
                checkpoint_key = null, checkpoint_step = null, checkpoint_size_bytes = null, checkpoint_sha256 = null,
                checkpoint_fingerprint = null,
                claim_token = null, worker = null, lease_expires_at = null
            -- The lease's end, which the update takes from the row, as it was when the statement began. The conditions are
            -- those of the newest row all the same: where a beat comes in between, only this end is the one before it.
            from (select lease_expires_at as lease_end from jobs where id = $1) before
            where id = $1 and fence = $2 and claim_token = $3 and state = 'running' and cancel_requested_at is null
                -- A result that the table does not name would be swept away under its job.
                and exists (select from objects o where o.key = $5 and o.job_id = $1 and o.standing = 'expected')
            returning id, tenant, fence, begun_at, finished_at, greatest(lease_end, finished_at) as puts_end
        ),
        closed as (
            update job_attempts a
            set ended_at = e.finished_at, ending = $10, begun_at = coalesce(a.begun_at, e.begun_at)
            from ended e
            where a.job_id = e.id and a.fence = e.fence
        ),
        sorted as (
            update objects o
            set standing = case when o.key = $5 then 'named' else 'garbage' end,
                collect_after = case
                    when o.key = $5 then null
                    when o.standing = 'expected' then e.puts_end
                    else e.finished_at
                end
            from ended e
            where o.job_id = e.id and o.standing <> 'garbage'
        ),
        told as (
            insert into deliveries (id, endpoint, tenant, job_id, notice, created_at)
            select gen_random_uuid(), p.id, e.tenant, e.id, $11, e.finished_at
            from ended e join endpoints p on p.tenant = e.tenant
        )
        select count(*) as "ended!" from ended
        "#,
        lease.job.as_uuid(),
        lease.fence.0,
        lease.token.0,
        after(JobEvent::Complete).as_str(),
        object.key.as_str(),
        column("result_size_bytes", object.size_bytes)?,
        object.sha256,
        result_life,
        report,
        AttemptEnd::Completed.as_str(),
        Notice::Completed.as_str()
    )
    .fetch_one(executor)
    .await
    .map_err(unavailable(doing))?;
    Ok(done == 1)
}

/// Ends waiting jobs without a result and returns those that it ended.
pub(crate) async fn end_waiting(
    executor: impl PgExecutor<'_>,
    ids: &[Uuid],
    error: &JobError,
    cancel_requested_at: Option<i64>,
    doing: &'static str,
) -> Result<u64, StoreError> {
    let state = JobState::Queued.on(error.event()).map_err(unreadable("state"))?;
    let ended = sqlx::query_scalar!(
        r#"
        with ended as (
            update jobs
            set state = $2, finished_at = now_micros(), cancel_requested_at = $3, error_code = $4, error_message = $5,
                checkpoint_key = null, checkpoint_step = null, checkpoint_size_bytes = null, checkpoint_sha256 = null,
                checkpoint_fingerprint = null
            -- The same as state = 'queued', in words that no index answers to: the one to use is that of the ids.
            where id = any($1) and lease_expires_at is null and finished_at is null
            returning id, tenant, finished_at
        ),
        discarded as (
            update objects o set standing = 'garbage', collect_after = e.finished_at
            from ended e
            where o.job_id = e.id and o.standing <> 'garbage'
        ),
        told as (
            insert into deliveries (id, endpoint, tenant, job_id, notice, created_at)
            select gen_random_uuid(), p.id, e.tenant, e.id, $6, e.finished_at
            from ended e join endpoints p on p.tenant = e.tenant
        )
        select count(*) as "ended!" from ended
        "#,
        ids,
        state.as_str(),
        cancel_requested_at,
        error.code.as_str(),
        text(&error.message),
        Notice::Failed.as_str()
    )
    .fetch_one(executor)
    .await
    .map_err(unavailable(doing))?;
    Ok(ended.unsigned_abs())
}

/// Returns the state that `event` leads to from `running`.
fn after(event: JobEvent) -> JobState {
    JobState::Running.on(event).expect("requeue, complete, fail and cancel all lead out of running")
}

impl Held {
    /// Finds the claim of a lease and locks its job.
    ///
    /// Errors: [`LeaseError::Lost`] when it is no longer in force.
    pub(crate) async fn find(tx: &mut PgConnection, lease: &Lease, doing: &'static str) -> Result<Self, LeaseError> {
        let row = select_held!(
            "where id = $1 and fence = $2 and claim_token = $3 and state = 'running' for update",
            lease.job.as_uuid(),
            lease.fence.0,
            lease.token.0
        )
        .fetch_optional(tx)
        .await
        .map_err(unavailable(doing))?;
        row.map(Self::from).ok_or(LeaseError::Lost { job: lease.job, fence: lease.fence })
    }

    /// Ends the job without a result: failed, or cancelled if the error says so or somebody had asked for it.
    pub(crate) async fn fail(
        &self,
        tx: &mut PgConnection,
        error: &JobError,
        doing: &'static str,
    ) -> Result<JobState, LeaseError> {
        let cancelled = JobError::cancelled();
        let error = if self.cancel_requested { &cancelled } else { error };
        let ending = match after(error.event()) {
            JobState::Cancelled => AttemptEnd::Cancelled,
            _ => AttemptEnd::Failed,
        };
        self.end_without_result(tx, error, ending, doing).await
    }

    /// Takes back a claim whose worker is gone: queued, failed when the attempts are used up, or cancelled.
    pub(crate) async fn reclaim(&self, tx: &mut PgConnection, doing: &'static str) -> Result<JobState, LeaseError> {
        let ending = AttemptEnd::LeaseLost;
        if self.cancel_requested {
            return self.end_without_result(tx, &JobError::cancelled(), ending, doing).await;
        }
        if self.attempt >= self.max_attempts {
            let error = JobError::new(
                FailureCode::WorkerLost,
                format!("the worker was lost in attempt {} of {}", self.attempt, self.max_attempts),
            );
            return self.end_without_result(tx, &error, ending, doing).await;
        }
        self.requeue(tx, Again { run_at: self.now, counts: true, ending, error: None }, doing).await
    }

    async fn end_without_result(
        &self,
        tx: &mut PgConnection,
        error: &JobError,
        ending: AttemptEnd,
        doing: &'static str,
    ) -> Result<JobState, LeaseError> {
        let state = after(error.event());
        let ended = sqlx::query_scalar!(
            r#"
            with ended as (
                update jobs
                set state = $4, finished_at = $5, error_code = $6, error_message = $7,
                    checkpoint_key = null, checkpoint_step = null, checkpoint_size_bytes = null,
                    checkpoint_sha256 = null, checkpoint_fingerprint = null,
                    claim_token = null, worker = null, lease_expires_at = null
                where id = $1 and fence = $2 and claim_token = $3 and state = 'running'
                returning id, tenant, fence, finished_at
            ),
            closed as (
                update job_attempts a set ended_at = e.finished_at, ending = $8, error_code = $6, error_message = $7
                from ended e
                where a.job_id = e.id and a.fence = e.fence
            ),
            discarded as (
                update objects o
                set standing = 'garbage',
                    collect_after = case when o.standing = 'expected' then $9 else e.finished_at end
                from ended e
                where o.job_id = e.id and o.standing <> 'garbage'
            ),
            told as (
                insert into deliveries (id, endpoint, tenant, job_id, notice, created_at)
                select gen_random_uuid(), p.id, e.tenant, e.id, $10, e.finished_at
                from ended e join endpoints p on p.tenant = e.tenant
            )
            select count(*) as "ended!" from ended
            "#,
            self.job.as_uuid(),
            self.fence.0,
            self.token.0,
            state.as_str(),
            self.now,
            error.code.as_str(),
            text(&error.message),
            ending.as_str(),
            self.puts_end(),
            Notice::Failed.as_str()
        )
        .fetch_one(tx)
        .await
        .map_err(unavailable(doing))?;
        self.applied(ended)?;
        Ok(state)
    }

    /// Lets the job wait again. Its checkpoint stays, where one was kept.
    pub(crate) async fn requeue(
        &self,
        tx: &mut PgConnection,
        again: Again<'_>,
        doing: &'static str,
    ) -> Result<JobState, LeaseError> {
        let state = after(JobEvent::Requeue);
        let requeued = sqlx::query_scalar!(
            r#"
            with requeued as (
                update jobs
                set state = $4, run_at = $5, attempt = $6, begun_at = null,
                    phase = 'prepare', step = 0, total_steps = 0, percent = 0,
                    claim_token = null, worker = null, lease_expires_at = null
                where id = $1 and fence = $2 and claim_token = $3 and state = 'running'
                returning id, fence
            ),
            closed as (
                update job_attempts a set ended_at = $7, ending = $8, error_code = $9, error_message = $10
                from requeued r
                where a.job_id = r.id and a.fence = r.fence
            ),
            discarded as (
                update objects o set standing = 'garbage', collect_after = $11
                from requeued r
                where o.job_id = r.id and o.standing = 'expected'
            )
            select count(*) as "requeued!" from requeued
            "#,
            self.job.as_uuid(),
            self.fence.0,
            self.token.0,
            state.as_str(),
            again.run_at,
            if again.counts { self.attempt } else { self.attempt - 1 },
            self.now,
            again.ending.as_str(),
            again.error.map(|error| error.code.as_str()),
            again.error.map(|error| text(&error.message)),
            self.puts_end()
        )
        .fetch_one(tx)
        .await
        .map_err(unavailable(doing))?;
        self.applied(requeued)?;
        Ok(state)
    }

    /// Returns from when on nobody can still be putting what the claim has expected.
    fn puts_end(&self) -> i64 {
        self.lease_expires_at.max(self.now)
    }

    fn applied(&self, rows: i64) -> Result<(), LeaseError> {
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
