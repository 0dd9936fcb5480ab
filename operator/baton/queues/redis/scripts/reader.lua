-- Scripts of consumers.

--@script read
#!lua flags=allow-oom
--@include partition
-- Hands out single entries: first pending ones after the cursor, then new ones.
-- ARGV: uid, epoch, cursor (the last entry that the caller received under this epoch; 0: none), count, the part of the member's
-- limit that its other partitions use, 0 to get only pending entries, the reading process, 1 if this is its first read, and the
-- limit for bytes of entries (a single entry is always allowed).
-- Answer: OK, how many of the entries were pending, the entry up to which all others may have been handed out before, the last
-- entry of the stream, 1 if there may be more now, 1 if the member's limit is reached, the number of outstanding entries, the
-- entries (told), how often each of the pending ones was handed out (separated by spaces), and maxRedeliveries.
--
-- Entries are pending after the cursor if a former owner left them, if this owner had them before a restart in place, or if a
-- reply was lost. They may have been processed. Handing them out counts no delivery: the reader counts when processing begins
-- (RETRY).
local begins = ARGV[8] == '1'
local refused, paused = fence(ARGV[1], ARGV[2], not begins and ARGV[7])
if refused then return refused end
local known = of_owner()
if begins and known[4] ~= ARGV[7] then redis.call('HSET', OWNER, 'process', ARGV[7]) end
local last = look()
local cursor, count, elsewhere, most_bytes = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[9])
local closing = paused or ARGV[6] == '0' -- then entries that a former owner left are not handed out
local most, redeliveries = limits()
local function room(held) return closing and 0 or math.max(0, most - elsewhere - held) end
local before = summary()
local highest, held = before[1] > 0 and number(before[3]) or 0, handed_out(before)
local free = room(held)
local served, left = unserved()
local given, cut = 0, false

