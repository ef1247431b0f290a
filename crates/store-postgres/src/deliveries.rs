//! What is to be told, and how that went. Written at the end of a job, by the statement that ends it.

use clapboard_jobs::{
    Delivery, DeliveryId, DeliveryPage, DeliveryQuery, DeliveryState, EndpointId, JobId, Notice, StoreError, Tenant,
};
use uuid::Uuid;

use crate::error::unavailable;
use crate::rows::DeliveryRow;
use crate::store::PostgresStore;

/// `delivery_rows!("with …", "from …", arguments…)`: a checked statement that reads deliveries.
macro_rules! delivery_rows {
    ($head:literal, $tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            DeliveryRow,
            $head +
            r#"
            select
                id as "id!", tenant as "tenant!", endpoint as "endpoint?", url as "url?", job_id as "job_id!",
                notice as "notice!", created_at as "created_at!", state as "state!", tries as "tries!",
                next_try_at as "next_try_at?", settled_at as "settled_at?", last_status as "last_status?",
                last_error as "last_error?", is_test as "is_test!"
            "#
            + $tail
            $(, $argument)*
        )
    };
}

fn deliveries(rows: Vec<DeliveryRow>) -> Result<Vec<Delivery>, StoreError> {
    rows.into_iter().map(Delivery::try_from).collect()
}

pub(crate) async fn of_job(store: &PostgresStore, tenant: &Tenant, job: JobId) -> Result<Vec<Delivery>, StoreError> {
    let rows = delivery_rows!(
        "",
        "from deliveries where job_id = $1 and tenant = $2 order by created_at, id",
        job.as_uuid(),
        tenant.as_str()
    )
    .fetch_all(store.pool())
    .await
    .map_err(unavailable("reading the deliveries of a job"))?;
    deliveries(rows)
}

pub(crate) async fn list(
    store: &PostgresStore,
    tenant: &Tenant,
    query: &DeliveryQuery,
) -> Result<DeliveryPage, StoreError> {
    let (after_at, after_id) = match query.after {
        None => (i64::MAX, Uuid::max()),
        Some(after) => (created_at(store, tenant, after).await?, after.0),
    };
    // A page of each state, merged: the index holds every state in its own order.
    let states: Vec<String> = match query.state {
        Some(state) => vec![state.as_str().to_owned()],
        None => DeliveryState::ALL.iter().map(|state| state.as_str().to_owned()).collect(),
    };
    // One more than asked for tells whether there is more.
    let limit = i64::from(query.limit) + 1;
    let rows = match query.endpoint {
        None => {
            delivery_rows!(
                "",
                r#"
                from (
                    select page.*
                    from unnest($2::text[]) as wanted (state)
                    cross join lateral (
                        select * from deliveries
                        where tenant = $1 and state collate "POSIX" = wanted.state and (created_at, id) < ($3, $4)
                        order by created_at desc, id desc
                        limit $5
                    ) page
                ) pages
                order by created_at desc, id desc
                limit $5
                "#,
                tenant.as_str(),
                &states,
                after_at,
                after_id,
                limit
            )
            .fetch_all(store.pool())
            .await
        }
        Some(endpoint) => {
            delivery_rows!(
                "",
                r#"
                from (
                    select page.*
                    from unnest($2::text[]) as wanted (state)
                    cross join lateral (
                        select * from deliveries
                        where endpoint is not null and endpoint = $6 and state collate "POSIX" = wanted.state
                            and (created_at, id) < ($3, $4)
                        order by created_at desc, id desc
                        limit $5
                    ) page
                ) pages
                where tenant = $1
                order by created_at desc, id desc
                limit $5
                "#,
                tenant.as_str(),
                &states,
                after_at,
                after_id,
                limit,
                endpoint.0
            )
            .fetch_all(store.pool())
            .await
        }
    }
    .map_err(unavailable("listing deliveries"))?;
    let mut deliveries = deliveries(rows)?;
    let asked = query.limit as usize;
    let has_more = deliveries.len() > asked;
    deliveries.truncate(asked);
    Ok(DeliveryPage { deliveries, has_more })
}

async fn created_at(store: &PostgresStore, tenant: &Tenant, id: DeliveryId) -> Result<i64, StoreError> {
    let found =
        sqlx::query_scalar!("select created_at from deliveries where id = $1 and tenant = $2", id.0, tenant.as_str())
            .fetch_optional(store.pool())
            .await
            .map_err(unavailable("looking for the delivery to list after"))?;
    found.ok_or(StoreError::UnknownDelivery { after: id })
}

/// Adds a delivery about a job that never was.
pub(crate) async fn test(
    store: &PostgresStore,
    tenant: &Tenant,
    endpoint: EndpointId,
    notice: Notice,
) -> Result<Option<Delivery>, StoreError> {
    let doing = "adding a delivery to try an endpoint with";
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    // Of two tests at once the later one waits here, and its next statement sees the other. Ends of jobs do not wait.
    let found = sqlx::query_scalar!(
        "select id from endpoints where id = $1 and tenant = $2 for no key update",
        endpoint.0,
        tenant.as_str()
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    if found.is_none() {
        return Ok(None);
    }
    let is_pending = sqlx::query_scalar!(
        r#"
        select exists (
            select from deliveries where state = 'pending' and is_test and endpoint = $1
        ) as "is_pending!"
        "#,
        endpoint.0
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    if is_pending {
        return Err(StoreError::TestPending { endpoint });
    }
    let row = delivery_rows!(
        r#"
        with added as (
            insert into deliveries (id, tenant, endpoint, job_id, notice, is_test, created_at, next_try_at)
            values (gen_random_uuid(), $1, $2, $3, $4, true, now_micros(), now_micros())
            returning *
        )
        "#,
        "from added",
        tenant.as_str(),
        endpoint.0,
        JobId::new().as_uuid(),
        notice.as_str()
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))?;
    Delivery::try_from(row).map(Some)
}

pub(crate) async fn replay(
    store: &PostgresStore,
    tenant: &Tenant,
    id: DeliveryId,
) -> Result<Option<Delivery>, StoreError> {
    let doing = "replaying a delivery";
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    let found = sqlx::query!(
        r#"
        select d.endpoint, e.disabled_at is not null as "is_disabled!"
        from deliveries d left join endpoints e on e.id = d.endpoint
        where d.id = $1 and d.tenant = $2
        "#,
        id.0,
        tenant.as_str()
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let Some(found) = found else {
        return Ok(None);
    };
    // As it is at this moment: no lock keeps anybody from disabling the endpoint right after. What was replayed is pending then,
    // and not sent before the endpoint is enabled, like all else that waits for it.
    if let (Some(endpoint), true) = (found.endpoint, found.is_disabled) {
        return Err(StoreError::EndpointDisabled { endpoint: EndpointId(endpoint) });
    }
    // One that is being tried just now is not tried twice at once.
    let row = delivery_rows!(
        r#"
        with replayed as (
            update deliveries
            set tries = case when state = 'pending' then tries else 0 end, state = 'pending',
                next_try_at = case when held_until > now_micros() then next_try_at else now_micros() end, settled_at = null
            where id = $1 and tenant = $2
            returning *
        )
        "#,
        "from replayed",
        id.0,
        tenant.as_str()
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))?;
    row.map(Delivery::try_from).transpose()
}
