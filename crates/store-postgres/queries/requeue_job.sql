-- Lets a job wait again. Its checkpoint stays, where one was kept.
--
-- $1 the job, $2 its fence and $3 the claim's token; $4 the state; $5 how long it waits; $6 the attempts that count and $7 the
-- claims that were spared; $8 how the attempt ended, $9 and $10 with what error; $11 from when on nobody can still be putting what
-- the claim has expected.
with requeued as (
    update jobs
    set state = $4, run_at = now_micros() + $5, attempt = $6, spared = $7, begun_at = null,
        phase = 'prepare', step = 0, total_steps = 0, percent = 0,
        claim_token = null, worker = null, lease_expires_at = null
    where id = $1 and fence = $2 and claim_token = $3 and state = 'running'
    returning id, fence
),
closed as (
    update job_attempts a set ended_at = now_micros(), ending = $8, error_code = $9, error_message = $10
    from requeued r
    where a.job_id = r.id and a.fence = r.fence
),
discarded as (
    update objects o set standing = 'garbage', collect_after = $11
    from requeued r
    where o.job_id = r.id and o.standing = 'expected'
)
select count(*) as "requeued!" from requeued
