-- uses: time build records remember limits limits-of-holds account account-state holds settings classes moments
-- Sets the whole balances of some records of one shard from the books, with whose lines they then agree. An account is made of the sums
-- of its classes and its settings. Its holds are there already (restore-holds.lua).
--
-- KEYS  1 meta, 2 outbox, 3 sorted set of the accounts that have a moment to come, 4 and more: billing records
-- ARGV  1 fence: run id of the open shard, or "build:<token>" of its builder
--       2 not after: Redis time in ms
--       3 epoch of the shard, or the next one while it is built
--       4 mark that they were set aside with; "" in a shard that is built
--       and for each record:
--       1 used micro-credits
--       2 held micro-credits
--       3 how many numbered lines the books have of earlier epochs
--       4 number of the last adjustment
--       5 of an account what restoreAccount is told, as JSON ("": none)
--       6 JSON of the lines that put the books right, without time, number and epoch, one after the other, with a NUL behind each
-- Gives {"OK", now in ms, and for each record "OK", or "LOST" where another one has set it aside since}
--       {"CLOSED" | "LATE", now}

-- Makes an account again of what the books know of it, and of its settings. Its open holds are in Redis. held: what these reserve. told:
-- { lastMs, costMicros, sums }: the time of the last line in the books; what corrections of holds, which stand before its own line, use or
-- give back; and of each class that lines changed { number, used, held, lost, expired, from, voidedAtMs }. There held is what open holds own
-- of it, lost what its lines hold beyond that; from is the class of a voided grant (number, where the whole class was), 0 of any other and of
-- one that had yet to begin by Postgres.
local function restoreAccount(account, held, told)
  account.billingRecord = call('HGET', account.billingKey, 's')
  local settings = readSettings(account.billingRecord, account.billingKey)
  account.taken, account.billingId, account.settings, account.isNew = settings, settings.billingId, settings.name, nil
  account.held = held
  nameHolds(account)
  makeClasses(account, told.lastMs, told.sums)
  if told.costMicros < 0 then giveBack(account, -told.costMicros) else draw(account, told.costMicros) end
  cover(account)
  -- As the lines of these corrections say it, which know of no class.
  change(account, PLAIN_CLASS, -told.costMicros, 0, 0)
  takeAlerts(account, settings.alerts)
  tellMoment(account)
end

return script(function()
  local FIRST_RECORD, FIRST_FIELD, FIELDS = 4, 5, 6
  local epoch, mark = ARGV[3], ARGV[4]

  local function rebuild(name, used, held, counted, adjustment, told, lines)
    if not mayRebuild(name, mark) then return 'LOST' end
    local fields = call('HKEYS', name)
    local sequence = tonumber(call('HGET', name, 'n' .. epoch) or '0')
    local numbered = {}
    for line in string.gmatch(lines, '[^%z]+') do
      sequence = sequence + 1
      numbered[#numbered + 1] = format('%s,"t":%s,"s":%d,"e":%s}', line, nowText, sequence, epoch)
    end
    local account
    if told ~= '' then
      account = openAccount('0', name, epoch, sequence)
      account.adjustments = tonumber(adjustment)
      restoreAccount(account, tonumber(held), cjson.decode(told))
      for _, line in ipairs(account.lines) do numbered[#numbered + 1] = line end
      sequence = account.sequence
    end
    if #numbered > 0 then appendLines(KEYS[2], numbered) end
    for _, field in ipairs(fields) do
      if string.find(field, '^n%d+$') and field ~= 'n' .. epoch then call('HDEL', name, field) end
    end
    call('HSET', name, 'u', used, 'c', counted, 'a', adjustment, 'n' .. epoch, format('%d', sequence))
    if account then writeAccount(account) end
    -- Nobody could take in what its settings became meanwhile.
    if account or mark ~= '' then redis.pcall('ZADD', KEYS[3], '0', name) end
    return 'OK'
  end

  local meta, token = passFence(KEYS[1], ARGV[1], 'epoch')
  if not meta or not token and meta[3] ~= epoch then return { 'CLOSED', nowText } end
  if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end
  local answer = { 'OK', nowText }
  for i = FIRST_RECORD, #KEYS do
    local first = FIRST_FIELD + (i - FIRST_RECORD) * FIELDS
    answer[#answer + 1] = rebuild(KEYS[i], unpack(ARGV, first, first + FIELDS - 1))
  end
  return answer
end)
