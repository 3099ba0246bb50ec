-- Reads what a billing record's balance is made of, so that "nothing used yet" is told from "not known here".
--
-- KEYS  1 meta, 2 billing record
-- ARGV  1 fence: the run id of the open shard, or "build:<token>" of its reopening
-- Gives {"OK", now in ms, epoch, then names and values: u used micro-credits, x of them from the books alone, c events
--        that x is the sum of, a number of the last adjustment, n<epoch> last sequence number in that epoch}
--       | {"ABSENT", now} no such record here | {"CLOSED", now}
local time = redis.call('TIME')
local now = string.format('%.0f', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
local meta = redis.call('HMGET', KEYS[1], 'owner', 'epoch', 'build')
local build = string.match(ARGV[1], '^build:(.+)$')
if build and meta[3] ~= build or not build and meta[1] ~= ARGV[1] then return { 'CLOSED', now } end
local fields = redis.call('HGETALL', KEYS[2])
if redis.call('HEXISTS', KEYS[2], 's') == 0 then return { 'ABSENT', now } end
local answer = { 'OK', now, meta[2] or '0' }
for i = 1, #fields, 2 do
  if fields[i] ~= 's' then
    answer[#answer + 1] = fields[i]
    answer[#answer + 1] = fields[i + 1]
  end
end
return answer
