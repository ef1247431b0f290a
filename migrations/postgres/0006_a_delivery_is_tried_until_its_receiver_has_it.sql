-- A delivery is for an endpoint or for the URL that came with its job, and is tried until its receiver has it.
--
-- What was to be told until now is settled: nobody has sent it, or somebody has by means of his own, and who hears of a video of
-- long ago for the first time is not helped. The rows are neither written nor read for that: they take the defaults of new
-- columns, which then become those of new rows. A program that does not know this goes on to write rows, which are due.
--
-- Every end of a job writes here, so that the table is held for a moment only, and nothing else with it: what looks through
-- its rows is in the migration that follows.
alter table deliveries
    alter column endpoint drop not null,
    add column url text,
    add column trace text,
    -- It tells of no job, and is tried once.
    add column is_test boolean not null default false,
    add column state text not null default 'dead',
    add column tries bigint not null default 0,
    -- While somebody is trying it, when that one is taken to be dead.
    add column next_try_at bigint,
    -- Until when nobody else is given it.
    add column held_until bigint,
    -- When it was delivered or given up.
    add column settled_at bigint default now_micros(),
    add column last_status bigint,
    add column last_error text default 'it ended before webhooks were delivered',
    add constraint deliveries_state_check check (state in ('pending', 'delivered', 'dead')) not valid,
    add constraint deliveries_tries_check check (tries >= 0) not valid,
    add constraint a_delivery_has_one_receiver check (num_nonnulls(endpoint, url) = 1) not valid,
    add constraint a_pending_delivery_has_a_next_try check ((next_try_at is not null) = (state = 'pending')) not valid,
    add constraint a_pending_delivery_is_not_settled check ((settled_at is null) = (state = 'pending')) not valid,
    add constraint only_a_pending_delivery_is_held check (held_until is null or state = 'pending') not valid;

alter table deliveries
    alter column state set default 'pending',
    alter column next_try_at set default now_micros(),
    alter column settled_at drop default,
    alter column last_error drop default;
