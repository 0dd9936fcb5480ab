#!lua flags=allow-oom
--@include partition
-- Finishes with single entries; allowed while paused. ARGV: uid, epoch, ids…
-- Only what was handed out is acknowledged, and only what was acknowledged is deleted.
local refused = fence(ARGV[1], ARGV[2])
if refused then return refused end
local done = 0
for i = 3, #ARGV do
  if redis.call('XACK', STREAM, GROUP, ARGV[i]) == 1 then
    redis.call('XDEL', STREAM, ARGV[i])
    done = done + 1
  end
end
if done > 0 then redis.call('HINCRBY', PROGRESS, 'done', done) end
return {'OK', done}
