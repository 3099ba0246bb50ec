-- uses: names time fence records used hot-account hold-line alerts-mark account limits limits-of-holds holds turns open-account
-- Brings the account of a billing record up to date: does all that fell due, takes in its settings, and appends the line that
-- tells it. Two at once do no harm, nor does a call where nothing is due.
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
local meta = openShard(KEYS[1], ARGV[1], 'epoch')
if not meta then return { 'CLOSED', nowText } end
if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end

local function turn()
  local record = call('HMGET', KEYS[2], 's', 't')
  if not record[1] then return 'ABSENT' end
  local sequenceField = 'n' .. meta[2]
  local usedText, used, sequence = readUsed(KEYS[2], sequenceField)
  if used and not hasClasses(record[1], KEYS[2]) then return 'PLAIN' end

  local account = openAccount(usedText)
  account.epoch, account.sequence = meta[2], sequence
  local changed, whole = turnAccount(account, KEYS[2], record[2], record[1])
  if changed then
    tellTurn(account)
    appendLines(KEYS[3], account.lines)
    call('HSET', KEYS[2], 'u', usedTextOf(account), sequenceField, format('%d', account.sequence))
  end
  writeState(account)
  return whole and 'OK' or 'AGAIN', amountsOf(account)
end

local read, status, amounts = pcall(turn)
if not read then
  -- The sweeper would come for it again and again; the next turn, or a rebuild, notes it again.
  redis.pcall('ZREM', KEYS[4], KEYS[2])
  return { 'UNSETTLED', nowText, type(status) == 'table' and status.err or tostring(status) }
end
if status == 'ABSENT' or status == 'PLAIN' then redis.pcall('ZREM', KEYS[4], KEYS[2]) end
return { status, nowText, amounts }
