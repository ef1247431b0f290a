//! Who is to be told of the end of a job.

use clapboard_jobs::{JobState, Notice, StoreError};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::unavailable;

/// Writes a delivery for everybody who wants to hear of the end in `state` of a job that has just ended: each endpoint of its
/// tenant that is not disabled, and the URL that came with the job.
pub(crate) async fn tell(
    tx: &mut SqliteConnection,
    job: Uuid,
    state: JobState,
    now: i64,
    doing: &'static str,
) -> Result<(), StoreError> {
    let Some(notice) = Notice::of(state).map(Notice::as_str) else {
        return Ok(());
    };
    let receivers = sqlx::query!(
        r#"
        select e.id as "endpoint: Uuid", null as "url: String"
        from jobs j
        join endpoints e on e.tenant = j.tenant and e.disabled_at is null
        where j.id = ?1 and exists (select 1 from json_each(e.notices) where value = ?2)
        union all
        select null, hook_url
        from jobs
        where id = ?1 and exists (select 1 from json_each(hook_notices) where value = ?2)
        order by 1
        "#,
        job,
        notice
    )
    .fetch_all(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    for receiver in receivers {
        let id = Uuid::now_v7();
        sqlx::query!(
            r#"
            insert into deliveries (id, tenant, endpoint_id, url, job_id, notice, trace, created_at, next_try_at)
            select ?1, tenant, ?2, ?3, id, ?4, trace, ?5, ?5 from jobs where id = ?6
            "#,
            id,
            receiver.endpoint,
            receiver.url,
            notice,
            now,
            job
        )
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
    }
    Ok(())
}
