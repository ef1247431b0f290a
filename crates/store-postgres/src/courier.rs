//! Deliveries that are to be tried now, and what became of a try.

use std::time::Duration;

use clapboard_jobs::{Attempted, Causes, DeliveryId, Due, Effect, Fate, Micros, StoreError, Tried, reasons};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::unavailable;
use crate::rows::{DueRow, number, parse, text};
use crate::store::{PostgresStore, micros};

/// What all takers of deliveries lock, so that each counts what the ones before hold. The other advisory locks of the service
/// are that of a migration and those of [tenants](crate::endpoints), which have two numbers.
const TAKERS: i64 = 0x636f_7572_6965_7273;
pub(crate) async fn take_due(
    store: &PostgresStore,
    limit: u32,
    per_receiver: u32,
    per_tenant: u32,
    hold: Duration,
) -> Result<Vec<Due>, StoreError> {
    let doing = "taking deliveries that are due";
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    sqlx::query!("select pg_advisory_xact_lock($1)", TAKERS).execute(&mut *tx).await.map_err(unavailable(doing))?;
    let rows = sqlx::query_file_as!(
        DueRow,
        "queries/take_due.sql",
        i64::from(limit),
        i64::from(per_receiver),
        micros(hold),
        i64::from(per_tenant)
    )
    .fetch_all(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let mut taken = Vec::with_capacity(rows.len());
    for row in rows {
        let id = row.id;
        if row.is_used_up() {
            tracing::warn!(delivery.id = %DeliveryId(id), "a delivery is given up of whose last try nothing was heard");
            give_up(&mut tx, id, reasons::NEVER_ANSWERED, doing).await?;
            continue;
        }
        match Due::try_from(row) {
            Ok(due) => taken.push(due),
            Err(error) => {
                tracing::warn!(delivery.id = %DeliveryId(id), error = %Causes(&error), "a delivery is given up that cannot be read");
                give_up(&mut tx, id, reasons::UNREADABLE, doing).await?;
            }
        }
    }
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(taken)
}

/// Gives up a delivery that has just been taken, and is not tried.
async fn give_up(tx: &mut PgConnection, id: Uuid, why: &str, doing: &'static str) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        update deliveries
        set state = 'dead', tries = tries - 1, settled_at = now_micros(), next_try_at = null, held_until = null,
            last_error = $2
        where id = $1
        "#,
        id,
        why
    )
    .execute(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(())
}

/// Where a delivery that was tried is, locked until the transaction ends, and what it is for.
struct Place {
    id: Uuid,
    endpoint: Option<Uuid>,
    created_at: i64,
}

pub(crate) async fn tried(
    store: &PostgresStore,
    id: DeliveryId,
    tried_number: u32,
    tried: &Tried,
) -> Result<(), StoreError> {
    let doing = "recording how a delivery went";
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    let row = sqlx::query!(
        r#"
        select endpoint, created_at, state, tries, held_until is not null as "is_held!", is_test
        from deliveries
        where id = $1
        for update
        "#,
        id.0
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
    let place = Place { id: id.0, endpoint: row.endpoint, created_at: row.created_at };
    place.write(&mut tx, &aftermath.delivery, doing).await?;
    if place.endpoint.is_some() {
        place.write_to_endpoint(&mut tx, aftermath.endpoint, doing).await?;
    }
    tx.commit().await.map_err(unavailable(doing))
}

impl Place {
    async fn write(&self, tx: &mut PgConnection, fate: &Fate, doing: &'static str) -> Result<(), StoreError> {
        match fate {
            Fate::Stays => return Ok(()),
            Fate::Settled { state, status, error } => {
                sqlx::query!(
                    r#"
                    update deliveries
                    set state = $2, settled_at = now_micros(), next_try_at = null, held_until = null, last_status = $3,
                        last_error = $4
                    where id = $1
                    "#,
                    self.id,
                    state.as_str(),
                    status.map(i64::from),
                    error.as_deref().map(text)
                )
                .execute(tx)
                .await
            }
            Fate::Waits { wait, status, error } => {
                sqlx::query!(
                    r#"
                    update deliveries
                    set next_try_at = now_micros() + $2, held_until = null, last_status = $3, last_error = $4
                    where id = $1
                    "#,
                    self.id,
                    micros(*wait),
                    status.map(i64::from),
                    text(error)
                )
                .execute(tx)
                .await
            }
            Fate::Postponed { wait } => {
                sqlx::query!(
                    r#"
                    update deliveries set next_try_at = now_micros() + $2, held_until = null, tries = tries - 1
                    where id = $1
                    "#,
                    self.id,
                    micros(*wait)
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
        tx: &mut PgConnection,
        effect: Effect,
        doing: &'static str,
    ) -> Result<(), StoreError> {
        match effect {
            Effect::None => return Ok(()),
            Effect::Reached => {
                sqlx::query!(
                    "update endpoints set quiet_until = null where id = $1 and quiet_until is not null",
                    self.endpoint
                )
                .execute(tx)
                .await
            }
            Effect::Quiet(quiet) => {
                sqlx::query!(
                    "update endpoints set quiet_until = greatest(quiet_until, now_micros() + $2) where id = $1",
                    self.endpoint,
                    micros(quiet)
                )
                .execute(tx)
                .await
            }
            Effect::Disabled { why, unless_reached } => {
                sqlx::query!(
                    r#"
                    update endpoints e set disabled_at = now_micros(), disabled_why = $2
                    where e.id = $1 and e.disabled_at is null
                        and not exists (
                            select from deliveries d
                            where d.endpoint = e.id and d.state = 'delivered' and d.settled_at >= $3
                        )
                    "#,
                    self.endpoint,
                    why,
                    unless_reached.then_some(self.created_at)
                )
                .execute(tx)
                .await
            }
        }
        .map_err(unavailable(doing))?;
        Ok(())
    }
}

pub(crate) async fn next_delivery(store: &PostgresStore, after: Micros) -> Result<Option<Micros>, StoreError> {
    let moment = sqlx::query_scalar!(
        r#"
        select min(moment) from (
            (
                select d.next_try_at as moment from deliveries d
                where d.next_try_at is not null and d.next_try_at > $1
                    and not exists (
                        select from endpoints e
                        where e.id = d.endpoint and (e.disabled_at is not null or e.quiet_until > d.next_try_at)
                    )
                order by d.next_try_at
                limit 1
            )
            union all
            -- What waits for an endpoint that is left alone falls due when that ends.
            (
                select e.quiet_until from endpoints e
                where e.quiet_until is not null and e.quiet_until > $1 and e.disabled_at is null
                    and exists (
                        select from deliveries d
                        where d.state = 'pending' and d.endpoint is not null and d.endpoint = e.id
                            and d.next_try_at <= e.quiet_until
                    )
                order by e.quiet_until
                limit 1
            )
        ) moments
        "#,
        after.0
    )
    .fetch_one(store.pool())
    .await
    .map_err(unavailable("looking for the next delivery"))?;
    Ok(moment.map(Micros))
}

pub(crate) async fn forget(store: &PostgresStore, limit: u32) -> Result<usize, StoreError> {
    let Some(life) = store.policy().record_life.map(micros) else {
        return Ok(0);
    };
    let forgotten = sqlx::query!(
        r#"
        delete from deliveries
        where id in (
            select id from deliveries
            where settled_at is not null and settled_at <= now_micros() - $1
            order by settled_at
            limit $2
            for update skip locked
        )
        "#,
        life,
        i64::from(limit)
    )
    .execute(store.pool())
    .await
    .map_err(unavailable("forgetting deliveries"))?;
    Ok(usize::try_from(forgotten.rows_affected()).unwrap_or(usize::MAX))
}
