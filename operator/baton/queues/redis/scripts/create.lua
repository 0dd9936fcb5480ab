#!lua
--@include partition
-- Makes a partition that accepts these slots. Repeating it changes nothing.
-- ARGV: version of the slots, slots…
local made = redis.pcall('XGROUP', 'CREATE', STREAM, GROUP, '0', 'MKSTREAM')
if made.err and not made.err:find('BUSYGROUP') then return made end
for i = 2, #ARGV do redis.call('HSETNX', SLOTS, ARGV[i], ARGV[1]) end
return redis.status_reply('OK')
