#!lua flags=allow-oom
-- Tells producers of the next table: all slots that move have been opened at their new places. KEYS: the queue's hash.
-- ARGV: the history in which that was done, and the version of the next table.
local known = redis.call('HMGET', KEYS[1], 'version', 'next')
if redis.call('INFO', 'replication'):match('master_replid:(%w+)') ~= ARGV[1] then return 0 end
if not known[2] or tonumber(known[1]) + 1 ~= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'table', known[2])
redis.call('HDEL', KEYS[1], 'next')
return 1
