-- What a client says of its job beside what to make, and the pictures of its result. Of all that clients have from now on, this
-- is what belongs to `jobs`, alone, so that creates, claims and beats wait for a moment only: no row is read or written.
--
-- Programs that do not know this can work beside it. One that ends a job tells no URL of a job, and keeps its result as long as
-- all others; one that gives up results leaves the pictures' names in the rows of their jobs, where nobody reads them then.

-- What a client says of its job beside what to make: told back to it, or for the moment at which the job ends.
alter table jobs
    add column result_life bigint,
    add column metadata jsonb,
    add column end_user text,
    add column stage_metrics boolean not null default false,
    add column remixed_from uuid,
    add column trace text,
    -- Who hears of the job besides its tenant's endpoints, and what.
    add column hook_url text,
    add column hook_notices text[],
    -- The pictures of its result; without meaning where that is gone.
    add column previews json;
