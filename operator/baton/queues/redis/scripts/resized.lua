#!lua flags=allow-oom
-- Ends a change of the number of partitions: nothing waits any more. KEYS: the queue's hash.
-- ARGV: the history in which that was seen, and the version of the table.
local known = redis.call('HMGET', KEYS[1], 'version', 'former', 'next', 'target')
if redis.call('INFO', 'replication'):match('master_replid:(%w+)') ~= ARGV[1] then return 0 end
if known[1] ~= ARGV[2] or not known[2] or known[3] then return 0 end
redis.call('HSET', KEYS[1], 'partitions', known[4])
redis.call('HDEL', KEYS[1], 'former', 'target')
return 1
