"""Partitioned queues on Redis streams: the operator's side, producers and readers."""

from baton.queues.entry import Entry, Plan
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.redis.adapter import RedisQueue
from baton.queues.redis.announcements import RedisAnnouncements
from baton.queues.redis.dead_letters import Letter, LetterId, LetterLine, RedisDeadLetters
from baton.queues.redis.producer import RedisProducer
from baton.queues.redis.reader import RedisReader

__all__ = [
    "Entry",
    "Letter",
    "LetterId",
    "LetterLine",
    "PartitionPaused",
    "Plan",
    "RedisAnnouncements",
    "RedisDeadLetters",
    "RedisProducer",
    "RedisQueue",
    "RedisReader",
    "StaleOwner",
]
