#!lua flags=allow-oom
-- Records again what somebody deleted, from what partitions know. KEYS: the queue's hash. ARGV: version and text of the table,
-- partitions, how many there ever were; and where slots are on their way: the table before, and the partitions after it.
if redis.call('HGET', KEYS[1], 'ready') then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'table', ARGV[2], 'partitions', ARGV[3], 'most', ARGV[4])
if ARGV[5] then redis.call('HSET', KEYS[1], 'former', ARGV[5], 'target', ARGV[6]) end
return 1
