#!lua flags=allow-oom
-- Gives a queue up, if it is this group's. KEYS: the queue's hash. ARGV: group.
if redis.call('HGET', KEYS[1], 'group') == ARGV[1] then return redis.call('HDEL', KEYS[1], 'group') end
return 0
