-- Times are microseconds since 1970-01-01 UTC by the clock of this server; nobody else's clock is ever read.

-- The moment at which the present statement began. It is the same within one statement and stable, so an index can be
-- searched for it.
create function now_micros() returns bigint
language sql stable parallel safe
as $$ select (extract(epoch from statement_timestamp()) * 1000000)::bigint $$;

-- The last migration that a program has to know to work with these tables. A migration that older programs can live
-- with leaves it as it is.
create table schema_compatibility (
    only_row boolean primary key default true check (only_row),
    oldest_program bigint not null
);
insert into schema_compatibility (oldest_program) values (1);

-- What a client is told; the same rule as JobState::status.
create function job_status(state text, begun boolean) returns text
language sql immutable parallel safe
as $$
    select case
        when state = 'running' and begun then 'in_progress'
        when state = 'running' then 'queued'
        when state = 'cancelled' then 'failed'
        else state
    end
$$;

-- A beat changes only columns that no index holds, so it stays on its page and touches no index: hence the room left there.
create table jobs (
    id uuid primary key,
    tenant text collate "C" not null,
    model text not null,
    partition text collate "C" not null,
    capacity_class integer not null check (capacity_class >= 0),
    -- Of the packed sequence at most.
    rows bigint not null check (rows >= 0),
    priority text not null check (priority in ('normal', 'low')),
    spec_version bigint not null check (spec_version >= 0),
    -- json keeps the text as it came, jsonb would not.
    spec json not null,
    cost_tflop double precision not null,
    -- Fixed at insert: the place in the fair order of the partition.
    rank double precision not null check (rank between -1e300 and 1e300),
    -- The rank without what its priority adds: where the partition's virtual time stands once the job is claimed.
    virtual_finish double precision not null check (virtual_finish <= rank),

    state text not null default 'queued'
        check (state in ('queued', 'running', 'completed', 'failed', 'cancelled')),
    phase text not null default 'prepare',
    step bigint not null default 0 check (step >= 0),
    total_steps bigint not null default 0 check (total_steps >= 0),
    percent integer not null default 0 check (percent between 0 and 100),

    created_at bigint not null,
    run_at bigint not null,
    -- Until when it has to have begun.
    start_by bigint,
    begun_at bigint,
    finished_at bigint,
    cancel_requested_at bigint,

    attempt bigint not null default 0 check (attempt >= 0),
    max_attempts bigint not null check (max_attempts >= 1),
    -- Claims that did not count although nobody had asked for their end.
    spared bigint not null default 0 check (spared >= 0),
    fence bigint not null default 0,
    claim_token uuid,
    worker uuid,
    lease_expires_at bigint,

    checkpoint_key text,
    checkpoint_step bigint check (checkpoint_step >= 0),
    checkpoint_size_bytes bigint check (checkpoint_size_bytes >= 0),
    checkpoint_sha256 text check (length(checkpoint_sha256) = 64),
    checkpoint_fingerprint text,

    result_key text,
    result_size_bytes bigint check (result_size_bytes >= 0),
    result_sha256 text check (length(result_sha256) = 64),
    result_expires_at bigint,
    report json,
    error_code text,
    error_message text,

    -- A lease is held exactly while the job runs.
    constraint a_lease_is_held_while_running
        check (num_nonnulls(claim_token, worker, lease_expires_at) = case when state = 'running' then 3 else 0 end),
    constraint an_ended_job_has_its_moment
        check ((finished_at is not null) = (state in ('completed', 'failed', 'cancelled'))),
    constraint a_waiting_job_has_not_begun_and_a_cancel_ends_it_at_once
        check (state <> 'queued' or (begun_at is null and cancel_requested_at is null)),
    constraint a_job_that_has_begun_need_not_begin
        check (begun_at is null or start_by is null),
    constraint a_checkpoint_is_whole_and_of_a_living_job
        check (
            num_nonnulls(checkpoint_key, checkpoint_step, checkpoint_size_bytes, checkpoint_sha256, checkpoint_fingerprint)
                in (0, 5)
            and (checkpoint_key is null or state in ('queued', 'running'))
        ),
    constraint a_result_is_whole_and_of_a_completed_job
        check (
            num_nonnulls(result_key, result_size_bytes, result_sha256) in (0, 3)
            and (result_key is null or state = 'completed')
        ),
    constraint a_completed_job_has_its_result_until_that_expires
        check (state <> 'completed' or result_key is not null or result_expires_at is not null),
    constraint only_a_result_expires
        check (result_expires_at is null or state = 'completed'),
    constraint a_report_is_of_a_completed_job
        check ((report is not null) = (state = 'completed')),
    constraint an_error_is_of_a_job_that_ended_without_a_result
        check (num_nonnulls(error_code, error_message) = case when state in ('failed', 'cancelled') then 2 else 0 end),
    constraint cancelled_is_a_state_and_a_code
        check ((state = 'cancelled') = coalesce(error_code = 'cancelled', false)),
    constraint a_hundred_percent_belong_to_a_completed_job
        check ((percent = 100) = (state = 'completed')),
    constraint every_attempt_and_every_spared_one_was_a_claim
        check (attempt + spared <= fence)
) with (
    fillfactor = 70,
    -- Rows go through their states quickly; what they leave behind slows the claim down.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.02
);

