"""Python's garbage collector in a process that keeps millions of objects for long.

A full collection looks at each of them, and nothing else runs meanwhile: a third of a second with a thousand groups and ten
thousand pods, and lists bring one about every few seconds. So whenever one takes long, what has survived it is left out of those
to come (`gc.freeze`). Nearly everything here goes when nobody refers to it, collected or not; for what does not, all of it is
looked at again when it has doubled. That holds everything up for tenths of a second, so a leader puts it off: until what is left
out might be the memory that it lacks.
"""

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

LONG = 0.03
"""Seconds."""

LOOK_EVERY = 600.0
"""Seconds between two looks at how much is left out."""

MANY = 1_000_000
"""Objects that may be left out before all is looked at again; by a leader, so many more."""


class Collector:
    """There is one in a process."""

    def __init__(self, leads: Callable[[], bool]) -> None:
        self._leads = leads
        self._began = 0.0
        self._after_all = 0
        """Objects that were left out when all had been looked at."""

    def begin(self) -> None:
        gc.callbacks.append(self._heard)

    def end(self) -> None:
        gc.callbacks.remove(self._heard)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if self.due:
                self.look_at_all()

    @property
    def due(self) -> bool:
        """So much is left out that all is to be looked at again."""
        return gc.get_freeze_count() > MANY * (1 + self._leads()) + 2 * self._after_all

    def look_at_all(self) -> None:
        """It takes long, and is seldom."""
        gc.unfreeze()
        gc.collect()
        self._after_all = gc.get_freeze_count()

    def _heard(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began = time.monotonic()
        elif info["generation"] == 2 and time.monotonic() - self._began > LONG:
            gc.freeze()
