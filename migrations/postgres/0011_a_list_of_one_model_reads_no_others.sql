-- A list of one model does not look through all that its tenant ever had, and a job that is claimed has to begin in time as well.
--
-- While the indexes are made, writes to `jobs` wait: for as long as the table is read twice.

alter table job_attempts validate constraint job_attempts_ending_check;

-- Each status in its own order: a list of all merges them. Tenant and model are one expression, so that whatever the planner
-- believes about the table it cannot look for one model among all that the tenant ever had; no tenant's name holds a space.
create index jobs_listed_by_model on jobs (
    ((tenant || ' ' || model) collate "POSIX"), job_status(state, begun_at is not null), created_at, id
);

-- Takes the place of jobs_to_begin, which holds those that wait, and which the next migration drops.
create index jobs_to_start on jobs (start_by) where start_by is not null and finished_at is null;
