-- A worker that has claimed a job ahead, and is not free for it in time, returns it, which is another end than a drain.
--
-- The rows that are there keep the narrower rule, so nothing is looked through while the table is held for a moment; the
-- migration that follows does so. Programs that do not know this end go on to write theirs, and cannot show the history of a job
-- that has it.
alter table job_attempts
    drop constraint job_attempts_ending_check,
    add constraint job_attempts_ending_check
        check (ending in ('completed', 'failed', 'retried', 'drained', 'returned', 'cancelled', 'lease_lost')) not valid;
