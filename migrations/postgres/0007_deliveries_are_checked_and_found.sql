-- Old deliveries are looked through, and all of them found by what is asked for. Meanwhile ends of jobs wait to be told, and
-- with them the jobs that end, for some seconds where there are millions of deliveries.

alter table deliveries
    validate constraint deliveries_state_check,
    validate constraint deliveries_tries_check,
    validate constraint a_delivery_has_one_receiver,
    validate constraint a_pending_delivery_has_a_next_try,
    validate constraint a_pending_delivery_is_not_settled,
    validate constraint only_a_pending_delivery_is_held;

-- Each state in its own order: a list of all merges them. Of another name for the same collation, which only lists ask for:
-- whatever the planner believes about the table, it cannot look for what is due among all that waits.
create index deliveries_listed on deliveries (tenant, state collate "POSIX", created_at, id);
-- Those of one endpoint: to be listed, and to be deleted with it.
create index deliveries_of_endpoint on deliveries (endpoint, state collate "POSIX", created_at, id) where endpoint is not null;
-- Whether any has reached an endpoint lately.
create index deliveries_received on deliveries (endpoint, settled_at) where state = 'delivered';
-- Each receiver's own, so that one with many does not stand before the others: of endpoints, and of all the URLs of a tenant's
-- single jobs together.
create index deliveries_pending on deliveries (endpoint, next_try_at, id) where state = 'pending' and endpoint is not null;
create index deliveries_pending_of_jobs on deliveries (tenant, next_try_at, id) where state = 'pending' and endpoint is null;
create index deliveries_pending_tests on deliveries (endpoint) where state = 'pending' and is_test;
create index deliveries_due on deliveries (next_try_at) where next_try_at is not null;
create index deliveries_held on deliveries (held_until) where held_until is not null;
create index deliveries_settled on deliveries (settled_at) where settled_at is not null;
