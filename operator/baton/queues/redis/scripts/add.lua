#!lua
--@include partition
-- Adds entries. ARGV: producer, then for each entry: slot, sequence, key, value, headers ('' for none).
-- Answer: the positions (from 0) of the entries whose slot is not accepted here (any more); all others are in the stream.
--
-- A producer counts its entries per slot. The count is checked before the slot is, so that a retry after a lost reply is
-- no duplicate, also when the slot has moved in between. Once a slot is refused it stays refused for the rest of the call:
-- entries of one key are never added out of order.
local PRODUCERS_FORGOTTEN_AFTER = 3600 -- seconds without a word; far longer than anybody retries
local producer = ARGV[1]
local clock = redis.call('TIME')
local seconds, milliseconds = tonumber(clock[1]), clock[1] .. string.format('%03d', math.floor(clock[2] / 1000))

-- Slots in the order of their first entry; per slot: is it accepted, and the last sequence that is known of this producer.
local slots, fields, accepted, sequence = {}, {}, {}, {}
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
  accepted[slot] = versions[i] and true or nil
  if known[i] then sequence[slot] = tonumber(known[i]:match('^%d+')) end
end

local moved, changed = {}, {}
local first, waits = 0, false
for _ in pairs(accepted) do -- else there is nothing to add, and perhaps no partition yet
  first, waits = look()
  if redis.call('EXISTS', STREAM) == 0 then make_again() end
  break
end
local last = first
-- False: what somebody else added stands in the way, and there is much of it.
local function append(key, value, headers)
  local fields = {'k', key, 'v', value, 't', milliseconds}
  if headers ~= '' then fields = {'k', key, 'v', value, 't', milliseconds, 'h', headers} end
  local added = redis.pcall('XADD', STREAM, id(last + 1), unpack(fields))
  if type(added) == 'table' and added.err then
    if not added.err:find('smaller') then redis.call('XADD', STREAM, id(last + 1), 'k', '', 'v', '', 't', '') end -- the error
    if not clear_tail(last) then return false end
    redis.call('XADD', STREAM, id(last + 1), unpack(fields))
  end
  last = last + 1
  return true
end
for i = 2, #ARGV, 5 do
  local slot, mine = ARGV[i], tonumber(ARGV[i + 1])
  if mine > sequence[slot] then
    if accepted[slot] and not append(ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]) then
      for each in pairs(accepted) do accepted[each] = false end -- all of the rest is sent again
    end
    if accepted[slot] then
      sequence[slot] = mine
      changed[slot] = true
    else
      moved[#moved + 1] = (i - 2) / 5
    end
  end
end

if last > first then
  if waits then
    redis.call('HSET', PROGRESS, 'last', last, 'waits', '0')
    wake(redis.call('HGET', OWNER, 'epoch') or 0, last)
  else
    redis.call('HSET', PROGRESS, 'last', last)
  end
  local before = redis.call('HLEN', SEQUENCES)
  local written = {}
  for i, slot in ipairs(slots) do
    if changed[slot] then
      written[#written + 1] = fields[i]
      written[#written + 1] = sequence[slot] .. ' ' .. seconds
    end
  end
  redis.call('HSET', SEQUENCES, unpack(written))
  -- Producers come and go: each time their number has doubled, those that have been silent for long are forgotten.
  local after, limit = redis.call('HLEN', SEQUENCES), 1024
  while limit <= before do limit = limit * 2 end
  if after >= limit then
    local all = redis.call('HGETALL', SEQUENCES)
    for i = 1, #all, 2 do
      if tonumber(all[i + 1]:match('%d+$')) < seconds - PRODUCERS_FORGOTTEN_AFTER then redis.call('HDEL', SEQUENCES, all[i]) end
    end
  end
end
return moved
