"""The texts of partitions and grants of several queues in the ledger's key `group`."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from baton.model.ids import Epoch, Partition, QueueName
from baton.model.ledger import flat
from baton.model.ranges import format_grants, format_numbers, parse_grants, parse_numbers


def grouped(pairs: Iterable[tuple[Any, Partition]]) -> list[tuple[Any, list[Partition]]]:
    """The partitions of each key, sorted by key; None comes first."""
    groups: defaultdict[object, list[Partition]] = defaultdict(list)
    for key, partition in pairs:
        groups[key].append(partition)
    return sorted(groups.items(), key=lambda group: group[0] or "")


def by_queue(grants: Mapping[Partition, Epoch]) -> dict[QueueName, dict[int, Epoch]]:
    """The inverse of `baton.model.ledger.flat`."""
    queues: defaultdict[QueueName, dict[int, Epoch]] = defaultdict(dict)
    for partition, epoch in grants.items():
        queues[partition.queue][partition.number] = epoch
    return queues


def write_grants(grants: Mapping[Partition, Epoch]) -> dict[QueueName, str]:
    """`{"orders": "0-3@12,7@17"}`"""
    return {queue: format_grants(part) for queue, part in sorted(by_queue(grants).items())}


def write_numbers(partitions: Iterable[Partition]) -> dict[QueueName, str]:
    """`{"orders": "0-3,7"}`"""
    groups = grouped((partition.queue, partition) for partition in partitions)
    return {queue: format_numbers(partition.number for partition in part) for queue, part in groups}


def read_grants(raw: Mapping[str, str]) -> dict[Partition, Epoch]:
    """The inverse of `write_grants`. Raises ValueError for anything else."""
    return dict(flat({QueueName(queue): parse_grants(text) for queue, text in raw.items()}))


def read_numbers(raw: Mapping[str, str]) -> list[Partition]:
    """The inverse of `write_numbers`, sorted within a queue. Raises ValueError for anything else."""
    return [Partition(QueueName(queue), number) for queue, text in raw.items() for number in sorted(parse_numbers(text))]
