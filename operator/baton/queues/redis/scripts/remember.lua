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
