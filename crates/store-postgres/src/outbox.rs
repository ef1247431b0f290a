//! Who wants to hear of a tenant's jobs, and what is to be told.

use clapboard_jobs::{Delivery, Endpoint, EndpointId, JobId, Micros, StoreError, Tenant};

use crate::error::unavailable;
use crate::rows::{parse, text};
use crate::store::PostgresStore;

pub(crate) async fn add_endpoint(store: &PostgresStore, endpoint: &Endpoint) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        insert into endpoints (id, tenant, url, created_at) values ($1, $2, $3, now_micros())
        on conflict (id) do update set tenant = excluded.tenant, url = excluded.url
        "#,
        endpoint.id.0,
        endpoint.tenant.as_str(),
        text(&endpoint.url)
    )
    .execute(store.pool())
    .await
    .map_err(unavailable("adding an endpoint"))?;
    Ok(())
}

pub(crate) async fn deliveries(store: &PostgresStore, tenant: &Tenant, id: JobId) -> Result<Vec<Delivery>, StoreError> {
    let found = sqlx::query!(
        r#"
        select id, endpoint, notice, created_at from deliveries
        where job_id = $1 and tenant = $2
        order by created_at, endpoint
        "#,
        id.as_uuid(),
        tenant.as_str()
    )
    .fetch_all(store.pool())
    .await
    .map_err(unavailable("reading the deliveries of a job"))?;
    let mut all = Vec::with_capacity(found.len());
    for row in found {
        all.push(Delivery {
            id: row.id,
            endpoint: EndpointId(row.endpoint),
            job: id,
            notice: parse("notice", &row.notice)?,
            created_at: Micros(row.created_at),
        });
    }
    Ok(all)
}
