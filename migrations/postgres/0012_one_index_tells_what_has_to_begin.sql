-- Programs that look for waiting jobs alone find them by the index that the migration before has made. By itself, so that the
-- table is held for a moment only.
drop index jobs_to_begin;
