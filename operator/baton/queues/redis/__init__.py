"""Partitioned queues on Redis streams: the operator's side, producers and readers.

Each name is loaded on first access, so that the registry of kinds works without redis-py.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from baton.model.extras import extra

if TYPE_CHECKING:
    from baton.queues.producer_side import Sent
    from baton.queues.redis.adapter import RedisQueue
    from baton.queues.redis.announcements import RedisAnnouncements
    from baton.queues.redis.async_producer import AsyncPendingSend, AsyncRedisProducer
    from baton.queues.redis.dead_letters import RedisDeadLetters
    from baton.queues.redis.producer import PendingSend, RedisProducer
    from baton.queues.redis.reader import RedisReader

__all__ = [
    "AsyncPendingSend",
    "AsyncRedisProducer",
    "PendingSend",
    "RedisAnnouncements",
    "RedisDeadLetters",
    "RedisProducer",
    "RedisQueue",
    "RedisReader",
    "Sent",
]

_MODULES = {
    "producer_side": ("Sent",),
    "redis.adapter": ("RedisQueue",),
    "redis.announcements": ("RedisAnnouncements",),
    "redis.async_producer": ("AsyncPendingSend", "AsyncRedisProducer"),
    "redis.dead_letters": ("RedisDeadLetters",),
    "redis.producer": ("PendingSend", "RedisProducer"),
    "redis.reader": ("RedisReader",),
}
_WHERE = {name: f"baton.queues.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with extra("redis"):
        found = globals()[name] = getattr(import_module(_WHERE[name]), name)
    return found
