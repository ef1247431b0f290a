//! Claiming a job, in one statement.
//!
//! It names the best candidates, locks the first of them that nobody else is claiming, asks whether its tenant may have one
//! more running, and gives it away: a new fence, a new token, one more attempt, its entry in the history, the key of its
//! result among the objects, so that no object is ever unknown to the tables. A claim never waits for another, save for
//! one of the same tenant where that has a cap. The partition's virtual time moves up unless another claim is just moving
//! it: the next one then does.
//!
//! Candidates are the first jobs of each queue, whoever's they are. Only where none of a queue's first [`FRONT`] can be had,
//! since their tenants may run no more or the claimant cannot run them, is the queue searched tenant by tenant: the index of
//! waiting jobs is read at the head of each tenant's backlog and never through it. So a million jobs of a tenant that may run
//! no more cost a look at each other tenant that waits, some 50 µs each, and nothing else does. Within a tenant's backlog the
//! search reads past jobs that back off, past those that had to begin before now, and, in the one class that the claimant holds
//! in part, past those that are too large: once each in a claim. Those that had to begin are ended by the
//! scheduler's sweeps, so they are many only while no scheduler runs.
//!
//! Neither of the two indexes that claims go by holds a job's deadline: it is read from the row, as are `run_at` and `rows`.

use clapboard_jobs::{CapacityClass, ClaimToken, Claimant, Claimed, Job, JobId, JobState, Lease, Micros, StoreError};

use crate::error::unavailable;
use crate::rows::{JobRow, job_rows};
use crate::store::{PostgresStore, micros};

/// How many jobs are candidates: a claim can step over so many others that are under way.
const CANDIDATES: i64 = 16;
/// How many jobs of a queue, the first ones, are looked at before its tenants are.
const FRONT: i64 = 32;
/// Of how many tenants, those whose turn it is, jobs are candidates where tenants are searched.
const TENANTS: i64 = 4;
/// How often a claim looks again when others took every candidate under its hands.
const ROUNDS: u32 = 8;

/// `claim_job!("with …, best as (…)", token, worker, lease, arguments…)`: claims the first job of `best (id, rank)` that
/// can be had, and returns it running; returns the first as it is, waiting, when none could be had.
macro_rules! claim_job {
    ($best:literal, $token:expr, $worker:expr, $lease:expr $(, $argument:expr)* $(,)?) => {
        job_rows!(
            $best | r#",
            picked as materialized (
                select j.* from best b join jobs j on j.id = b.id
                -- The same as state = 'queued' and due, in words that no index answers to: the one to use is that of the ids.
                where j.lease_expires_at is null and j.finished_at is null and j.run_at + 0 <= now_micros()
                    and (j.start_by is null or j.start_by > now_micros())
                order by b.rank, b.id
                limit 1
                for update of j skip locked
            ),
            granted as materialized (
                -- Asked about tenants with a cap only: a call is a quarter of the time of a claim.
                select p.id from picked p
                where not exists (select from tenants t where t.tenant = p.tenant and t.max_running is not null)
                    or may_run_one_more(p.tenant)
            ),
            raised as (
                update jobs j
                set state = 'running', fence = j.fence + 1, attempt = j.attempt + 1,
                    claim_token = $1, worker = $2, lease_expires_at = now_micros() + $3
                from granted g
                where j.id = g.id and j.lease_expires_at is null and j.finished_at is null
                returning j.*
            ),
            entered as (
                insert into job_attempts (job_id, fence, number, worker, claimed_at)
                select id, fence, attempt, worker, now_micros() from raised
            ),
            expected as (
                insert into objects (key, job_id, standing)
                select
                    'v1/' || tenant || '/video_gen_' || replace(id::text, '-', '')
                        || '/' || fence || '-' || left(claim_token::text, 8) || '.mp4',
                    id, 'expected'
                from raised
            ),
            behind as materialized (
                select q.partition, r.virtual_finish from raised r join queue_clocks q on q.partition = r.partition
                where q.virtual_time < r.virtual_finish
                for update of q skip locked
            ),
            advanced as (
                update queue_clocks q set virtual_time = b.virtual_finish from behind b
                where q.partition = b.partition and q.virtual_time < b.virtual_finish
            )
            "#,
            r#"
            from (
                select * from raised
                union all
                select j.* from jobs j
                where j.id = (select b.id from best b order by b.rank, b.id limit 1) and not exists (select from raised)
            ) answer
            "#,
            $token, $worker, $lease $(, $argument)*
        )
    };
}

/// What a claimant can take, as parameters.
struct Reach {
    partitions: Vec<String>,
    spec_versions: Vec<i64>,
    max_rows: i64,
    /// Every capacity class that has jobs it can hold, and the most rows that a job of the class has.
    classes: Vec<i32>,
    bounds: Vec<i64>,
}