-- Entries that this owner had count for its limit already; those that a former owner left count from now on.
local wanted, exhausted = count, false
if left then
  wanted = math.min(count, #redis.call('XPENDING', STREAM, GROUP, '(' .. id(cursor), id(served), count) + free)
end
local came, first, any_wanted, times = 0, served, wanted > 0, {}
if wanted > 0 and highest <= cursor then
  exhausted = true
elseif wanted > 0 then
  local behind = '(' .. id(cursor)
  while wanted > 0 and not cut and not exhausted do
    local some = at_once(wanted)
    local pending = redis.call('XPENDING', STREAM, GROUP, behind, '+', some)
    exhausted = #pending < some
    wanted = wanted - #pending
    for _, found in ipairs(pending) do
      local entry = redis.call('XRANGE', STREAM, found[1], found[1])[1] or {found[1]}
      local whole = entry[2] and ours(entry, last)
      if whole and not tell(entry, most_bytes) then
        cut, exhausted = true, false
        break
      end
      if left and number(entry[1]) > first and number(entry[1]) <= left then came = came + 1 end
      if left then served = math.max(served, math.min(number(entry[1]), left)) end
      if whole then
        given = given + 1
        times[given] = found[4]
      elseif entry[2] then
        set_foreign_aside(entry)
      else
        finish_singly({entry[1]}) -- deleted by hand
        redis.call('HINCRBY', PROGRESS, 'lost', 1)
      end
      behind = '(' .. entry[1]
    end
  end
end
if left then
  if not closing and (exhausted or served >= left) then
    redis.call('HDEL', OWNER, 'served', 'left', 'waiting')
  else
    redis.call('HSET', OWNER, 'served', served)
    if came > 0 then redis.call('HINCRBY', OWNER, 'waiting', -came) end
  end
end
local again, filled = given, false
if paused and again == 0 then return {'PAUSED'} end

local seen, waits = void_range()
if left or highest > cursor then held = handed_out() end
free = room(held)
if exhausted and free > 0 and again < count then
  local most_new = math.min(count - again, free)
  local tail = false
  repeat
    local some = at_once(most_new)
    local new = redis.call('XREADGROUP', 'GROUP', GROUP, CONSUMER, 'COUNT', some, 'STREAMS', STREAM, '>')
    new = new and new[1][2] or {}
    filled = #new == some
    most_new = most_new - #new
    for i, entry in ipairs(new) do
      if not ours(entry, last) then
        set_foreign_aside(entry)
        tail = true
      elseif tell(entry, most_bytes) then
        given = given + 1
      else -- hand out the rest later
        for j = i, #new do redis.call('XACK', STREAM, GROUP, new[j][1]) end
        redis.call('XGROUP', 'SETID', STREAM, GROUP, id(number(entry[1]) - 1))
        cut = true
        break
      end
    end
  until cut or tail or not filled or most_new == 0
  if tail then last = clear_tail(last) or last end
  held = held + given - again
end
local full = not closing and not cut and room(held) == 0 and given < count and (not exhausted or last_handed_out() < last)
local more = cut or given == count or filled and not full or not exhausted and (any_wanted or not full)
if not more and not full then sleep(waits) end
local about_them, their_texts = told()
return {'OK', again, seen, last, more and 1 or 0, full and 1 or 0, held, about_them, their_texts, table.concat(times, ' '), redeliveries}

--@script ack
#!lua flags=allow-oom
--@include partition
-- Finishes single entries; allowed while paused. ARGV: uid, epoch, process, ids separated by spaces (unpack takes at most 8,000).
-- Only entries that were handed out are acknowledged, and only acknowledged ones are deleted.
local refused = fence(ARGV[1], ARGV[2], ARGV[3])
if refused then return refused end
local ids, highest, alike = {}, '', true
local served, left = unserved()
local committed = tonumber(redis.call('HGET', PROGRESS, 'committed') or 0) -- all up to here are finished
for entry_id in ARGV[4]:gmatch('%S+') do
  local waits = left and number(entry_id) > served and number(entry_id) <= left
  if number(entry_id) > committed and not waits then -- otherwise a former owner had it, and this one has not been handed it yet
    ids[#ids + 1] = entry_id
    alike = alike and #entry_id == #ids[1]
    if entry_id > highest then highest = entry_id end -- ids of equal length compare by their digits
  end
end
if #ids == 0 then return {'OK', 0, outstanding()} end
local done = finish_singly(ids)
local pending = summary()
if done < #ids then -- some were acknowledged and deleted before, or were never handed out and must stay
  local until_now = last_handed_out()
  for _, entry_id in ipairs(ids) do
    if number(entry_id) <= until_now then redis.call('XDEL', STREAM, entry_id) end
  end
elseif alike and (pending[1] == 0 or number(pending[2]) > number(highest)) and trim(number(highest) - 1) then
  -- All up to the highest are finished. Trimming takes a fraction of the time of single deletions; if there is too much for one
  -- script, the next acknowledgement continues.
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

--@script retry
#!lua flags=allow-oom
--@include partition
-- Counts another delivery of an entry to its owner, which failed to process it; allowed while paused. ARGV: uid, epoch, process,
-- id, the reason of the failure, 1 if retries are pointless, and the new delivery count (0: change nothing, only return the
-- current count). As the count is absolute, a reader may repeat this after a lost answer.
-- Answer: 1; or 0 if the entry exceeded maxRedeliveries and is a dead letter now, or was finished before; the number of
-- outstanding entries; and how often the entry was handed out.
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

--@script verify
#!lua flags=allow-oom
--@include partition
-- Checks that the caller still is the owner. ARGV: uid, epoch, process, and 1 to count the partition as in use from now on even
-- without outstanding entries, or 0 to end that.
local refused = fence(ARGV[1], ARGV[2], ARGV[3])
if refused then return refused end
if ARGV[4] == '1' then redis.call('HSET', OWNER, 'kept', 1) end
if ARGV[4] == '0' then redis.call('HDEL', OWNER, 'kept') end
return {'OK'}
