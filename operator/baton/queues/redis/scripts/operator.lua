-- Scripts of the operator, on a queue and its partitions.

--@script claim
#!lua flags=allow-oom
--@include history
-- Records a queue's group and its number of partitions. Existing records stay, except that a group in ARGV may be succeeded.
-- KEYS: the queue's hash. ARGV: group, its UID, partitions, version of the table, table, a new birth mark, UIDs of groups from
-- which it may take the queue…
-- Answer: the group and its UID, the partitions, version and text of the table, 1 if all partitions have been created, the limits
-- written to all of them; during a change of the number of partitions: the table before, the next one if it is not published yet,
-- and the number of partitions after the change; and the server's history. Later steps that follow from these records are valid in
-- this history only: a failover may have lost the records.
local QUEUE = KEYS[1]
local recorded = redis.call('HGET', QUEUE, 'uid')
local free = not recorded
for i = 7, #ARGV do free = free or recorded == ARGV[i] end
if free then redis.call('HSET', QUEUE, 'group', ARGV[1], 'uid', ARGV[2]) end
if (free or recorded == ARGV[2]) and redis.call('HSETNX', QUEUE, 'partitions', ARGV[3]) == 1 then
  redis.call('HSET', QUEUE, 'version', ARGV[4], 'table', ARGV[5], 'born', ARGV[6])
end
local found = redis.call(
  'HMGET', QUEUE, 'group', 'uid', 'partitions', 'version', 'table', 'ready', 'maxDeliveredUnacked', 'maxRedeliveries',
  'former', 'next', 'target'
)
for n, text in ipairs(found) do found[n] = text and text:sub(1, 8192) end -- no record of Baton is longer
found[12] = history()
return found

--@script ready
#!lua flags=allow-oom
--@include history
-- Records that all partitions exist and have these limits. KEYS: the queue's hash. ARGV: the history in which they were created,
-- maxDeliveredUnacked, maxRedeliveries.
-- Answer: 1; or 0 if the server is in another history now.
if history() ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'ready', '1', 'maxDeliveredUnacked', ARGV[2], 'maxRedeliveries', ARGV[3])
return 1

--@script recall
#!lua flags=allow-oom
--@include history
-- Restores the queue's deleted records from those of its partitions. KEYS: the queue's hash. ARGV: the history in which these were
-- read, version and text of the table, number of partitions, highest number ever; and while slots are moving: the table before,
-- and the number of partitions after.
-- Answer: 1; or 0 if the queue has records, or the server is in another history now.
if history() ~= ARGV[1] or redis.call('HGET', KEYS[1], 'ready') then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'table', ARGV[3], 'partitions', ARGV[4], 'most', ARGV[5])
if ARGV[6] then redis.call('HSET', KEYS[1], 'former', ARGV[6], 'target', ARGV[7]) end
return 1

--@script release
#!lua flags=allow-oom
-- Releases a queue if it belongs to this group. KEYS: the queue's hash. ARGV: the group's UID.
if redis.call('HGET', KEYS[1], 'uid') == ARGV[1] then return redis.call('HDEL', KEYS[1], 'group', 'uid') end
return 0

--@script create
#!lua flags=allow-oom
--@include partition
-- Creates a partition, or its missing keys, that accepts these slots and has the limits of the queue's spec. Safe to repeat.
-- ARGV: the history in which the queue has the table, maxDeliveredUnacked, maxRedeliveries, version of the slots, slots
-- (`slot partition` if its entries wait for that partition)…
-- Answer: 1; or 0 if the server is in another history now, so that the table may be lost, and another partition may have the slots.
if history() ~= ARGV[1] then return 0 end
look()
summary()
for i = 5, #ARGV do
  local slot, from = ARGV[i]:match('^(%d+)(.*)$')
  if redis.call('HSETNX', SLOTS, slot, ARGV[4] .. from) == 0 then
    local to, version = place(redis.call('HGET', SLOTS, slot))
    -- The slot left, and no partition has it: the record of its new partition was deleted.
    if not to and version < tonumber(ARGV[4]) then redis.call('HSET', SLOTS, slot, ARGV[4] .. from) end
  end
end
redis.call('HSET', OWNER, 'maxDeliveredUnacked', ARGV[2], 'maxRedeliveries', ARGV[3])
return 1

