#!lua flags=allow-oom
--@include partition
--@include logged
-- Finishes with everything before an entry, unread, in a partition without an owner. ARGV: the highest epoch that the ledger has for it, the
-- entry's number.
-- The epoch in force stays, and is paused: who had the partition last may still acknowledge what it has, and reads no more. The next grant
-- has a higher epoch. Likewise a Spark query that reads a range is refused from now on, as by a later one.
-- Answer: OK; MORE: repeating it goes on with that; GRANTED: somebody has the partition at a higher epoch; OUTSIDE: such a number is not
-- there; UNKNOWN: there is no such partition.
if unmade() then return 'UNKNOWN' end
local _, epoch = record()
if epoch > tonumber(ARGV[1]) then return 'GRANTED' end
local last, offset = look(), tonumber(ARGV[2])
if offset - 1 > last or offset <= done_up_to() then return 'OUTSIDE' end
redis.call('HSET', OWNER, 'paused', '1', 'within', '')
if progress('logged') then fence_query(tonumber(progress('query') or 0) + 1) end
return finish_up_to(offset - 1, summary()) and 'OK' or 'MORE'
