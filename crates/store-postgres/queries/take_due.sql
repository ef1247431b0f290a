-- Takes the deliveries that are due: of each receiver, and of each tenant, no more than it may still have held. Tenants take
-- turns, so that the place of a delivery is how many its tenant has held before it.
--
-- $1 how many are wanted, $2 how many of a receiver are held at once at most, $3 for how long, $4 how many of a tenant. Only one
-- such statement runs at a time, so that the held ones are counted truly. Receivers are found by jumping from one to the next in the index: one with a
-- long backlog costs no more than one with a short one.
with recursive waiting_endpoints as (
    (
        select d.endpoint from deliveries d
        where d.state = 'pending' and d.endpoint is not null
        order by d.endpoint
        limit 1
    )
    union all
    select following.endpoint
    from waiting_endpoints w
    cross join lateral (
        select d.endpoint from deliveries d
        where d.state = 'pending' and d.endpoint is not null and d.endpoint > w.endpoint
        order by d.endpoint
        limit 1
    ) following
),
waiting_tenants as (
    (
        select d.tenant from deliveries d
        where d.state = 'pending' and d.endpoint is null
        order by d.tenant
        limit 1
    )
    union all
    select following.tenant
    from waiting_tenants w
    cross join lateral (
        select d.tenant from deliveries d
        where d.state = 'pending' and d.endpoint is null and d.tenant > w.tenant
        order by d.tenant
        limit 1
    ) following
),
held as materialized (
    select d.endpoint, case when d.endpoint is null then d.tenant end as tenant, count(*) as held
    from deliveries d
    where d.held_until is not null and d.held_until > now_micros()
    group by 1, 2
),
held_of_tenants as materialized (
    select d.tenant, count(*) as held
    from deliveries d
    where d.held_until is not null and d.held_until > now_micros()
    group by 1
),
due as materialized (
    select ranked.id, ranked.place
    from (
        select
            found.id, found.next_try_at,
            coalesce(h.held, 0) + row_number() over (partition by found.tenant order by found.next_try_at, found.id) as place
        from (
            select head.id, head.tenant, head.next_try_at
            from waiting_endpoints w
            join endpoints e
                on e.id = w.endpoint and e.disabled_at is null and (e.quiet_until is null or e.quiet_until <= now_micros())
            cross join lateral (
                select d.id, d.tenant, d.next_try_at from deliveries d
                where d.state = 'pending' and d.endpoint is not null and d.endpoint = w.endpoint
                    and d.next_try_at <= now_micros()
                order by d.next_try_at, d.id
                limit greatest($2 - coalesce((select h.held from held h where h.endpoint = w.endpoint), 0), 0)
            ) head
            union all
            select head.id, head.tenant, head.next_try_at
            from waiting_tenants w
            cross join lateral (
                select d.id, d.tenant, d.next_try_at from deliveries d
                where d.state = 'pending' and d.endpoint is null and d.tenant = w.tenant and d.next_try_at <= now_micros()
                order by d.next_try_at, d.id
                limit greatest($2 - coalesce((select h.held from held h where h.tenant = w.tenant), 0), 0)
            ) head
        ) found
        left join held_of_tenants h on h.tenant = found.tenant
    ) ranked
    where ranked.place <= $4
    order by ranked.place, ranked.next_try_at, ranked.id
    limit $1
),
picked as materialized (
    select d.id, u.place, d.next_try_at as since
    from due u
    join deliveries d on d.id = u.id
    where d.state = 'pending' and d.next_try_at <= now_micros()
    for update of d skip locked
),
taken as (
    update deliveries d
    set tries = d.tries + 1, next_try_at = now_micros() + $3, held_until = now_micros() + $3
    from picked p
    where d.id = p.id
    returning d.*, p.place, p.since
)
select
    t.id as "id!", t.tenant as "tenant!", coalesce(t.url, e.url) as "url?", coalesce(e.secret, h.secret) as "secret?",
    case when e.old_secret_until > now_micros() then e.old_secret end as "old_secret?",
    t.job_id as "job_id!", t.notice as "notice!", t.created_at as "created_at!", t.tries as "tries!", t.is_test as "is_test!",
    t.trace as "trace?"
from taken t
left join endpoints e on e.id = t.endpoint
left join hook_secrets h on h.tenant = t.tenant
order by t.place, t.since, t.id
