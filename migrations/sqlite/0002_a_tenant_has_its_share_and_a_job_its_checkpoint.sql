-- The tables of jobs and attempts are made anew, since a check cannot be altered. The old ones are renamed first and the
-- attempts are moved before the old jobs are dropped: a drop deletes the rows, and that would cascade to what still
-- refers to them.

drop trigger jobs_begin_queued;
drop trigger jobs_follow_the_arrows;
drop trigger jobs_fences_only_grow;
drop index jobs_waiting;
drop index jobs_due;
drop index jobs_leased;
drop index jobs_listed;

alter table jobs rename to jobs_before;
alter table job_attempts rename to job_attempts_before;

create table jobs (
    id blob not null primary key check (length(id) = 16),
    tenant text not null,
    model text not null,
    partition text not null,
    spec_version integer not null,
    spec text not null check (json_valid(spec)),
    cost_tflop real not null,
    -- The rows of its packed sequence at most: what a worker has to hold.
    rows integer not null check (rows >= 0),
    -- The class of those rows; the same rule as CapacityClass::of_rows.
    capacity integer not null generated always as (
        case
            when rows <= 8192 then 0
            when rows <= 16384 then 1
            when rows <= 32768 then 2
            when rows <= 65536 then 3
            when rows <= 131072 then 4
            when rows <= 262144 then 5
            when rows <= 524288 then 6
            when rows <= 1048576 then 7
            when rows <= 2097152 then 8
            else 9
        end
    ) virtual,
    priority text not null default 'normal' check (priority in ('normal', 'low')),
    -- Fixed at insert: the place in the fair order of the partition's queues.
    rank real not null,

    state text not null default 'queued'
        check (state in ('queued', 'running', 'completed', 'failed', 'cancelled')),
    phase text not null default 'prepare',
    step integer not null default 0 check (step >= 0),
    total_steps integer not null default 0 check (total_steps >= 0),
    percent integer not null default 0 check (percent between 0 and 100),

    created_at integer not null,
    run_at integer not null,
    -- Until when it has to have begun.
    start_by integer,
    begun_at integer,
    finished_at integer,
    cancel_requested_at integer,

    attempt integer not null default 0 check (attempt >= 0),
    max_attempts integer not null check (max_attempts >= 1),
    -- Claims that did not count although nobody had asked for their end.
    spared integer not null default 0 check (spared >= 0),
    fence integer not null default 0,
    claim_token blob,
    worker blob,
    lease_expires_at integer,

    checkpoint_key text,
    checkpoint_step integer check (checkpoint_step >= 0),
    checkpoint_size_bytes integer check (checkpoint_size_bytes >= 0),
    checkpoint_sha256 text check (length(checkpoint_sha256) = 64),
    checkpoint_fingerprint text,

    result_key text,
    result_size_bytes integer check (result_size_bytes >= 0),
    result_sha256 text check (length(result_sha256) = 64),
    result_expires_at integer,
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
    -- Once it has begun the deadline is met.
    check (start_by is null or begun_at is null),
    -- A checkpoint, whole, only of a job that can go on with it.
    check (checkpoint_key is null or state in ('queued', 'running')),
    check ((checkpoint_step is not null) = (checkpoint_key is not null)),
    check ((checkpoint_size_bytes is not null) = (checkpoint_key is not null)),
    check ((checkpoint_sha256 is not null) = (checkpoint_key is not null)),
    check ((checkpoint_fingerprint is not null) = (checkpoint_key is not null)),
    -- A result, whole, only of a completed job, which is without only where its result does not last.
    check (result_key is null or state = 'completed'),
    check (result_expires_at is null or state = 'completed'),
    check (state <> 'completed' or result_key is not null or result_expires_at is not null),
    check ((result_size_bytes is not null) = (result_key is not null)),
    check ((result_sha256 is not null) = (result_key is not null)),
    check ((report is not null) = (state = 'completed')),
    -- An error exactly when ended without a result.
    check ((error_code is not null) = (state in ('failed', 'cancelled'))),
    check ((error_message is not null) = (state in ('failed', 'cancelled'))),
    check ((state = 'cancelled') = coalesce(error_code = 'cancelled', false)),
    -- 100 belongs to a stored result.
    check ((percent = 100) = (state = 'completed')),
    -- Every attempt that counts was a claim, and so was every one that was spared.
    check (attempt + spared <= fence)
) strict;

-- The rows of a job that is there already are counted from its spec by the rule of GenerationSpec::rows_bound; one whose
-- spec says nothing of them counts as one of the largest.
insert into jobs (
    id, tenant, model, partition, spec_version, spec, cost_tflop, rows, rank,
    state, phase, step, total_steps, percent,
    created_at, run_at, begun_at, finished_at, cancel_requested_at,
    attempt, max_attempts, fence, claim_token, worker, lease_expires_at,
    result_key, result_size_bytes, result_sha256, report, error_code, error_message
)
select
    id, tenant, model, partition, spec_version, spec, cost_tflop,
    coalesce(
        length(cast(spec ->> '$.prompt' as blob)) + 256
            + (spec ->> '$.canvas.width') / 32 * ((spec ->> '$.canvas.height') / 32)
                * (((spec ->> '$.num_frames') - 5) / 17 * 5 + 2)
            + ((spec ->> '$.num_frames') * 10 + 3) / 6 * 2,
        4194304
    ),
    rank,
    state, phase, step, total_steps, percent,
    created_at, run_at, begun_at, finished_at, cancel_requested_at,
    attempt, max_attempts, fence, claim_token, worker, lease_expires_at,
    result_key, result_size_bytes, result_sha256, report, error_code, error_message
