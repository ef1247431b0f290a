-- The receivers that have something pending, and how much of it is held now: endpoints that are neither
-- disabled nor left alone, and tenants whose single jobs have URLs of their own, all of which count as one.
--
-- ?1 now. They are found by jumping from one to the next in the index: a long backlog costs no more than a short one.
with recursive waiting_endpoints (id) as (
    select min(endpoint_id) from deliveries indexed by deliveries_pending
    where state = 'pending' and endpoint_id is not null
    union all
    select (
        select min(d.endpoint_id) from deliveries d indexed by deliveries_pending
        where d.state = 'pending' and d.endpoint_id is not null and d.endpoint_id > w.id
    )
    from waiting_endpoints w
    where w.id is not null
),
waiting_tenants (tenant) as (
    select min(tenant) from deliveries indexed by deliveries_pending_of_jobs
    where state = 'pending' and endpoint_id is null
    union all
    select (
        select min(d.tenant) from deliveries d indexed by deliveries_pending_of_jobs
        where d.state = 'pending' and d.endpoint_id is null and d.tenant > w.tenant
    )
    from waiting_tenants w
    where w.tenant is not null
)
select
    e.id as "endpoint: Uuid", e.tenant as "tenant!: String",
    (
        select count(*) from deliveries d indexed by deliveries_held
        where d.held_until is not null and d.held_until > ?1 and d.endpoint_id = e.id
    ) as "held!: i64"
from waiting_endpoints w
join endpoints e on e.id = w.id and e.disabled_at is null and coalesce(e.quiet_until, 0) <= ?1
union all
select
    null, w.tenant,
    (
        select count(*) from deliveries d indexed by deliveries_held
        where d.held_until is not null and d.held_until > ?1 and d.endpoint_id is null and d.tenant = w.tenant
    )
from waiting_tenants w
where w.tenant is not null
