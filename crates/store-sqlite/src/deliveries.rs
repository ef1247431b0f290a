//! What is to be told, and how that went.

use std::cmp::Reverse;

use clapboard_jobs::{
    Delivery, DeliveryId, DeliveryPage, DeliveryQuery, DeliveryState, EndpointId, JobId, Notice, StoreError, Tenant,
};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::unavailable;
use crate::rows::DeliveryRow;
use crate::store::SqliteStore;

/// `select_delivery!("where …", arguments…)`: a checked statement that reads deliveries.
macro_rules! select_delivery {
    ($tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            crate::rows::DeliveryRow,
            r#"
            select
                id as "id: uuid::Uuid", tenant, endpoint_id as "endpoint: uuid::Uuid", url, job_id as "job_id: uuid::Uuid",
                notice, created_at, state, tries, next_try_at, settled_at, last_status, last_error,
                is_test as "is_test: bool"
            from deliveries
            "# + $tail
            $(, $argument)*
        )
    };
}

fn deliveries(rows: Vec<DeliveryRow>) -> Result<Vec<Delivery>, StoreError> {
    rows.into_iter().map(Delivery::try_from).collect()
}

pub(crate) async fn of_job(store: &SqliteStore, tenant: &Tenant, job: JobId) -> Result<Vec<Delivery>, StoreError> {
    let (job, tenant) = (job.as_uuid(), tenant.as_str());
    let rows = select_delivery!("where job_id = ? and tenant = ? order by created_at, id", job, tenant)
        .fetch_all(store.readers())
        .await
        .map_err(unavailable("reading the deliveries about a job"))?;
    deliveries(rows)
}

pub(crate) async fn list(
    store: &SqliteStore,
    tenant: &Tenant,
    query: &DeliveryQuery,
) -> Result<DeliveryPage, StoreError> {
    let doing = "listing deliveries";
    let (after_at, after_id) = match query.after {
        None => (i64::MAX, Uuid::max()),
        Some(after) => (created_at(store, tenant, after).await?, after.0),
    };
    let tenant = tenant.as_str();
    // A page of each state, merged: the index holds every state in its own order.
    let states = query.state.map_or(DeliveryState::ALL.to_vec(), |state| vec![state]);
    // One more than asked for tells whether there is more.
    let limit = i64::from(query.limit) + 1;
    let mut rows = Vec::new();
    for state in states.into_iter().map(DeliveryState::as_str) {
        let page = match query.endpoint.map(|endpoint| endpoint.0) {
            None => {
                select_delivery!(
                    r#"
                    where tenant = ?1 and state = ?2 and (created_at, id) < (?3, ?4)
                    order by created_at desc, id desc
                    limit ?5
                    "#,
                    tenant,
                    state,
                    after_at,
                    after_id,
                    limit
                )
                .fetch_all(store.readers())
                .await
            }
            Some(endpoint) => {
                select_delivery!(
                    r#"
                    where endpoint_id is not null and endpoint_id = ?6 and state = ?2 and (created_at, id) < (?3, ?4)
                        and +tenant = ?1
                    order by created_at desc, id desc
                    limit ?5
                    "#,
                    tenant,
                    state,
                    after_at,
                    after_id,
                    limit,
                    endpoint
                )
                .fetch_all(store.readers())
                .await
            }
        };
        rows.extend(page.map_err(unavailable(doing))?);
    }
    rows.sort_unstable_by_key(|row| Reverse((row.created_at, row.id)));
    let asked = query.limit as usize;
    let has_more = rows.len() > asked;
    rows.truncate(asked);
    Ok(DeliveryPage { deliveries: deliveries(rows)?, has_more })
}

async fn created_at(store: &SqliteStore, tenant: &Tenant, id: DeliveryId) -> Result<i64, StoreError> {
    let (uuid, tenant) = (id.0, tenant.as_str());
    let found = sqlx::query_scalar!("select created_at from deliveries where id = ? and tenant = ?", uuid, tenant)
        .fetch_optional(store.readers())
        .await
        .map_err(unavailable("looking for the delivery to list after"))?;
    found.ok_or(StoreError::UnknownDelivery { after: id })
}

async fn find(
    tx: &mut SqliteConnection,
    tenant: &Tenant,
    id: Uuid,
    doing: &'static str,
) -> Result<Option<Delivery>, StoreError> {
    let tenant = tenant.as_str();
    let row = select_delivery!("where id = ? and tenant = ?", id, tenant)
        .fetch_optional(tx)
        .await
        .map_err(unavailable(doing))?;
    row.map(Delivery::try_from).transpose()
}

/// Adds a delivery about a job that never was.
pub(crate) async fn test(
    store: &SqliteStore,
    tenant: &Tenant,
    endpoint: EndpointId,
    notice: Notice,
) -> Result<Option<Delivery>, StoreError> {
    let doing = "adding a delivery to try an endpoint with";
    let mut tx = store.begin(doing).await?;
    let (id, job, now) = (Uuid::now_v7(), JobId::new().as_uuid(), store.now().0);
    let (endpoint, named, name, notice) = (endpoint.0, endpoint, tenant.as_str(), notice.as_str());
    let is_pending = sqlx::query_scalar!(
        r#"
        select exists (
            select 1 from deliveries indexed by deliveries_pending_tests
            where state = 'pending' and is_test and endpoint_id = ? and tenant = ?
        ) as "is_pending!: bool"
        "#,
        endpoint,
        name
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    if is_pending {
        return Err(StoreError::TestPending { endpoint: named });
    }
    sqlx::query!(
        r#"
        insert into deliveries (id, tenant, endpoint_id, job_id, notice, is_test, created_at, next_try_at)
        select ?1, tenant, id, ?2, ?3, 1, ?4, ?4 from endpoints where id = ?5 and tenant = ?6
        "#,
        id,
        job,
        notice,
        now,
        endpoint,
        name
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let added = find(&mut tx, tenant, id, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(added)
}

pub(crate) async fn replay(
    store: &SqliteStore,
    tenant: &Tenant,
    id: DeliveryId,
) -> Result<Option<Delivery>, StoreError> {
    let doing = "replaying a delivery";
    let mut tx = store.begin(doing).await?;
    let (uuid, name, now) = (id.0, tenant.as_str(), store.now().0);
    // This transaction is the only one that writes: nobody disables the endpoint between this look and the replay.
    let disabled = sqlx::query_scalar!(
        r#"
        select e.id as "id: Uuid" from deliveries d
        join endpoints e on e.id = d.endpoint_id
        where d.id = ? and d.tenant = ? and e.disabled_at is not null
        "#,
        uuid,
        name
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    if let Some(endpoint) = disabled {
        return Err(StoreError::EndpointDisabled { endpoint: EndpointId(endpoint) });
    }
    // One that is being tried just now is not tried twice at once.
    sqlx::query!(
        r#"
        update deliveries
        set tries = iif(state = 'pending', tries, 0), state = 'pending', next_try_at = ?3, settled_at = null
        where id = ?1 and tenant = ?2 and coalesce(held_until, 0) <= ?3
        "#,
        uuid,
        name,
        now
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let replayed = find(&mut tx, tenant, id.0, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(replayed)
}
