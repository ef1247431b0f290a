//! Deliveries that are to be tried now, and what became of a try.

use std::collections::HashMap;
use std::time::Duration;

use clapboard_jobs::{Attempted, Causes, DeliveryId, Due, Effect, Fate, Micros, StoreError, Tried, reasons};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::unavailable;
use crate::retention;
use crate::rows::{DueRow, number, parse};
use crate::store::SqliteStore;

pub(crate) async fn take_due(
    store: &SqliteStore,
    limit: u32,
    per_receiver: u32,
    per_tenant: u32,
    hold: Duration,
) -> Result<Vec<Due>, StoreError> {
    let doing = "taking deliveries that are due";
    let mut tx = store.begin(doing).await?;
    let now = store.now();
    let receivers =
        sqlx::query_file!("queries/due_receivers.sql", now.0).fetch_all(&mut *tx).await.map_err(unavailable(doing))?;
    let mut due: HashMap<String, Vec<Head>> = HashMap::new();
    for receiver in receivers {
        let room = i64::from(per_receiver) - receiver.held;
        if room > 0 {
            let heads = heads(&mut tx, receiver.endpoint, &receiver.tenant, now, room, doing).await?;
            due.entry(receiver.tenant).or_default().extend(heads);
        }
    }
    let held = held_by_tenants(&mut tx, now, doing).await?;
    let mut taken = Vec::new();
    for id in in_turns(due, &held, per_tenant).into_iter().take(limit as usize) {
        if let Some(due) = take(&mut tx, id, now, now.plus(hold), doing).await? {
            taken.push(due);
        }
    }
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(taken)
}

/// A delivery that is due: since when, and which.
type Head = (i64, Uuid);

/// Returns what is due by the turns that tenants take: the place of a delivery is how many its tenant has held before it, and
/// none is beyond `per_tenant`.
fn in_turns(due: HashMap<String, Vec<Head>>, held: &HashMap<String, i64>, per_tenant: u32) -> Vec<Uuid> {
    let mut placed = Vec::new();
    for (tenant, mut heads) in due {
        heads.sort_unstable();
        let held = held.get(&tenant).copied().unwrap_or_default();
        placed.extend((held + 1..=i64::from(per_tenant)).zip(heads));
    }
    placed.sort_unstable();
    placed.into_iter().map(|(_, (_, id))| id).collect()
}

