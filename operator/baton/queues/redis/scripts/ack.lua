#!lua flags=allow-oom
--@include partition
-- Finishes with single entries; allowed while paused. ARGV: uid, epoch, process, ids with spaces between (unpack takes no more
-- than 8,000).
-- Only what was handed out is acknowledged, and only what was acknowledged is deleted.
local refused = fence(ARGV[1], ARGV[2], ARGV[3])
if refused then return refused end
local ids = {}
local served, left = unserved()
for entry_id in ARGV[4]:gmatch('%S+') do
  local waits = left and number(entry_id) > served and number(entry_id) <= left
  if not waits then ids[#ids + 1] = entry_id end -- else a former owner had it, and this one was not handed it yet
end
if #ids == 0 then return {'OK', 0, handed_out()} end
local done = redis.call('XACK', STREAM, GROUP, unpack(ids))
if done == #ids then
  redis.call('XDEL', STREAM, unpack(ids))
else -- some were acknowledged before, and are gone; or were never handed out, and must stay
  summary()
  local until_now = last_handed_out()
  for _, entry_id in ipairs(ids) do
    if number(entry_id) <= until_now then redis.call('XDEL', STREAM, entry_id) end
  end
end
if done > 0 then redis.call('HINCRBY', PROGRESS, 'done', done) end
return {'OK', done, handed_out()}
