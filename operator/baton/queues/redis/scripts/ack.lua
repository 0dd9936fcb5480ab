#!lua flags=allow-oom
--@include partition
-- Finishes with single entries; allowed while paused. ARGV: uid, epoch, process, ids with spaces between (unpack takes no more
-- than 8,000).
-- Only what was handed out is acknowledged, and only what was acknowledged is deleted.
local refused = fence(ARGV[1], ARGV[2], ARGV[3])
if refused then return refused end
local ids, highest, alike = {}, '', true
local served, left = unserved()
local committed = tonumber(redis.call('HGET', PROGRESS, 'committed') or 0) -- up to here all is finished with
for entry_id in ARGV[4]:gmatch('%S+') do
  local waits = left and number(entry_id) > served and number(entry_id) <= left
  if number(entry_id) > committed and not waits then -- else a former owner had it, and this one was not handed it yet
    ids[#ids + 1] = entry_id
    alike = alike and #entry_id == #ids[1]
    if entry_id > highest then highest = entry_id end -- of ids of one length: by their digits
  end
end
if #ids == 0 then return {'OK', 0, outstanding()} end
local done = finish_singly(ids)
local pending = summary()
if done < #ids then -- some were acknowledged before, and are gone; or were never handed out, and must stay
  local until_now = last_handed_out()
  for _, entry_id in ipairs(ids) do
    if number(entry_id) <= until_now then redis.call('XDEL', STREAM, entry_id) end
  end
elseif alike and (pending[1] == 0 or number(pending[2]) > number(highest)) and trim(number(highest) - 1) then
  -- All up to the highest is finished with. To cut takes a fraction of the time of deleting one by one; where there is more than one
  -- script should remove, it goes on with the next acknowledgement.
  redis.call('XTRIM', STREAM, 'MINID', '=', string.format('%d-%d', number(highest), SEGMENT + 1))
else
  redis.call('XDEL', STREAM, unpack(ids))
end
if redis.call('XLEN', STREAM) == 0 then
  redis.call('HDEL', PROGRESS, 'largest', 'largestAt')
  local fields = redis.call('HMGET', PROGRESS, 'last', 'done')
  if fields[1] and fields[1] ~= fields[2] and left_to_do(tonumber(fields[1])) == 0 then
    redis.call('HSET', PROGRESS, 'done', fields[1])
  end
end
return {'OK', done, outstanding(pending)}