-- What waits in a queue, in its order.
create index jobs_in_order on jobs (partition, capacity_class, rank, id) where claim_token is null and finished_at is null;
-- The same with each tenant's jobs together, so that the head of every tenant is found without reading past another's
-- backlog, and none that a worker cannot decode stands before those that it may have.
create index jobs_waiting on jobs (partition, capacity_class, spec_version, tenant, rank, id) where state = 'queued';
-- Each has a condition of its own, which says in other words that a job is neither held nor ended, and a statement says
-- which it means: a planner that believes there are hardly any such jobs takes one index for as good as another.
create index jobs_due on jobs (run_at) where worker is null and finished_at is null;
create index jobs_to_begin on jobs (start_by) where start_by is not null and claim_token is null and finished_at is null;
-- As many rows as workers: the sweep for ended leases reads all of them, so that a beat need not move an index entry.
create index jobs_running on jobs (tenant) where state = 'running';
-- Of another name for the same collation, which only lists ask for: whatever the planner believes about the table, it
-- cannot look for a tenant's waiting jobs among all that the tenant ever had. One index serves all lists: that of every
-- job merges those of the four statuses, so that a write does not pay for two.
create index jobs_listed on jobs (tenant collate "POSIX", job_status(state, begun_at is not null), created_at, id);
create index jobs_with_results on jobs (result_expires_at) where result_key is not null and result_expires_at is not null;
create index jobs_ended on jobs (finished_at) where finished_at is not null;

-- The arrows of JobState::on.
create function refuse_birth() returns trigger
language plpgsql
as $$ begin raise exception 'a job begins queued, not %', new.state using errcode = 'check_violation'; end $$;

create trigger jobs_begin_queued before insert on jobs
for each row when (new.state <> 'queued')
execute function refuse_birth();

create function refuse_arrow() returns trigger
language plpgsql
as $$
begin
    raise exception 'no arrow leads from % to %', old.state, new.state using errcode = 'check_violation';
end
$$;

create trigger jobs_follow_the_arrows before update of state on jobs
for each row when (
    old.state <> new.state and not (
        (old.state = 'queued' and new.state in ('running', 'failed', 'cancelled'))
        or (old.state = 'running' and new.state in ('queued', 'completed', 'failed', 'cancelled'))
        or (old.state = 'failed' and new.state = 'queued')
    )
)
execute function refuse_arrow();

create function refuse_fence() returns trigger
language plpgsql
as $$
begin
    raise exception 'the fence of a job only grows, not from % to %', old.fence, new.fence
        using errcode = 'check_violation';
end
$$;

create trigger jobs_fences_only_grow before update of fence on jobs
for each row when (new.fence < old.fence)
execute function refuse_fence();

create table job_attempts (
    job_id uuid not null references jobs (id) on delete cascade,
    fence bigint not null,
    number bigint not null check (number >= 1),
    worker uuid not null,
    claimed_at bigint not null,
    begun_at bigint,
    ended_at bigint,
    ending text check (ending in ('completed', 'failed', 'retried', 'drained', 'cancelled', 'lease_lost')),
    error_code text,
    error_message text,
    primary key (job_id, fence),
    check ((ended_at is null) = (ending is null)),
    check ((error_code is null) = (error_message is null))
) with (fillfactor = 80);

