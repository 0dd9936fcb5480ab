"""Lists of partitions, cut where they are longer than anybody reads. Pure."""

from collections.abc import Iterable

from baton.engine.partition_text import write_numbers
from baton.model.ids import Partition, QueueName


def short(ranges: str, most: int) -> str:
    """`0-3,7,9,…`: at most so many characters of `0-3,7,9,11-40`."""
    return ranges if len(ranges) <= most else ranges[: ranges.rfind(",", 0, most) + 1] + "…"


def short_numbers(partitions: Iterable[Partition], most: int) -> dict[QueueName, str]:
    """`{"orders": "0-3,7"}`"""
    return {queue: short(ranges, most) for queue, ranges in write_numbers(partitions).items()}
