"""A driver in a process of its own, which a test may kill: writes a queue's entries to files until it is ended."""

import sys
import time
from pathlib import Path

from tests.integration.spark.world import World
from tests.local_spark import local_spark


def main(url: str, folder: str, partitions: str, table: str, temporary_files: str) -> None:
    orders = World(local_spark(Path(temporary_files), "512m"), url, Path(folder), int(partitions), epoch=int(time.time()))
    orders.share_out(int(partitions))
    orders.fleet_here(repeat_wait=20)
    orders.to_files(Path(table), maxRowsPerTrigger=100).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
