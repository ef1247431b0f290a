-- What a request came with is an object of its job: 'input' while the job can still run, a failed one's too, since it can run
-- again. Before its job is made an input is garbage of a later moment, so that it goes by itself if the job never comes.
--
-- The table is made anew, since a check cannot be altered.

drop index objects_of_job;
drop index objects_to_collect;

alter table objects rename to objects_before;

-- Every key that a claim or a request was ever allowed to write. A row outlives its job until the object is deleted.
create table objects (
    key text not null primary key,
    job_id blob not null,
    standing text not null check (standing in ('expected', 'named', 'input', 'garbage')),
    -- From when on nobody can still be writing it, nor make it a job's input.
    collect_after integer,
    -- How often it could not be deleted.
    failures integer not null default 0 check (failures >= 0),
    check ((collect_after is not null) = (standing = 'garbage'))
) strict, without rowid;

insert into objects (key, job_id, standing, collect_after, failures)
select key, job_id, standing, collect_after, failures from objects_before;

drop table objects_before;

create index objects_of_job on objects (job_id);
create index objects_to_collect on objects (collect_after) where standing = 'garbage';
