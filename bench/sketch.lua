-- The least that a script could do for a verification, for comparison with verify.lua: six fields of a key, a rate limit,
-- a debit and an event; no fence, no scopes, no answer.
--
-- KEYS  1 key; rate, billing and outbox are named from it
-- ARGV  1 cost in micro-credits, 2 the event
-- Gives {"OK", used micro-credits} | {"RATE_LIMITED"}
local key = redis.call('HMGET', KEYS[1], 'state', 'team', 'rate', 'expiresAt', 'billing', 'scopes')
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1e6 + tonumber(time[2])
local interval = math.ceil(1e6 / tonumber(key[3]))
local arrival = math.max(tonumber(redis.call('GET', KEYS[1] .. ':rate') or '0'), now) + interval
if arrival > now + 1e6 then return { 'RATE_LIMITED' } end
redis.call('SET', KEYS[1] .. ':rate', string.format('%.0f', arrival), 'PX', 2000)
local used = redis.call('HINCRBY', KEYS[1] .. ':billing', 'used', ARGV[1])
redis.call('XADD', KEYS[1] .. ':outbox', '*', 'e', ARGV[2], 'u', used)
return { 'OK', used }
