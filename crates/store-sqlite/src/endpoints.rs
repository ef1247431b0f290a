//! Where tenants want to hear of their jobs.

use std::time::Duration;

use clapboard_jobs::{
    Endpoint, EndpointChange, EndpointId, MAX_ENDPOINTS, Notice, Secret, StoreError, Tenant, reasons,
};
use sqlx::SqliteConnection;

use crate::error::{unavailable, unreadable};
use crate::rows::{EndpointRow, parse};
use crate::store::SqliteStore;

/// How many deliveries one transaction deletes.
const BATCH: i64 = 1_000;

/// `select_endpoint!("where …", now, arguments…)`: a checked statement that reads endpoints. An old secret whose time is over
/// is nobody's business any more.
macro_rules! select_endpoint {
    ($tail:literal, $now:expr $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            EndpointRow,
            r#"
            select
                id as "id: uuid::Uuid", tenant, name, url, notices, secret,
                iif(old_secret_until > ?1, old_secret, null) as "old_secret: String", old_secret_until,
                created_at, updated_at, disabled_at, disabled_why
            from endpoints
            "# + $tail,
            $now
            $(, $argument)*
        )
    };
}

/// Returns notices as the column holds them.
pub(crate) fn names(notices: &[Notice]) -> Result<String, StoreError> {
    let names: Vec<&str> = notices.iter().map(|notice| notice.as_str()).collect();
    serde_json::to_string(&names).map_err(unreadable("notices"))
}

pub(crate) async fn add(store: &SqliteStore, endpoint: &Endpoint) -> Result<(), StoreError> {
    let doing = "adding an endpoint";
    let mut tx = store.begin(doing).await?;
    let (id, tenant, notices) = (endpoint.id.0, endpoint.tenant.as_str(), names(&endpoint.notices)?);
    let (secret, now) = (endpoint.secret.expose(), store.now().0);
    let others = sqlx::query_scalar!(
        r#"select count(*) as "others!: i64" from endpoints where tenant = ? and id <> ?"#,
        tenant,
        id
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    if others >= i64::from(MAX_ENDPOINTS) {
        return Err(StoreError::TooManyEndpoints { limit: MAX_ENDPOINTS });
    }
    let (old_secret, until) = match &endpoint.old_secret {
        Some((old, until)) => (Some(old.expose()), Some(until.0)),
        None => (None, None),
    };
    let (disabled_at, why) = match &endpoint.disabled {
        Some((at, why)) => (Some(at.0), Some(why.as_str())),
        None => (None, None),
    };
    sqlx::query!(
        r#"
        insert into endpoints (
            id, tenant, name, url, notices, secret, old_secret, old_secret_until, created_at, updated_at,
            disabled_at, disabled_why
        )
        values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11)
        on conflict (id) do update
        set tenant = excluded.tenant, name = excluded.name, url = excluded.url, notices = excluded.notices,
            secret = excluded.secret, old_secret = excluded.old_secret, old_secret_until = excluded.old_secret_until,
            updated_at = excluded.updated_at, disabled_at = excluded.disabled_at, disabled_why = excluded.disabled_why,
            quiet_until = null
        "#,
        id,
        tenant,
        endpoint.name,
        endpoint.url,
        notices,
        secret,
        old_secret,
        until,
        now,
        disabled_at,
        why
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))
}

pub(crate) async fn list(store: &SqliteStore, tenant: &Tenant) -> Result<Vec<Endpoint>, StoreError> {
    let (now, tenant) = (store.now().0, tenant.as_str());
    let rows = select_endpoint!("where tenant = ?2 order by created_at, id", now, tenant)
        .fetch_all(store.readers())
        .await
        .map_err(unavailable("listing endpoints"))?;
    rows.into_iter().map(Endpoint::try_from).collect()
}

pub(crate) async fn get(store: &SqliteStore, tenant: &Tenant, id: EndpointId) -> Result<Option<Endpoint>, StoreError> {
    let doing = "reading an endpoint";
    let mut connection = store.readers().acquire().await.map_err(unavailable(doing))?;
    find(&mut connection, store.now().0, tenant, id, doing).await
}

async fn find(
    connection: &mut SqliteConnection,
    now: i64,
    tenant: &Tenant,
    id: EndpointId,
    doing: &'static str,
) -> Result<Option<Endpoint>, StoreError> {
    let (id, tenant) = (id.0, tenant.as_str());
    let row = select_endpoint!("where id = ?2 and tenant = ?3", now, id, tenant)
        .fetch_optional(connection)
        .await
        .map_err(unavailable(doing))?;
    row.map(Endpoint::try_from).transpose()
}

