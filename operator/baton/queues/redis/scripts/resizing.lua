-- Another number of partitions: slots and what is known of producers go from one to another.

--@script resize
#!lua flags=allow-oom
-- Begins a change of the number of partitions, if none is under way. KEYS: the queue's hash. ARGV: the group's UID, the version of
-- the table, partitions in operation meanwhile, partitions after it, the table after it.
local known = redis.call('HMGET', KEYS[1], 'uid', 'version', 'former', 'table', 'most', 'partitions')
if known[1] ~= ARGV[1] or known[2] ~= ARGV[2] or known[3] then return 0 end
local most = math.max(tonumber(known[5] or 0), tonumber(known[6]), tonumber(ARGV[3]))
redis.call('HSET', KEYS[1], 'former', known[4], 'next', ARGV[5], 'target', ARGV[4], 'partitions', ARGV[3], 'most', most)
return 1

--@script slots
#!lua flags=allow-oom
--@include partition
-- Which slots the partition accepts, `slot version partition`, the last where entries wait for one, and which went elsewhere,
-- `slot version moved`; and the highest version that is known of any slot.
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
-- Accepts slots no longer, which go to other partitions. ARGV: version, slots…
-- Answer: the history that the server is in, for what is done next counts only there.
--
-- The barrier is the last entry that was added before that. Repeating it, also at a later time, changes nothing.
local last = look()
local values = redis.call('HMGET', SLOTS, unpack(ARGV, 2))
local changed = {}
for i = 2, #ARGV do
  local _, version = place(values[i - 1])
  if version < tonumber(ARGV[1]) then
    changed[#changed + 1] = ARGV[i]
    changed[#changed + 1] = ARGV[1] .. ' moved'
  end
end
if #changed > 0 then
  redis.call('HSET', SLOTS, unpack(changed))
  redis.call('HSET', PROGRESS, 'sealed', ARGV[1], 'barrier', last)
end
return history()

--@script sequences
#!lua flags=allow-oom
--@include partition
-- What producers have sent, a page at a time. ARGV: cursor (0: from the beginning), slots that are asked for…
-- Answer: the next cursor (0: that was all), and lines `slot:producer sequence seconds`.
local MOST = 300 -- of all; names of more than so many characters are passed over: no producer of Baton's has one
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
-- Takes over what producers have sent to slots that come from another partition: an entry that is sent once more is known here as
-- it was there. ARGV: pairs of `slot:producer` and `sequence seconds`. Answer: how many were news.
local news = {}
for i = 1, #ARGV, 2 do
  local known = redis.call('HGET', SEQUENCES, ARGV[i])
  if not known or tonumber(known:match('^%d+')) < tonumber(ARGV[i + 1]:match('^%d+')) then
    news[#news + 1] = ARGV[i]
    news[#news + 1] = ARGV[i + 1]
  end
end
if #news > 0 then redis.call('HSET', SEQUENCES, unpack(news)) end
return #news / 2

--@script open
#!lua flags=allow-oom
--@include partition
-- Accepts slots that come from another partition, where they are sealed: their entries wait on a stage.
-- ARGV: the history in which they were sealed, version, the partition that they come from, slots…
-- Answer: 1; or 0 where the server is in another history now, and it is not known whether they are sealed.
if history() ~= ARGV[1] then return 0 end
look()
local values = redis.call('HMGET', SLOTS, unpack(ARGV, 4))
local changed = {}
for i = 4, #ARGV do
  local _, version = place(values[i - 3])
  if version < tonumber(ARGV[2]) then
    changed[#changed + 1] = ARGV[i]
    changed[#changed + 1] = ARGV[2] .. ' ' .. ARGV[3]
  end
end
if #changed > 0 then redis.call('HSET', SLOTS, unpack(changed)) end
return 1

--@script publish
#!lua flags=allow-oom
-- Tells producers of the next table: all slots that move have been opened at their new places. KEYS: the queue's hash.
-- ARGV: the history in which that was done, and the version of the next table.
local known = redis.call('HMGET', KEYS[1], 'version', 'next')
if redis.call('INFO', 'replication'):match('master_replid:(%w+)') ~= ARGV[1] then return 0 end
if not known[2] or tonumber(known[1]) + 1 ~= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'table', known[2])
redis.call('HDEL', KEYS[1], 'next')
return 1

--@script drained
#!lua flags=allow-oom
--@include partition
-- Whether everything is done that was added before slots were sealed. ARGV: version.
-- Answer: the history that the server is in, and 1 or 0. Once it is 1 it stays so, in one history.
local last = look()
local pending = summary()
local fields = redis.call('HMGET', PROGRESS, 'sealed', 'barrier', 'committed')
local barrier = tonumber(fields[2] or 0)
if tonumber(fields[1] or 0) < tonumber(ARGV[1]) then -- the record of it was deleted
  barrier = last
  redis.call('HSET', PROGRESS, 'sealed', ARGV[1], 'barrier', last)
end
local undone = redis.call('XRANGE', STREAM, '(' .. id(tonumber(fields[3] or 0)), id(barrier), 'COUNT', 1)
local held = pending[1] > 0 and number(pending[2]) <= barrier
return {history(), (#undone > 0 or held) and 0 or 1}

--@script unblock
#!lua flags=allow-oom
--@include partition
-- Moves entries from a stage to the partition's stream: what stood before them is done. When the stage is empty, its slots go to
-- the stream from then on. ARGV: the history in which that was seen, version, the partition that the slots come from, slots…
-- Answer: 1 when all is done; 0: there is more to move, or the server is in another history now.
--
-- So many entries or bytes at a time keep others waiting for some milliseconds only. While there are more, who adds to the stage
-- moves twice as many (add.lua), so that it becomes empty however much is sent.
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
if staged > 0 then redis.call('HINCRBY', PROGRESS, 'lost', staged) end -- a stage was deleted, or shortened
redis.call('HDEL', PROGRESS, 'staged', 'suspect') -- below 0: entries were added by hand
return 1

--@script resized
#!lua flags=allow-oom
-- Ends a change of the number of partitions: nothing waits any more. KEYS: the queue's hash.
-- ARGV: the history in which that was seen, and the version of the table.
local known = redis.call('HMGET', KEYS[1], 'version', 'former', 'next', 'target')
if redis.call('INFO', 'replication'):match('master_replid:(%w+)') ~= ARGV[1] then return 0 end
if known[1] ~= ARGV[2] or not known[2] or known[3] then return 0 end
redis.call('HSET', KEYS[1], 'partitions', known[4])
redis.call('HDEL', KEYS[1], 'former', 'target')
return 1
