-- What a request came with is an object of its job: 'input' while the job can still run, a failed one's too, since it can run
-- again. Before its job is made an input is garbage of a later moment, so that it goes by itself if the job never comes.
--
-- Programs that do not know inputs can work beside this, since they hand out no job that has some, with two losses. A job that
-- such a program ends as failed loses its inputs, so that it cannot run again. And the garbage sweep of such a program takes no
-- notice of locks: it may delete an input that a create is taking at the very end of the time for which inputs wait, and the
-- job then fails. So the schedulers are the first to be renewed.
--
-- The table is locked for a moment only: its rows are looked through by the next migration, beside those who use it.
alter table objects
    drop constraint objects_standing_check,
    add constraint objects_standing_check check (standing in ('expected', 'named', 'input', 'garbage')) not valid;
