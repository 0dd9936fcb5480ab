"""What the consumers of `tests.e2e.reader` have left behind."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping

import redis

from demo.audit import Verdict, audit
from demo.records import Evidence, Processed
from tests.load.witness import Witness
from tests.promises import promised


def rows(server: redis.Redis, queue: str) -> list[Processed]:
    """All processings, in order. `queue` is namespace/name."""
    return [Processed(*json.loads(text[1:]))._replace(late=text[:1] == b"1") for text in server.lrange(_list(queue), 0, -1)]


def processings(server: redis.Redis, queue: str) -> int:
    """How many there are, late ones included."""
    return int(server.llen(_list(queue)))


@promised()
def judged(produced: Mapping[str, int], found: list[Processed], witness: Witness | None) -> Verdict:
    """The verdict on a run: nothing lost, done twice in silence, out of order, or under two owners. `produced`: key -> its last
    sequence. Raises BrokenPromiseError."""
    verdict = audit(Evidence(produced, found, *((witness.fences, witness.attempts) if witness else ())))
    assert verdict.clean, verdict
    assert verdict.produced == verdict.processed > 0
    assert double_owners(found) == []
    assert witness is None or witness.broken == [], witness.broken
    return verdict


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
