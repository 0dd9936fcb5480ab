"""A topic, followed from when a group began with it: what it has got since is read from its beginning."""

from collections.abc import Iterable

from baton.queues.kafka.client import KafkaClient
from baton.queues.kafka.record import Record
from baton.queues.kafka.topic import Topic, describe


class FollowedTopic:
    """Of one group."""

    def __init__(self, client: KafkaClient, name: str, begun_with: str | None) -> None:
        """`begun_with`: the id of the topic with which the group began; None: with the one that is there."""
        self._client = client
        self._name = name
        self._begun_with = begun_with
        self.last: Topic | None = None
        """As it was described last."""
        self.first: int | None = None
        """How many partitions it had when the group began, once that is known; 0: it is another one, made again since."""

    async def described(self) -> Topic:
        """As it is now. All of one that was made in the place of the first is read, as of new partitions. Raises
        QueueUnreachable."""
        topic = self.last = await describe(self._client, self._name)
        self._begun_with = self._begun_with or topic.topic_id
        if topic.topic_id != self._begun_with:
            self.first = 0
        return topic

    def began(self, topic: Topic, records: Iterable[Record]) -> None:
        """The group began as these records say, which are all of the topic's; with what it has now, where there is none."""
        known = [record.first if record.topic_id == topic.topic_id else 0 for record in records]
        self.first = min(known, default=topic.partitions)

    def is_new(self, partition: int) -> bool:
        """It came since the group began."""
        return self.first is not None and partition >= self.first
