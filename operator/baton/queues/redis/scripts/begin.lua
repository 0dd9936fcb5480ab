#!lua flags=allow-oom
-- The number of a query that begins. KEYS: the queue's hash. ARGV: the highest number that any of its partitions knows.
-- It is above all before: also above those that a failover lost, for it is the time in microseconds at least, and in a new history
-- more, for clocks of two servers may differ.
local known = redis.call('HMGET', KEYS[1], 'query', 'queryHistory', 'ready')
if not known[3] then return {'UNKNOWN'} end
local clock = redis.call('TIME')
local time, history = clock[1] * 1e6 + clock[2], redis.call('INFO', 'replication'):match('master_replid:(%w+)')
local APART = 6e7
local jump = (not known[1] or known[2] == history) and 0 or APART
local number = math.max(tonumber(known[1] or 0) + 1, tonumber(ARGV[1]) + 1, time) + jump
redis.call('HSET', KEYS[1], 'query', string.format('%d', number), 'queryHistory', history)
return {'OK', number}
