"""Kafka queues as a pod of one group uses them."""

from functools import partial

from baton.model.extras import extra
from baton.model.ids import QueueName, Uid
from baton.queues.kafka.address import read

with extra("kafka"):
    from baton.queues.kafka.announcements import KafkaAnnouncements
    from baton.queues.kafka.direct_handoffs import DirectHandoffs
    from baton.queues.kafka.event_loop import EventLoopThread
    from baton.queues.kafka.fetcher import Fetcher, PodFetchers, fetching_client
    from baton.queues.kafka.reader import KafkaReader


class KafkaConsumerSide:
    """`ConsumerSide` (baton.queues.consumer_side) of Kafka: all queues of the group are in one cluster."""

    def __init__(self, url: str, group: str, uid: Uid) -> None:
        """`group` is namespace/name. Raises QueueUnreachable for a malformed URL."""
        self._address = read(url)
        self._group = self._address.group or group.replace("/", ".", 1)
        self._uid = uid
        self._shared = EventLoopThread(), DirectHandoffs(), PodFetchers(partial(Fetcher, self._address, self._group))
        fetching_client(self._address, self._group).close()  # wrong settings fail at once

    def reader(self, queue: QueueName) -> KafkaReader:
        return KafkaReader(self._address, self._group, queue, self._uid, *self._shared)

    def announcements(self) -> KafkaAnnouncements:
        return KafkaAnnouncements(self._address, self._group, self._uid, *self._shared)
