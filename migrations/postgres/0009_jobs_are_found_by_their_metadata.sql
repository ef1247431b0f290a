-- Jobs are found by what their clients have noted of them, without looking through all that a tenant ever had.
--
-- While the index is made, writes to `jobs` wait: for as long as the table is read once, since rows that came before have no
-- metadata.

-- A tenant's name is part of each entry: of pairs that are everybody's, only the tenant's own are read. Nothing in it depends
-- on any setting, whatever jsonb_build_object has to say of itself in general.
create function owned_metadata(tenant text, metadata jsonb) returns jsonb
language sql immutable parallel safe
as $$ select jsonb_build_object(tenant, metadata) $$;

create index jobs_by_metadata on jobs using gin (owned_metadata(tenant, metadata) jsonb_path_ops) where metadata is not null;
