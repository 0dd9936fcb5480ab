#!lua flags=allow-oom
--@include partition
-- Makes a partition, or what is missing of it, that accepts these slots and knows the limits of the queue's spec. Repeating it changes nothing else.
-- ARGV: maxDeliveredUnacked, maxRedeliveries, version of the slots, slots…
look()
summary()
for i = 4, #ARGV do
  if redis.call('HSETNX', SLOTS, ARGV[i], ARGV[3]) == 0 then
    local to, version = place(redis.call('HGET', SLOTS, ARGV[i]))
    -- It went elsewhere, and nobody knows of it any more: its record was deleted before it got there.
    if not to and version < tonumber(ARGV[3]) then redis.call('HSET', SLOTS, ARGV[i], ARGV[3]) end
  end
end
redis.call('HSET', OWNER, 'maxDeliveredUnacked', ARGV[1], 'maxRedeliveries', ARGV[2])
return redis.status_reply('OK')
