#!lua flags=allow-oom
--@include partition
-- Makes somebody the owner ('' is nobody) at an epoch above the recorded one. ARGV: uid, epoch.
-- Answer: the record that then stands. Repeating the grant in force gives the same answer and changes nothing: nothing
-- un-pauses at the same epoch. But it is written again: a WAIT behind this waits for what this connection wrote, and for no other.
local uid, epoch, paused = record()
if uid == ARGV[1] and tonumber(ARGV[2]) == epoch and epoch > 0 then redis.call('HSET', OWNER, 'epoch', ARGV[2]) end
if tonumber(ARGV[2]) <= epoch then return {uid, epoch, paused and 1 or 0} end

redis.call('HSET', OWNER, 'uid', ARGV[1], 'epoch', ARGV[2], 'paused', '0')
redis.call('HDEL', OWNER, 'process', 'given', 'within', 'kept')
-- What the former owner leaves is handed out first, and marked.
local pending = redis.pcall('XPENDING', STREAM, GROUP) -- an error: nobody has made the stream yet
if not pending.err and pending[1] > 0 then
  redis.call('HSET', OWNER, 'served', 0, 'left', number(pending[3]), 'waiting', pending[1])
else
  redis.call('HDEL', OWNER, 'served', 'left', 'waiting')
end
wake(ARGV[2], 0)
return {ARGV[1], tonumber(ARGV[2]), 0}
