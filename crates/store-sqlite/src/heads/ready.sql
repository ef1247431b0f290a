-- The first jobs of a queue that are due and may run: of each tenant as many as it may still have running.
--
-- ?1 partition, ?2 capacity class, ?3 now, ?4 limit, ?5 the spec versions that count, null for all. `merged` is a queue ordered by rank, into which each job that leaves it
-- brings the next one of its tenant.
with recursive
walk (tenant) as (
    select (
        select j.tenant from jobs j indexed by jobs_heads
        where j.state = 'queued' and j.partition = ?1 and j.capacity = ?2
        order by j.tenant
        limit 1
    )
    union all
    select (
        select j.tenant from jobs j indexed by jobs_heads
        where j.state = 'queued' and j.partition = ?1 and j.capacity = ?2 and j.tenant > w.tenant
        order by j.tenant
        limit 1
    )
    from walk w
    where w.tenant is not null
),
rooms (tenant, room) as (
    select w.tenant, coalesce(t.max_running - (
        select count(*) from jobs r indexed by jobs_running
        where r.state = 'running' and r.tenant = w.tenant
    ), ?4)
    from walk w
    left join tenants t on t.tenant = w.tenant
    where w.tenant is not null
),
merged (id, rank, tenant, room) as (
    select j.id, j.rank, j.tenant, m.room
    from rooms m
    join jobs j on j.id = (
        select k.id from jobs k indexed by jobs_heads
        where k.state = 'queued' and k.partition = ?1 and k.capacity = ?2 and k.tenant = m.tenant
            and k.run_at <= ?3 and (k.start_by is null or k.start_by > ?3)
            and (?5 is null or k.spec_version in (select value from json_each(?5)))
        order by k.rank, k.id
        limit 1
    )
    where m.room > 0
    union all
    select j.id, j.rank, j.tenant, m.room - 1
    from merged m
    join jobs j on j.id = (
        select k.id from jobs k indexed by jobs_heads
        where k.state = 'queued' and k.partition = ?1 and k.capacity = ?2 and k.tenant = m.tenant
            and k.run_at <= ?3 and (k.start_by is null or k.start_by > ?3) and (k.rank, k.id) > (m.rank, m.id)
            and (?5 is null or k.spec_version in (select value from json_each(?5)))
        order by k.rank, k.id
        limit 1
    )
    where m.room > 1
    order by 2, 1
    limit ?4
)
select id as "id!: Uuid", rank as "rank!: f64" from merged
