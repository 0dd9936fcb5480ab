-- Scripts that change the number of partitions: they move slots and producers' sequences between partitions.

-- Records `version value` for those of the slots ARGV[first]… whose recorded version is lower. Returns whether there are any.
local function change_slots(first, version, value)
  local changed = {}
  for i, recorded in ipairs(redis.call('HMGET', SLOTS, unpack(ARGV, first))) do
    local _, known = place(recorded)
    if known < tonumber(version) then
      changed[#changed + 1] = ARGV[first + i - 1]
      changed[#changed + 1] = version .. ' ' .. value
    end
  end
  if #changed > 0 then redis.call('HSET', SLOTS, unpack(changed)) end
  return #changed > 0
end

--@script resize
#!lua flags=allow-oom
--@include history
-- Begins a change of the number of partitions, if none is in progress. KEYS: the queue's hash. ARGV: the history in which the queue
-- has the table, the group's UID, the version of the table, partitions during the change, partitions after it, the table after it.
-- Answer: 1; or 0 if another change is in progress or was completed, or the server is in another history now.
if history() ~= ARGV[1] then return 0 end
local known = redis.call('HMGET', KEYS[1], 'uid', 'version', 'former', 'table', 'most', 'partitions')
if known[1] ~= ARGV[2] or known[2] ~= ARGV[3] or known[3] then return 0 end
local most = math.max(tonumber(known[5] or 0), tonumber(known[6]), tonumber(ARGV[4]))
redis.call('HSET', KEYS[1], 'former', known[4], 'next', ARGV[6], 'target', ARGV[5], 'partitions', ARGV[4], 'most', most)
return 1

--@script slots
#!lua flags=allow-oom
--@include partition
-- Returns the slots that the partition accepts, `slot version` or, while entries wait for a partition, `slot version partition`;
-- those that left, `slot version moved`; and the highest version of any slot.
local MOST = 1024
local names = {}
for slot = 0, MOST - 1 do names[slot + 1] = slot end
local lines, highest = {}, 0
for i, value in ipairs(redis.call('HMGET', SLOTS, unpack(names))) do
  local _, version = place(value)
  if value then lines[#lines + 1] = names[i] .. ' ' .. value end
  highest = math.max(highest, version)
end
return {table.concat(lines, ','), highest}

--@script seal
#!lua flags=allow-oom
--@include partition
--@include resizing
-- Stops accepting slots that move to other partitions. ARGV: the history in which the queue has the record of the change, version,
-- slots…
-- Answer: 1; or 0 if the server is in another history now, so that the change may be lost.
--
-- The barrier is the last entry that was added before the seal. Repeating it, even much later, changes nothing.
if history() ~= ARGV[1] then return 0 end
local last = look()
if change_slots(3, ARGV[2], 'moved') then redis.call('HSET', PROGRESS, 'sealed', ARGV[2], 'barrier', last) end
return 1

--@script sequences
#!lua flags=allow-oom
--@include partition
-- Returns a page of producers' sequences. ARGV: cursor (0: from the beginning), slots to return…
-- Answer: the next cursor (0: complete), and lines `slot:producer sequence seconds`.
local MOST = 300 -- sequences per page; also the limit of a name's length, as names of Baton's producers are shorter
local wanted = {}
for i = 2, #ARGV do wanted[ARGV[i]] = true end
local found = redis.call('HSCAN', SEQUENCES, ARGV[1], 'COUNT', MOST)
local lines = {}
for i = 1, #found[2], 2 do
  local field, value = found[2][i], found[2][i + 1]
  if #field <= MOST and wanted[field:match('^%d+')] then lines[#lines + 1] = field .. ' ' .. value end
end
return {found[1], table.concat(lines, '\n')}

--@script remember
#!lua flags=allow-oom
--@include partition
-- Stores producers' sequences of slots that come from another partition, so that a repeated send is recognized here, too. ARGV:
-- the history in which they were read, and pairs of `slot:producer` and `sequence seconds`.
-- Answer: 1; or 0 if the server is in another history now, so that the entries with these sequences may be lost.
if history() ~= ARGV[1] then return 0 end
local news = {}
for i = 2, #ARGV, 2 do
  local known = redis.call('HGET', SEQUENCES, ARGV[i])
  if not known or tonumber(known:match('^%d+')) < tonumber(ARGV[i + 1]:match('^%d+')) then
    news[#news + 1] = ARGV[i]
    news[#news + 1] = ARGV[i + 1]
  end
end
if #news > 0 then redis.call('HSET', SEQUENCES, unpack(news)) end
return 1

--@script open
#!lua flags=allow-oom
--@include partition
--@include resizing
-- Starts accepting slots that come from another partition, where they are sealed. Their entries wait on a stage.
-- ARGV: the history in which they were sealed, version, the partition that they come from, slots…
-- Answer: 1; or 0 if the server is in another history now, so that the seal may be lost.
if history() ~= ARGV[1] then return 0 end
look()
change_slots(4, ARGV[2], ARGV[3])
return 1

--@script publish
#!lua flags=allow-oom
--@include history
-- Publishes the next table to producers, after all moving slots have been opened at their new partitions. KEYS: the queue's hash.
-- ARGV: the history in which that was done, and the version of the next table.
if history() ~= ARGV[1] then return 0 end
local known = redis.call('HMGET', KEYS[1], 'version', 'next')
if not known[2] or tonumber(known[1]) + 1 ~= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'table', known[2])
redis.call('HDEL', KEYS[1], 'next')
return 1

--@script drained
#!lua flags=allow-oom
--@include partition
-- Returns whether all entries are finished that were added before slots were sealed. ARGV: the history in which they were sealed,
-- version.
-- Answer: 1 or 0; 0 also if the server is in another history now. In one history it stays 1 once it is 1.
if history() ~= ARGV[1] then return 0 end
local last = look()
local pending = summary()
local fields = redis.call('HMGET', PROGRESS, 'sealed', 'barrier', 'committed')
local barrier = tonumber(fields[2] or 0)
if tonumber(fields[1] or 0) < tonumber(ARGV[2]) then -- the record of the seal was deleted
  barrier = last
  redis.call('HSET', PROGRESS, 'sealed', ARGV[2], 'barrier', last)
end
local undone = redis.call('XRANGE', STREAM, '(' .. id(tonumber(fields[3] or 0)), id(barrier), 'COUNT', 1)
local held = pending[1] > 0 and number(pending[2]) <= barrier
return (#undone > 0 or held) and 0 or 1

--@script unblock
#!lua flags=allow-oom
--@include partition
-- Moves entries from a stage to the partition's stream, after all earlier entries are finished. When the stage is empty, new
-- entries of its slots go to the stream. ARGV: the history in which that was confirmed, version, the partition that the slots
-- come from, slots…
-- Answer: 1 when the stage is empty; 0: there is more to move, or the server is in another history now.
--
-- The limits of entries and bytes keep the server busy for some milliseconds only. Until the stage is empty, each call that adds
-- entries to it moves twice as many (script add), so that it gets empty even under load.
local MOST, MOST_BYTES = 500, 1000000
if history() ~= ARGV[1] then return 0 end
local from = stage(ARGV[2], ARGV[3])
local first, waits = look()
if redis.call('EXISTS', STREAM) == 0 then make_again() end
local last = follow(from, first, MOST, MOST_BYTES)
if last > first then grown(last, waits) end
if redis.call('XLEN', from) > 0 then
  redis.call('HSET', PROGRESS, 'follows ' .. from, ARGV[1])
  return 0
end

local values = redis.call('HMGET', SLOTS, unpack(ARGV, 4))
local changed = {}
for i = 4, #ARGV do
  if values[i - 3] == ARGV[2] .. ' ' .. ARGV[3] then
    changed[#changed + 1] = ARGV[i]
    changed[#changed + 1] = ARGV[2]
  end
end
if #changed > 0 then redis.call('HSET', SLOTS, unpack(changed)) end
redis.call('DEL', from)
redis.call('HDEL', PROGRESS, 'follows ' .. from)
local every = {}
for slot = 0, 1023 do every[slot + 1] = slot end
for _, value in ipairs(redis.call('HMGET', SLOTS, unpack(every))) do
  local to = place(value)
  if to and to ~= STREAM then return 1 end
end
local staged = tonumber(redis.call('HGET', PROGRESS, 'staged') or 0)
if staged > 0 then redis.call('HINCRBY', PROGRESS, 'lost', staged) end -- a stage was deleted or shortened
redis.call('HDEL', PROGRESS, 'staged', 'suspect') -- below 0: entries were added by hand
return 1

--@script resized
#!lua flags=allow-oom
--@include history
-- Ends a change of the number of partitions, after no entry waits on a stage any more. KEYS: the queue's hash.
-- ARGV: the history in which that was confirmed, and the version of the table.
if history() ~= ARGV[1] then return 0 end
local known = redis.call('HMGET', KEYS[1], 'version', 'former', 'next', 'target')
if known[1] ~= ARGV[2] or not known[2] or known[3] then return 0 end
redis.call('HSET', KEYS[1], 'partitions', known[4])
redis.call('HDEL', KEYS[1], 'former', 'target')
return 1
