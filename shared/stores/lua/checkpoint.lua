-- uses: time fence
-- Notes that this shard has every change of Postgres before a transaction id. Within one history of Postgres the
-- checkpoint never goes back; one of another history says nothing about this one, and only writing the whole shard
-- replaces it.
--
-- KEYS  1 meta
-- ARGV  1 run id, 2 checkpoint (a transaction id), 3 its history, 4 what was written: "changes" or "whole"
-- Gives {"OK" | "CLOSED" | "OTHER", now in ms}   OTHER: the checkpoint here is of another history, and stays
return script(function()
  local checkpoint, history, written = ARGV[2], ARGV[3], ARGV[4]

  local meta = openShard(KEYS[1], ARGV[1], 'checkpoint', 'history')
  if not meta then return { 'CLOSED', nowText } end
  local same = meta[3] == history
  if not same and written ~= 'whole' then return { 'OTHER', nowText } end
  if same and tonumber(checkpoint) <= tonumber(meta[2]) then return { 'OK', nowText } end
  call('HSET', KEYS[1], 'checkpoint', checkpoint, 'history', history)
  return { 'OK', nowText }
end)