--@script grant
#!lua flags=allow-oom
--@include partition
-- Makes a pod the owner ('': no owner) at an epoch above the recorded one. ARGV: uid, epoch.
-- Answer: the resulting record. Repeating the grant in force gives the same answer and changes nothing; in particular it does not
-- un-pause. But the epoch is written again, as a later WAIT covers only writes of this connection.
local uid, epoch, paused = record()
if uid == ARGV[1] and tonumber(ARGV[2]) == epoch and epoch > 0 then redis.call('HSET', OWNER, 'epoch', ARGV[2]) end
if tonumber(ARGV[2]) <= epoch then return {uid, epoch, paused and 1 or 0} end

redis.call('HSET', OWNER, 'uid', ARGV[1], 'epoch', ARGV[2], 'paused', '0')
redis.call('HDEL', OWNER, 'process', 'within', 'kept')
-- Unfinished entries of the former owner are handed out first, marked redelivered.
local pending = redis.pcall('XPENDING', STREAM, GROUP) -- an error: the stream does not exist yet
if not pending.err and pending[1] > 0 then
  redis.call('HSET', OWNER, 'served', 0, 'left', number(pending[3]), 'waiting', pending[1])
else
  redis.call('HDEL', OWNER, 'served', 'left', 'waiting')
end
wake(ARGV[2], 0)
return {ARGV[1], tonumber(ARGV[2]), 0}

--@script pause
#!lua flags=allow-oom
--@include partition
-- Stops delivery under an epoch; acknowledging and committing stay allowed. ARGV: epoch, and, for its owner, milliseconds until
-- it loses the partition ('': not known). Answer: the number of entries that the hand-off waits for.
-- If another epoch is in force, entries of this one can no longer be acknowledged, so none is outstanding.
local _, epoch = record()
if tonumber(ARGV[1]) ~= epoch then return 0 end
redis.call('HSET', OWNER, 'paused', '1', 'within', ARGV[2])
return in_use()

--@script outstanding
#!lua flags=allow-oom
--@include partition
local _, _, paused = record()
return paused and in_use() or outstanding()

--@script check
#!lua flags=no-writes
-- Reads the state of a queue and its partitions, including former ones. KEYS: the queue's hash; and the keys of a partition, in
-- the order in which every script takes them, with # instead of its number. ARGV: the first partition, and how many.
-- Answer: born, partitions and most of the queue; and for each partition, in JSON: owner record, whether all its keys exist,
-- last, done, staged, lost, dead, rejected owners, the number of its dead letters, and the length of its stream.
local QUEUE, NAMES, LONGEST = KEYS[1], {unpack(KEYS, 2, 9)}, 400
local function known(key, ...)
  local found = redis.call('HMGET', key, ...)
  for n, text in ipairs(found) do found[n] = text and text:sub(1, LONGEST) end
  return found
end
local queue = known(QUEUE, 'born', 'partitions', 'most')
local told, first, count = {}, tonumber(ARGV[1]), math.max(tonumber(queue[2] or 0) or 0, tonumber(queue[3] or 0) or 0)
for partition = first, math.min(count, first + ARGV[2]) - 1 do
  local keys = {}
  for n, name in ipairs(NAMES) do keys[n] = name:gsub('#', partition) end
  local OWNER, STREAM, PROGRESS, _, REFUSED, SLOTS, _, DEAD = unpack(keys)
  local owner = known(OWNER, 'uid', 'epoch', 'paused', 'maxDeliveredUnacked', 'maxRedeliveries')
  local progress = known(PROGRESS, 'last', 'done', 'staged', 'lost', 'dead')
  local whole = redis.call('EXISTS', STREAM, PROGRESS, SLOTS) == 3 and owner[4] and owner[5]
  local refused = redis.call('GET', REFUSED)
  told[#told + 1] = {
    owner[1], owner[2], owner[3], whole and true or false, progress[1], progress[2], progress[3], progress[4], progress[5],
    refused and refused:sub(1, LONGEST), redis.call('XLEN', DEAD), redis.call('XLEN', STREAM),
  }
end
return {queue[1], queue[2], queue[3], #told > 0 and cjson.encode(told) or '[]'}

--@script announce
#!lua flags=allow-oom
-- Announces changed owner records to a pod. KEYS: its announcements. ARGV: the queue's name, the partitions.
-- Only the last 64 are kept, because the pod's ledger has the same changes. After an hour no pod needs them.
redis.call('XADD', KEYS[1], 'MAXLEN', '=', 64, '*', 'queue', ARGV[1], 'partitions', ARGV[2])
return redis.call('EXPIRE', KEYS[1], 3600)
