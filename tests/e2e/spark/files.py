"""The output of the example in its volume."""

from pathlib import Path

from tests.e2e.spark.shop import Shop
from tests.file_sink import written
from tests.left_undone import open_batches


class Files:
    """The example's volume."""

    def __init__(self, folder: Path, shop: Shop) -> None:
        self._folder, self._shop = folder, shop

    def count(self) -> int:
        return sum(written(self._folder / "output", Path("/data/output")).values())

    def holds(self, sent: int) -> bool:
        return self.count() >= sent

    def once(self, sent: int) -> bool:
        """Whether every entry is in the files exactly once."""
        rows = written(self._folder / "output", Path("/data/output"))
        return len(rows) == sent and set(rows.values()) == {1}

    def open_batches(self) -> list[int]:
        """Unfinished batches, from the checkpoint."""
        return open_batches(self._folder / "checkpoint")
