#!lua flags=allow-oom
-- All partitions have been made and know these limits. KEYS: the queue's hash. ARGV: maxDeliveredUnacked, maxRedeliveries.
return redis.call('HSET', KEYS[1], 'ready', '1', 'maxDeliveredUnacked', ARGV[1], 'maxRedeliveries', ARGV[2])