impl Reach {
    fn of(claimant: &Claimant) -> Self {
        let largest = CapacityClass::COUNT - 1;
        let saturated = |rows: u64| i64::try_from(rows).unwrap_or(i64::MAX);
        // Jobs beyond every bound are in the largest class too.
        let bound =
            |class: CapacityClass| if class.number() == largest { i64::MAX } else { saturated(class.max_rows()) };
        let classes = || CapacityClass::within_reach(claimant.max_rows);
        Self {
            partitions: claimant.partitions.iter().map(|partition| partition.as_str().to_owned()).collect(),
            spec_versions: claimant.spec_versions.iter().map(|&version| i64::from(version)).collect(),
            max_rows: claimant.max_rows.map_or(i64::MAX, saturated),
            classes: classes().map(|class| i32::from(class.number())).collect(),
            bounds: classes().map(bound).collect(),
        }
    }
}

pub(crate) async fn claim(
    store: &PostgresStore,
    id: JobId,
    claimant: &Claimant,
) -> Result<Option<Claimed>, StoreError> {
    let (token, reach) = (ClaimToken::random(), Reach::of(claimant));
    let row = claim_job!(
        r#"
        with best as materialized (
            select j.id, j.rank from jobs j
            where j.id = $4
                and j.lease_expires_at is null
                and j.finished_at is null
                and j.run_at + 0 <= now_micros()
                and (j.start_by is null or j.start_by > now_micros())
                and j.partition = any($5)
                and j.spec_version = any($6)
                and j.rows <= $7
                and not exists (select from paused_partitions p where p.partition = j.partition)
                and not ($8 and exists (
                    select from workers w
                    where w.id <> $2 and w.state = 'idle' and not w.drain_requested and w.seen_at > now_micros() - $9
                        and j.partition = any(w.partitions) and (w.max_rows is null or w.max_rows >= j.rows)
                        and j.spec_version = any(w.spec_versions)
                ))
        )
        "#,
        token.0,
        claimant.worker.0,
        store.lease_micros(),
        id.as_uuid(),
        &reach.partitions,
        &reach.spec_versions,
        reach.max_rows,
        claimant.ahead,
        micros(clapboard_jobs::store::WORKER_MEMORY)
    )
    .fetch_optional(store.pool())
    .await
    .map_err(unavailable("claiming a job"))?;
    match row {
        Some(row) => claimed(store, row, claimant, token),
        None => Ok(None),
    }
}

