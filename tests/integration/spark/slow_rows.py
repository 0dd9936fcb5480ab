"""Batches that stop in the middle, for faults of their readers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from tests.integration.spark.stand_in import StandIn, started, values
from tests.waiting import until

_SIZE = 4000
_BUFFERS = sum(int(Path(f"/proc/sys/net/ipv4/{name}").read_text().split()[-1]) for name in ("tcp_rmem", "tcp_wmem"))
"""Bytes that the kernel may buffer between an executor and its Python worker: its maximum, which differs by machine."""
ROWS_IN_PAGES = 2 * (_BUFFERS * 5 // 4 // _SIZE)
"""Rows per partition that exceed this buffer, so that a task that is stopped in the middle has more to fetch."""
NUMBERS = [f"{n:05}" for n in range(ROWS_IN_PAGES)]


def send_pages(source: StandIn) -> None:
    """Send rows that begin with these numbers."""
    source.producer.send_many([(f"key-{n}", number + "." * _SIZE) for n, number in enumerate(NUMBERS)])


def numbers(rows: DataFrame) -> list[str]:
    """The numbers with which the rows begin."""
    found = rows.selectExpr("substring(cast(value AS string), 1, 5) AS number")
    return sorted(row.number for row in found.collect())


def slowly(rows: DataFrame, marks: Path) -> DataFrame:
    """The rows, which wait at the 500th of each partition until the folder has a file `go`."""
    folder = str(marks)

    def wait(parts):  # type: ignore[no-untyped-def]
        import time
        from pathlib import Path

        for nth, row in enumerate(parts):
            if nth == 500:
                (Path(folder) / f"waits-{row.partition}").touch()
                while not (Path(folder) / "go").exists():
                    time.sleep(0.02)
            yield row

    return rows.rdd.mapPartitions(wait).toDF(rows.schema)


def read_slowly(source: StandIn, folder: Path, found: Callable[[DataFrame], Any] = values) -> tuple[StreamingQuery, list[Any]]:
    """Start a query whose rows wait in the middle. Return it once both executors are there, and what it finds."""
    read: list[Any] = []
    query = started(
        source.stream(), lambda rows, _: read.append(found(slowly(rows, folder))), folder / "checkpoint", available_now=True
    )
    both_wait(folder, query)
    return query, read


def both_wait(marks: Path, query: StreamingQuery) -> None:
    """Wait until both executors are in the middle, or the query has failed."""
    until(lambda: len(list(marks.glob("waits-*"))) == 2 or query.exception(), "both executors are in the middle")
