"""The measured Spark, and the CPU time of its processes."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from baton.spark import jar_file
from tests.local_spark import EXECUTORS, local_spark

_ROOT = Path(__file__).parents[3]
_TICKS = os.sysconf("SC_CLK_TCK")
_EXECUTOR = re.compile(rb"CoarseGrainedExecutorBackend")


@contextmanager
def session(folder: Path, jars: Sequence[Path], java: str, executors: int = EXECUTORS) -> Iterator[SparkSession]:
    """`folder`: for temporary files of the JVMs; `jars`: more jars beside ours; `java`: options of the JVMs."""
    os.environ["PYTHONPATH"] = str(_ROOT)  # of Python workers beside the driver
    # A query that is stopped in a batch says so at ERROR.
    more = {
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.storage.blockManagerHeartbeatTimeoutMs": "120000",  # a busy machine is slow, and no executor is dead
        "spark.jars": ",".join(map(str, (jar_file.path(), *jars))),
    }
    spark = local_spark(folder, "1g", "FATAL", more, java, executors)
    try:
        yield spark
    finally:
        spark.stop()


class Processes:
    """CPU seconds of processes since their start, including their children."""

    def __init__(self, spark: SparkSession) -> None:
        java: Any = spark.sparkContext._jvm
        self._driver = int(java.java.lang.ProcessHandle.current().pid())

    def executors(self) -> float:
        return sum(_worked_by_all(pid) for pid in _children(self._driver) if _is_executor(pid))

    def driver(self) -> float:
        """The driver's JVM with its children except executors, and this process."""
        beside = sum(_worked_by_all(pid) for pid in _children(self._driver) if not _is_executor(pid))
        return _worked(self._driver) + beside + _worked(os.getpid())


def _worked_by_all(pid: int) -> float:
    return _worked(pid) + sum(_worked_by_all(child) for child in _children(pid))


def _worked(pid: int) -> float:
    """CPU seconds of a process, with its threads and its ended children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    own = int(fields[11]) + int(fields[12])
    # Of ended children: not of this process, which has started other things before.
    return (own if pid == os.getpid() else own + int(fields[13]) + int(fields[14])) / _TICKS


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, tasks.read_text().split())
        except OSError:  # a thread that has ended
            continue
    return found


def _is_executor(pid: int) -> bool:
    try:
        return _EXECUTOR.search(Path(f"/proc/{pid}/cmdline").read_bytes()) is not None
    except OSError:
        return False
