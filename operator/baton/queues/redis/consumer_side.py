"""The consumer's side of Redis queues."""

from baton.model.ids import QueueName, Uid
from baton.queues.redis import RedisAnnouncements, RedisReader
from baton.queues.redis.url import read


class RedisConsumerSide:
    """`ConsumerSide` (baton.queues.consumer_side) of Redis. One server has all queues of the group."""

    def __init__(self, url: str, group: str, uid: Uid) -> None:
        """`group` is namespace/name. Raises QueueUnreachable for an invalid Redis URL."""
        read(url, own=True)
        self._url, self._group, self._uid = url, group, uid

    def reader(self, queue: QueueName) -> RedisReader:
        return RedisReader(self._url, f"{self._group.partition('/')[0]}/{queue}", self._uid)

    def announcements(self) -> RedisAnnouncements:
        return RedisAnnouncements(self._url, self._group, self._uid)