pub(crate) async fn claim_next(store: &PostgresStore, claimant: &Claimant) -> Result<Option<Claimed>, StoreError> {
    let reach = Reach::of(claimant);
    for _ in 0..ROUNDS {
        let token = ClaimToken::random();
        let row = claim_job!(
            r#"
            with recursive queues as materialized (
                select
                    p.partition, c.class, c.bound,
                    (
                        select max(coalesce(w.max_rows, 9223372036854775807)) from workers w
                        where $9 and w.id <> $2 and w.state = 'idle' and not w.drain_requested
                            and w.seen_at > now_micros() - $10 and p.partition = any(w.partitions)
                            -- One that knows only some of the versions keeps none of the jobs.
                            and w.spec_versions @> $7
                    ) as idle_rows
                from unnest($4::text[]) as p (partition)
                cross join unnest($5::int[], $6::bigint[]) as c (class, bound)
                where not exists (select from paused_partitions x where x.partition = p.partition)
            ),
            -- The queues that have jobs for this claimant: those of more rows than `above`.
            open as materialized (
                select q.partition, q.class, coalesce(q.idle_rows, -1) as above from queues q
                where q.idle_rows is null or q.idle_rows < q.bound
            ),
            fronts as materialized (
                select o.partition, o.class, f.id, f.rank, f.tenant
                from open o
                cross join lateral (
                    select j.id, j.rank, j.tenant, j.rows, j.run_at, j.start_by, j.spec_version from jobs j
                    where j.claim_token is null and j.finished_at is null
                        and j.partition = o.partition and j.capacity_class = o.class
                    order by j.rank, j.id
                    limit $13
                ) f
                where f.run_at <= (select now_micros()) and (f.start_by is null or f.start_by > (select now_micros()))
                    and f.spec_version = any($7) and f.rows <= $8 and f.rows > o.above
            ),
            -- Whether a tenant may have one more running: counted once for all of its jobs, and of tenants with a cap only.
            near_rooms as materialized (
                select
                    f.tenant,
                    coalesce((
                        select t.max_running > (
                            select count(*) from jobs r where r.tenant = t.tenant and r.state = 'running'
                        )
                        from tenants t
                        where t.tenant = f.tenant and t.max_running is not null
                    ), true) as has_room
                from (select distinct tenant from fronts) f
            ),
            near as materialized (
                select f.partition, f.class, f.id, f.rank
                from fronts f
                join near_rooms o on o.tenant = f.tenant and o.has_room
            ),
            -- Where none of the first can be had and there are others: each tenant that waits, found by jumping from one to
            -- the next in the index.
            waiting as (
                select o.partition, o.class, o.above, v.version, first.tenant
                from open o
                cross join unnest($7::bigint[]) as v (version)
                cross join lateral (
                    select j.tenant from jobs j
                    where j.state = 'queued' and j.partition = o.partition and j.capacity_class = o.class
                        and j.spec_version = v.version
                    order by j.tenant
                    limit 1
                ) first
                where not exists (select from near n where n.partition = o.partition and n.class = o.class)
                    and exists (
                        select from jobs j
                        where j.claim_token is null and j.finished_at is null
                            and j.partition = o.partition and j.capacity_class = o.class
                        order by j.rank, j.id
                        offset $13
                    )
                union all
                select w.partition, w.class, w.above, w.version, following.tenant
                from waiting w
                cross join lateral (
                    select j.tenant from jobs j
                    where j.state = 'queued' and j.partition = w.partition and j.capacity_class = w.class
                        and j.spec_version = w.version and j.tenant > w.tenant
                    order by j.tenant
                    limit 1
                ) following
            ),
            far_rooms as materialized (
                select
                    w.tenant,
                    coalesce((
                        select t.max_running > (
                            select count(*) from jobs r where r.tenant = t.tenant and r.state = 'running'
                        )
                        from tenants t
                        where t.tenant = w.tenant and t.max_running is not null
                    ), true) as has_room
                from (
                    select distinct tenant from waiting
                    where tenant not in (select tenant from near_rooms where not has_room)
                ) w
            ),
            heads as materialized (
                select w.*, head.id, head.rank
                from waiting w
                join far_rooms o on o.tenant = w.tenant and o.has_room
                cross join lateral (
                    select j.id, j.rank from jobs j
                    where j.state = 'queued' and j.partition = w.partition and j.capacity_class = w.class
                        and j.spec_version = w.version and j.tenant = w.tenant
                        and j.run_at + 0 <= (select now_micros())
                        and (j.start_by is null or j.start_by > (select now_micros()))
                        and j.rows <= $8 and j.rows > w.above
                    order by j.rank, j.id
                    limit 1
                ) head
                order by head.rank, head.id
                limit $11
            ),
            best as materialized (
                select found.id, found.rank
                from (
                    select n.id, n.rank from near n
                    union all
                    select c.id, c.rank
                    from heads h
                    cross join lateral (
                        select j.id, j.rank from jobs j
                        where j.state = 'queued' and j.partition = h.partition and j.capacity_class = h.class
                            and j.spec_version = h.version and j.tenant = h.tenant
                            -- What stands before the head was looked at.
                            and (j.rank, j.id) >= (h.rank, h.id)
                            and j.run_at + 0 <= (select now_micros())
                            and (j.start_by is null or j.start_by > (select now_micros()))
                            and j.rows <= $8 and j.rows > h.above
                        order by j.rank, j.id
                        limit $12
                    ) c
                ) found
                order by found.rank, found.id
                limit $12
            )
            "#,
            token.0,
            claimant.worker.0,
            store.lease_micros(),
            &reach.partitions,
            &reach.classes,
            &reach.bounds,
            &reach.spec_versions,
            reach.max_rows,
            claimant.ahead,
            micros(clapboard_jobs::store::WORKER_MEMORY),
            TENANTS,
            CANDIDATES,
            FRONT
        )
        .fetch_optional(store.pool())
        .await
        .map_err(unavailable("claiming the next job"))?;
        let Some(row) = row else {
            return Ok(None);
        };
        if let Some(claimed) = claimed(store, row, claimant, token)? {
            return Ok(Some(claimed));
        }
    }
    Ok(None)
}

/// Reads the answer; none when the job was not given away.
fn claimed(
    store: &PostgresStore,
    row: JobRow,
    claimant: &Claimant,
    token: ClaimToken,
) -> Result<Option<Claimed>, StoreError> {
    let expires_at = row.lease_expires_at;
    let job = Job::try_from(row)?;
    let (JobState::Running, Some(expires_at), true) = (job.state, expires_at, job.worker == Some(claimant.worker))
    else {
        return Ok(None);
    };
    let lease = Lease {
        job: job.id,
        tenant: job.tenant.clone(),
        fence: job.fence,
        token,
        worker: claimant.worker,
        expires_at: Micros(expires_at),
        duration: store.policy().lease,
    };
    Ok(Some(Claimed { lease, job }))
}
