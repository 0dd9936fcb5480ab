#!lua flags=allow-oom
--@include partition
-- Makes a partition that accepts these slots and knows the limits of the queue's spec. Repeating it changes nothing else.
-- ARGV: maxDeliveredUnacked, maxRedeliveries, version of the slots, slots…
local made = redis.pcall('XGROUP', 'CREATE', STREAM, GROUP, '0', 'MKSTREAM')
if made.err and not made.err:find('BUSYGROUP') then return made end
for i = 4, #ARGV do redis.call('HSETNX', SLOTS, ARGV[i], ARGV[3]) end
redis.call('HSET', OWNER, 'maxDeliveredUnacked', ARGV[1], 'maxRedeliveries', ARGV[2])
return redis.status_reply('OK')
