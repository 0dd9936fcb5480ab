"""Owner records that a group gives up: those of its queue, or what that has in a topic that is not its own."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from math import inf

from baton.queues.kafka.answers import StaleToken
from baton.queues.kafka.client import KafkaClient
from baton.queues.kafka.each import each
from baton.queues.kafka.record import Committed, Record
from baton.queues.kafka.topic_to_open import TopicToOpen
from baton.queues.kafka.transaction import PartitionTransactions
from baton.queues.protocol import Claimant, PartitionUnavailable, QueueUnreachable

log = logging.getLogger(__name__)


class GivingUp:
    """Of one queue. Methods raise QueueUnreachable; their answers are False where there was too much for so many seconds."""

    def __init__(self, client: KafkaClient, spec: TopicToOpen, claimant: Claimant) -> None:
        self._client = client
        self._spec = spec
        self._claimant = claimant

    async def elsewhere(self, found: Mapping[tuple[str, int], Committed], within: float = inf) -> bool:
        """What the queue has in another topic: its PartitionedQueue was another one, or somebody has committed it. `found`: all
        of the group."""
        ours = {self._claimant.uid, *self._claimant.takes_over}
        others = {place: one.record for place, one in found.items() if place[0] != self._spec.topic and one.record is not None}
        places = [place for place, one in others.items() if one.queue == self._spec.queue and one.group in ours]
        for topic in sorted({topic for topic, _ in places}):
            log.warning(
                "the group %s has owner records of the queue %s in the topic %s, and not in %s alone: its PartitionedQueue had "
                "that topic, or somebody has committed them there. They are given up",
                *(self._client.group, self._spec.queue, topic, self._spec.topic),
            )
            try:
                if not await self.of(topic, [number for name, number in places if name == topic], within):
                    return False
            except QueueUnreachable as problem:
                raise QueueUnreachable(
                    f"Queue {self._spec.queue} was read from the topic {topic} before, and its records there cannot be given up, "
                    "by which pods would read on there. Let the operator READ that topic, or take them out by "
                    f"kafka-consumer-groups.sh --delete-offsets --topic {topic}: {problem}"
                ) from None
        return True

    async def of(self, topic: str, partitions: Collection[int], within: float) -> bool:
        """These partitions of a topic."""
        given_up = await each(partial(self._give_up, PartitionTransactions(self._client, topic)), partitions, within)
        return len(given_up) == len(partitions)

    async def _give_up(self, transactions: PartitionTransactions, partition: int) -> None:
        try:
            await transactions.renewed(partition, _given_up)
        except StaleToken:
            raise others_grant(self._client, transactions.topic, partition) from None


def others_grant(client: KafkaClient, topic: str, partition: int) -> PartitionUnavailable:
    """Another takes its tokens."""
    return PartitionUnavailable(
        f"{client.address.place}: another operator grants partition {partition} of {topic} just now, under the group "
        f"{client.group}: see that only one does"
    )


def _given_up(seen: Committed) -> Record | None:
    """What its owner has in hand stays written down, for whoever has the partition next."""
    return replace(seen.record, group="", uid=None) if seen.record is not None else None