async fn held_by_tenants(
    tx: &mut SqliteConnection,
    now: Micros,
    doing: &'static str,
) -> Result<HashMap<String, i64>, StoreError> {
    let rows = sqlx::query!(
        r#"
        select tenant, count(*) as "held!: i64" from deliveries indexed by deliveries_held
        where held_until is not null and held_until > ?
        group by tenant
        "#,
        now.0
    )
    .fetch_all(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(rows.into_iter().map(|row| (row.tenant, row.held)).collect())
}

/// Takes a delivery; none where it is given up instead.
async fn take(
    tx: &mut SqliteConnection,
    id: Uuid,
    now: Micros,
    until: Micros,
    doing: &'static str,
) -> Result<Option<Due>, StoreError> {
    sqlx::query!(
        "update deliveries set tries = tries + 1, next_try_at = ?2, held_until = ?2 where id = ?1",
        id,
        until.0
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let row = sqlx::query_as!(
        DueRow,
        r#"
        select
            d.id as "id: Uuid", d.tenant, coalesce(d.url, e.url) as "url: String",
            coalesce(e.secret, h.secret) as "secret: String",
            iif(e.old_secret_until > ?2, e.old_secret, null) as "old_secret: String",
            d.job_id as "job_id: Uuid", d.notice, d.created_at, d.tries, d.is_test as "is_test: bool", d.trace
        from deliveries d
        left join endpoints e on e.id = d.endpoint_id
        left join hook_secrets h on h.tenant = d.tenant
        where d.id = ?1
        "#,
        id,
        now.0
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    if row.is_used_up() {
        tracing::warn!(delivery.id = %DeliveryId(id), "a delivery is given up of whose last try nothing was heard");
        give_up(tx, id, now, reasons::NEVER_ANSWERED, doing).await?;
        return Ok(None);
    }
    match Due::try_from(row) {
        Ok(due) => Ok(Some(due)),
        Err(error) => {
            tracing::warn!(delivery.id = %DeliveryId(id), error = %Causes(&error), "a delivery is given up that cannot be read");
            give_up(tx, id, now, reasons::UNREADABLE, doing).await?;
            Ok(None)
        }
    }
}

/// Gives up a delivery that has just been taken, and is not tried.
async fn give_up(
    tx: &mut SqliteConnection,
    id: Uuid,
    now: Micros,
    why: &str,
    doing: &'static str,
) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        update deliveries
        set state = 'dead', tries = tries - 1, settled_at = ?2, next_try_at = null, held_until = null, last_error = ?3
        where id = ?1
        "#,
        id,
        now.0,
        why
    )
    .execute(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(())
}

/// Returns up to `room` deliveries of one receiver that are due, and since when: of an endpoint, or of all the URLs of a tenant's
/// single jobs.
async fn heads(
    tx: &mut SqliteConnection,
    endpoint: Option<Uuid>,
    tenant: &str,
    now: Micros,
    room: i64,
    doing: &'static str,
) -> Result<Vec<Head>, StoreError> {
    if let Some(endpoint) = endpoint {
        let rows = sqlx::query!(
            r#"
            select id as "id: Uuid", next_try_at as "next_try_at!: i64" from deliveries
            where state = 'pending' and endpoint_id is not null and endpoint_id = ? and next_try_at <= ?
            order by next_try_at, id
            limit ?
            "#,
            endpoint,
            now.0,
            room
        )
        .fetch_all(tx)
        .await
        .map_err(unavailable(doing))?;
        return Ok(rows.into_iter().map(|row| (row.next_try_at, row.id)).collect());
    }
    let rows = sqlx::query!(
        r#"
        select id as "id: Uuid", next_try_at as "next_try_at!: i64" from deliveries
        where state = 'pending' and endpoint_id is null and tenant = ? and next_try_at <= ?
        order by next_try_at, id
        limit ?
        "#,
        tenant,
        now.0,
        room
    )
    .fetch_all(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(rows.into_iter().map(|row| (row.next_try_at, row.id)).collect())
}

/// Where a delivery that was tried is, and what it is for.
struct Place {
    id: Uuid,
    endpoint: Option<Uuid>,
    created_at: i64,
}

pub(crate) async fn tried(
    store: &SqliteStore,
    id: DeliveryId,
    tried_number: u32,
    tried: &Tried,
) -> Result<(), StoreError> {
    let doing = "recording how a delivery went";
    let mut tx = store.begin(doing).await?;
    let now = store.now();
    let uuid = id.0;
    let row = sqlx::query!(
        r#"
        select
            endpoint_id as "endpoint_id: Uuid", created_at, state, tries, held_until is not null as "is_held!: bool",
            is_test as "is_test: bool"
        from deliveries
        where id = ?
        "#,
        uuid
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let Some(row) = row else {
        return Ok(());
    };
    let attempted = Attempted {
        state: parse("state", &row.state)?,
        tries: number("tries", row.tries)?,
        is_held: row.is_held,
        is_test: row.is_test,
    };
    let (entropy, _) = Uuid::new_v4().as_u64_pair();
    let aftermath = attempted.after(tried_number, tried, entropy);
    let place = Place { id: uuid, endpoint: row.endpoint_id, created_at: row.created_at };
    place.write(&mut tx, now, &aftermath.delivery, doing).await?;
    if place.endpoint.is_some() {
        place.write_to_endpoint(&mut tx, now, aftermath.endpoint, doing).await?;
    }
    tx.commit().await.map_err(unavailable(doing))
}

impl Place {
    async fn write(
        &self,
        tx: &mut SqliteConnection,
        now: Micros,
        fate: &Fate,
        doing: &'static str,
    ) -> Result<(), StoreError> {
        match fate {
            Fate::Stays => return Ok(()),
            Fate::Settled { state, status, error } => {
                let state = state.as_str();
                sqlx::query!(
                    r#"
                    update deliveries
                    set state = ?2, settled_at = ?3, next_try_at = null, held_until = null, last_status = ?4,
                        last_error = ?5
                    where id = ?1
                    "#,
                    self.id,
                    state,
                    now.0,
                    status,
                    error
                )
                .execute(tx)
                .await
            }
            Fate::Waits { wait, status, error } => {
                let until = now.plus(*wait).0;
                sqlx::query!(
                    r#"
                    update deliveries set next_try_at = ?2, held_until = null, last_status = ?3, last_error = ?4
                    where id = ?1
                    "#,
                    self.id,
                    until,
                    status,
                    error
                )
                .execute(tx)
                .await
            }
            Fate::Postponed { wait } => {
                let until = now.plus(*wait).0;
                sqlx::query!(
                    "update deliveries set next_try_at = ?2, held_until = null, tries = tries - 1 where id = ?1",
                    self.id,
                    until
                )
                .execute(tx)
                .await
            }
        }
        .map_err(unavailable(doing))?;
        Ok(())
    }

    async fn write_to_endpoint(
        &self,
        tx: &mut SqliteConnection,
        now: Micros,
        effect: Effect,
        doing: &'static str,
    ) -> Result<(), StoreError> {
        match effect {
            Effect::None => return Ok(()),
            Effect::Reached => {
                sqlx::query!("update endpoints set quiet_until = null where id = ?", self.endpoint).execute(tx).await
            }
            Effect::Quiet(quiet) => {
                let until = now.plus(quiet).0;
                sqlx::query!(
                    "update endpoints set quiet_until = max(coalesce(quiet_until, 0), ?2) where id = ?1",
                    self.endpoint,
                    until
                )
                .execute(tx)
                .await
            }
            Effect::Disabled { why, unless_reached } => {
                let since = unless_reached.then_some(self.created_at);
                sqlx::query!(
                    r#"
                    update endpoints set disabled_at = ?2, disabled_why = ?3
                    where id = ?1 and disabled_at is null
                        and not exists (
                            select 1 from deliveries
                            where endpoint_id = ?1 and state = 'delivered' and settled_at >= ?4
                        )
                    "#,
                    self.endpoint,
                    now.0,
                    why,
                    since
                )
                .execute(tx)
                .await
            }
        }
        .map_err(unavailable(doing))?;
        Ok(())
    }
}

pub(crate) async fn next_delivery(store: &SqliteStore, after: Micros) -> Result<Option<Micros>, StoreError> {
    // What waits for an endpoint that is left alone falls due when that ends.
    let moment = sqlx::query_scalar!(
        r#"
        select min(moment) as "moment: i64" from (
            select moment from (
                select d.next_try_at as moment from deliveries d
                left join endpoints e on e.id = d.endpoint_id
                where d.state = 'pending' and d.next_try_at > ?1 and e.disabled_at is null
                    and coalesce(e.quiet_until, 0) <= d.next_try_at
                order by d.next_try_at
                limit 1
            )
            union all
            select min(e.quiet_until) from endpoints e
            where e.quiet_until is not null and e.quiet_until > ?1 and e.disabled_at is null
                and exists (
                    select 1 from deliveries d
                    where d.state = 'pending' and d.endpoint_id is not null and d.endpoint_id = e.id
                        and d.next_try_at <= e.quiet_until
                )
        )
        "#,
        after.0
    )
    .fetch_one(store.readers())
    .await
    .map_err(unavailable("looking for the next delivery"))?;
    Ok(moment.map(Micros))
}

pub(crate) async fn forget(store: &SqliteStore, limit: u32) -> Result<usize, StoreError> {
    let Some(life) = store.policy().record_life else {
        return Ok(0);
    };
    let doing = "forgetting deliveries";
    let mut tx = store.begin(doing).await?;
    let (kept_since, limit) = (store.now().0 - retention::micros(life), i64::from(limit));
    let forgotten = sqlx::query!(
        r#"
        delete from deliveries
        where id in (
            select id from deliveries where state <> 'pending' and settled_at <= ? order by settled_at limit ?
        )
        "#,
        kept_since,
        limit
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(usize::try_from(forgotten.rows_affected()).unwrap_or(usize::MAX))
}
