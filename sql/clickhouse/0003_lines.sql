-- Lines of accounts (docs/accounts-design.md): more kinds of events, numbered in the record's one sequence.
-- - hold, capture, release, extension, correction: what happens to reserved credits. Captures and corrections are usage; of a
--   capture and a correction the cost is what it debits, all others cost nothing.
-- - turn: the state of an account after a moment, in `detail`. It costs nothing and is not usage.
-- - held_micros: the reserved micro-credits after the line; hold_id: the hold it is of; hold_micros: by how much it changes
--   what is reserved (of an extension: how much the hold reserves); crossed: the alerts that it crossed.
-- Rows of before have none of it. A new name in an Enum and a column with a default change no stored data.
alter table usage_events
  modify column kind Enum8('verification' = 1, 'adjustment' = 2, 'settlement' = 3, 'witness' = 4, 'hold' = 5, 'capture' = 6,
                           'release' = 7, 'extension' = 8, 'correction' = 9, 'turn' = 10),
  add column if not exists held_micros Int64 default 0,
  add column if not exists hold_id String default '',
  add column if not exists hold_micros Int64 default 0,
  add column if not exists detail String default '',
  add column if not exists crossed String default '';

-- What a day of a record keeps of them; rows of before had nothing of it to keep.
-- - events: all events but settlements and witnesses; cost_micros: what is usage.
-- - held_micros: after the last of the events, the one of `balance`.
-- - held_change: what the events added to the reserved credits, less what they took.
-- - last_turn: the highest number of a turn; 0 without one.
-- - has_holds: whether an event is of a hold. A search for holds reads no other day.
alter table booked_days
  add column if not exists held_micros Int64 default 0,
  add column if not exists held_change Int64 default 0,
  add column if not exists last_turn UInt64 default 0,
  add column if not exists has_holds Bool default false;
