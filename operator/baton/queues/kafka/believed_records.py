"""Which owner records the operator believes.

Whoever may READ a group may commit a record, by a transaction of its own. The operator grants above what it finds, so an epoch
near the highest that a record may have would leave none to grant: one that no operator has come to is granted over instead.
"""

import logging
import time
from collections.abc import Mapping

from baton.model.ids import Epoch
from baton.model.ranges import format_numbers
from baton.queues.kafka.client import KafkaClient
from baton.queues.kafka.record import Committed

log = logging.getLogger(__name__)

_NOBODYS = 2**53
"""By itself no operator comes to this epoch, with a grant in each second not in 285 million years. After a record that is just
below it does, and goes on there: pods read records far beyond."""
_TOLD_FOR = 600.0
"""Seconds for which a record that was granted over is told."""


class BelievedRecords:
    """Of one topic, for one group."""

    def __init__(self, client: KafkaClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._known: dict[int, Epoch] = {}
        """The highest epoch of each partition that the group has asked for."""
        self._forged: dict[int, tuple[Epoch, float]] = {}
        """Epochs that are not believed, and when each was seen last (monotonic)."""

    def asked_for(self, partition: int, epoch: Epoch) -> None:
        self._known[partition] = max(epoch, self._known.get(partition, epoch))

    def believed(self, partition: int, seen: Committed) -> Committed:
        """The same, without a record that is not."""
        record = seen.record
        if record is None or record.epoch < _NOBODYS or record.epoch <= self._known.get(partition, 0):
            return seen
        if self._forged.get(partition, (None, 0.0))[0] != record.epoch:
            log.warning("%s/%d: %s", self._topic, partition, self._why([partition], record.epoch))
        self._forged[partition] = record.epoch, time.monotonic()
        return seen._replace(record=None)

    def all_believed(self, committed: Mapping[int, Committed]) -> dict[int, Committed]:
        return {number: self.believed(number, one) for number, one in committed.items()}

    def warnings(self) -> tuple[str, ...]:
        """What was not believed lately."""
        since = time.monotonic() - _TOLD_FOR
        self._forged = {number: one for number, one in self._forged.items() if one[1] > since}
        if not self._forged:
            return ()
        highest = max(epoch for epoch, _ in self._forged.values())
        return (self._why(sorted(self._forged), highest),)

    def _why(self, partitions: list[int], epoch: int) -> str:
        return (
            f"{self._client.address.place}: the group {self._client.group} had an owner record of partitions "
            f"{format_numbers(partitions)} of {self._topic} that no operator has written (epoch {epoch}). It is granted over, "
            "and read on from the place beside it: see whether that is the right one, and who commits into the group, for which "
            "it takes READ"
        )
