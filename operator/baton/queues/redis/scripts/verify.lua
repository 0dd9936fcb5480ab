#!lua flags=allow-oom
--@include partition
-- Is the caller still the owner? ARGV: uid, epoch.
return fence(ARGV[1], ARGV[2]) or {'OK'}
