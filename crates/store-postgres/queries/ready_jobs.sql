-- The jobs of each queue that may run, in their order: no more than $1 of a queue. $2 says of each capacity class which rows its
-- jobs exceed, $3 for how long a silent worker counts as being there.
--
-- Where such workers could run the queue's jobs, only those are regarded whose spec version one of them knows: nobody would
-- take the others, which would stand before those that can run. Where there are none, all are.
--
-- `fronts` reads twice as many as are wanted, whoever's they are. Where too few of them may run and there are others, each
-- waiting tenant of the queue gives its head and an equal part of the window, found by jumping from one to the next in the
-- index. No tenant gives more than it may begin to run now.
with recursive queues as materialized (
    select q.partition, (c.place - 1)::int as class, known.versions
    from queue_clocks q
    cross join unnest($2::bigint[]) with ordinality as c (above, place)
    cross join lateral (
        select array_agg(distinct u.known) as versions
        from workers w
        cross join unnest(w.spec_versions) as u (known)
        where w.seen_at > now_micros() - $3 and q.partition = any(w.partitions)
            and (w.max_rows is null or w.max_rows > c.above)
    ) known
    where not exists (select from paused_partitions p where p.partition = q.partition)
),
fronts as materialized (
    select
        q.partition, q.class, f.id, f.rank, f.tenant,
        f.run_at <= (select now_micros()) and (f.start_by is null or f.start_by > (select now_micros()))
            and (q.versions is null or f.spec_version = any(q.versions)) as is_due
    from queues q
    cross join lateral (
        select j.id, j.rank, j.tenant, j.run_at, j.start_by, j.spec_version from jobs j
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
-- What each tenant with a cap may begin to run, counted once; null for one without.
rooms as materialized (
    select
        f.tenant,
        (
            select t.max_running - (select count(*) from jobs r where r.tenant = t.tenant and r.state = 'running')
            from tenants t
            where t.tenant = f.tenant and t.max_running is not null
        ) as room
    from (select distinct tenant from turns) f
),
near as materialized (
    select u.partition, u.class, u.id, u.rank
    from turns u
    join rooms o on o.tenant = u.tenant
    where o.room is null or u.of_tenant <= o.room
),
short as materialized (
    select q.partition, q.class, q.versions from queues q
    where (select count(*) from near n where n.partition = q.partition and n.class = q.class) < $1
        and (select count(*) from fronts f where f.partition = q.partition and f.class = q.class) = 2 * $1
),
spans as materialized (
    select
        s.partition, s.class, coalesce(v.version, 0) as first_version,
        coalesce(v.version, 9223372036854775807) as last_version
    from short s
    left join lateral unnest(s.versions) as v (version) on true
),
waiting as (
    select s.partition, s.class, s.last_version, first.spec_version, first.tenant
    from spans s
    cross join lateral (
        select j.spec_version, j.tenant from jobs j
        where j.state = 'queued' and j.partition = s.partition and j.capacity_class = s.class
            and j.spec_version between s.first_version and s.last_version
        order by j.spec_version, j.tenant
        limit 1
    ) first
    union all
    select w.partition, w.class, w.last_version, following.spec_version, following.tenant
    from waiting w
    cross join lateral (
        select j.spec_version, j.tenant from jobs j
        where j.state = 'queued' and j.partition = w.partition and j.capacity_class = w.class
            and (j.spec_version, j.tenant) > (w.spec_version, w.tenant) and j.spec_version <= w.last_version
        order by j.spec_version, j.tenant
        limit 1
    ) following
),
more_rooms as materialized (
    select
        w.tenant,
        (
            select t.max_running - (select count(*) from jobs r where r.tenant = t.tenant and r.state = 'running')
            from tenants t
            where t.tenant = w.tenant and t.max_running is not null
        ) as room
    from (select distinct tenant from waiting where tenant not in (select tenant from rooms)) w
),
shares as materialized (
    select
        w.partition, w.class, w.spec_version, w.tenant,
        least($1 / count(*) over (partition by w.partition, w.class) + 1, o.room) as most
    from waiting w
    join (select * from rooms union all select * from more_rooms) o on o.tenant = w.tenant
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
            and (j.start_by is null or j.start_by > (select now_micros()))
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
