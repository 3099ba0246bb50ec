-- uses: names time fence records alerts-mark
-- Captures, releases or extends holds, each on its own, and appends the lines that tell it, both or neither. A hold that was settled
-- is remembered for 48 h: asked for the same again, it answers the same and changes nothing. A hold that this Redis lost, which its
-- epoch shows, is settled at once by what the caller knows of it.
--
-- Speed. Where nothing else is to be done for a record, open holds are captured and released together: all are decided before the
-- first write, which appends the lines of all of them as one entry. Should Redis refuse that (its memory is full), nothing was taken.
-- All others come after them, one at a time, and only then are the functions for them made. The caller brings most of a line, as in
-- verify.lua, and keeps a record's settings: while no record of the shard is written, they are neither read nor answered again.
--
-- capture-protocol.ts says what each field means; a test compares its tables with this file.
--
-- KEYS  one per call: the billing record. All other names share its hash tag and are made from it here.
-- ARGV  1 run id
--       2 not after: Redis time in ms
--       3 "1" when the outbox is full
--       4.. one per call, packed: what, amount, id, epoch, known, eventStart, trace, micros, endsAtMs, onExpiry, turn, openedMs,
--           keyId, usageName; what is "capture", "release" or "extend", amount the usage in micro-credits, or for how many ms
--           it is extended from now on, known what was answered with the settings that the caller keeps, "" without any, eventStart
--           the JSON of the line of an open hold that is captured or released, trace what a line has behind its id, "" of a call
--           that is not traced
-- Gives {"OK", now in ms, then two per call: its fields between \31, and the settings of the record, "" where nothing was done, or
--       the caller has them}
--       These fields: status, detail, amounts, endsAtMs, known. With known the caller keeps the settings; "": it must not. The
--       status is
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
local timeOfEvent = ',"t":' .. nowText
-- {owner, epoch, writes} by hash tag; marks of default alerts by workspace; records by billing key, false of one that comes alone.
local shards, marks, records = {}, {}, {}
-- What is written together: records in the order in which they changed, the lines in parts, and what is kept of settled holds by their
-- ids.
local changed, parts, lines, settled = {}, {}, 0, {}

-- The functions for those that come alone, made when the first one comes: a script pays for each function that it makes.
local function makeAlone()
  -- uses: used hot-account hold-line limits limits-of-holds holds account turns open-account capture-alone
  return settleAlone
end
local settleAlone

-- A record whose account has nothing due; false of any other.
local function readRecord(tag, billingKey, shard)
  local sequenceField = 'n' .. shard[2]
  local counters = call('HMGET', billingKey, 'u', sequenceField)
  local hotText, sequence = counters[1], tonumber(counters[2] or 0)
  if not (hotText and sequence) or byte(hotText) ~= 64 then return false end
  local mark, usedText, heldText, restAt = unpackTexts('sss', hotText)
  local total, expired, limit, untilMs, settingsName, alertAt, number = unpackTexts('sssssss', hotText, restAt)
  if nowMs >= tonumber(untilMs) then return false end
  -- With all that will be noted of it, so that the table need not grow.
  return {
    billingKey = billingKey, used = tonumber(usedText), held = tonumber(heldText), sequence = sequence,
    usedText = usedText, heldText = heldText, sequenceText = '', sequenceField = sequenceField, restOfHot = sub(hotText, restAt),
    totals = ' ' .. total .. ' ' .. expired, settingsName = settingsName, alertAt = tonumber(alertAt), number = number,
    known = shard[2] .. ' ' .. (shard[3] or '0') .. ' ' .. settingsName, closed = {},
  }
end

-- Reads a record's settings and state, once; gives whether its account has taken in these settings.
local function readCurrent(record)
  if record.isCurrent ~= nil then return record.isCurrent end
  record.isCurrent = false
  local billingKey = record.billingKey
  local fields = call('HMGET', billingKey, 's', 't')
  local billingRecord, stateText = fields[1], fields[2]
  if not (billingRecord and stateText) then return false end
  local turn, versionThen, atMs, usedAtTurn, overdrawn, boundary = unpackTexts('ssssss', stateText)
  local version, billingId, limitMicros = unpackFields('sss', billingRecord)
  local workspace = match(billingKey, '^[^:]+:b:[^:]+')
  local mark = marks[workspace] or alertsMarkFor(billingKey)
  marks[workspace] = mark
  -- As readSettings names them.
  local isPlain = mark == '' and byte(limitMicros) ~= 64
  local settingsName = isPlain and match(limitMicros, '^%d+') or '@' .. version .. mark
  record.isCurrent = version == versionThen and record.settingsName == settingsName
  record.billingRecord, record.boundary = billingRecord, tonumber(boundary)
  return record.isCurrent
end

