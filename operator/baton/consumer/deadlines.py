"""Until when a partition that is called back may be finished with: the ledger's key `group` says so."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from baton.model.ids import Partition
from baton.model.names import LEDGER_GROUP_KEY
from baton.model.ranges import parse_grants

_LARGEST = 2**20
"""Bytes. No ConfigMap is larger."""


class LedgerDeadlines:
    """Reads the key as it is mounted, when it is asked."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970, as the API server has it. The machine's own may differ, so no answer is beyond what the
        hand-off was given in all."""
        self._file = directory / LEDGER_GROUP_KEY
        self._clock = clock

    def left(self, partition: Partition) -> float | None:
        """Seconds until it is taken away; None: the ledger does not say."""
        try:
            with self._file.open() as file:
                raw = json.loads(file.read(_LARGEST))
            for move in raw.get("moves", ()):
                if partition.number in _numbers(move, partition.queue):
                    return max(0.0, min(float(move["length"]), float(move["deadline"]) - self._clock()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        return None


def _numbers(move: dict[str, dict[str, dict[str, str]]], queue: str) -> set[int]:
    """Of the partitions that move."""
    grants = [by_queue[queue] for by_queue in move["to"].values() if queue in by_queue]
    return {number for text in grants for number in parse_grants(text)}
