//! What happens to waiting and running jobs by the passing of time.
//!
//! Several sweeps may run at once: each takes what no other holds (`skip locked`), and the lock makes Postgres look at the
//! row's newest version before it counts as found. So a lease that was renewed just now is not taken back.

use clapboard_jobs::{
    CapacityClass, FailureCode, Hint, JobError, JobId, JobState, LeaseError, Queue, StoreError, WorkerId,
    store::Reclaimed,
};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::closing::{Held, HeldRow, end_waiting, select_held};
use crate::error::{unavailable, unreadable};
use crate::rows;
use crate::store::PostgresStore;

pub(crate) async fn ready(store: &PostgresStore, limit: u32) -> Result<Vec<Hint>, StoreError> {
    let found = sqlx::query!(
        r#"
        with recursive queues as materialized (
            select q.partition, class
            from queue_clocks q
            cross join generate_series(0, $1::int) as class
            where not exists (select from paused_partitions p where p.partition = q.partition)
        ),
        waiting as (
            select q.partition, q.class, first.tenant
            from queues q
            cross join lateral (
                select j.tenant from jobs j
                where j.state = 'queued' and j.partition = q.partition and j.capacity_class = q.class
                order by j.tenant
                limit 1
            ) first
            union all
            select w.partition, w.class, following.tenant
            from waiting w
            cross join lateral (
                select j.tenant from jobs j
                where j.state = 'queued' and j.partition = w.partition and j.capacity_class = w.class
                    and j.tenant > w.tenant
                order by j.tenant
                limit 1
            ) following
        ),
        shares as materialized (
            select
                w.partition, w.class, w.tenant,
                least($2, (
                    select t.max_running - (
                        select count(*) from jobs r where r.tenant = t.tenant and r.state = 'running'
                    )
                    from tenants t
                    where t.tenant = w.tenant
                )) as most
            from waiting w
        ),
        due as (
            select
                s.partition, s.class, head.id, head.rank,
                row_number() over (partition by s.partition, s.class order by head.rank, head.id) as place
            from shares s
            cross join lateral (
                select j.id, j.rank from jobs j
                where j.state = 'queued' and j.partition = s.partition and j.capacity_class = s.class
                    and j.tenant = s.tenant and j.run_at + 0 <= (select now_micros())
                order by j.rank, j.id
                limit greatest(s.most, 0)
            ) head
        )
        select
            partition as "partition!", class as "class!", id as "id!", rank as "rank!"
        from due
        where place <= $2
        order by partition, class, place
        "#,
        i32::from(CapacityClass::COUNT) - 1,
        i64::from(limit)
    )
    .fetch_all(store.pool())
    .await
    .map_err(unavailable("looking for jobs that are due"))?;
    let mut hints = Vec::with_capacity(found.len());
    for row in found {
        let number = u8::try_from(row.class).map_err(unreadable("capacity_class"))?;
        let Some(class) = CapacityClass::from_number(number) else {
            continue;
        };
        let queue = Queue::of(rows::partition(&row.partition)?, class);
        hints.push(Hint { queue, rank: row.rank, job: JobId::from_uuid(row.id) });
    }
    Ok(hints)
}

pub(crate) async fn reclaim_expired(store: &PostgresStore, limit: u32) -> Result<Reclaimed, StoreError> {
    let doing = "taking back jobs whose leases have ended";
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    let expired = select_held!(
        r#"
        where state = 'running' and lease_expires_at <= now_micros()
        order by lease_expires_at
        limit $1
        for update skip locked
        "#,
        i64::from(limit)
    )
    .fetch_all(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let reclaimed = take_back(&mut tx, expired, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(reclaimed)
}

pub(crate) async fn reclaim_from_dead(store: &PostgresStore, living: &[WorkerId]) -> Result<Reclaimed, StoreError> {
    let doing = "taking back the jobs of dead workers";
    let living: Vec<Uuid> = living.iter().map(|worker| worker.0).collect();
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    let dead = select_held!(
        "where state = 'running' and worker <> all($1) order by lease_expires_at for update skip locked",
        &living
    )
    .fetch_all(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let reclaimed = take_back(&mut tx, dead, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(reclaimed)
}

async fn take_back(tx: &mut PgConnection, rows: Vec<HeldRow>, doing: &'static str) -> Result<Reclaimed, StoreError> {
    let mut reclaimed = Reclaimed::default();
    for held in rows.into_iter().map(Held::from) {
        match held.reclaim(tx, doing).await {
            Ok(JobState::Queued) => reclaimed.requeued.push(held.job),
            Ok(_) => reclaimed.ended.push(held.job),
            Err(LeaseError::Store(error)) => return Err(error),
            // Cannot be in this transaction, which holds the row; but then there is nothing to take back.
            Err(LeaseError::Lost { .. } | LeaseError::ForeignObject { .. }) => {}
        }
    }
    Ok(reclaimed)
}

pub(crate) async fn fail_overdue(store: &PostgresStore, limit: u32) -> Result<Vec<JobId>, StoreError> {
    let doing = "failing jobs that did not begin in time";
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    let overdue = sqlx::query_scalar!(
        r#"
        select id from jobs
        where start_by is not null and claim_token is null and finished_at is null and start_by <= now_micros()
        order by start_by, id
        limit $1
        for update skip locked
        "#,
        i64::from(limit)
    )
    .fetch_all(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    if overdue.is_empty() {
        return Ok(Vec::new());
    }
    let error = JobError::new(FailureCode::StartDeadlineExceeded, "no worker began the job in time");
    end_waiting(&mut *tx, &overdue, &error, None, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(overdue.into_iter().map(JobId::from_uuid).collect())
}
