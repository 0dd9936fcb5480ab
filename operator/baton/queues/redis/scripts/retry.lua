#!lua flags=allow-oom
--@include partition
-- Hands an entry to its owner once more, which has failed with it; allowed while paused. ARGV: uid, epoch, process,
-- id, why it failed, and 1 if no other try would help.
-- Answer: 1; or 0 where that would be once too often, and it is a dead letter now, or was finished with before; and what is
-- outstanding.
local refused = fence(ARGV[1], ARGV[2], ARGV[3])
if refused then return refused end
summary()
local _, redeliveries = limits()
local entry = redis.call('XPENDING', STREAM, GROUP, ARGV[4], ARGV[4], 1)[1]
if entry and ARGV[6] ~= '1' and (redeliveries == 0 or entry[4] <= redeliveries) then
  redis.call('XCLAIM', STREAM, GROUP, CONSUMER, 0, ARGV[4], 'RETRYCOUNT', entry[4] + 1, 'JUSTID')
  return {'OK', 1, outstanding()}
end
if entry then set_aside(ARGV[4], entry[4], ARGV[5]) end
return {'OK', 0, outstanding()}
