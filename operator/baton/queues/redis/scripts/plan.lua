#!lua flags=allow-oom
--@include partition
-- Records the range of a micro-batch. ARGV: uid, epoch, limit (entries), how many entries the member may not have because of
-- its other partitions.
-- Answer: OK, start (exclusive), end, how many entries, end of what was handed out or planned before, last entry; or NONE, last
-- entry; or FULL, last entry: the member may not have more. And at the end what is outstanding.
--
-- A plan that is not committed yet is answered again, also while paused: a batch can be repeated, but not extended.
local refused, paused = fence(ARGV[1], ARGV[2])
if refused then return refused end
look()
local pending = summary()
local fields = redis.call('HMGET', PROGRESS, 'committed', 'planned', 'count', 'seen', 'last', 'done', 'waits')
local committed, planned, seen = tonumber(fields[1] or 0), tonumber(fields[2]), tonumber(fields[4] or 0)
local last, done = tonumber(fields[5] or 0), tonumber(fields[6] or 0)

if planned then
  if seen < planned then redis.call('HSET', PROGRESS, 'seen', planned) end
  if planned == last then sleep(fields[7]) end
  return {'OK', committed, planned, tonumber(fields[3]), planned, last, outstanding(pending)}
end
if paused then return {'PAUSED'} end

if not of_owner()[9] then redis.call('HSET', OWNER, 'plans', '1') end
local limit = math.min(tonumber(ARGV[3]), limits() - tonumber(ARGV[4]))
if limit <= 0 then
  if #redis.call('XRANGE', STREAM, '(' .. id(committed), '+', 'COUNT', 1) > 0 then return {'FULL', last, outstanding(pending)} end
  sleep(fields[7])
  return {'NONE', last, outstanding(pending)}
end
-- Who commits has to take what was handed out singly from what is pending, one by one. That is at the beginning of the plan.
local MOST_SINGLE = 1000
if pending[1] > 0 then limit = math.min(limit, MOST_SINGLE) end
local finish, count = committed, 0
if done == committed then
  finish = math.min(last, committed + limit) -- entries are numbered without gaps
  count = finish - committed
else -- single entries beyond the committed one were acknowledged, and are gone: those that are there have to be looked at, with all
  -- that they carry, so it is a few until this is behind
  local FEW, FEW_BYTES, looked_at = math.min(limit, 200), 2 ^ 20, 0
  repeat
    local entries = redis.call('XRANGE', STREAM, '(' .. id(finish), id(last), 'COUNT', at_once(FEW - count))
    for _, entry in ipairs(entries) do
      looked_at = looked_at + size_of(entry[2])
      if ours(entry, last) then
        count, finish = count + 1, number(entry[1])
      else
        set_foreign_aside(entry)
      end
    end
  until #entries == 0 or count == FEW or (count > 0 and looked_at >= FEW_BYTES)
end
if count == 0 or finish == last then sleep(fields[7]) end
if count == 0 then return {'NONE', last, outstanding(pending)} end

if pending[1] > 0 then
  seen = math.max(seen, number(pending[3]))
  redis.call('HSET', PROGRESS, 'seen', seen)
end
redis.call('HSET', PROGRESS, 'planned', finish, 'count', count)
return {'OK', committed, finish, count, seen, last, outstanding(pending)}
