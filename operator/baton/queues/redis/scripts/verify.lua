#!lua flags=allow-oom
--@include partition
-- Is the caller still the owner? ARGV: uid, epoch, process, and 1 if the partition counts as in use from now on, though nothing of
-- it is outstanding; 0 if it does no longer.
local refused = fence(ARGV[1], ARGV[2], ARGV[3])
if refused then return refused end
if ARGV[4] == '1' then redis.call('HSET', OWNER, 'kept', 1) end
if ARGV[4] == '0' then redis.call('HDEL', OWNER, 'kept') end
return {'OK'}
