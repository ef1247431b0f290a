-- What a client says of its job beside what to make: told back to it, or for the moment at which the job ends.
alter table jobs add column result_life integer check (result_life >= 0);
alter table jobs add column metadata text check (json_valid(metadata));
alter table jobs add column end_user text;
alter table jobs add column stage_metrics integer not null default 0 check (stage_metrics in (0, 1));
alter table jobs add column remixed_from blob check (length(remixed_from) = 16);
alter table jobs add column trace text;
-- Who hears of the job besides its tenant's endpoints, and what.
alter table jobs add column hook_url text;
alter table jobs add column hook_notices text check (
    (hook_notices is null) = (hook_url is null)
    and hook_notices in (
        '[]', '["video.completed"]', '["video.failed"]', '["video.completed","video.failed"]',
        '["video.failed","video.completed"]'
    )
);
-- The pictures of its result.
alter table jobs add column previews text check (json_valid(previews) and (previews is null or result_key is not null));

-- By what a request is known again that comes once more: written with the job that it makes.
create table submissions (
    tenant text not null,
    token blob not null check (length(token) = 32),
    -- The digest of everything that was asked for.
    fields blob not null check (length(fields) = 32),
    job_id blob not null,
    -- It was not the first try that made the job.
    again integer not null check (again in (0, 1)),
    created_at integer not null,
    expires_at integer not null,
    primary key (tenant, token)
) strict, without rowid;

create index submissions_to_forget on submissions (expires_at);

-- The keys that are there already are good for everything, as they were.
alter table api_keys rename to api_keys_before;

create table api_keys (
    id blob not null primary key check (length(id) = 16),
    -- The SHA-256 of the key.
    hash blob not null unique check (length(hash) = 32),
    tenant text not null check (length(tenant) between 1 and 64 and tenant not glob '*[^-A-Za-z0-9_]*'),
    name text not null default '',
    -- Its last characters.
    hint text not null default '',
    scopes text not null check (json_valid(scopes)),
    requests_per_minute integer check (requests_per_minute > 0),
    created_at integer not null,
    revoked_at integer
) strict, without rowid;

insert into api_keys (id, hash, tenant, scopes, created_at)
select randomblob(16), hash, tenant, '["videos:read","videos:write","webhooks"]', unixepoch() * 1000000
from api_keys_before;

drop table api_keys_before;

-- The endpoints that are there already get secrets: 64 random hex digits, which are the base64 of 48 bytes. What was to be
-- told to them is settled: nobody has sent it, or somebody has by means of his own, and who hears of a video of long ago for the
-- first time is not helped.
drop index endpoints_of_tenant;
drop index deliveries_of_job;
alter table endpoints rename to endpoints_before;
alter table deliveries rename to deliveries_before;

create table endpoints (
    id blob not null primary key check (length(id) = 16),
    tenant text not null,
    name text not null,
    url text not null,
    notices text not null check (notices in (
        '[]', '["video.completed"]', '["video.failed"]', '["video.completed","video.failed"]',
        '["video.failed","video.completed"]'
    )),
    secret text not null,
    -- What signs beside it, and until when.
    old_secret text,
    old_secret_until integer,
    created_at integer not null,
    -- Since when nothing is sent to it, and why.
    disabled_at integer,
    disabled_why text,
    -- Until when it is left alone, since it has asked for that or is overloaded.
    quiet_until integer,
    -- When its tenant last changed what it is or what signs.
    updated_at integer not null,
    check ((old_secret is null) = (old_secret_until is null)),
    check ((disabled_at is null) = (disabled_why is null))
) strict, without rowid;

insert into endpoints (id, tenant, name, url, notices, secret, created_at, updated_at)
select
    id, tenant, '', url, '["video.completed","video.failed"]', 'whsec_' || lower(hex(randomblob(32))),
    unixepoch() * 1000000, unixepoch() * 1000000
from endpoints_before;

create index endpoints_of_tenant on endpoints (tenant);
create index endpoints_left_alone on endpoints (quiet_until) where quiet_until is not null;

-- What signs the deliveries to the URLs of single jobs.
create table hook_secrets (
    tenant text not null primary key,
    secret text not null
) strict, without rowid;

-- One row for each end of a job and each receiver that wanted to hear of it then: an endpoint, or the URL that came with the
-- job. It outlives the job.
create table deliveries (
    id blob not null primary key check (length(id) = 16),
    tenant text not null,
    endpoint_id blob references endpoints (id) on delete cascade,
    url text,
    job_id blob not null,
    notice text not null check (notice in ('video.completed', 'video.failed')),
    trace text,
    -- It tells of no job, and is tried once.
    is_test integer not null default 0 check (is_test in (0, 1)),
    created_at integer not null,
    state text not null default 'pending' check (state in ('pending', 'delivered', 'dead')),
    tries integer not null default 0 check (tries >= 0),
    -- While somebody is trying it, when that one is taken to be dead.
    next_try_at integer,
    -- Until when nobody else is given it.
    held_until integer,
    -- When it was delivered or given up.
    settled_at integer,
    last_status integer,
    last_error text,
    check ((endpoint_id is null) = (url is not null)),
    check ((next_try_at is not null) = (state = 'pending')),
    check ((settled_at is null) = (state = 'pending')),
    check (held_until is null or state = 'pending')
) strict, without rowid;

insert into deliveries (id, tenant, endpoint_id, job_id, notice, created_at, state, settled_at, last_error)
select
    id, tenant, endpoint_id, job_id, notice, created_at, 'dead', unixepoch() * 1000000,
    'it ended before webhooks were delivered'
from deliveries_before;

drop table deliveries_before;
drop table endpoints_before;

create index deliveries_of_job on deliveries (job_id, created_at, id);
-- Each state in its own order: a list of all merges them.
create index deliveries_listed on deliveries (tenant, state, created_at, id);
-- Those of one endpoint: to be listed, to be deleted with it, and whether any has reached it lately.
create index deliveries_of_endpoint on deliveries (endpoint_id, state, created_at, id) where endpoint_id is not null;
create index deliveries_received on deliveries (endpoint_id, settled_at) where state = 'delivered';
-- Each receiver's own, so that one with many does not stand before the others.
create index deliveries_pending on deliveries (endpoint_id, next_try_at, id)
    where state = 'pending' and endpoint_id is not null;
create index deliveries_pending_of_jobs on deliveries (tenant, next_try_at, id)
    where state = 'pending' and endpoint_id is null;
create index deliveries_pending_tests on deliveries (endpoint_id) where state = 'pending' and is_test;
create index deliveries_due on deliveries (next_try_at) where state = 'pending';
create index deliveries_held on deliveries (held_until) where held_until is not null;
create index deliveries_settled on deliveries (settled_at) where state <> 'pending';
