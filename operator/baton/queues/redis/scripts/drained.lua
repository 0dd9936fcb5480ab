#!lua flags=allow-oom
--@include partition
-- Whether everything is done that was added before slots were sealed. ARGV: version.
-- Answer: the history that the server is in, and 1 or 0. Once it is 1 it stays so, in one history.
local last = look()
local pending = summary()
local fields = redis.call('HMGET', PROGRESS, 'sealed', 'barrier', 'committed')
local barrier = tonumber(fields[2] or 0)
if tonumber(fields[1] or 0) < tonumber(ARGV[1]) then -- somebody deleted the record of it
  barrier = last
  redis.call('HSET', PROGRESS, 'sealed', ARGV[1], 'barrier', last)
end
local undone = redis.call('XRANGE', STREAM, '(' .. id(tonumber(fields[3] or 0)), id(barrier), 'COUNT', 1)
local held = pending[1] > 0 and number(pending[2]) <= barrier
return {history(), (#undone > 0 or held) and 0 or 1}
