-- Times are microseconds since 1970-01-01 UTC, ids are the 16 bytes of a UUID.

create table jobs (
    id blob not null primary key check (length(id) = 16),
    tenant text not null,
    model text not null,
    partition text not null,
    spec_version integer not null,
    spec text not null check (json_valid(spec)),
    cost_tflop real not null,
    -- Fixed at insert: the place in the fair order of the partition's queue.
    rank real not null,

    state text not null default 'queued'
        check (state in ('queued', 'running', 'completed', 'failed', 'cancelled')),
    phase text not null default 'prepare',
    step integer not null default 0 check (step >= 0),
    total_steps integer not null default 0 check (total_steps >= 0),
    percent integer not null default 0 check (percent between 0 and 100),

    created_at integer not null,
    run_at integer not null,
    begun_at integer,
    finished_at integer,
    cancel_requested_at integer,

    attempt integer not null default 0 check (attempt >= 0),
    max_attempts integer not null check (max_attempts >= 1),
    fence integer not null default 0,
    claim_token blob,
    worker blob,
    lease_expires_at integer,

    result_key text,
    result_size_bytes integer check (result_size_bytes >= 0),
    result_sha256 text check (length(result_sha256) = 64),
    report text check (json_valid(report)),
    error_code text,
    error_message text,

    -- What a client is told; the same rule as JobState::status.
    status text not null generated always as (
        case
            when state = 'running' and begun_at is null then 'queued'
            when state = 'running' then 'in_progress'
            when state = 'cancelled' then 'failed'
            else state
        end
    ) virtual,

    -- A lease is held exactly while the job runs.
    check ((claim_token is not null) = (state = 'running')),
    check ((worker is not null) = (state = 'running')),
    check ((lease_expires_at is not null) = (state = 'running')),
    check ((finished_at is not null) = (state in ('completed', 'failed', 'cancelled'))),
    -- A waiting job has not begun, and a cancel ends it at once.
    check (state <> 'queued' or (begun_at is null and cancel_requested_at is null)),
    -- A result, whole, exactly when completed; an error exactly when ended without.
    check ((result_key is not null) = (state = 'completed')),
    check ((result_size_bytes is not null) = (state = 'completed')),
    check ((result_sha256 is not null) = (state = 'completed')),
    check ((report is not null) = (state = 'completed')),
    check ((error_code is not null) = (state in ('failed', 'cancelled'))),
    check ((error_message is not null) = (state in ('failed', 'cancelled'))),
    check ((state = 'cancelled') = coalesce(error_code = 'cancelled', false)),
    -- 100 belongs to a stored result.
    check ((percent = 100) = (state = 'completed')),
    -- Every attempt that counts was a claim.
    check (attempt <= fence)
) strict;

create index jobs_waiting on jobs (partition, rank, id) where state = 'queued';
create index jobs_due on jobs (run_at) where state = 'queued';
create index jobs_leased on jobs (lease_expires_at) where state = 'running';
create index jobs_listed on jobs (tenant, created_at, id);

-- The arrows of JobState::on.
create trigger jobs_begin_queued before insert on jobs
when new.state <> 'queued'
begin
    select raise(abort, 'a job begins queued');
end;

create trigger jobs_follow_the_arrows before update of state on jobs
when old.state <> new.state and not (
    (old.state = 'queued' and new.state in ('running', 'failed', 'cancelled'))
    or (old.state = 'running' and new.state in ('queued', 'completed', 'failed', 'cancelled'))
)
begin
    select raise(abort, 'no arrow leads from one state of a job to the other');
end;

create trigger jobs_fences_only_grow before update of fence on jobs
when new.fence < old.fence
begin
    select raise(abort, 'the fence of a job only grows');
end;

create table job_attempts (
    job_id blob not null references jobs (id) on delete cascade,
    fence integer not null,
    number integer not null check (number >= 1),
    worker blob not null,
    claimed_at integer not null,
    begun_at integer,
    ended_at integer,
    ending text check (ending in ('completed', 'failed', 'retried', 'drained', 'cancelled', 'lease_lost')),
    error_code text,
    error_message text,
    primary key (job_id, fence),
    check ((ended_at is null) = (ending is null)),
    check ((error_code is null) = (error_message is null))
) strict, without rowid;

-- Every key that a claim was ever allowed to write. A row outlives its job until the object is deleted.
create table objects (
    key text not null primary key,
    job_id blob not null,
    standing text not null check (standing in ('expected', 'named', 'garbage')),
    -- From when on nobody can still be writing it.
    collect_after integer,
    check ((collect_after is not null) = (standing = 'garbage'))
) strict, without rowid;

create index objects_of_job on objects (job_id);
create index objects_to_collect on objects (collect_after) where standing = 'garbage';

-- The virtual time of each queue (the rank of the job claimed last) and where each tenant's backlog ends in it.
create table queue_clocks (
    partition text not null primary key,
    virtual_time real not null default 0.0
) strict, without rowid;

create table tenant_clocks (
    partition text not null,
    tenant text not null,
    finish real not null,
    primary key (partition, tenant)
) strict, without rowid;

-- What is left of a deleted job: enough to go on with a list after it.
create table deleted_jobs (
    id blob not null primary key,
    tenant text not null,
    created_at integer not null,
    deleted_at integer not null
) strict, without rowid;
