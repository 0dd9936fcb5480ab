"""Partitioned queues on Redis streams: the operator's side, producers and readers."""

from baton.queues.entry import Entry, Plan
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.redis.adapter import RedisQueue
from baton.queues.redis.announcements import RedisAnnouncements
from baton.queues.redis.async_producer import AsyncDelivery, AsyncRedisProducer
from baton.queues.redis.dead_letters import Letter, LetterId, LetterLine, RedisDeadLetters
from baton.queues.redis.outgoing import Sent
from baton.queues.redis.producer import Delivery, RedisProducer
from baton.queues.redis.reader import RedisReader

__all__ = [
    "AsyncDelivery",
    "AsyncRedisProducer",
    "Delivery",
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
    "Sent",
    "StaleOwner",
]
