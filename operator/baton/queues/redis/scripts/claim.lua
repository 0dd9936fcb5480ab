#!lua
-- Records the group and the number of partitions of a queue. What is already recorded stands.
-- KEYS: the queue's hash. ARGV: group, partitions, version of the table, table, a new birth mark.
-- Answer: the group, the partitions, version and text of the table, 1 if all partitions have been made, and the limits that all
-- of them know.
redis.call('HSETNX', KEYS[1], 'group', ARGV[1])
if redis.call('HGET', KEYS[1], 'group') == ARGV[1] and redis.call('HSETNX', KEYS[1], 'partitions', ARGV[2]) == 1 then
  redis.call('HSET', KEYS[1], 'version', ARGV[3], 'table', ARGV[4], 'born', ARGV[5])
end
return redis.call('HMGET', KEYS[1], 'group', 'partitions', 'version', 'table', 'ready', 'maxDeliveredUnacked', 'maxRedeliveries')
