local KEYTALLY, TOKEN = 'http://127.0.0.1:8081', 'kt_YOUR_TOKEN'
local IDENTITY = { 'key-id', 'workspace-id', 'customer-id', 'meter-id', 'status', 'remaining-credits', 'hold-id' }
local PASSED_ON = { 'content-type', 'www-authenticate', 'retry-after', 'ratelimit', 'ratelimit-policy' }

-- At most two different values: one more would change no answer, and too many headers crash HAProxy's HTTP client.
local function twoValues(values)
  local kept = {}
  for _, value in pairs(values or {}) do
    if #kept < 2 and value ~= kept[1] then table.insert(kept, value) end
  end
  return #kept > 0 and kept or nil
end

core.register_action('keytally', { 'http-req' }, function(txn, path)
  local ask = {
    ['x-keytally-token'] = { TOKEN },
    ['x-keytally-idempotency-key'] = { txn.f:uuid() },
    ['x-original-method'] = { txn.f:method() },
    ['x-original-uri'] = { txn.f:pathq() },
    ['x-real-ip'] = { txn.f:src() },
  }
  local sent = txn.http:req_get_headers()
  for _, name in ipairs({ 'authorization', 'x-api-key' }) do
    ask[name] = twoValues(sent[name])
  end

  local answer = core.httpclient():get({ url = KEYTALLY .. path, headers = ask, timeout = 1000 })
  local said = answer.headers or {}
  if answer.status == 200 and said['x-keytally-key-id'] then
    for _, name in ipairs(IDENTITY) do
      txn.http:req_set_header('x-keytally-' .. name, said['x-keytally-' .. name][0])
    end
    local hold = said['x-keytally-hold-id'][0]
    if hold ~= '' then txn:set_var('txn.keytally_hold', hold) end
    txn:set_var('txn.keytally', 'passed')
    return
  end

  local refused = answer.status and answer.status >= 400 and answer.status < 500
  local reply = txn:reply({ status = refused and answer.status or 503, body = refused and answer.body or '' })
  for _, name in ipairs(PASSED_ON) do
    if refused and said[name] then reply:add_header(name, said[name][0]) end
  end
  txn:done(reply)
end, 1)

-- Captures what the API says that the request did cost; releases the hold if it says nothing.
core.register_action('keytally_settle', { 'http-res' }, function(txn)
  local cost = txn.http:res_get_headers()['x-keytally-cost']
  local held = '{"holdId": "' .. txn:get_var('txn.keytally_hold') .. '"'
  core.httpclient():post({
    url = KEYTALLY .. '/api/v1/usage/' .. (cost and 'capture' or 'release'),
    headers = { ['authorization'] = { 'Bearer ' .. TOKEN }, ['content-type'] = { 'application/json' } },
    body = cost and held .. ', "usage": "' .. cost[0] .. '"}' or held .. '}',
    timeout = 1000,
  })
end)
