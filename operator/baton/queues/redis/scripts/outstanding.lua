#!lua flags=allow-oom
--@include partition
return outstanding()
