-- The job of the lowest rank that a claimant may have.
--
-- ?1 partitions, ?2 capacity classes, ?3 now, ?4 spec versions, ?5 rows it holds, ?6 the worker, ?7 whether it claims ahead,
-- ?8 since when idle workers count. `kept` is how many rows the idle workers of a partition hold: those jobs are kept for
-- them from who claims ahead.
with recursive
queues (partition, capacity, kept) as (
    select p.value, c.value, iif(?7, coalesce((
        select max(coalesce(w.max_rows, 9223372036854775807))
        from workers w, json_each(w.partitions) loaded
        where loaded.value = p.value and w.state = 'idle' and not w.drain_requested and w.id <> ?6 and w.seen_at >= ?8
            -- One that knows only some of the versions keeps none of the jobs.
            and not exists (
                select known.value from json_each(?4) known
                where known.value not in (select value from json_each(w.spec_versions))
            )
    ), -1), -1)
    from json_each(?1) p, json_each(?2) c
    where p.value not in (select partition from paused_partitions)
),
walk (partition, capacity, kept, tenant) as (
    select q.partition, q.capacity, q.kept, (
        select j.tenant from jobs j indexed by jobs_heads
        where j.state = 'queued' and j.partition = q.partition and j.capacity = q.capacity
        order by j.tenant
        limit 1
    )
    from queues q
    union all
    select w.partition, w.capacity, w.kept, (
        select j.tenant from jobs j indexed by jobs_heads
        where j.state = 'queued' and j.partition = w.partition and j.capacity = w.capacity
            and j.tenant > w.tenant
        order by j.tenant
        limit 1
    )
    from walk w
    where w.tenant is not null
),
eligible (partition, capacity, kept, tenant) as (
    select w.partition, w.capacity, w.kept, w.tenant
    from walk w
    left join tenants t on t.tenant = w.tenant
    where w.tenant is not null and (
        t.max_running is null
        or t.max_running > (
            select count(*) from jobs r indexed by jobs_running
            where r.state = 'running' and r.tenant = w.tenant
        )
    )
)
select j.id as "id!: Uuid", j.partition as "partition!", j.priority as "priority!", j.rank as "rank!: f64"
from eligible e
join jobs j on j.id = (
    select k.id from jobs k indexed by jobs_heads
    where k.state = 'queued' and k.partition = e.partition and k.capacity = e.capacity
        and k.tenant = e.tenant and k.run_at <= ?3 and (k.start_by is null or k.start_by > ?3) and k.rows <= ?5 and k.rows > e.kept
        and k.spec_version in (select value from json_each(?4))
    order by k.rank, k.id
    limit 1
)
order by j.rank, j.id
limit 1
