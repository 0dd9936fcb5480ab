"""Until when a partition that is called back may be finished with: the ledger's key `group` says so, or the queue."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from baton.model.ids import Epoch, Partition
from baton.model.names import LEDGER_GROUP_KEY
from baton.model.ranges import parse_grants

Left = Callable[[Partition, Epoch], float | None]
"""Seconds until a partition that is called back is taken away from who owns it at this epoch; None: not known."""

_LARGEST = 2**20
"""Bytes. No ConfigMap is larger."""


class _Due(NamedTuple):
    """Of one move of a partition."""

    epoch: Epoch
    """Its receiver's."""
    length: float
    deadline: float
    """Since 1970."""


class LedgerDeadlines:
    """Reads the key as it is mounted, when it is asked, and once for all partitions until it is another. Any thread may ask."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970, as the API server has it (`ApiConnection.clock`). It may differ all the same, so no answer
        is beyond what the hand-off was given in all."""
        self._file = directory / LEDGER_GROUP_KEY
        self._clock = clock
        self._read: tuple[tuple[int, ...], Mapping[Partition, Sequence[_Due]]] | None = None
        """Which file it was, and what it said."""

    def left(self, partition: Partition, epoch: Epoch) -> float | None:
        """Seconds until it is taken away from who owns it at this epoch; None: the ledger does not say."""
        try:
            moves = self._moves()
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        for due in moves.get(partition, ()):
            if due.epoch > epoch:
                return max(0.0, min(due.length, due.deadline - self._clock()))
        return None

    def _moves(self) -> Mapping[Partition, Sequence[_Due]]:
        with self._file.open(encoding="utf-8") as file:
            about = os.fstat(file.fileno())
            which = about.st_dev, about.st_ino, about.st_mtime_ns, about.st_size
            if self._read is not None and self._read[0] == which:
                return self._read[1]
            found = _parsed(json.loads(file.read(_LARGEST)))
        self._read = which, found
        return found


def _parsed(group: dict[str, Any]) -> Mapping[Partition, Sequence[_Due]]:
    found: dict[Partition, list[_Due]] = {}
    for move in group.get("moves", ()):
        length, deadline = float(move["length"]), float(move["deadline"])
        for by_queue in move["to"].values():
            for queue, grants in by_queue.items():
                for number, epoch in parse_grants(grants).items():
                    found.setdefault(Partition(queue, number), []).append(_Due(epoch, length, deadline))
    return found


def first_known(*sources: Left) -> Left:
    """Ask one after the other."""

    def left(partition: Partition, epoch: Epoch) -> float | None:
        return next((seconds for source in sources if (seconds := source(partition, epoch)) is not None), None)

    return left
