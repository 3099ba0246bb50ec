-- Of an entity whose name in Redis something else holds: tried again every minute, by a new row each time, until that is repaired.
-- No checkpoint waits for it: it is not applied by an opening either.
alter table changes add column is_put_back boolean not null default false;
