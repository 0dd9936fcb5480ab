#!lua flags=allow-oom
--@include partition
-- Is the caller still the owner? ARGV: uid, epoch, process.
return fence(ARGV[1], ARGV[2], ARGV[3]) or {'OK'}
