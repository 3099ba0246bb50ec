-- uses: names time fence records hold-line alerts-mark
-- Captures, releases or extends holds, each on its own, and appends the lines that tell it, both or neither. A hold that was settled
-- is remembered for 48 h: asked for the same again, it answers the same and changes nothing. A hold that this Redis lost, which its
-- epoch shows, is settled at once by what the caller knows of it; settling compares it with the books then.
--
-- Speed. Where nothing else is to be done for a record, open holds are captured and released together: all are decided before the
-- first write, which appends the lines of all of them as one entry. Should Redis refuse that (its memory is full), nothing was taken.
-- All others come after them, one at a time, and only then are the functions for them made.
--
-- capture-protocol.ts says what each field means; a test compares its tables with this file.
--
-- KEYS  one per call: the billing record. All other names share its hash tag and are made from it here.
-- ARGV  1 run id
--       2 not after: Redis time in ms
--       3 "1" when the outbox is full
--       4.. one per call, packed: what, amount, trace, id, micros, endsAtMs, onExpiry, turn, openedMs, epoch, keyId, usageName;
--           what is "capture", "release" or "extend", amount the usage in micro-credits, or for how many ms it is extended from
--           now on, trace what the line has behind its id, "" of a call that is not traced
-- Gives {"OK", now in ms, then two per call: its fields between \31, and the settings of the record, "" where nothing was done}
--       These fields: status, detail, amounts, endsAtMs. The status is
--       "OK"           its detail is "1" of a late capture, amounts are used, held, total and expired ones
--       "CONFLICT"     it was captured (with another usage), charged, released or expired, or is lost (to be extended), as detail; or
--                      "given back": a charge that is corrected downwards was given back already
--       "TOO_LARGE"    the record would have used more than it can; the hold stays
--       "UNKNOWN"      there is no such hold, or it ended more than 24 h ago
--       "AGAIN"        more of the account fell due than one call does
--       "ABSENT"       there is no such record here
--       "UNSETTLED"    its balance is not known here; the detail says why
--       "OUTBOX_FULL" | "CLOSED" | "LATE"
local MAX_MICROS = 9e15
local SETTLED_SECONDS = '172800'
local sub, byte, match, concat, unpackTexts = string.sub, string.byte, string.match, table.concat, struct.unpack
local runId, late, outboxFull = ARGV[1], nowMs > tonumber(ARGV[2]), ARGV[3] == '1'
-- {owner, epoch} by hash tag; marks of default alerts by workspace; records by billing key, false of one that comes alone.
local shards, marks, records = {}, {}, {}
-- What is written together: records in the order in which they changed, the lines, and what is kept of settled holds by their ids.
local changed, lines, settled = {}, {}, {}

-- The functions for those that come alone, made when the first one comes: a script pays for each function that it makes.
local function makeAlone()
  -- uses: used hot-account limits limits-of-holds holds account turns open-account capture-alone
  return settleAlone
end
local settleAlone

-- A record whose account has nothing due and has taken in its settings; false of any other.
local function readCurrent(tag, billingKey, epoch)
  local fields = call('HMGET', billingKey, 's', 't', 'u', 'n' .. epoch)
  local billingRecord, stateText, hotText, sequence = fields[1], fields[2], fields[3], tonumber(fields[4] or 0)
  if not (billingRecord and stateText and hotText and sequence) or byte(hotText) ~= 64 then return false end
  local at, used, held, restAt = unpackTexts('sss', hotText)
  local total, expired, limit, untilMs, settingsName, alertAt = unpackTexts('ssssss', hotText, restAt)
  if nowMs >= tonumber(untilMs) then return false end
  local turn, versionThen, atMs, usedAtTurn, overdrawn, boundary = unpackTexts('ssssss', stateText)
  local version, billingId, limitMicros = unpackFields('sss', billingRecord)
  local workspace = match(billingKey, '^[^:]+:b:[^:]+')
  local mark = marks[workspace] or alertsMarkFor(billingKey)
  marks[workspace] = mark
  -- As readSettings names them.
  local isPlain = mark == '' and byte(limitMicros) ~= 64
  if version ~= versionThen or settingsName ~= (isPlain and match(limitMicros, '^%d+') or '@' .. version .. mark) then return false end
  return {
    billingKey = billingKey, billingId = billingId, billingRecord = billingRecord, tag = tag, place = sub(billingKey, 8),
    used = tonumber(used), held = tonumber(held), sequence = sequence, epoch = epoch, alertAt = tonumber(alertAt),
    boundary = tonumber(boundary), totals = ' ' .. total .. ' ' .. expired, restOfHot = sub(hotText, restAt), closed = {},
  }
end

