//! Where tenants want to hear of their jobs.

use std::time::Duration;

use clapboard_jobs::{
    Endpoint, EndpointChange, EndpointId, MAX_ENDPOINTS, Notice, Secret, StoreError, Tenant, reasons,
};
use sqlx::PgConnection;

use crate::error::unavailable;
use crate::rows::{EndpointRow, parse, text};
use crate::store::{PostgresStore, micros};

/// What a tenant's adders of endpoints lock, beside the hash of its name, so that each counts those of the ones before.
const ADDERS: i32 = 0x656e_6470;
/// How many deliveries one statement deletes.
const BATCH: i64 = 1_000;

/// `endpoint_rows!("with …", "from …", arguments…)`: a checked statement that reads endpoints. An old secret whose time is over
/// is nobody's business any more.
macro_rules! endpoint_rows {
    ($head:literal, $tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            EndpointRow,
            $head +
            r#"
            select
                id as "id!", tenant as "tenant!", name as "name!", url as "url!", to_json(notices)::text as "notices!",
                secret as "secret!", case when old_secret_until > now_micros() then old_secret end as "old_secret?",
                old_secret_until as "old_secret_until?", created_at as "created_at!", updated_at as "updated_at!",
                disabled_at as "disabled_at?", disabled_why as "disabled_why?"
            "#
            + $tail
            $(, $argument)*
        )
    };
}

/// Returns notices as an array of the server's.
pub(crate) fn names(notices: &[Notice]) -> Vec<String> {
    notices.iter().map(|notice| notice.as_str().to_owned()).collect()
}

pub(crate) async fn add(store: &PostgresStore, endpoint: &Endpoint) -> Result<(), StoreError> {
    let doing = "adding an endpoint";
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    sqlx::query!("select pg_advisory_xact_lock($1, hashtext($2))", ADDERS, endpoint.tenant.as_str())
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
    let others = sqlx::query_scalar!(
        r#"select count(*) as "others!" from endpoints where tenant = $1 and id <> $2"#,
        endpoint.tenant.as_str(),
        endpoint.id.0
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    if others >= i64::from(MAX_ENDPOINTS) {
        return Err(StoreError::TooManyEndpoints { limit: MAX_ENDPOINTS });
    }
    sqlx::query!(
        r#"
        insert into endpoints (
            id, tenant, name, url, notices, secret, old_secret, old_secret_until, created_at, updated_at,
            disabled_at, disabled_why
        )
        values ($1, $2, $3, $4, $5, $6, $7, $8, now_micros(), now_micros(), $9, $10)
        on conflict (id) do update
        set tenant = excluded.tenant, name = excluded.name, url = excluded.url, notices = excluded.notices,
            secret = excluded.secret, old_secret = excluded.old_secret, old_secret_until = excluded.old_secret_until,
            updated_at = now_micros(), disabled_at = excluded.disabled_at, disabled_why = excluded.disabled_why,
            quiet_until = null
        "#,
        endpoint.id.0,
        endpoint.tenant.as_str(),
        text(&endpoint.name),
        text(&endpoint.url),
        &names(&endpoint.notices),
        endpoint.secret.expose(),
        endpoint.old_secret.as_ref().map(|(secret, _)| secret.expose()),
        endpoint.old_secret.as_ref().map(|(_, until)| until.0),
        endpoint.disabled.as_ref().map(|(at, _)| at.0),
        endpoint.disabled.as_ref().map(|(_, why)| text(why))
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))
}

pub(crate) async fn list(store: &PostgresStore, tenant: &Tenant) -> Result<Vec<Endpoint>, StoreError> {
    let rows = endpoint_rows!("", "from endpoints where tenant = $1 order by created_at, id", tenant.as_str())
        .fetch_all(store.pool())
        .await
        .map_err(unavailable("listing endpoints"))?;
    rows.into_iter().map(Endpoint::try_from).collect()
}

pub(crate) async fn get(
    store: &PostgresStore,
    tenant: &Tenant,
    id: EndpointId,
) -> Result<Option<Endpoint>, StoreError> {
    let row = endpoint_rows!("", "from endpoints where id = $1 and tenant = $2", id.0, tenant.as_str())
        .fetch_optional(store.pool())
        .await
        .map_err(unavailable("reading an endpoint"))?;
    row.map(Endpoint::try_from).transpose()
}

