-- How much waits of each of the partitions $1, what runs of it, and how many deliveries wait; each counted no further than $2.
with queued as (
    select named.partition, count(first.created_at) as count, min(first.created_at) as oldest
    from unnest($1::text[]) as named (partition)
    left join lateral (
        select created_at
        from jobs
        where partition = named.partition and claim_token is null and finished_at is null
        order by capacity_class, rank, id
        limit $2
    ) first on true
    group by named.partition
),
running as (
    -- As many as there are workers.
    select partition, count(*) as count from jobs where state = 'running' group by partition
),
deliveries as (
    select count(*) as count, min(created_at) as oldest
    from (
        (
            select created_at from deliveries
            where state = 'pending' and endpoint is not null
            order by endpoint, next_try_at, id
            limit $2
        )
        union all
        (
            select created_at from deliveries
            where state = 'pending' and endpoint is null
            order by tenant, next_try_at, id
            limit $2
        )
    ) pending
)
select
    now_micros() as "at!",
    queued.partition as "partition!",
    queued.count as "queued!",
    queued.oldest as "oldest_queued?",
    coalesce((select count from running where running.partition = queued.partition), 0) as "running!",
    deliveries.count as "deliveries!",
    deliveries.oldest as "oldest_delivery?"
from queued cross join deliveries