pub(crate) async fn change(
    store: &SqliteStore,
    tenant: &Tenant,
    id: EndpointId,
    change: &EndpointChange,
) -> Result<Option<Endpoint>, StoreError> {
    let doing = "changing an endpoint";
    let mut tx = store.begin(doing).await?;
    let (uuid, name, now) = (id.0, tenant.as_str(), store.now().0);
    let notices = change.notices.as_deref().map(names).transpose()?;
    sqlx::query!(
        r#"
        update endpoints
        set name = coalesce(?3, name), url = coalesce(?4, url), notices = coalesce(?5, notices),
            disabled_at = case when ?6 then null when not ?6 then coalesce(disabled_at, ?7) else disabled_at end,
            disabled_why = case when ?6 then null when not ?6 then coalesce(disabled_why, ?8) else disabled_why end,
            quiet_until = iif(?6 or ?4 <> url, null, quiet_until),
            updated_at = iif(
                (coalesce(?3, name), coalesce(?4, url), coalesce(?5, notices), coalesce(not ?6, disabled_at is not null))
                    is (name, url, notices, disabled_at is not null),
                updated_at,
                ?7
            )
        where id = ?1 and tenant = ?2
        "#,
        uuid,
        name,
        change.name,
        change.url,
        notices,
        change.enabled,
        now,
        reasons::BY_ITS_TENANT
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let changed = find(&mut tx, now, tenant, id, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(changed)
}

pub(crate) async fn rotate_secret(
    store: &SqliteStore,
    tenant: &Tenant,
    id: EndpointId,
    secret: &Secret,
    keep_old: Option<Duration>,
) -> Result<Option<Endpoint>, StoreError> {
    let doing = "giving an endpoint a new secret";
    let mut tx = store.begin(doing).await?;
    let (uuid, name, secret, now) = (id.0, tenant.as_str(), secret.expose(), store.now());
    let (until, moment) = (keep_old.map(|keep| now.plus(keep).0), now.0);
    sqlx::query!(
        r#"
        update endpoints
        set secret = ?3, old_secret = iif(?4 is null, null, secret), old_secret_until = ?4, updated_at = ?5
        where id = ?1 and tenant = ?2
        "#,
        uuid,
        name,
        secret,
        until,
        moment
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let rotated = find(&mut tx, now.0, tenant, id, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(rotated)
}

pub(crate) async fn delete(store: &SqliteStore, tenant: &Tenant, id: EndpointId) -> Result<bool, StoreError> {
    let doing = "deleting an endpoint";
    let (id, tenant) = (id.0, tenant.as_str());
    // From now on it hears of nothing more, so that what is to be deleted comes to an end.
    let mut tx = store.begin(doing).await?;
    let now = store.now().0;
    let found = sqlx::query!(
        r#"
        update endpoints set disabled_at = coalesce(disabled_at, ?3), disabled_why = ?4
        where id = ?1 and tenant = ?2
        "#,
        id,
        tenant,
        now,
        reasons::BEING_DELETED
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))?;
    if found.rows_affected() == 0 {
        return Ok(false);
    }
    // Piece by piece: however much was told, other writers wait for one piece at most.
    loop {
        let mut tx = store.begin(doing).await?;
        let deleted = sqlx::query!(
            r#"
            delete from deliveries
            where id in (select id from deliveries where endpoint_id is not null and endpoint_id = ? limit ?)
            "#,
            id,
            BATCH
        )
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
        tx.commit().await.map_err(unavailable(doing))?;
        if deleted.rows_affected() < BATCH.unsigned_abs() {
            break;
        }
    }
    let mut tx = store.begin(doing).await?;
    let deleted = sqlx::query!("delete from endpoints where id = ? and tenant = ?", id, tenant)
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(deleted.rows_affected() > 0)
}

pub(crate) async fn hook_secret(
    store: &SqliteStore,
    tenant: &Tenant,
    candidate: &Secret,
) -> Result<Secret, StoreError> {
    let doing = "reading what signs for single jobs";
    let mut tx = store.begin(doing).await?;
    let kept = keep_hook_secret(&mut tx, tenant, candidate, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(kept)
}

/// Gives a tenant that has no secret for its jobs' hooks this one, and returns what it has then.
pub(crate) async fn keep_hook_secret(
    tx: &mut SqliteConnection,
    tenant: &Tenant,
    candidate: &Secret,
    doing: &'static str,
) -> Result<Secret, StoreError> {
    let (tenant, secret) = (tenant.as_str(), candidate.expose());
    let kept = sqlx::query_scalar!(
        r#"
        insert into hook_secrets (tenant, secret) values (?, ?)
        on conflict (tenant) do update set secret = secret
        returning secret
        "#,
        tenant,
        secret
    )
    .fetch_one(tx)
    .await
    .map_err(unavailable(doing))?;
    parse("secret", &kept)
}
