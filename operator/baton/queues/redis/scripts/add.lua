#!lua
--@include partition
-- Adds entries. ARGV: producer, then for each entry: slot, sequence, key, value.
-- Answer: the positions (from 0) of the entries whose slot is not accepted here (any more); all others are in the stream.
--
-- A producer counts its entries per slot. The count is checked before the slot is, so that a retry after a lost reply is
-- no duplicate, also when the slot has moved in between. Once a slot is refused it stays refused for the rest of the call:
-- entries of one key are never added out of order.
local PRODUCERS_FORGOTTEN_AFTER = 3600 -- seconds without a word; far longer than anybody retries
local producer = ARGV[1]
local clock = redis.call('TIME')
local seconds, milliseconds = tonumber(clock[1]), clock[1] .. string.format('%03d', math.floor(clock[2] / 1000))

local accepted, sequence, changed = {}, {}, {}
local moved = {}
local last = tonumber(redis.call('HGET', PROGRESS, 'last') or 0)
for i = 2, #ARGV, 4 do
  local slot, mine = ARGV[i], tonumber(ARGV[i + 1])
  if accepted[slot] == nil then
    accepted[slot] = redis.call('HEXISTS', SLOTS, slot) == 1
    local known = redis.call('HGET', SEQUENCES, slot .. ':' .. producer)
    sequence[slot] = known and tonumber(known:match('^%d+')) or 0
  end
  if mine > sequence[slot] then
    if accepted[slot] then
      last = last + 1
      redis.call('XADD', STREAM, id(last), 'k', ARGV[i + 2], 'v', ARGV[i + 3], 't', milliseconds)
      sequence[slot] = mine
      changed[slot] = true
    else
      moved[#moved + 1] = (i - 2) / 4
    end
  end
end

if next(changed) then
  redis.call('HSET', PROGRESS, 'last', last)
  local before = redis.call('HLEN', SEQUENCES)
  for slot in pairs(changed) do
    redis.call('HSET', SEQUENCES, slot .. ':' .. producer, sequence[slot] .. ' ' .. seconds)
  end
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
