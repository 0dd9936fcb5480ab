"""Redis queues, as a pod of one group has them."""

from baton.model.ids import QueueName, Uid
from baton.queues.redis import RedisAnnouncements, RedisReader
from baton.queues.redis.url import read


class RedisConsumerSide:
    """`ConsumerSide` (baton.queues.consumer_side) of Redis: one server has all the group's queues."""

    def __init__(self, url: str, group: str, uid: Uid) -> None:
        """`group` is namespace/name. Raises QueueUnreachable for what is no URL of a Redis."""
        read(url, own=True)
        self._url, self._group, self._uid = url, group, uid

    def reader(self, queue: QueueName) -> RedisReader:
        return RedisReader(self._url, f"{self._group.partition('/')[0]}/{queue}", self._uid)

    def announcements(self) -> RedisAnnouncements:
        return RedisAnnouncements(self._url, self._group, self._uid)
