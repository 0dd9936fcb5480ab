#!lua flags=allow-oom
--@include partition
local _, _, paused = record()
return paused and in_use() or outstanding()
