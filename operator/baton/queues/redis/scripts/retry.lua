#!lua flags=allow-oom
--@include partition
-- Hands an entry to its owner once more, which has failed with it; allowed while paused. ARGV: uid, epoch, process,
-- id, why it failed, 1 if no other try would help, and how often it has been handed out with this time (0: nothing is changed, to
-- tell how often it was before). So whoever does not know whether this was heard may say it again.
-- Answer: 1; or 0 where that would be once too often, and it is a dead letter now, or was finished with before; what is outstanding;
-- and how often it was handed out.
local refused = fence(ARGV[1], ARGV[2], ARGV[3])
if refused then return refused end
summary()
local _, redeliveries = limits()
local entry = redis.call('XPENDING', STREAM, GROUP, ARGV[4], ARGV[4], 1)[1]
local deliveries = tonumber(ARGV[7])
if entry and ARGV[6] ~= '1' and (deliveries == 0 or redeliveries == 0 or deliveries - 1 <= redeliveries) then
  if deliveries > 0 then
    redis.call('XCLAIM', STREAM, GROUP, CONSUMER, 0, ARGV[4], 'RETRYCOUNT', deliveries, 'JUSTID')
  end
  return {'OK', 1, outstanding(), entry[4]}
end
if entry then set_aside(ARGV[4], math.max(entry[4], deliveries - 1), ARGV[5]) end
return {'OK', 0, outstanding(), 0}
