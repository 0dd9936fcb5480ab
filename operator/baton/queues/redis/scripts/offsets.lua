#!lua flags=no-writes
--@include partition
--@include logged
-- Where a partition is, for whoever looks. Nothing is written: who looks changes nothing.
-- Answer: the first entry that is not finished with, the next number, how many entries are not finished with, and how many of these were
-- handed out, and how long ago (ms) the first of them was sent ('': not known), and how many vanished
-- unfinished besides those that were counted before, and the oldest that was handed out ('': none was), and how often; nothing of a
-- partition that there is not. Behind much that is not ours the first is not looked for, as in `bounds`.
if unmade() then return {} end
local committed, last = done_up_to(), tonumber(progress('last') or 0)
local some = #redis.call('XRANGE', STREAM, '(' .. id(committed), id(last), 'COUNT', 1) > 0
local first = first_behind(committed, last, true) or (some and committed or last) + 1
local left, length = last - tonumber(progress('done') or 0), redis.call('XLEN', STREAM)
local lag = math.min(left, length, last + 1 - first) + tonumber(progress('staged') or 0)
local pending = redis.pcall('XPENDING', STREAM, GROUP)
local held = math.max(pending.err and 0 or pending[1], tonumber(redis.call('HGET', PROGRESS, 'count') or 0))
local oldest, clock = redis.call('XRANGE', STREAM, id(first), id(first))[1], redis.call('TIME')
local age = oldest and ours(oldest, last) and math.max(0, math.floor(clock[1] * 1000 + clock[2] / 1000 - tonumber(oldest[2][6])))
local head = not pending.err and redis.call('XPENDING', STREAM, GROUP, '-', '+', 1)[1] or {'', '', 0, 0}
return {first, last + 1, lag, held, age or '', math.max(0, left - length), head[1], head[4]}