-- Every key that a claim was ever allowed to write. A row outlives its job until the object is deleted.
create table objects (
    key text collate "C" primary key,
    job_id uuid not null,
    standing text not null check (standing in ('expected', 'named', 'garbage')),
    -- From when on nobody can still be writing it.
    collect_after bigint,
    -- How often it could not be deleted.
    failures bigint not null default 0 check (failures >= 0),
    check ((collect_after is not null) = (standing = 'garbage'))
) with (fillfactor = 80);

create index objects_of_job on objects (job_id);
create index objects_to_collect on objects (collect_after) where standing = 'garbage';

-- The virtual time of each partition: the highest virtual finish among the jobs that were claimed.
create table queue_clocks (
    partition text collate "C" primary key,
    virtual_time double precision not null default 0.0
) with (fillfactor = 10);

-- Where each tenant's backlog ends in the virtual time of a partition.
create table tenant_clocks (
    partition text collate "C" not null,
    tenant text collate "C" not null,
    finish double precision not null,
    primary key (partition, tenant)
) with (fillfactor = 50);

create table paused_partitions (
    partition text collate "C" primary key
);

-- What is left of a deleted job: enough to go on with a list after it.
create table deleted_jobs (
    id uuid primary key,
    tenant text collate "C" not null,
    created_at bigint not null,
    deleted_at bigint not null
);

create index deleted_jobs_to_forget on deleted_jobs (deleted_at);

-- Tenants about whom something was said; the others have the default limits.
create table tenants (
    -- The rule of Tenant, here and for the keys: rows of both are written by hand.
    tenant text collate "C" primary key check (tenant ~ '^[A-Za-z0-9_-]{1,64}$'),
    -- The bounds of Weight.
    weight double precision not null check (weight between 0.001 and 1000),
    max_running bigint check (max_running >= 0),
    max_queued bigint check (max_queued >= 0)
);

-- What deleted jobs have used. The rest is summed up from the jobs, so that no two jobs of a tenant wait for one counter.
create table tenant_usage (
    tenant text collate "C" primary key,
    completed bigint not null,
    tflop double precision not null,
    worker_micros bigint not null
);

create table api_keys (
    -- The SHA-256 of the key.
    hash bytea primary key check (length(hash) = 32),
    tenant text collate "C" not null check (tenant ~ '^[A-Za-z0-9_-]{1,64}$'),
    created_at bigint not null
);

create table endpoints (
    id uuid primary key,
    tenant text collate "C" not null,
    url text not null,
    created_at bigint not null
);

create index endpoints_of_tenant on endpoints (tenant);

-- Written in the transaction that ends the job: one row for each end and each endpoint that the tenant had then. A row
-- outlives its job, because what is to be told stays to be told.
create table deliveries (
    id uuid primary key,
    endpoint uuid not null references endpoints (id) on delete cascade,
    tenant text collate "C" not null,
    job_id uuid not null,
    notice text not null check (notice in ('video.completed', 'video.failed')),
    created_at bigint not null,
    unique (job_id, endpoint, created_at)
);

create table workers (
    id uuid primary key,
    host text not null,
    version text not null,
    partitions text[] not null check (cardinality(partitions) > 0),
    -- Of the specs that it can decode.
    spec_versions bigint[] not null check (cardinality(spec_versions) > 0),
    -- The longest packed sequence that it can hold; none for any.
    max_rows bigint check (max_rows >= 0),
    state text not null check (state in ('idle', 'busy', 'unwell', 'draining')),
    started_at bigint not null,
    seen_at bigint not null,
    drain_requested boolean not null default false
) with (fillfactor = 50);

-- Tells whether one more job of the tenant may run. Of a tenant that has a cap it locks the row until the transaction
-- ends, and then counts: a volatile function's statements see what was committed while it waited, so that two claims
-- can never both take the last place. Tenants without a cap are not locked.
create function may_run_one_more(claimed_tenant text) returns boolean
language plpgsql volatile
as $$
declare
    most bigint;
    running bigint;
begin
    if not exists (select from tenants t where t.tenant = claimed_tenant and t.max_running is not null) then
        return true;
    end if;
    select t.max_running into most from tenants t where t.tenant = claimed_tenant for update;
    select count(*) into running from jobs j where j.tenant = claimed_tenant and j.state = 'running';
    return most is null or running < most;
end
$$;
