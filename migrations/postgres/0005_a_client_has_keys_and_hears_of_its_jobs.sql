-- What clients have: keys with scopes, requests that are known again, endpoints that hear of ends.
--
-- Programs that do not know this can work beside it, with these losses. One that serves clients takes a key for what it was
-- before: good for everything, also once it is revoked or limited; and it knows no request again. So those are renewed before
-- the first key is revoked or limited. One that ends a job tells endpoints that are disabled or asked for other ends too.
--
-- Keys and endpoints are written anew. Until now both were written by hand, so there are few of them.

-- By what a request is known again that comes once more: written with the job that it makes.
create table submissions (
    tenant text collate "C" not null,
    token bytea not null check (length(token) = 32),
    -- The digest of everything that was asked for.
    fields bytea not null check (length(fields) = 32),
    job_id uuid not null,
    -- It was not the first try that made the job.
    again boolean not null,
    created_at bigint not null,
    expires_at bigint not null,
    primary key (tenant, token)
);

create index submissions_to_forget on submissions (expires_at);

-- The defaults are for what is there already, which is good for everything as it was.
alter table api_keys
    add column id uuid not null default gen_random_uuid() unique,
    add column name text not null default '',
    -- Its last characters.
    add column hint text not null default '',
    add column scopes text[] not null default '{videos:read,videos:write,webhooks}',
    add column requests_per_minute bigint check (requests_per_minute > 0),
    add column revoked_at bigint;

-- Each endpoint that is there already gets a secret of its own: 64 random hex digits, which are the base64 of 48 bytes.
alter table endpoints
    add column name text not null default '',
    add column notices text[] not null default '{video.completed,video.failed}'
        check (notices <@ '{video.completed,video.failed}'),
    add column secret text not null
        default 'whsec_' || replace(gen_random_uuid()::text, '-', '') || replace(gen_random_uuid()::text, '-', ''),
    -- What signs beside it, and until when.
    add column old_secret text,
    add column old_secret_until bigint,
    -- Since when nothing is sent to it, and why.
    add column disabled_at bigint,
    add column disabled_why text,
    -- Until when it is left alone, since it has asked for that or is overloaded.
    add column quiet_until bigint,
    -- When its tenant last changed what it is or what signs.
    add column updated_at bigint not null default now_micros(),
    add constraint an_old_secret_has_its_end check (num_nonnulls(old_secret, old_secret_until) in (0, 2)),
    add constraint a_disabled_endpoint_says_why check (num_nonnulls(disabled_at, disabled_why) in (0, 2));

update endpoints set updated_at = created_at;

create index endpoints_left_alone on endpoints (quiet_until) where quiet_until is not null;

-- What signs the deliveries to the URLs of single jobs.
create table hook_secrets (
    tenant text collate "C" primary key,
    secret text not null
);
