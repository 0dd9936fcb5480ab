"""Partitioned queues on Redis streams: the operator's side, producers and readers."""

from baton.model.extras import extra
from baton.queues.entry import Entry, Plan
from baton.queues.fence import PartitionPaused, StaleOwner

with extra("redis"):
    from baton.queues.redis.adapter import RedisQueue
    from baton.queues.redis.announcements import RedisAnnouncements
    from baton.queues.redis.async_producer import AsyncRedisProducer
    from baton.queues.redis.awaiting import AsyncPendingSend
    from baton.queues.redis.dead_letters import Letter, LetterId, LetterLine, RedisDeadLetters
    from baton.queues.redis.outgoing import Sent
    from baton.queues.redis.producer import PendingSend, RedisProducer
    from baton.queues.redis.reader import RedisReader

__all__ = [
    "AsyncPendingSend",
    "AsyncRedisProducer",
    "Entry",
    "Letter",
    "LetterId",
    "LetterLine",
    "PartitionPaused",
    "PendingSend",
    "Plan",
    "RedisAnnouncements",
    "RedisDeadLetters",
    "RedisProducer",
    "RedisQueue",
    "RedisReader",
    "Sent",
    "StaleOwner",
]
