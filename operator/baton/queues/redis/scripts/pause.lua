#!lua flags=allow-oom
--@include partition
-- Stops delivery under an epoch; acknowledging and committing stay allowed. ARGV: epoch, milliseconds until its owner loses it
-- ('': not known), for the owner to know. Answer: what its hand-off waits for.
-- Where another epoch is in force nothing of this one can be acknowledged any more, so nothing is outstanding.
local _, epoch = record()
if tonumber(ARGV[1]) ~= epoch then return 0 end
redis.call('HSET', OWNER, 'paused', '1', 'within', ARGV[2])
return in_use()
