"""Until when a partition that is called back may be finished with: the ledger's key `group` says so, or the queue."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from baton.model.ids import Epoch, Partition
from baton.model.names import LEDGER_GROUP_KEY
from baton.model.ranges import parse_grants

Left = Callable[[Partition, Epoch], float | None]
"""Seconds until a partition that is called back is taken away from who owns it at this epoch; None: not known."""

_LARGEST = 2**20
"""Bytes. No ConfigMap is larger."""


class LedgerDeadlines:
    """Reads the key as it is mounted, when it is asked."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970, as the API server has it (`ApiConnection.clock`). It may differ all the same, so no answer
        is beyond what the hand-off was given in all."""
        self._file = directory / LEDGER_GROUP_KEY
        self._clock = clock

    def left(self, partition: Partition, epoch: Epoch) -> float | None:
        """Seconds until it is taken away from who owns it at this epoch; None: the ledger does not say."""
        try:
            with self._file.open(encoding="utf-8") as file:
                raw = json.loads(file.read(_LARGEST))
            for move in raw.get("moves", ()):
                if _grants(move, partition.queue).get(partition.number, epoch) > epoch:
                    return max(0.0, min(float(move["length"]), float(move["deadline"]) - self._clock()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        return None


def _grants(move: dict[str, dict[str, dict[str, str]]], queue: str) -> dict[int, Epoch]:
    """Partitions that move, and at which epoch."""
    grants = [by_queue[queue] for by_queue in move["to"].values() if queue in by_queue]
    return {number: epoch for text in grants for number, epoch in parse_grants(text).items()}


def first_known(*sources: Left) -> Left:
    """Ask one after the other."""

    def left(partition: Partition, epoch: Epoch) -> float | None:
        return next((seconds for source in sources if (seconds := source(partition, epoch)) is not None), None)

    return left
