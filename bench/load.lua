-- For wrk: sends the bodies of a file in turn, and prints the measurements as one line of JSON.
-- BODIES, TOKEN: a file with one JSON body per line, and the access token. COUNT=1: also counts the VALID answers.
-- BATCH: sends so many of them as one request. GATEWAY, an address and a policy: verifies the same keys as nginx does.
-- DELAY_MS: each connection waits so long before each of its requests.
-- CALLED, an address of an API that a guard protects: sends the same keys as its users do.
-- KEEP_HOLDS, a file: adds the ids of the holds that answers have, and counts them. CAPTURES, such a file: captures each of them once.
local requests, at = {}, 0

local function withKey(address, key, headers)
  headers['Authorization'] = 'Bearer ' .. key
  return wrk.format('GET', address, headers)
end

local function asNginx(address, key)
  return withKey(address, key, {
    ['X-Keytally-Token'] = os.getenv('TOKEN'),
    ['X-Original-Method'] = 'GET',
    ['X-Original-URI'] = '/users',
    ['X-Real-IP'] = '127.0.0.1',
  })
end

local function batched(bodies)
  return wrk.format(nil, wrk.path .. '/batch', nil, '{"verifications":[' .. table.concat(bodies, ',') .. ']}')
end

function init()
  wrk.method = 'POST'
  wrk.path = '/api/v1/api-key/verify'
  wrk.headers['Content-Type'] = 'application/json'
  wrk.headers['Authorization'] = 'Bearer ' .. os.getenv('TOKEN')
  local gateway, called, batch = os.getenv('GATEWAY'), os.getenv('CALLED'), tonumber(os.getenv('BATCH'))
  local bodies = {}
  for body in io.lines(os.getenv('BODIES')) do
    local key = string.match(body, '"key":"([^"]+)"')
    if gateway then
      requests[#requests + 1] = asNginx(gateway, key)
    elseif called then
      requests[#requests + 1] = withKey(called, key, {})
    elseif batch == 1 then
      requests[#requests + 1] = wrk.format(nil, nil, nil, body)
    else
      bodies[#bodies + 1] = body
      if #bodies == batch then
        requests[#requests + 1] = batched(bodies)
        bodies = {}
      end
    end
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

if os.getenv('DELAY_MS') then
  function delay() return tonumber(os.getenv('DELAY_MS')) end
end

if os.getenv('CAPTURES') then
  local nextId = io.lines(os.getenv('CAPTURES'))
  function request()
    -- A second capture would cost less: better none at all.
    local id = nextId() or error('there are too few holds to capture')
    return wrk.format(nil, '/api/v1/usage/capture', nil, '{"holdId":"' .. id .. '","usage":"0.001"}')
  end
end

-- Runs in the only thread; `done` reads its counts at the end.
valid = 0
function setup(thread) counting = thread end
if os.getenv('COUNT') then
  function response(status, headers, body)
    if string.find(body, '"VALID"', 1, true) then valid = valid + 1 end
  end
end

if os.getenv('KEEP_HOLDS') then
  local holds = io.open(os.getenv('KEEP_HOLDS'), 'a')
  function response(status, headers, body)
    for id in string.gmatch(body, '"hold":{"id":"([^"]+)"') do
      holds:write(id, '\n')
      valid = valid + 1
    end
    holds:flush()
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"seconds":%.6f,"p50Us":%d,"p99Us":%d,"failed":%d,"valid":%d}\n', summary.requests, summary.duration / 1e6,
    latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.timeout + errors.status,
    counting:get('valid')))
end
