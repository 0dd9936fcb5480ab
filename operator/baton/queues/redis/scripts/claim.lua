#!lua flags=allow-oom
-- Records whose a queue is, and its number of partitions. What is already recorded stands, but for a group that may be succeeded.
-- KEYS: the queue's hash. ARGV: group, its UID, partitions, version of the table, table, a new birth mark, UIDs of groups from
-- which it may take the queue…
-- Answer: the group and its UID, the partitions, version and text of the table, 1 if all partitions have been made, the limits
-- that all of them know; and while the number of partitions changes: the table before, the next one if producers were not told of
-- it yet, and the partitions after it.
local QUEUE = KEYS[1]
local recorded = redis.call('HGET', QUEUE, 'uid')
local free = not recorded
for i = 7, #ARGV do free = free or recorded == ARGV[i] end
if free then redis.call('HSET', QUEUE, 'group', ARGV[1], 'uid', ARGV[2]) end
if (free or recorded == ARGV[2]) and redis.call('HSETNX', QUEUE, 'partitions', ARGV[3]) == 1 then
  redis.call('HSET', QUEUE, 'version', ARGV[4], 'table', ARGV[5], 'born', ARGV[6])
end
return redis.call(
  'HMGET', QUEUE, 'group', 'uid', 'partitions', 'version', 'table', 'ready', 'maxDeliveredUnacked', 'maxRedeliveries',
  'former', 'next', 'target'
)
