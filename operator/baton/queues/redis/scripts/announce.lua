#!lua flags=allow-oom
-- Has a pod look at partitions whose owner records have changed. KEYS: its announcements. ARGV: the queue's name, the partitions.
-- What it has not read of the last 64 it need not read: its ledger says the same. After an hour nobody waits for any of them.
redis.call('XADD', KEYS[1], 'MAXLEN', '=', 64, '*', 'queue', ARGV[1], 'partitions', ARGV[2])
return redis.call('EXPIRE', KEYS[1], 3600)
