#!lua flags=allow-oom
--@include partition
-- Makes a partition, or what is missing of it, that accepts these slots and knows the limits of the queue's spec. Repeating it changes nothing else.
-- ARGV: maxDeliveredUnacked, maxRedeliveries, version of the slots, slots (`slot partition` where entries of one wait for that)…
look()
summary()
for i = 4, #ARGV do
  local slot, from = ARGV[i]:match('^(%d+)(.*)$')
  if redis.call('HSETNX', SLOTS, slot, ARGV[3] .. from) == 0 then
    local to, version = place(redis.call('HGET', SLOTS, slot))
    -- It went elsewhere, and nobody knows of it any more: its record was deleted before it got there.
    if not to and version < tonumber(ARGV[3]) then redis.call('HSET', SLOTS, slot, ARGV[3] .. from) end
  end
end
redis.call('HSET', OWNER, 'maxDeliveredUnacked', ARGV[1], 'maxRedeliveries', ARGV[2])
return redis.status_reply('OK')
