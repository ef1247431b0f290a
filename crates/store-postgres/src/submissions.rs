//! By what a request is known again that comes once more.
//!
//! Its row is written by the transaction that makes the job, before the job. Of two such transactions the later one waits for
//! the first at the row's key, and then finds what that one has committed.

use clapboard_jobs::{JobId, Micros, StoreError, Submission, Tenant};
use sqlx::PgConnection;

use crate::error::unavailable;
use crate::rows::SubmissionRow;
use crate::store::{PostgresStore, micros};

/// How often a request is looked for again that was forgotten under its hands.
const ROUNDS: u32 = 4;

/// A row, and the moment at which it was read.
struct Found {
    fields: Vec<u8>,
    job_id: uuid::Uuid,
    has_job: bool,
    again: bool,
    created_at: i64,
    expires_at: i64,
    now: i64,
}

impl Found {
    fn answer(self, submission: &Submission) -> Result<Option<JobId>, StoreError> {
        let now = Micros(self.now);
        let row = SubmissionRow {
            fields: self.fields,
            job_id: self.job_id,
            has_job: self.has_job,
            again: self.again,
            created_at: self.created_at,
            expires_at: self.expires_at,
        };
        row.answer(submission, now)
    }
}

/// `find_submission!("tail", tenant, submission)`: a checked statement that reads the row of a request.
macro_rules! find_submission {
    ($tail:literal, $tenant:expr, $submission:expr) => {
        sqlx::query_as!(
            Found,
            r#"
            select
                s.fields, s.job_id, exists (select from jobs where id = s.job_id) as "has_job!", s.again, s.created_at,
                s.expires_at, now_micros() as "now!"
            from submissions s
            where s.tenant = $1 and s.token = $2
            "# + $tail,
            $tenant.as_str(),
            $submission.token.as_slice()
        )
    };
}

pub(crate) async fn find(
    store: &PostgresStore,
    tenant: &Tenant,
    submission: &Submission,
) -> Result<Option<JobId>, StoreError> {
    let row = find_submission!("", tenant, submission)
        .fetch_optional(store.pool())
        .await
        .map_err(unavailable("looking for a request that came before"))?;
    row.map_or(Ok(None), |found| found.answer(submission))
}

/// Writes down which job a request makes.
///
/// Errors: [`StoreError::Resubmitted`] or [`StoreError::KeyReused`] when it has made one before.
pub(crate) async fn keep(
    tx: &mut PgConnection,
    tenant: &Tenant,
    submission: &Submission,
    job: JobId,
    doing: &'static str,
) -> Result<(), StoreError> {
    for _ in 0..ROUNDS {
        let written = sqlx::query!(
            r#"
            insert into submissions (tenant, token, fields, job_id, again, created_at, expires_at)
            values ($1, $2, $3, $4, $5, now_micros(), now_micros() + $6)
            on conflict (tenant, token) do nothing
            "#,
            tenant.as_str(),
            submission.token.as_slice(),
            submission.fields.as_slice(),
            job.as_uuid(),
            submission.is_again(),
            micros(submission.resend.memory())
        )
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
        if written.rows_affected() == 1 {
            return Ok(());
        }
        // Locked by one statement and read by the next, which sees the job of whoever held the lock.
        sqlx::query!(
            "select from submissions where tenant = $1 and token = $2 for update",
            tenant.as_str(),
            submission.token.as_slice()
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
        let found =
            find_submission!("", tenant, submission).fetch_optional(&mut *tx).await.map_err(unavailable(doing))?;
        let Some(found) = found else {
            continue;
        };
        if let Some(job) = found.answer(submission)? {
            return Err(StoreError::Resubmitted { job });
        }
        return take_over(tx, tenant, submission, job, doing).await;
    }
    Err(StoreError::Unavailable { doing, source: "the request is forgotten as often as it is found".into() })
}

/// Makes a row of a request that this transaction has locked that of another job.
async fn take_over(
    tx: &mut PgConnection,
    tenant: &Tenant,
    submission: &Submission,
    job: JobId,
    doing: &'static str,
) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        update submissions
        set fields = $3, job_id = $4, again = $5, created_at = now_micros(), expires_at = now_micros() + $6
        where tenant = $1 and token = $2
        "#,
        tenant.as_str(),
        submission.token.as_slice(),
        submission.fields.as_slice(),
        job.as_uuid(),
        submission.is_again(),
        micros(submission.resend.memory())
    )
    .execute(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(())
}
