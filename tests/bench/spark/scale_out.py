"""Batches of a busy query while the fleet grows by an executor, compared with an executor that does not become a member."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from baton.spark import Directory, Fleet
from baton.spark.executors import Executor, SparkExecutors, location
from tests.bench.comparison import Case, compared, tell
from tests.bench.spark.measuring import beside, progress_of
from tests.integration.spark.world import World, wait_for

Work = Callable[[DataFrame], DataFrame]

MEMBERS = 2
"""Executors before the new one."""
_PARTITIONS = 6
_EVERY = 0.02
_AT_ONCE = 4


@dataclass(frozen=True)
class Pace:
    """The sizes of a run."""

    rounds: int
    holddown: float
    """Seconds of the operator's holddown: the default."""
    settle: float
    """Seconds before and after it."""


@dataclass
class Hidden:
    """Spark's executors without some, which are hidden from the fleet."""

    real: SparkExecutors
    ids: set[str] = field(default_factory=set)

    def registered(self) -> tuple[Executor, ...]:
        return tuple(one for one in self.real.registered() if one.id not in self.ids)

    def resize(self, total: int) -> None:
        self.real.resize(total)

    def end(self, ids: Iterable[str], *, idle: bool = False) -> Collection[str]:
        return self.real.end(ids, idle=idle)

    def jobs(self) -> int:
        return self.real.jobs()


@dataclass(frozen=True)
class Grown:
    """Measured seconds."""

    longest: float
    usual: float
    """Median of the batches before the new executor."""
    member: float
    """From Spark's registration of the executor until it is a member."""


class ScaleOut:
    """Measurements on a Spark with room for one more executor than there are members."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, pace: Pace) -> None:
        self._spark, self._url, self._folder, self._pace = spark, url, folder, pace
        self._executors = SparkExecutors(spark)
        wait_for(lambda: len(self._executors.registered()) == MEMBERS + 1, "the executors are registered")
        tell("warming up: an executor more")
        self._run(_in_python, joins=False)  # else the first would pay for what the driver loads once

    def cases(self) -> Iterator[Case]:
        for name, work in ("JVM", _in_the_jvm), ("Python", _in_python):
            found: dict[bool, list[Grown]] = {True: [], False: []}
            for nth in range(self._pace.rounds):
                for joins in found:
                    tell(f"an executor more, {name}, {'a' if joins else 'no'} member: round {nth + 1} of {self._pace.rounds}")
                    found[joins].append(self._run(work, joins=joins))
            ours, control = found[True], found[False]
            beside = f"an executor more, {name}; beside one that is no member"
            for what, of in ("longest batch", _longest), ("median batch before", _usual), ("registered to member", _member):
                yield compared(f"{what}, {beside}", "s", [of(one) for one in ours], [of(one) for one in control])

    def _run(self, work: Work, *, joins: bool) -> Grown:
        self._shrink()
        executors = Hidden(self._executors)
        with TemporaryDirectory(dir=self._folder) as folder:
            world = World(self._spark, self._url, Path(folder), _PARTITIONS)
            world.share_out(_PARTITIONS)
            environment = Directory(world.ledger, session=world.session)
            with Fleet(
                self._spark, group=world.name, queues={world.name: self._url}, environment=environment, executors=executors
            ), beside(partial(_send, world)):  # fmt: skip
                query = work(world.load()).writeStream.format("parquet").option("path", f"{folder}/rows")
                running = query.option("checkpointLocation", str(world.checkpoint)).start()
                try:
                    return self._grow(world, running, executors, joins=joins)
                finally:
                    running.stop()

    def _grow(self, world: World, query: StreamingQuery, executors: Hidden, *, joins: bool) -> Grown:
        wait_for(lambda: len(query.recentProgress) > 5, "batches run")
        time.sleep(self._pace.settle)
        members, began = set(world.ids()), time.time()
        if not joins:
            executors.ids = {str(number) for number in range(1000)} - members
        self._executors.resize(MEMBERS + 1)
        wait_for(lambda: len(world.ids()) > MEMBERS, "an executor is registered")
        registered = time.time()
        [new] = [one for one in self._executors.registered() if one.id not in members]
        if joins:
            wait_for(lambda: new.id in world.session.status.executors, "it is a member")
        else:  # as far as a new one has to come before it is spoken for
            java: Any = self._spark.sparkContext._jvm
            java.dev.baton.spark.WarmUp.tasks(self._spark.sparkContext._jsc.sc(), location(new), 1).count()
        member = time.time() - registered
        time.sleep(self._pace.holddown)
        if joins:
            _hand_off(world, query, new.id)
        time.sleep(self._pace.settle)
        batches = [(_began(one), one["durationMs"]["triggerExecution"] / 1000) for one in map(progress_of, query.recentProgress)]
        tell("  " + " ".join(f"{at - began:.1f}:{took:.2f}" for at, took in batches))
        longest = max(took for at, took in batches if at + took > began)
        return Grown(longest, median(took for at, took in batches[2:] if at + took <= began), member)

    def _shrink(self) -> None:
        self._executors.resize(MEMBERS)
        self._executors.end([one.id for one in self._executors.registered()[MEMBERS:]])
        wait_for(lambda: len(self._executors.registered()) == MEMBERS, "one executor has gone")


def _hand_off(world: World, query: StreamingQuery, to: str) -> None:
    """Move the executor's share to it, as the operator does, and wait until it has read some of that."""
    moved = range(0, _PARTITIONS, MEMBERS + 1)
    for number in moved:
        world.revoke(number)
    for number in moved:
        wait_for(partial(_released, world, number), "it is released")
    before = _read(query, moved)
    world.give(dict.fromkeys(moved, to))
    wait_for(lambda: _read(query, moved) > before, "it has read")


def _read(query: StreamingQuery, partitions: Iterable[int]) -> int:
    """The sum of the positions of these partitions."""
    [source] = progress_of(query.lastProgress)["sources"]
    [ends] = source["endOffset"].values()
    return sum(ends[str(number)] for number in partitions)


def _released(world: World, number: int) -> bool:
    return world.release(number) in world.session.status.releases


def _send(world: World, ended: Event) -> None:
    number = 0
    while not ended.wait(_EVERY):
        world.producer.send_many([(f"key-{(number + nth) % 60}", str(number + nth)) for nth in range(_AT_ONCE)])
        number += _AT_ONCE


def _in_the_jvm(rows: DataFrame) -> DataFrame:
    return rows.select("partition", "offset", F.upper(F.col("value").cast("string")).alias("value")).where("value <> ''")


def _in_python(rows: DataFrame) -> DataFrame:
    def work(pages: Any) -> Any:
        for page in pages:
            page["value"] = page["value"].str.decode("utf-8").str.upper()
            yield page

    return rows.select("partition", "offset", "value").mapInPandas(work, "partition int, offset bigint, value string")


def _began(progress: dict[str, Any]) -> float:
    return datetime.fromisoformat(progress["timestamp"]).timestamp()


def _longest(one: Grown) -> float:
    return one.longest


def _usual(one: Grown) -> float:
    return one.usual


def _member(one: Grown) -> float:
    return one.member
