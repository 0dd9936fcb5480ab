"""Where the log of each partition of a topic begins and ends, for somebody who asks again and again."""

import time
from collections.abc import Iterable

from baton.queues.kafka.client import KafkaClient
from baton.queues.kafka.topic import LogEnd, Topic, describe, offsets
from baton.queues.protocol import QueueUnreachable

_KNOWN_FOR = 5.0
"""Seconds until the topic is described again: its partitions may have become more."""


class TopicLog:
    """Used in one event loop. Its methods raise QueueUnreachable."""

    def __init__(self, client: KafkaClient, topic: str) -> None:
        self.client = client
        self.name = topic
        self._topic: Topic | None = None
        self._described_at = 0.0

    async def topic(self, *, fresh: bool = False) -> Topic:
        """As it was a few seconds ago at most; `fresh`: as it is now."""
        if fresh or self._topic is None or time.monotonic() - self._described_at > _KNOWN_FOR:
            self._topic, self._described_at = await describe(self.client, self.name), time.monotonic()
        return self._topic

    async def offsets(self, place: LogEnd, partitions: Iterable[int]) -> dict[int, int]:
        """Of those of the partitions that have a leader, as a reader of committed messages sees it."""
        topic, asked = await self.topic(), dict.fromkeys(partitions, place)
        try:
            found = await offsets(self.client, topic, asked)
        except QueueUnreachable:
            self._topic = None  # another broker may lead by now
            raise
        if found.keys() != asked.keys():
            self._topic = None
        return found
