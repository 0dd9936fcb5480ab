"""What the example has written into its volume."""

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
        """Every entry is in the files, and exactly once."""
        rows = written(self._folder / "output", Path("/data/output"))
        return len(rows) == sent and set(rows.values()) == {1}

    def open_batches(self) -> list[int]:
        """By the checkpoint: those that Spark has begun, and is not done with."""
        return open_batches(self._folder / "checkpoint")