-- Settles an open hold where nothing else is to be done for that, and gives the answer and the record's settings; nil of one that
-- comes alone.
local function settleOpen(record, tag, epochNow, packedCapture)
  local what, amount, id, epoch, known, eventStart = unpackFields('ssssss', packedCapture)
  local isCapture = what == 'capture'
  if not isCapture and what ~= 'release' or settled[id] or epoch ~= epochNow then return nil end
  local isKnown = known == record.known
  if not isKnown and not readCurrent(record) then return nil end
  local text = call('HGET', tag .. 'o:' .. sub(record.billingKey, 8), id)
  if not text then return nil end
  local micros, endsAtMs, onExpiry, turn, openedAt = unpackTexts('ssss', text)
  local usage, limits = isCapture and amount or '0', ''
  if byte(text, -1) ~= 0 then
    -- Limits that counted another amount of it are corrected.
    if usage ~= micros then return nil end
    local openedMs, epochThen, keyId, usageName, limitsAt = unpackTexts('ssss', text, openedAt)
    limits = sub(text, limitsAt)
  end
  -- Grants that ended since keep something for it.
  if turn ~= record.number and (not readCurrent(record) or tonumber(turn) < record.boundary) then return nil end
  local used = record.used + tonumber(usage)
  if used > MAX_MICROS or used >= record.alertAt then return nil end

  local held, sequence = record.held - tonumber(micros), record.sequence + 1
  local usedText, heldText, sequenceText = format('%d', used), format('%d', held), format('%d', sequence)
  -- From here on nothing can fail: what is noted of a hold is written, or nothing is.
  local closed = record.closed
  if #closed == 0 then changed[#changed + 1] = record end
  closed[#closed + 1] = id
  record.used, record.held, record.sequence = used, held, sequence
  record.usedText, record.heldText, record.sequenceText = usedText, heldText, sequenceText
  local at = 4 * lines
  parts[at + 1], parts[at + 2] = eventStart, timeOfEvent
  parts[at + 3] = ',"u":' .. usedText .. ',"s":' .. sequenceText .. ',"e":' .. epoch .. (heldText ~= '0' and ',"h":' .. heldText or '') .. '}'
  parts[at + 4] = '\n'
  lines = lines + 1
  settled[id] = (isCapture and 'captured\0' or 'released\0') .. usage .. '\0' .. endsAtMs .. '\0\0' .. (isCapture and limits or '')
  local answer = 'OK\31\31' .. usedText .. ' ' .. heldText .. record.totals .. '\31' .. endsAtMs .. '\31'
  if isKnown then return answer, '' end
  return answer .. record.known, record.billingRecord
end

-- Gives the answer and the record's settings; nil of a call that comes alone.
local function decide(shard, tag, billingKey, packedCapture)
  if not shard then return 'CLOSED', '' end
  if late then return 'LATE', '' end
  if outboxFull then return 'OUTBOX_FULL', '' end
  local record = records[billingKey]
  if record == nil then
    record = readRecord(tag, billingKey, shard)
    records[billingKey] = record
  end
  if not record then return nil end
  return settleOpen(record, tag, shard[2], packedCapture)
end

-- Writes what is written together, the lines first; gives whether Redis took those.
local function writeTogether()
  local tagOfFirst = sub(changed[1].billingKey, 1, 5)
  -- Without the last line end.
  if redis.pcall('XADD', tagOfFirst .. 'outbox', '*', 'e', concat(parts, '', 1, 4 * lines - 1)).err then return false end
  for _, record in ipairs(changed) do
    local tag, place, closed = sub(record.billingKey, 1, 5), sub(record.billingKey, 8), record.closed
    local hotText = '@\0' .. record.usedText .. '\0' .. record.heldText .. '\0' .. record.restOfHot
    call('HSET', record.billingKey, 'u', hotText, record.sequenceField, record.sequenceText)
    call('HDEL', tag .. 'o:' .. place, unpack(closed))
    -- Only sweepers go by it: whatever is wrong with it, the holds are closed.
    redis.pcall('ZREM', tag .. 'e:' .. place, unpack(closed))
    for _, id in ipairs(closed) do call('SETEX', tag .. 'z:' .. id, SETTLED_SECONDS, settled[id]) end
  end
  -- As in verify.lua: the count only steers a limit.
  if lines > 1 then redis.pcall('INCRBY', tagOfFirst .. 'more', format('%d', lines - 1)) end
  return true
end

local answers, alone = { 'OK', nowText }, {}
for i = 1, #KEYS do
  local tag = sub(KEYS[i], 1, 5)
  local shard = shards[tag]
  if shard == nil then
    shard = openShard(tag .. 'meta', runId, 'epoch', 'writes')
    shards[tag] = shard
  end
  -- pcall: what is wrong with one record is told by settling it alone.
  local decided, answer, settings = pcall(decide, shard, tag, KEYS[i], ARGV[i + 3])
  if not decided or not answer then alone[#alone + 1], answer = i, false end
  answers[2 * i + 1], answers[2 * i + 2] = answer, settings
end
if lines > 0 and not writeTogether() then
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
