"""A fleet of two drivers from its first rows to its last under injected faults. Prints a line per fault, and checks the table."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.file_sink import committed, out_of_order, written
from tests.integration.spark.chaos import Chaos, Trouble, running
from tests.promises import promised
from tests.waiting import until

BUSY = 240.0
"""Seconds that a busy machine may take to start a driver and its executors, and until a fleet works again."""
_TOLD_EVERY = 15.0


def see_every_row_once(folder: Path, seed: int, troubles: Iterable[Trouble]) -> None:
    """Inject these faults into a fleet under load, and read its table. Raises AssertionError if a row is missing, written twice,
    or after a later row of its partition."""
    with running(folder) as chaos:
        course = _Course(chaos, seed)
        try:
            course.until(lambda: chaos.rows() > 0, "the first rows are in the table")
            for trouble in troubles:
                course.rest(trouble)
                course.tell(str(trouble))
                chaos.befall(trouble)
            course.rest(trouble)
            chaos.mend()  # before: nothing can be sent while Redis is full or away
            sent = chaos.producer.stop()
            course.tell(f"all is mended, {sent:,} were sent")
            course.until(lambda: chaos.rows() >= sent, "all rows are in the table")
        except BaseException:
            for driver in chaos.drivers:
                print((folder / f"{driver}.log").read_text()[-4000:])
            raise
        rows = written(chaos.table)
        twice = [place for place, count in rows.items() if count > 1]
        with promised():
            assert not twice, f"seed {seed}: {twice[:10]}"
            assert len(rows) == sent, f"seed {seed}"
            assert out_of_order(chaos.table) == [], f"seed {seed}"
        batches = len(committed(chaos.table / "_spark_metadata"))
        course.tell(f"each once and in order, in {batches} batches; drivers were started {chaos.starts()} times")


class _Course:
    """What happens, and when."""

    def __init__(self, chaos: Chaos, seed: int) -> None:
        self._chaos, self._seed = chaos, seed
        self._begun = self._told = time.monotonic()

    def tell(self, what: str) -> None:
        self._told = time.monotonic()
        print(f"seed {self._seed}: {self._told - self._begun:5.1f} s, {self._chaos.rows():,} rows: {what}", flush=True)

    def until(self, look: Callable[[], bool], what: str) -> None:
        """Like `tests.waiting.until`, but restarts ended processes and undoes faults that are over."""

        def going() -> bool:
            self._chaos.go_on()
            if time.monotonic() - self._told > _TOLD_EVERY:
                self.tell(f"waiting until {what}")
            return look()

        until(going, what, BUSY)

    def rest(self, trouble: Trouble) -> None:
        """Wait until the fleet may be disturbed."""
        begun, before = time.monotonic(), self._chaos.rows()
        self.until(lambda: time.monotonic() - begun >= trouble.pause, "it is time")
        if trouble.at_work:
            self.until(lambda: self._chaos.rows() > before, "there are more rows in the table")
