-- Ends jobs that this transaction has locked: the rows, the claim's entry in the history, the objects that nobody may name any
-- more, and the deliveries to whoever wants to hear of it.
--
-- $1 the jobs; $2 the claim's token and $3 its fence, none for jobs that wait; $4 the state; $5 when the cancel of waiting jobs
-- was accepted; $6 and $7 the error; $8, $9 and $10 the result, $11 how long it is kept, $12 the report on its run; $13 how the
-- attempt ended; $14 the notice; $15 the pictures of the result and $16 their keys, all of them expected. A job that ends with
-- its result has begun, also where its worker was done before it could say so. One that failed can run again and keeps its inputs.
with held as materialized (
    select id, lease_expires_at from jobs j
    -- The same as the state, in words that no index answers to: the one to use is that of the ids.
    where id = any($1) and finished_at is null
        and claim_token is not distinct from $2 and ($3::bigint is null or fence = $3)
        -- A result that the table does not name would be swept away under its job.
        and ($8::text is null or exists (
            select from objects o where o.key = $8 and o.job_id = j.id and o.standing = 'expected'
        ))
),
ended as (
    update jobs j
    set state = $4, finished_at = now_micros(), cancel_requested_at = coalesce(j.cancel_requested_at, $5),
        begun_at = case when $8::text is null then j.begun_at else coalesce(j.begun_at, now_micros()) end,
        start_by = case when $8::text is null then j.start_by end,
        percent = case when $8::text is null then j.percent else 100 end,
        result_key = $8, result_size_bytes = $9, result_sha256 = $10, result_expires_at = now_micros() + $11,
        report = ($12::text)::json, previews = ($15::text)::json,
        error_code = $6, error_message = $7,
        checkpoint_key = null, checkpoint_step = null, checkpoint_size_bytes = null, checkpoint_sha256 = null,
        checkpoint_fingerprint = null,
        claim_token = null, worker = null, lease_expires_at = null
    from held h
    where j.id = h.id
    returning
        j.id, j.tenant, j.fence, j.begun_at, j.finished_at, j.trace, j.hook_url, j.hook_notices,
        greatest(h.lease_expires_at, j.finished_at) as puts_end
),
closed as (
    update job_attempts a
    set ended_at = e.finished_at, ending = $13, error_code = $6, error_message = $7,
        begun_at = case when $8::text is null then a.begun_at else coalesce(a.begun_at, e.begun_at) end
    from ended e
    where a.job_id = e.id and a.fence = e.fence and a.ended_at is null
),
sorted as (
    update objects o
    set standing = case when o.key = $8 or o.key = any($16) then 'named' else 'garbage' end,
        collect_after = case
            when o.key = $8 or o.key = any($16) then null
            when o.standing = 'expected' then e.puts_end
            else e.finished_at
        end
    from ended e
    where o.job_id = e.id and o.standing <> 'garbage' and (o.standing <> 'input' or $4 <> 'failed')
),
told as (
    insert into deliveries (id, endpoint, tenant, job_id, notice, trace, created_at, next_try_at)
    select gen_random_uuid(), p.id, e.tenant, e.id, $14, e.trace, e.finished_at, e.finished_at
    from ended e
    join endpoints p on p.tenant = e.tenant
    where p.disabled_at is null and $14 = any(p.notices)
    -- One that is being deleted is waited for, and then not told.
    for key share of p
),
told_by_hook as (
    insert into deliveries (id, url, tenant, job_id, notice, trace, created_at, next_try_at)
    select gen_random_uuid(), e.hook_url, e.tenant, e.id, $14, e.trace, e.finished_at, e.finished_at
    from ended e
    where $14 = any(e.hook_notices)
)
select count(*) as "ended!" from ended
