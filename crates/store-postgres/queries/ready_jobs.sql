-- The jobs of each queue that may run, in their order: no more than $1 of a queue, whose classes end at $2.
--
-- `fronts` reads twice as many as are wanted, whoever's they are. Where too few of them may run and there are others, each
-- waiting tenant of the queue gives its head and an equal part of the window, found by jumping from one to the next in the
-- index. No tenant gives more than it may begin to run now.
with recursive queues as materialized (
    select q.partition, class
    from queue_clocks q
    cross join generate_series(0, $2::int) as class
    where not exists (select from paused_partitions p where p.partition = q.partition)
),
fronts as materialized (
    select q.partition, q.class, f.id, f.rank, f.tenant, f.run_at <= (select now_micros()) as is_due
    from queues q
    cross join lateral (
        select j.id, j.rank, j.tenant, j.run_at from jobs j
        where j.claim_token is null and j.finished_at is null and j.partition = q.partition and j.capacity_class = q.class
        order by j.rank, j.id
        limit 2 * $1::bigint
    ) f
),
turns as (
    select f.*, row_number() over (partition by f.partition, f.class, f.tenant order by f.rank, f.id) as of_tenant
    from fronts f
    where f.is_due
),
-- What each tenant with a cap may begin to run, counted once.
rooms as materialized (
    select
        t.tenant,
        t.max_running - (select count(*) from jobs r where r.tenant = t.tenant and r.state = 'running') as room
    from (select distinct tenant from fronts) f
    join tenants t on t.tenant = f.tenant
    where t.max_running is not null
),
near as materialized (
    select u.partition, u.class, u.id, u.rank
    from turns u
    where u.of_tenant <= coalesce((select o.room from rooms o where o.tenant = u.tenant), $1)
),
short as materialized (
    select q.partition, q.class from queues q
    where (select count(*) from near n where n.partition = q.partition and n.class = q.class) < $1
        and (select count(*) from fronts f where f.partition = q.partition and f.class = q.class) = 2 * $1
),
waiting as (
    select s.partition, s.class, first.spec_version, first.tenant
    from short s
    cross join lateral (
        select j.spec_version, j.tenant from jobs j
        where j.state = 'queued' and j.partition = s.partition and j.capacity_class = s.class
        order by j.spec_version, j.tenant
        limit 1
    ) first
    union all
    select w.partition, w.class, following.spec_version, following.tenant
    from waiting w
    cross join lateral (
        select j.spec_version, j.tenant from jobs j
        where j.state = 'queued' and j.partition = w.partition and j.capacity_class = w.class
            and (j.spec_version, j.tenant) > (w.spec_version, w.tenant)
        order by j.spec_version, j.tenant
        limit 1
    ) following
),
shares as materialized (
    select
        w.partition, w.class, w.spec_version, w.tenant,
        least($1 / count(*) over (partition by w.partition, w.class) + 1, (
            select t.max_running - (select count(*) from jobs r where r.tenant = t.tenant and r.state = 'running')
            from tenants t
            where t.tenant = w.tenant
        )) as most
    from waiting w
),
due as (
    select n.partition, n.class, n.id, n.rank from near n
    union
    select s.partition, s.class, head.id, head.rank
    from shares s
    cross join lateral (
        select j.id, j.rank from jobs j
        where j.state = 'queued' and j.partition = s.partition and j.capacity_class = s.class
            and j.spec_version = s.spec_version and j.tenant = s.tenant and j.run_at + 0 <= (select now_micros())
        order by j.rank, j.id
        limit greatest(s.most, 0)
    ) head
),
placed as (
    select d.*, row_number() over (partition by d.partition, d.class order by d.rank, d.id) as place from due d
)
select partition as "partition!", class as "class!", id as "id!", rank as "rank!"
from placed
where place <= $1
order by partition, class, place
