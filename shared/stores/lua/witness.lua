-- uses: names time fence records
-- Appends the balance that a verify process last answered for a billing record, unless this Redis still has the debit
-- behind it. The books can then tell what was lost.
--
-- KEYS  1 meta, 2 outbox, 3 record of the secret that was verified
-- ARGV  1 run id
--       2 not after: Redis time in ms
--       3 epoch of the debit
--       4 its sequence number
--       5 start of the event's JSON
-- Gives {"OK", now in ms, "1" when Redis had lost it, else ""}
--       {"CLOSED" | "LATE", now}
if not openShard(KEYS[1], ARGV[1]) then return { 'CLOSED', nowText } end
if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end

local keyRecord = call('GET', KEYS[3])
local state, teamId, workspaceId, keyId, expiresAtMs, validUntilMs, ratePerSecond, addressList, meter =
  unpackKeyRecord(keyRecord)
local workspacePart = ''
if meter then
  workspacePart = ',"v":"' .. workspaceId .. '"'
  local billingKey = string.sub(KEYS[1], 1, 5) .. 'b:' .. workspaceId .. ':' .. meter
  if tonumber(call('HGET', billingKey, 'n' .. ARGV[3]) or '0') >= tonumber(ARGV[4]) then
    return { 'OK', nowText, '' }
  end
end
call('XADD', KEYS[2], '*', 'e', format('%s%s,"t":%s}', ARGV[5], workspacePart, nowText))
return { 'OK', nowText, '1' }
