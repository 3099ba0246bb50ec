-- uses: names time build hot-account
-- Sets the whole balances of some records of one shard from the books, with whose lines they then agree. An account comes back from its
-- last turn there; the next turn lays over its classes what was used since. Its holds are there already (restore-holds.lua).
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
--       5 of an account, total, expired and state of its last turn in the books, as the turn's line has them ("": none)
--       6 JSON of the lines that put the books right, without time, number and epoch, one after the other, with a NUL behind each
-- Gives {"OK", now in ms, and for each record "OK", or "LOST" where another one has set it aside since}
--       {"CLOSED" | "LATE", now}
local FIRST_RECORD, FIRST_FIELD, FIELDS = 4, 5, 6
local epoch, mark = ARGV[3], ARGV[4]

local function balanceText(used, held, lastTurn)
  if lastTurn == '' then return used, nil end
  local total, expired, stateAt = unpackTexts('ss', lastTurn)
  local number = unpackTexts('s', lastTurn, stateAt)
  return packHot({
    used = tonumber(used), held = tonumber(held), total = tonumber(total), expired = tonumber(expired), limit = 0, untilMs = 0,
    settings = '', alertAt = NO_ALERT, number = tonumber(number),
  }), string.sub(lastTurn, stateAt)
end

local function rebuild(name, used, held, counted, adjustment, lastTurn, lines)
  if mark ~= '' and not string.find(call('HGET', name, 'u') or '', 'aside ' .. mark .. ' ', 1, true) then return 'LOST' end
  local fields = call('HKEYS', name)
  local sequence = tonumber(call('HGET', name, 'n' .. epoch) or '0')
  local numbered = {}
  for line in string.gmatch(lines, '[^%z]+') do
    sequence = sequence + 1
    numbered[#numbered + 1] = format('%s,"t":%s,"s":%d,"e":%s}', line, nowText, sequence, epoch)
  end
  if #numbered > 0 then
    call('XADD', KEYS[2], '*', 'e', table.concat(numbered, '\n'))
    if #numbered > 1 then redis.pcall('INCRBY', string.sub(name, 1, 5) .. 'more', format('%d', #numbered - 1)) end
  end
  for _, field in ipairs(fields) do
    if string.find(field, '^n%d+$') and field ~= 'n' .. epoch then call('HDEL', name, field) end
  end
  local text, state = balanceText(used, held, lastTurn)
  call('HSET', name, 'u', text, 'c', counted, 'a', adjustment, 'n' .. epoch, format('%d', sequence))
  if state then call('HSET', name, 't', state) end
  -- No turn could take in what its settings became meanwhile.
  if state or mark ~= '' then redis.pcall('ZADD', KEYS[3], '0', name) end
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
