-- The server's history, which changes at a restart and at a failover. The last writes before the change may be lost.
-- Read once per script, as parsing INFO takes longer than most commands. Included; never run by itself.
local known_history
local function history()
  known_history = known_history or redis.call('INFO', 'replication'):match('master_replid:(%w+)')
  return known_history
end
