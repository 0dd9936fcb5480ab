-- Scripts of producers.

--@script add
#!lua
--@include partition
-- Adds entries. ARGV: producer, then for each entry: slot, sequence, key, value, headers ('' for none).
-- Answer: the number of the first entry, if all were added with consecutive numbers. Otherwise a letter for each entry: a was
-- added; s waits on a stage; d was added before; m: its slot is not accepted here; w must wait until foreign entries are removed;
-- and the numbers of the added entries, separated by spaces.
--
-- A producer numbers its entries per slot. The number is checked before the slot, so that a retry after a lost reply adds no
-- duplicate, even if the slot has moved in between. A refused slot stays refused for the rest of the call, so that entries of one
-- key are never added out of order.
local PRODUCERS_FORGOTTEN_AFTER = 3600 -- seconds of silence; far longer than any producer retries
local producer = ARGV[1]
local clock = redis.call('TIME')
local seconds, milliseconds = tonumber(clock[1]), clock[1] .. string.format('%03d', math.floor(clock[2] / 1000))

-- Slots in the order of their first entry; per slot the stream that takes it, and the last known sequence of this producer.
local slots, fields, goes_to, sequence = {}, {}, {}, {}
for i = 2, #ARGV, 5 do
  if sequence[ARGV[i]] == nil then
    slots[#slots + 1] = ARGV[i]
    fields[#fields + 1] = ARGV[i] .. ':' .. producer
    sequence[ARGV[i]] = 0
  end
end
local versions = redis.call('HMGET', SLOTS, unpack(slots))
local known = redis.call('HMGET', SEQUENCES, unpack(fields))
for i, slot in ipairs(slots) do
  goes_to[slot] = place(versions[i])
  if known[i] then sequence[slot] = tonumber(known[i]:match('^%d+')) end
end

local codes, numbers, changed, again = {}, {}, {}, false
local first, waits, staged, stages = 0, false, 0, {}
if next(goes_to) then first, waits = look() end -- otherwise there is nothing to add, and perhaps no partition yet
local last, stuck = first, false
-- Adds an entry and returns its code: a, s or w.
local function add(key, value, headers, stream)
  local now
  if stream ~= STREAM then
    if headers == '' then
      redis.call('XADD', stream, '*', 'k', key, 'v', value, 't', milliseconds)
    else
      redis.call('XADD', stream, '*', 'k', key, 'v', value, 't', milliseconds, 'h', headers)
    end
    staged = staged + 1
    stages[stream] = (stages[stream] or 0) + 1
    return 's'
  elseif headers == '' then
    now = append(last, 'k', key, 'v', value, 't', milliseconds)
  else
    now = append(last, 'k', key, 'v', value, 't', milliseconds, 'h', headers)
  end
  if not now then return 'w' end
  last = now
  numbers[#numbers + 1] = now
  return 'a'
end
for i = 2, #ARGV, 5 do
  local slot, mine, code = ARGV[i], tonumber(ARGV[i + 1]), 'd'
  if mine > sequence[slot] then
    if not goes_to[slot] then
      code = 'm'
    elseif stuck then
      code = 'w' -- the producer sends the rest again
    else
      code = add(ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], goes_to[slot])
      stuck = code == 'w'
    end
    if code == 'a' or code == 's' then
      sequence[slot] = mine
      changed[slot] = true
    end
  end
  if code == 'd' then
    changed[slot], again = true, true -- write it again, as a later WAIT covers only writes of this connection
  end
  codes[#codes + 1] = code
end

if staged > 0 then redis.call('HINCRBY', PROGRESS, 'staged', staged) end
for stream, count in pairs(stages) do -- a stage whose entries follow gets shorter with each call
  local MOST_BYTES = 2000000 -- twice what a producer sends at once
  if redis.call('HGET', PROGRESS, 'follows ' .. stream) == history() then last = follow(stream, last, 2 * count, MOST_BYTES) end
end
if last > first then grown(last, waits) end
if last > first or staged > 0 or again then
  local written = {}
  for i, slot in ipairs(slots) do
    if changed[slot] then
      written[#written + 1] = fields[i]
      written[#written + 1] = sequence[slot] .. ' ' .. seconds
    end
  end
  local came = redis.call('HSET', SEQUENCES, unpack(written))
  -- For each new producer, check some known ones, and forget those that have been silent for long.
  local FEW, LOOKED_AT = 1024, 5
  if came > 0 and redis.call('HLEN', SEQUENCES) >= FEW then
    local cursor = redis.call('HGET', PROGRESS, 'forgetting') or '0'
    local found = redis.call('HSCAN', SEQUENCES, cursor, 'COUNT', LOOKED_AT * came)
    for i = 1, #found[2], 2 do
      local silent = tonumber(found[2][i + 1]:match('%d+$')) < seconds - PRODUCERS_FORGOTTEN_AFTER
      if silent then redis.call('HDEL', SEQUENCES, found[2][i]) end
    end
    redis.call('HSET', PROGRESS, 'forgetting', found[1])
  end
end
local count = #codes
if #numbers == count and numbers[count] == numbers[1] + count - 1 then return numbers[1] end
for i, n in ipairs(numbers) do numbers[i] = string.format('%d', n) end
return {table.concat(codes), table.concat(numbers, ' ')}
