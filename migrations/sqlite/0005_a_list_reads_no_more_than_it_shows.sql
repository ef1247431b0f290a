-- Lists of one model, and of what clients have noted of their jobs, do not look through all that a tenant ever had.

-- Each status in its own order: a list of all merges them.
create index jobs_listed_by_model on jobs (tenant, model, status, created_at, id);

-- A job's metadata, pair by pair, each in the order of a list. Written with the job, and never changed.
create table job_metadata (
    owner text not null,
    key text not null,
    value text not null,
    made_at integer not null,
    job_id blob not null references jobs (id) on delete cascade,
    primary key (owner, key, value, made_at, job_id)
) strict, without rowid;

create index job_metadata_of_job on job_metadata (job_id);

insert into job_metadata (owner, key, value, made_at, job_id)
select j.tenant, pair.key, pair.value, j.created_at, j.id
from jobs j
join json_each(j.metadata) pair
where j.metadata is not null;

create trigger jobs_note_their_metadata after insert on jobs
when new.metadata is not null
begin
    insert into job_metadata (owner, key, value, made_at, job_id)
    select new.tenant, pair.key, pair.value, new.created_at, new.id from json_each(new.metadata) pair;
end;

-- Also a job that is claimed has to begin in time.
drop index jobs_to_begin;
create index jobs_to_begin on jobs (start_by, id) where start_by is not null and finished_at is null;

-- An attempt may end by being returned. The table is made anew, since a check cannot be altered.
alter table job_attempts rename to job_attempts_before;

create table job_attempts (
    job_id blob not null references jobs (id) on delete cascade,
    fence integer not null,
    number integer not null check (number >= 1),
    worker blob not null,
    claimed_at integer not null,
    begun_at integer,
    ended_at integer,
    ending text check (ending in ('completed', 'failed', 'retried', 'drained', 'returned', 'cancelled', 'lease_lost')),
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