pub(crate) async fn change(
    store: &PostgresStore,
    tenant: &Tenant,
    id: EndpointId,
    change: &EndpointChange,
) -> Result<Option<Endpoint>, StoreError> {
    let notices = change.notices.as_deref().map(names);
    let row = endpoint_rows!(
        r#"
        with changed as (
            update endpoints
            set name = coalesce($3, name), url = coalesce($4, url), notices = coalesce($5, notices),
                disabled_at = case
                    when $6::boolean then null when not $6 then coalesce(disabled_at, now_micros()) else disabled_at
                end,
                disabled_why = case
                    when $6 then null when not $6 then coalesce(disabled_why, $7) else disabled_why
                end,
                quiet_until = case when $6 or $4 <> url then null else quiet_until end,
                updated_at = case
                    when (coalesce($3, name), coalesce($4, url), coalesce($5, notices), coalesce(not $6, disabled_at is not null))
                        is distinct from (name, url, notices, disabled_at is not null)
                    then now_micros()
                    else updated_at
                end
            where id = $1 and tenant = $2
            returning *
        )
        "#,
        "from changed",
        id.0,
        tenant.as_str(),
        change.name.as_deref().map(text),
        change.url.as_deref().map(text),
        notices.as_deref(),
        change.enabled,
        reasons::BY_ITS_TENANT
    )
    .fetch_optional(store.pool())
    .await
    .map_err(unavailable("changing an endpoint"))?;
    row.map(Endpoint::try_from).transpose()
}

pub(crate) async fn rotate_secret(
    store: &PostgresStore,
    tenant: &Tenant,
    id: EndpointId,
    secret: &Secret,
    keep_old: Option<Duration>,
) -> Result<Option<Endpoint>, StoreError> {
    let row = endpoint_rows!(
        r#"
        with rotated as (
            update endpoints
            set secret = $3, old_secret = case when $4::bigint is not null then secret end,
                old_secret_until = now_micros() + $4, updated_at = now_micros()
            where id = $1 and tenant = $2
            returning *
        )
        "#,
        "from rotated",
        id.0,
        tenant.as_str(),
        secret.expose(),
        keep_old.map(micros)
    )
    .fetch_optional(store.pool())
    .await
    .map_err(unavailable("giving an endpoint a new secret"))?;
    row.map(Endpoint::try_from).transpose()
}

pub(crate) async fn delete(store: &PostgresStore, tenant: &Tenant, id: EndpointId) -> Result<bool, StoreError> {
    let doing = "deleting an endpoint";
    // From now on it hears of nothing more, so that what is to be deleted comes to an end.
    let found = sqlx::query!(
        r#"
        update endpoints
        set disabled_at = coalesce(disabled_at, now_micros()), disabled_why = $3
        where id = $1 and tenant = $2
        "#,
        id.0,
        tenant.as_str(),
        reasons::BEING_DELETED
    )
    .execute(store.pool())
    .await
    .map_err(unavailable(doing))?;
    if found.rows_affected() == 0 {
        return Ok(false);
    }
    // Piece by piece: however much was told, no statement takes longer than it may.
    loop {
        let deleted = sqlx::query!(
            r#"
            delete from deliveries
            where id in (select id from deliveries where endpoint is not null and endpoint = $1 limit $2)
            "#,
            id.0,
            BATCH
        )
        .execute(store.pool())
        .await
        .map_err(unavailable(doing))?;
        if deleted.rows_affected() < BATCH.unsigned_abs() {
            break;
        }
    }
    let deleted = sqlx::query!("delete from endpoints where id = $1 and tenant = $2", id.0, tenant.as_str())
        .execute(store.pool())
        .await
        .map_err(unavailable(doing))?;
    Ok(deleted.rows_affected() > 0)
}

pub(crate) async fn hook_secret(
    store: &PostgresStore,
    tenant: &Tenant,
    candidate: &Secret,
) -> Result<Secret, StoreError> {
    let doing = "reading what signs for single jobs";
    let mut connection = store.pool().acquire().await.map_err(unavailable(doing))?;
    keep_hook_secret(&mut connection, tenant, candidate, doing).await?;
    // By a statement of its own, which sees what another has written while this one waited.
    let kept = sqlx::query_scalar!("select secret from hook_secrets where tenant = $1", tenant.as_str())
        .fetch_one(&mut *connection)
        .await
        .map_err(unavailable(doing))?;
    parse("secret", &kept)
}

/// Gives a tenant that has no secret for its jobs' hooks this one.
pub(crate) async fn keep_hook_secret(
    connection: &mut PgConnection,
    tenant: &Tenant,
    candidate: &Secret,
    doing: &'static str,
) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        insert into hook_secrets (tenant, secret)
        select $1, $2 where not exists (select from hook_secrets where tenant = $1)
        on conflict (tenant) do nothing
        "#,
        tenant.as_str(),
        candidate.expose()
    )
    .execute(connection)
    .await
    .map_err(unavailable(doing))?;
    Ok(())
}
