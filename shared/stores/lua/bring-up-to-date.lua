-- uses: time fence records remember limits limits-of-holds account account-state holds settings classes moments
-- Brings the account of a billing record up to date: does all that fell due, takes in its settings, and appends the lines that
-- tell it. Two at once do no harm, nor does a call where nothing is due.
--
-- KEYS  1 meta, 2 billing record, 3 outbox, 4 sorted set of the accounts that have a moment to come
-- ARGV  1 run id
--       2 not after: Redis time in ms
-- Gives {"OK", now in ms, amounts (used, held, total, expired)}
--       {"AGAIN", now}             more fell due than one call does
--       {"PLAIN", now}             it has no account, and needs none
--       {"ABSENT", now}            there is no such record here
--       {"UNSETTLED", now, error}  its balance is not known here
--       {"CLOSED" | "LATE", now}
local function bringRecord(epoch)
  local billingRecord = call('HGET', KEYS[2], 's')
  if not billingRecord then return 'ABSENT' end
  local usedText, used, sequence = readUsed(KEYS[2], 'n' .. epoch)
  if used and not hasClasses(billingRecord, KEYS[2]) then return 'PLAIN' end
  local whole, amounts = changeAccount(openAccount(usedText, KEYS[2], epoch, sequence), amountsOf)
  return whole and 'OK' or 'AGAIN', amounts
end

return script(function()
  local meta = openShard(KEYS[1], ARGV[1], 'epoch')
  if not meta then return { 'CLOSED', nowText } end
  if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end
  local read, status, amounts = pcall(bringRecord, meta[2])
  -- The sweeper would come for it again and again; whoever writes it notes it again.
  if not read or status == 'ABSENT' or status == 'PLAIN' then redis.pcall('ZREM', KEYS[4], KEYS[2]) end
  if not read then return { 'UNSETTLED', nowText, whyOf(status) } end
  return { status, nowText, amounts }
end)
