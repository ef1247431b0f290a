-- By itself, so that the lock that keeps everybody else from the table is not held while its rows are looked through.
alter table objects validate constraint objects_standing_check;
