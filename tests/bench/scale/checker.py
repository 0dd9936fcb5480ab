"""Whether a group is right: its ledger beside the pods that live and the releases that they wrote. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from baton.model.ids import QueueName
from baton.model.ledger import MemberEntry, flat
from baton.model.names import LEDGER_GROUP_KEY


def wrong(ledger: Mapping[str, str], pods: Mapping[str, str], queues: Mapping[QueueName, int]) -> Iterator[str]:
    """What is wrong with a group at rest. `pods`: UIDs by name of those that live and are Ready; `queues`: their partitions."""
    entries = {key: MemberEntry.from_json(text) for key, text in ledger.items() if key != LEDGER_GROUP_KEY}
    owners: Counter[tuple[QueueName, int]] = Counter()
    for name, entry in entries.items():
        if pods.get(name) != entry.uid:
            yield f"{name} is in the ledger, and no pod of this UID lives"
        if any(entry.revoking.values()):
            yield f"{name} is still to release {sorted(partition.number for partition, _ in flat(entry.revoking))}"
        owners.update((partition.queue, partition.number) for partition, _ in flat(entry.owned))
    yield from (f"{name} is Ready, and not in the ledger" for name in pods.keys() - entries.keys())
    wanted = {(queue, number) for queue, count in queues.items() for number in range(count)} if pods else set()
    yield from (f"partition {number} of {queue} has no owner" for queue, number in sorted(wanted - owners.keys()))
    yield from (f"partition {number} of {queue} does not exist" for queue, number in sorted(owners.keys() - wanted))
    yield from (f"partition {number} of {queue} has {count} owners" for (queue, number), count in owners.items() if count > 1)
    counts = [entry.count for entry in entries.values()]
    if counts and max(counts) - min(counts) > 1:
        yield f"its members have from {min(counts)} to {max(counts)} partitions"


class Epochs:
    """Epochs and owners as a watch of ledgers shows them one after the other: what no moment alone can tell."""

    def __init__(self) -> None:
        self._owned: dict[tuple[str, QueueName, int], tuple[int, str]] = {}
        """By group, queue and partition: the last grant's epoch and UID."""
        self.broken: list[str] = []

    def see(self, group: str, entries: Iterable[MemberEntry]) -> None:
        """Of changed keys: an epoch only grows, and stands for one pod."""
        for entry in entries:
            for partition, epoch in flat(entry.owned):
                key = (group, partition.queue, partition.number)
                before = self._owned.get(key)
                if before is not None and (epoch < before[0] or (epoch == before[0] and entry.uid != before[1])):
                    self.broken.append(f"{group}: partition {partition.number} went from {before} to {(epoch, entry.uid)}")
                self._owned[key] = (epoch, entry.uid)


def settled(group: Mapping[str, Any]) -> bool:
    """A ConsumerGroup whose status has the condition Settled, for its present spec."""
    told = group.get("status") or {}
    current = told.get("observedGeneration") == group["metadata"]["generation"]
    conditions = told.get("conditions") or ()
    return current and any(one["type"] == "Settled" and one["status"] == "True" for one in conditions)