-- Settles an open hold where nothing else is to be done for that, and gives the answer; nil of one that comes alone.
local function settleOpen(record, packedCapture)
  local what, amount, trace, id = unpackFields('ssss', packedCapture)
  local isCapture = what == 'capture'
  if not isCapture and what ~= 'release' or settled[id] then return nil end
  local text = call('HGET', record.tag .. 'o:' .. record.place, id)
  if not text then return nil end
  local micros, endsAtMs, onExpiry, turn, openedMs, epoch, keyId, usageName, limitsAt = unpackTexts('ssssssss', text)
  local usage = isCapture and amount or '0'
  -- Limits that counted another amount of it, and what ended grants keep for it.
  if limitsAt <= #text and (usage ~= micros or byte(text, limitsAt) == 48) then return nil end
  if epoch ~= record.epoch or tonumber(turn) < record.boundary then return nil end
  local used = record.used + tonumber(usage)
  if used > MAX_MICROS or used >= record.alertAt then return nil end

  local closed = record.closed
  if #closed == 0 then changed[#changed + 1] = record end
  closed[#closed + 1] = id
  record.used, record.held, record.sequence = used, record.held - tonumber(micros), record.sequence + 1
  local usedText, heldText = format('%d', used), format('%d', record.held)
  record.usedText, record.heldText, record.sequenceText = usedText, heldText, format('%d', record.sequence)
  lines[#lines + 1] = lineOfHold(record, {
    kind = what, id = id, keyId = keyId, usageName = usageName, cost = usage, micros = micros, trace = trace,
  })
  settled[id] = (isCapture and 'captured\0' or 'released\0') .. usage .. '\0' .. endsAtMs .. '\0\0' ..
    (isCapture and sub(text, limitsAt) or '')
  return 'OK\31\31' .. usedText .. ' ' .. heldText .. record.totals .. '\31' .. endsAtMs
end

-- Gives the answer and the record's settings; nil of a call that comes alone.
local function decide(shard, tag, billingKey, packedCapture)
  if not shard then return 'CLOSED', '' end
  if late then return 'LATE', '' end
  if outboxFull then return 'OUTBOX_FULL', '' end
  local record = records[billingKey]
  if record == nil then
    record = readCurrent(tag, billingKey, shard[2])
    records[billingKey] = record
  end
  if not record then return nil end
  return settleOpen(record, packedCapture), record.billingRecord
end

-- Writes what is written together, the lines first; gives whether Redis took those.
local function writeTogether()
  local outbox = changed[1].tag .. 'outbox'
  if redis.pcall('XADD', outbox, '*', 'e', concat(lines, '\n')).err then return false end
  for _, record in ipairs(changed) do
    local tag, place, closed = record.tag, record.place, record.closed
    local hotText = '@\0' .. record.usedText .. '\0' .. record.heldText .. '\0' .. record.restOfHot
    call('HSET', record.billingKey, 'u', hotText, 'n' .. record.epoch, record.sequenceText)
    call('HDEL', tag .. 'o:' .. place, unpack(closed))
    -- Only sweepers go by it: whatever is wrong with it, the holds are closed.
    redis.pcall('ZREM', tag .. 'e:' .. place, unpack(closed))
    for _, id in ipairs(closed) do call('SETEX', tag .. 'z:' .. id, SETTLED_SECONDS, settled[id]) end
  end
  -- As in verify.lua: the count only steers a limit.
  if #lines > 1 then redis.pcall('INCRBY', changed[1].tag .. 'more', format('%d', #lines - 1)) end
  return true
end

local answers, alone = { 'OK', nowText }, {}
for i = 1, #KEYS do
  local tag = sub(KEYS[i], 1, 5)
  local shard = shards[tag]
  if shard == nil then
    shard = openShard(tag .. 'meta', runId, 'epoch')
    shards[tag] = shard
  end
  -- pcall: what is wrong with one record is told by settling it alone.
  local decided, answer, settings = pcall(decide, shard, tag, KEYS[i], ARGV[i + 3])
  if not decided or not answer then alone[#alone + 1], answer = i, false end
  answers[2 * i + 1], answers[2 * i + 2] = answer, settings
end
if #lines > 0 and not writeTogether() then
  alone = {}
  for i = 1, #KEYS do
    if shards[sub(KEYS[i], 1, 5)] and not late then alone[#alone + 1] = i end
  end
end
for _, i in ipairs(alone) do
  settleAlone = settleAlone or makeAlone()
  local read, answer, settings = pcall(settleAlone, KEYS[i], ARGV[i + 3], shards[sub(KEYS[i], 1, 5)][2])
  if not read then
    local why = type(answer) == 'table' and answer.err or tostring(answer)
    -- At its memory limit Redis refuses the first write, so nothing changed.
    answer, settings = string.find(why, '^OOM') and 'OUTBOX_FULL' or 'UNSETTLED\31' .. why, ''
  end
  answers[2 * i + 1], answers[2 * i + 2] = answer, settings or ''
end
return answers
