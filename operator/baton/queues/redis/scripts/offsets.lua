-- Where a group is in a partition, what it skips, and dead letters.

--@script offsets
#!lua flags=no-writes
--@include partition
--@include logged
-- Where partitions are. Nothing is written: a look changes nothing.
-- KEYS: the keys of a partition, in the order in which every script takes them, with # instead of its number. ARGV: the partitions.
-- Answer: of each the first entry that is not finished with, the next number, how many entries are not finished with, and how many of
-- these were handed out, and how long ago (ms) the first of them was sent ('': not known), and how many vanished
-- unfinished besides those that were counted before, and the oldest that was handed out ('': none was), and how often; nothing of a
-- partition that there is not. Behind much that is not ours the first is not looked for, as in `bounds`. Where much was looked at, there
-- are fewer answers than partitions, and the others are to be asked for again.
local function where()
  if unmade() then return {} end
  local committed, last = done_up_to(), tonumber(progress('last') or 0)
  local first, oldest = first_behind(committed, last, true)
  if not first then
    first = (#redis.call('XRANGE', STREAM, '(' .. id(committed), id(last), 'COUNT', 1) > 0 and committed or last) + 1
  end
  local left, length = last - tonumber(progress('done') or 0), redis.call('XLEN', STREAM)
  local lag = math.min(left, length, last + 1 - first) + tonumber(progress('staged') or 0)
  local pending = redis.pcall('XPENDING', STREAM, GROUP)
  local held = math.max(pending.err and 0 or pending[1], tonumber(redis.call('HGET', PROGRESS, 'count') or 0))
  local clock = redis.call('TIME')
  local age = oldest and math.max(0, math.floor(clock[1] * 1000 + clock[2] / 1000 - tonumber(oldest[2][6])))
  local head = not pending.err and redis.call('XPENDING', STREAM, GROUP, '-', '+', 1)[1] or {'', '', 0, 0}
  return {first, last + 1, lag, held, age or '', math.max(0, left - length), head[1], head[4]}
end
local MOST_BYTES, answers = 2 ^ 21, {}
for nth, partition in ipairs(ARGV) do
  if looked_at > MOST_BYTES then break end
  local keys = {}
  for n, name in ipairs(KEYS) do keys[n] = name:gsub('#', partition) end
  begin_partition(unpack(keys, 1, 9))
  answers[nth] = where()
end
return answers

--@script reach
#!lua flags=no-writes
--@include partition
--@include logged
-- The first entry that was sent at some time or later: so many are looked at in one script. ARGV: behind which to begin ('': what is
-- finished with), the number to end before, milliseconds since 1970 ('': no time).
-- Answer: the number that was reached, how many entries came before it, and behind which to go on ('': that is all).
--
-- They are looked at one by one: clocks that were set back, and entries that came from another partition, are not in the order of time.
local MOST, MOST_BYTES = 1000, 2 ^ 20
local behind, finish, since = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if behind == '' then behind = id(done_up_to()) end
local last, passed, looked, bytes = tonumber(progress('last') or 0), 0, 0, 0
while looked < MOST and bytes < MOST_BYTES do
  local some = at_once(MOST - looked)
  local entries = redis.call('XRANGE', STREAM, '(' .. behind, '(' .. id(finish), 'COUNT', some)
  for _, entry in ipairs(entries) do
    looked, bytes, behind = looked + 1, bytes + size_of(entry[2]), entry[1]
    if ours(entry, last) then
      if since and tonumber(entry[2][6]) >= since then return {number(entry[1]), passed, ''} end
      passed = passed + 1
    end
  end
  if #entries < some then return {finish, passed, ''} end
end
return {finish, passed, behind}

--@script skip
#!lua flags=allow-oom
--@include partition
--@include logged
-- Finishes with everything before an entry, unread, in a partition without an owner. ARGV: the highest epoch that the ledger has for it, the
-- entry's number.
-- The epoch in force stays, and is paused: who had the partition last may still acknowledge what it has, and reads no more. The next grant
-- has a higher epoch. Likewise a Spark query that reads a range is refused from now on, as by a later one.
-- Answer: OK; MORE: repeating it goes on with that; GRANTED: the partition was granted at a higher epoch; OUTSIDE: such a number is not
-- there; UNKNOWN: there is no such partition.
if unmade() then return 'UNKNOWN' end
local _, epoch = record()
if epoch > tonumber(ARGV[1]) then return 'GRANTED' end
local last, offset = look(), tonumber(ARGV[2])
if offset - 1 > last or offset <= done_up_to() then return 'OUTSIDE' end
redis.call('HSET', OWNER, 'paused', '1', 'within', '')
if progress('logged') then fence_query(tonumber(progress('query') or 0) + 1) end
return finish_up_to(offset - 1, summary()) and 'OK' or 'MORE'

--@script letters
#!lua flags=no-writes
--@include partition
-- Dead letters, a page at a time, without their values. ARGV: the first id, the last one, how many, and bytes of a text that are told.
-- Answer: of each its id, offset, key, bytes of the key, bytes of the value, timestamp, deliveries, and why.
local MOST_BYTES = 2 ^ 20 -- letters are copied with all that they carry, while the server serves no other client: a page may have fewer
local from, most, page, bytes = ARGV[1], tonumber(ARGV[4]), {}, 0
while #page < tonumber(ARGV[3]) and bytes < MOST_BYTES do
  local letter = redis.call('XRANGE', DEAD, from, ARGV[2], 'COUNT', 1)[1]
  if not letter then break end
  local fields = {}
  for n = 1, #letter[2], 2 do fields[letter[2][n]] = letter[2][n + 1] end
  local function told(name) return (fields[name] or ''):sub(1, most) end
  local key, value = fields['key'] or '', fields['value'] or ''
  bytes = bytes + size_of(letter[2])
  from = '(' .. letter[1]
  page[#page + 1] = {letter[1], told('offset'), told('key'), #key, #value, told('timestamp'), told('deliveries'), told('why')}
end
return page