from jobs_before;

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

insert into job_attempts (
    job_id, fence, number, worker, claimed_at, begun_at, ended_at, ending, error_code, error_message
)
select job_id, fence, number, worker, claimed_at, begun_at, ended_at, ending, error_code, error_message
from job_attempts_before;

drop table job_attempts_before;
drop table jobs_before;

-- The place of a job among all of its queue.
create index jobs_waiting on jobs (partition, capacity, rank, id) where state = 'queued';
-- The head of each tenant in a queue, so that nobody has to look through a backlog that may not run. What a claim asks of a
-- job besides stands in the entry, for those that back off or do not suit the worker.
create index jobs_heads on jobs (partition, capacity, tenant, rank, id, run_at, rows, spec_version)
    where state = 'queued';
create index jobs_due on jobs (run_at) where state = 'queued';
create index jobs_to_begin on jobs (start_by) where state = 'queued' and start_by is not null;
create index jobs_leased on jobs (lease_expires_at) where state = 'running';
create index jobs_running on jobs (tenant) where state = 'running';
create index jobs_queued on jobs (tenant) where state = 'queued';
create index jobs_listed on jobs (tenant, created_at, id);
create index jobs_listed_by_status on jobs (tenant, status, created_at, id);
create index jobs_with_results on jobs (result_expires_at) where result_key is not null;
create index jobs_ended on jobs (finished_at) where finished_at is not null;

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
    or (old.state = 'failed' and new.state = 'queued')
)
begin
    select raise(abort, 'no arrow leads from one state of a job to the other');
end;

create trigger jobs_fences_only_grow before update of fence on jobs
when new.fence < old.fence
begin
    select raise(abort, 'the fence of a job only grows');
end;

-- How often an object that is garbage could not be deleted.
alter table objects add column failures integer not null default 0 check (failures >= 0);

create index deleted_jobs_to_forget on deleted_jobs (deleted_at);

-- What a tenant may have. One that is not here has the default share and no bounds.
create table tenants (
    -- The rule of Tenant, here and for the keys: rows of both are written by hand.
    tenant text not null primary key check (length(tenant) between 1 and 64 and tenant not glob '*[^-A-Za-z0-9_]*'),
    -- The bounds of Weight.
    weight real not null check (weight between 0.001 and 1000),
    max_running integer check (max_running >= 0),
    max_queued integer check (max_queued >= 0)
) strict, without rowid;

-- The SHA-256 of each API key.
create table api_keys (
    hash blob not null primary key check (length(hash) = 32),
    tenant text not null check (length(tenant) between 1 and 64 and tenant not glob '*[^-A-Za-z0-9_]*')
) strict, without rowid;

-- Running sums, which outlast the jobs.
create table tenant_usage (
    tenant text not null primary key,
    completed integer not null default 0,
    tflop real not null default 0.0,
    worker_micros integer not null default 0
) strict, without rowid;

insert into tenant_usage (tenant, completed, tflop, worker_micros)
select
    j.tenant,
    count(case when j.state = 'completed' then 1 end),
    total(case when j.state = 'completed' then j.cost_tflop end),
    coalesce(
        (
            select sum(max(a.ended_at - a.begun_at, 0))
            from job_attempts a
            join jobs o on o.id = a.job_id
            where o.tenant = j.tenant
        ),
        0
    )
from jobs j
group by j.tenant;

create table paused_partitions (
    partition text not null primary key
) strict, without rowid;

create table workers (
    id blob not null primary key check (length(id) = 16),
    host text not null,
    version text not null,
    partitions text not null check (json_valid(partitions)),
    -- Of the specs that it can decode.
    spec_versions text not null check (json_valid(spec_versions)),
    max_rows integer check (max_rows >= 0),
    state text not null check (state in ('idle', 'busy', 'unwell', 'draining')),
    started_at integer not null,
    seen_at integer not null,
    drain_requested integer not null default 0 check (drain_requested in (0, 1))
) strict, without rowid;

create table endpoints (
    id blob not null primary key check (length(id) = 16),
    tenant text not null,
    url text not null
) strict, without rowid;

create index endpoints_of_tenant on endpoints (tenant);

-- One row for each end of a job and each endpoint that its tenant had then. It outlives the job.
create table deliveries (
    id blob not null primary key check (length(id) = 16),
    endpoint_id blob not null references endpoints (id),
    job_id blob not null,
    tenant text not null,
    notice text not null check (notice in ('video.completed', 'video.failed')),
    created_at integer not null
) strict, without rowid;

create index deliveries_of_job on deliveries (job_id, created_at, id);
