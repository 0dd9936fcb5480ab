"""What the consumers of `tests.e2e.reader` have left behind."""

import json
from collections import defaultdict
from collections.abc import Iterable

import redis

from demo.records import Processed


def rows(server: redis.Redis, queue: str) -> list[Processed]:
    """All processings, in order. `queue` is namespace/name."""
    return [Processed(*json.loads(text[1:]))._replace(late=text[:1] == b"1") for text in server.lrange(_list(queue), 0, -1)]


def processings(server: redis.Redis, queue: str) -> int:
    """How many there are, late ones included."""
    return int(server.llen(_list(queue)))


def double_owners(found: Iterable[Processed]) -> list[str]:
    """Partitions that two pods processed under one epoch, or whose taken results came from an epoch that was over."""
    broken = []
    pods: dict[tuple[int, int], set[str]] = defaultdict(set)
    latest: dict[int, int] = {}
    for row in found:
        pods[row.partition, row.epoch].add(row.executor)
        if row.late:
            continue
        if row.epoch < latest.get(row.partition, 0):
            broken.append(f"{row.key} #{row.sequence} was taken under epoch {row.epoch} after {latest[row.partition]}")
        latest[row.partition] = max(row.epoch, latest.get(row.partition, 0))
    broken += [
        f"partition {number} under epoch {epoch}: {sorted(those)}" for (number, epoch), those in pods.items() if len(those) > 1
    ]
    return broken


def _list(queue: str) -> str:
    return f"processed:{{{queue}}}"
