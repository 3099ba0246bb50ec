-- uses: time fence
-- Reads the record of an access token. A token that does not exist and a shard that may lack it are told apart.
--
-- KEYS  1 meta, 2 token
-- ARGV  1 run id
-- Gives {"OK", now in ms, packed record ("" when there is none)}
--       {"CLOSED", now}
return script(function()
  if not openShard(KEYS[1], ARGV[1]) then return { 'CLOSED', nowText } end
  return { 'OK', nowText, call('GET', KEYS[2]) or '' }
end)
