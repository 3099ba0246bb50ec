-- uses: names time build
-- Reads the counters of a billing record. A record that was never debited and one that is not here are told apart.
--
-- KEYS  1 meta, 2 billing record
-- ARGV  1 fence: run id of the open shard, or "build:<token>" of its builder
-- Gives {"OK", now in ms, epoch, then names and values of the counters: keyspace.ts says what each holds}
--       {"ABSENT", now}           there is no such record here
--       {"CORRUPT", now, error}   there is something else
--       {"CLOSED", now}
local meta = passFence(KEYS[1], ARGV[1], 'epoch')
if not meta then return { 'CLOSED', nowText } end
local fields = redis.pcall('HGETALL', KEYS[2])
if fields.err then return { 'CORRUPT', nowText, fields.err } end
if call('HEXISTS', KEYS[2], 's') == 0 then return { 'ABSENT', nowText } end
local answer = { 'OK', nowText, meta[3] or '0' }
for i = 1, #fields, 2 do
  if fields[i] ~= 's' then
    answer[#answer + 1] = fields[i]
    answer[#answer + 1] = fields[i + 1]
  end
end
return answer
