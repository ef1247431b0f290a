//! Who is to be told of the end of a job.

use clapboard_jobs::{Delivery, Endpoint, EndpointId, JobId, JobState, Micros, Notice, StoreError, Tenant};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::{unavailable, unreadable};
use crate::store::SqliteStore;

pub(crate) async fn add_endpoint(store: &SqliteStore, endpoint: &Endpoint) -> Result<(), StoreError> {
    let doing = "adding an endpoint";
    let mut tx = store.begin(doing).await?;
    let (id, tenant) = (endpoint.id.0, endpoint.tenant.as_str());
    sqlx::query!(
        r#"
        insert into endpoints (id, tenant, url) values (?, ?, ?)
        on conflict (id) do update set tenant = excluded.tenant, url = excluded.url
        "#,
        id,
        tenant,
        endpoint.url
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))
}

/// Writes a delivery for each endpoint of the tenant of a job that has just ended in `state`.
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
    let endpoints = sqlx::query_scalar!(
        r#"
        select e.id as "id: Uuid" from jobs j
        join endpoints e on e.tenant = j.tenant
        where j.id = ?
        order by e.id
        "#,
        job
    )
    .fetch_all(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    for endpoint in endpoints {
        let id = Uuid::now_v7();
        sqlx::query!(
            r#"
            insert into deliveries (id, endpoint_id, job_id, tenant, notice, created_at)
            select ?1, ?2, id, tenant, ?3, ?4 from jobs where id = ?5
            "#,
            id,
            endpoint,
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

pub(crate) async fn deliveries(store: &SqliteStore, tenant: &Tenant, id: JobId) -> Result<Vec<Delivery>, StoreError> {
    let (job, tenant) = (id.as_uuid(), tenant.as_str());
    let rows = sqlx::query!(
        r#"
        select id as "id: Uuid", endpoint_id as "endpoint_id: Uuid", notice, created_at from deliveries
        where job_id = ? and tenant = ?
        order by created_at, id
        "#,
        job,
        tenant
    )
    .fetch_all(store.readers())
    .await
    .map_err(unavailable("reading the deliveries about a job"))?;
    rows.into_iter()
        .map(|row| {
            Ok(Delivery {
                id: row.id,
                endpoint: EndpointId(row.endpoint_id),
                job: id,
                notice: row.notice.parse().map_err(unreadable("notice"))?,
                created_at: Micros(row.created_at),
            })
        })
        .collect()
}
