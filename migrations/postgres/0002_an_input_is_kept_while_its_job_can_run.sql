-- What a request came with is an object of its job: 'input' while the job can still run, a failed one's too, since it can run
-- again. Before its job is made an input is garbage of a later moment, so that it goes by itself if the job never comes.
--
-- Programs that do not know inputs can live with this: they hand out no job that has some. A job that such a program ends as
-- failed loses them, though, so that it cannot run again.
alter table objects
    drop constraint objects_standing_check,
    add constraint objects_standing_check check (standing in ('expected', 'named', 'input', 'garbage'));
