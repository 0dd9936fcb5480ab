#!lua flags=allow-oom
-- Gives a queue up, if it is this group's. KEYS: the queue's hash. ARGV: the group's UID.
if redis.call('HGET', KEYS[1], 'uid') == ARGV[1] then return redis.call('HDEL', KEYS[1], 'group', 'uid') end
return 0
