-- Ends a job: the row alone.
--
-- ?1 the state, ?2 now, ?3 when the cancel of a waiting job was accepted, ?4 and ?5 the error, ?6 to ?10 the result with its
-- report, ?11 the job, ?12 the claim's token and ?13 its fence, none for a job that waits, ?14 the
-- pictures of the result. A job that ends with its result has
-- begun, also where its worker was done before it could say so.
update jobs
set state = ?1, finished_at = ?2, cancel_requested_at = coalesce(cancel_requested_at, ?3),
    error_code = ?4, error_message = ?5,
    begun_at = iif(?6 is null, begun_at, coalesce(begun_at, ?2)), start_by = iif(?6 is null, start_by, null),
    percent = iif(?6 is null, percent, 100),
    result_key = ?6, result_size_bytes = ?7, result_sha256 = ?8, result_expires_at = ?9, report = ?10, previews = ?14,
    checkpoint_key = null, checkpoint_step = null, checkpoint_size_bytes = null, checkpoint_sha256 = null,
    checkpoint_fingerprint = null,
    claim_token = null, worker = null, lease_expires_at = null
where id = ?11 and finished_at is null and claim_token is ?12 and (?13 is null or fence = ?13)
