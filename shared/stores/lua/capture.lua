-- uses: time fence records remember limits limits-of-holds account account-state holds settings classes moments settle-hold
-- Captures, releases or extends holds, each on its own, and appends the lines that tell it, both or neither. A hold that was settled
-- is remembered for 48 h: asked for the same again, it answers the same and changes nothing. A hold that this Redis lost, which its
-- epoch shows, is settled at once by what the caller knows of it.
--
-- Speed. All are decided before the first write, which appends the lines of all of them as one entry. Where nothing is due for a record, an open hold is settled without its account's state. The caller
-- keeps a record's settings: while no record of the shard is written, they are neither read nor answered again.
--
-- capture-protocol.ts says what each field means; a test compares its tables with this file.
--
-- KEYS  one per call: the billing record. All other names share its hash tag and are made from it here.
-- ARGV  1 run id
--       2 not after: Redis time in ms
--       3 "1" when the outbox is full
--       4.. one per call, packed: what, amount, id, epoch, known, billingId, trace, micros, endsAtMs, onExpiry,
--           openedMs, keyId, usageName
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
local runId, late, outboxFull
-- By billing key what is read of a record: { account, marks, isBusy, isChanged, why }, why of one that failed while something was done to
-- it; and all of these.
local records, opened

local function openRecord(billingKey, shard)
  local usedText, used, sequence = readUsed(billingKey, 'n' .. shard[2])
  if not usedText then return nil end
  local record = { marks = shard[2] .. ' ' .. (shard[3] or '0') .. ' ' }
  record.account = openAccount(usedText, billingKey, shard[2], sequence)
  nameHolds(record.account)
  return record
end

-- Gives the answer and the record's settings.
local function settle(record, packedCapture)
  local account, asked = record.account, readAsked(packedCapture)
  -- Raises an error where it is damaged: then nothing is done to the account.
  readHold(account, asked.id)
  record.isBusy = true
  local isKnown = account.settings ~= nil and asked.known == record.marks .. account.settings
  if not account.isWhole and (not isKnown or needsState(account, asked)) then
    account.isWhole = bringUpToDate(account)
    tellMoment(account)
    record.isChanged = true
    if not account.isWhole then
      record.isBusy = false
      return 'AGAIN\31'
    end
  end
  account.billingId = account.billingId or asked.billingId
  local status, said, endsAtMs = settleHold(account, asked)
  if account.hasState then settleLimits(account) end
  record.isChanged = record.isChanged or status == 'OK'
  record.isBusy = false
  if status ~= 'OK' then return status .. '\31' .. (said or '') end
  local answer = 'OK\31' .. said .. '\31' .. amountsOf(account) .. '\31' .. format('%d', endsAtMs) .. '\31'
  if isKnown then return answer end
  return answer .. record.marks .. account.settings, account.billingRecord
end

local function decide(billingKey, packedCapture)
  local shard = openShardOf(sub(billingKey, 1, 5), runId, 'epoch', 'writes')
  if not shard then return 'CLOSED' end
  if late then return 'LATE' end
  if outboxFull then return 'OUTBOX_FULL' end
  local record = records[billingKey]
  if not record then
    record = openRecord(billingKey, shard)
    if not record then return 'ABSENT' end
    records[billingKey], opened[#opened + 1] = record, record
  end
  return settle(record, packedCapture)
end

-- Writes what became of all records, their lines first; as in verify.lua, what can't be written keeps nothing else from it.
local function write()
  local lines, changed = {}, {}
  for _, record in ipairs(opened) do
    if record.isChanged and not record.why then
      changed[#changed + 1] = record.account
      for _, line in ipairs(record.account.lines) do lines[#lines + 1] = line end
    end
  end
  if #lines > 0 then appendLines(sub(changed[1].billingKey, 1, 5) .. 'outbox', lines) end
  for _, account in ipairs(changed) do pcall(writeAccount, account) end
end

return script(function()
  runId, late, outboxFull = ARGV[1], nowMs > tonumber(ARGV[2]), ARGV[3] == '1'
  records, opened = {}, {}
  local answers = { 'OK', nowText }
  for i = 1, #KEYS do
    -- pcall: what is wrong with one record is told for it alone.
    local decided, answer, settings = pcall(decide, KEYS[i], ARGV[i + 3])
    if not decided then
      answer = 'UNSETTLED\31' .. whyOf(answer)
      local record = records[KEYS[i]]
      -- What else was decided for it is not written.
      if record and record.isBusy then record.why = answer end
    end
    answers[2 * i + 1], answers[2 * i + 2] = answer, settings or ''
  end
  write()
  for i = 1, #KEYS do
    local record = records[KEYS[i]]
    if record and record.why then answers[2 * i + 1], answers[2 * i + 2] = record.why, '' end
  end
  return answers
end)
