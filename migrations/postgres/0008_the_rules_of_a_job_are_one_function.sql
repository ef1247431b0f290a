-- The rules of a job's row, as one function that a trigger calls, in place of a check constraint for each.
--
-- Postgres reads, plans and compiles every check constraint of a table anew for each statement that writes to it, which for
-- these thirty took more time than all else of a create or a claim, and most of a beat. A function is read once in a session.
-- A broken rule is told as before: by its name, as a check violation.
--
-- Rows that are there have passed the same rules. Programs that do not know this notice nothing. Only what is written while
-- triggers do not fire is not looked at: by a replica, or by a restore, which brings the rows before the triggers or was told
-- to leave those out. `begin; update jobs set rank = rank; rollback` then tells the first row that breaks a rule.

alter table jobs
    drop constraint jobs_capacity_class_check,
    drop constraint jobs_rows_check,
    drop constraint jobs_priority_check,
    drop constraint jobs_spec_version_check,
    drop constraint jobs_rank_check,
    drop constraint jobs_check,
    drop constraint jobs_state_check,
    drop constraint jobs_step_check,
    drop constraint jobs_total_steps_check,
    drop constraint jobs_percent_check,
    drop constraint jobs_attempt_check,
    drop constraint jobs_max_attempts_check,
    drop constraint jobs_spared_check,
    drop constraint jobs_checkpoint_step_check,
    drop constraint jobs_checkpoint_size_bytes_check,
    drop constraint jobs_checkpoint_sha256_check,
    drop constraint jobs_result_size_bytes_check,
    drop constraint jobs_result_sha256_check,
    drop constraint a_lease_is_held_while_running,
    drop constraint an_ended_job_has_its_moment,
    drop constraint a_waiting_job_has_not_begun_and_a_cancel_ends_it_at_once,
    drop constraint a_job_that_has_begun_need_not_begin,
    drop constraint a_checkpoint_is_whole_and_of_a_living_job,
    drop constraint a_result_is_whole_and_of_a_completed_job,
    drop constraint a_completed_job_has_its_result_until_that_expires,
    drop constraint only_a_result_expires,
    drop constraint a_report_is_of_a_completed_job,
    drop constraint an_error_is_of_a_job_that_ended_without_a_result,
    drop constraint cancelled_is_a_state_and_a_code,
    drop constraint a_hundred_percent_belong_to_a_completed_job,
    drop constraint every_attempt_and_every_spared_one_was_a_claim;

-- One expression, so that it is compiled whole and once. As in a check constraint, a rule about what is null is kept.
create function require_job_rules() returns trigger
language plpgsql
as $$
declare
    broken text;
begin
    broken := case
        when not (new.capacity_class >= 0) then 'jobs_capacity_class_check'
        when not (new.rows >= 0) then 'jobs_rows_check'
        when not (new.priority in ('normal', 'low')) then 'jobs_priority_check'
        when not (new.spec_version >= 0) then 'jobs_spec_version_check'
        when not (new.rank between -1e300::float8 and 1e300::float8) then 'jobs_rank_check'
        when not (new.virtual_finish <= new.rank) then 'jobs_check'
        when not (new.state in ('queued', 'running', 'completed', 'failed', 'cancelled')) then 'jobs_state_check'
        when not (new.step >= 0) then 'jobs_step_check'
        when not (new.total_steps >= 0) then 'jobs_total_steps_check'
        when not (new.percent between 0 and 100) then 'jobs_percent_check'
        when not (new.attempt >= 0) then 'jobs_attempt_check'
        when not (new.max_attempts >= 1) then 'jobs_max_attempts_check'
        when not (new.spared >= 0) then 'jobs_spared_check'
        when not (new.checkpoint_step >= 0) then 'jobs_checkpoint_step_check'
        when not (new.checkpoint_size_bytes >= 0) then 'jobs_checkpoint_size_bytes_check'
        when not (length(new.checkpoint_sha256) = 64) then 'jobs_checkpoint_sha256_check'
        when not (new.result_size_bytes >= 0) then 'jobs_result_size_bytes_check'
        when not (length(new.result_sha256) = 64) then 'jobs_result_sha256_check'
        when not (new.result_life >= 0) then 'jobs_result_life_check'
        when not (jsonb_typeof(new.metadata) = 'object') then 'jobs_metadata_check'
        -- A lease is held exactly while the job runs.
        when not (
            num_nonnulls(new.claim_token, new.worker, new.lease_expires_at) = case when new.state = 'running' then 3 else 0 end
        ) then 'a_lease_is_held_while_running'
        when not ((new.finished_at is not null) = (new.state in ('completed', 'failed', 'cancelled')))
            then 'an_ended_job_has_its_moment'
        when not (new.state <> 'queued' or (new.begun_at is null and new.cancel_requested_at is null))
            then 'a_waiting_job_has_not_begun_and_a_cancel_ends_it_at_once'
        when not (new.begun_at is null or new.start_by is null) then 'a_job_that_has_begun_need_not_begin'
        when not (
            num_nonnulls(
                new.checkpoint_key, new.checkpoint_step, new.checkpoint_size_bytes, new.checkpoint_sha256,
                new.checkpoint_fingerprint
            ) in (0, 5)
            and (new.checkpoint_key is null or new.state in ('queued', 'running'))
        ) then 'a_checkpoint_is_whole_and_of_a_living_job'
        when not (
            num_nonnulls(new.result_key, new.result_size_bytes, new.result_sha256) in (0, 3)
            and (new.result_key is null or new.state = 'completed')
        ) then 'a_result_is_whole_and_of_a_completed_job'
        when not (new.state <> 'completed' or new.result_key is not null or new.result_expires_at is not null)
            then 'a_completed_job_has_its_result_until_that_expires'
        when not (new.result_expires_at is null or new.state = 'completed') then 'only_a_result_expires'
        when not ((new.report is not null) = (new.state = 'completed')) then 'a_report_is_of_a_completed_job'
        when not (
            num_nonnulls(new.error_code, new.error_message) = case when new.state in ('failed', 'cancelled') then 2 else 0 end
        ) then 'an_error_is_of_a_job_that_ended_without_a_result'
        when not ((new.state = 'cancelled') = coalesce(new.error_code = 'cancelled', false))
            then 'cancelled_is_a_state_and_a_code'
        when not ((new.percent = 100) = (new.state = 'completed')) then 'a_hundred_percent_belong_to_a_completed_job'
        when not (new.attempt + new.spared <= new.fence) then 'every_attempt_and_every_spared_one_was_a_claim'
        when not (
            num_nonnulls(new.hook_url, new.hook_notices) in (0, 2)
            and coalesce(new.hook_notices <@ '{video.completed,video.failed}', true)
        ) then 'a_hook_says_what_it_hears_of'
    end;
    if broken is not null then
        raise exception 'new row for relation "jobs" violates check constraint "%"', broken
            using errcode = 'check_violation', constraint = broken, table = 'jobs', schema = tg_table_schema;
    end if;
    return new;
end
$$;

-- After the other triggers, by its name: the arrows are told first.
create trigger jobs_keep_the_rules before insert or update on jobs
for each row execute function require_job_rules();
