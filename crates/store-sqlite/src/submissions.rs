//! By what a request is known again that comes once more.

use clapboard_jobs::{JobId, Micros, StoreError, Submission, Tenant};
use sqlx::SqliteConnection;

use crate::error::unavailable;
use crate::rows::SubmissionRow;
use crate::store::SqliteStore;

pub(crate) async fn find(
    store: &SqliteStore,
    tenant: &Tenant,
    submission: &Submission,
) -> Result<Option<JobId>, StoreError> {
    let doing = "looking for a request that came before";
    let mut connection = store.readers().acquire().await.map_err(unavailable(doing))?;
    answer(&mut connection, tenant, submission, store.now().0, doing).await
}

async fn answer(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    submission: &Submission,
    now: i64,
    doing: &'static str,
) -> Result<Option<JobId>, StoreError> {
    let (tenant, token) = (tenant.as_str(), submission.token.as_slice());
    let row = sqlx::query_as!(
        SubmissionRow,
        r#"
        select
            s.fields, s.job_id as "job_id: uuid::Uuid",
            exists (select 1 from jobs where id = s.job_id) as "has_job!: bool", s.again as "again: bool",
            s.created_at, s.expires_at
        from submissions s
        where s.tenant = ? and s.token = ?
        "#,
        tenant,
        token
    )
    .fetch_optional(connection)
    .await
    .map_err(unavailable(doing))?;
    row.map_or(Ok(None), |row| row.answer(submission, Micros(now)))
}

/// Writes down which job a request makes.
///
/// Errors: [`StoreError::Resubmitted`] or [`StoreError::KeyReused`] when it has made one before.
pub(crate) async fn keep(
    tx: &mut SqliteConnection,
    tenant: &Tenant,
    submission: &Submission,
    job: JobId,
    now: i64,
    doing: &'static str,
) -> Result<(), StoreError> {
    if let Some(job) = answer(tx, tenant, submission, now, doing).await? {
        return Err(StoreError::Resubmitted { job });
    }
    let (tenant, job, again) = (tenant.as_str(), job.as_uuid(), submission.is_again());
    let (token, fields) = (submission.token.as_slice(), submission.fields.as_slice());
    let expires_at = Micros(now).plus(submission.resend.memory()).0;
    sqlx::query!(
        r#"
        insert into submissions (tenant, token, fields, job_id, again, created_at, expires_at) values (?, ?, ?, ?, ?, ?, ?)
        on conflict (tenant, token) do update
        set fields = excluded.fields, job_id = excluded.job_id, again = excluded.again, created_at = excluded.created_at,
            expires_at = excluded.expires_at
        "#,
        tenant,
        token,
        fields,
        job,
        again,
        now,
        expires_at
    )
    .execute(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(())
}

/// Forgets up to `limit` requests whose time is over, and returns how many.
pub(crate) async fn forget(
    tx: &mut SqliteConnection,
    now: i64,
    limit: i64,
    doing: &'static str,
) -> Result<usize, StoreError> {
    let forgotten = sqlx::query!(
        r#"
        delete from submissions
        where (tenant, token) in (
            select tenant, token from submissions where expires_at <= ? order by expires_at limit ?
        )
        "#,
        now,
        limit
    )
    .execute(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(usize::try_from(forgotten.rows_affected()).unwrap_or(usize::MAX))
}
