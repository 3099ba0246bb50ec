-- The address of the end client whose call was refused, where whoever asked named it. It is in no other table, and ends with its row.
alter table recent_refusals add column if not exists client_address String default '';
