#!lua flags=allow-oom
-- Begins a change of the number of partitions, if none is under way. KEYS: the queue's hash. ARGV: the group's UID, the version of
-- the table, partitions in operation meanwhile, partitions after it, the table after it.
local known = redis.call('HMGET', KEYS[1], 'uid', 'version', 'former', 'table', 'most', 'partitions')
if known[1] ~= ARGV[1] or known[2] ~= ARGV[2] or known[3] then return 0 end
local most = math.max(tonumber(known[5] or 0), tonumber(known[6]), tonumber(ARGV[3]))
redis.call('HSET', KEYS[1], 'former', known[4], 'next', ARGV[5], 'target', ARGV[4], 'partitions', ARGV[3], 'most', most)
return 1
