"""A range that is lent several times: borrowers die in the middle, and earlier readers wake up. The rows stay the same."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from baton.queues.redis.keys import partition_keys
from tests.integration.redis.logged import Task
from tests.integration.spark.slow_rows import NUMBERS, both_wait, numbers, send_pages, slowly
from tests.integration.spark.stand_in import StandIn, started, values
from tests.integration.spark.world import executor_pids
from tests.redis_server import RedisServer
from tests.waiting import until


@pytest.fixture
def source(spark: SparkSession, server: RedisServer) -> Iterator[StandIn]:
    with StandIn(spark, server.url) as made:
        yield made


class Loan(NamedTuple):
    """A loan, as the queue records it."""

    evaluation: str
    attempt: int
    executor: str


def loan(source: StandIn, partition: int) -> Loan:
    """The last loan of the partition."""
    with source.raw() as raw:
        found = json.loads(str(raw.hget(partition_keys(source.queue, partition).progress, "loans"), "utf-8"))
    [(evaluation, (attempt, executor, _))] = found.items()
    return Loan(evaluation, attempt, executor.rpartition("/")[2])


@pytest.mark.long
def test_owner_and_borrowers_die_one_after_the_other_in_the_middle_and_the_rows_are_the_same(
    source: StandIn, tmp_path: Path
) -> None:
    source.producer.send_many([(f"key-{n}", f"{n}") for n in range(40_000)])
    read: list[list[str]] = []
    query = started(
        source.stream(), lambda rows, _: read.append(values(slowly(rows, tmp_path))), tmp_path / "checkpoint", available_now=True
    )
    both_wait(tmp_path, query)
    readers = [loan(source, 1).executor]
    for _ in range(2):
        (tmp_path / "waits-1").unlink()
        [pid] = executor_pids(readers[-1])
        os.kill(pid, signal.SIGKILL)
        until(lambda: (tmp_path / "waits-1").exists() or query.exception(), "another one is in the middle")
        readers.append(loan(source, 1).executor)
    assert len(set(readers)) == 3
    (tmp_path / "go").touch()
    query.awaitTermination()
    assert read == [sorted(str(n) for n in range(40_000))]
    assert {one["how"] for one in source.reports()} == {"owner", "lent"}


def test_who_wakes_up_behind_a_loan_is_refused_and_the_next_attempt_has_the_rows(source: StandIn, tmp_path: Path) -> None:
    send_pages(source)
    read: list[list[str]] = []

    query = started(
        source.stream(), lambda rows, _: read.append(numbers(slowly(rows, tmp_path))), tmp_path / "checkpoint", available_now=True
    )
    both_wait(tmp_path, query)
    later = time.monotonic()
    first = min((0, 1), key=lambda partition: loan(source, partition).attempt)
    evaluation, attempt, _ = loan(source, first)
    with source.raw() as raw:
        start, end = map(int, raw.hmget(partition_keys(source.queue, first).progress, "logged", "loggedTo"))
        borrower = Task(
            source.query, start, end, evaluation=evaluation, attempt=attempt + 1, executor="elsewhere", partition=first
        )
        how, entries = borrower.page(raw, source.queue, b"%d-0" % start)
    assert (how, len(entries)) == ("lent", 100)
    until(lambda: time.monotonic() - later > 1, "what was checked before is old")
    (tmp_path / "go").touch()
    query.awaitTermination()
    assert read == [NUMBERS]
    assert sorted(one["how"] for one in source.reports()) == ["owner", "owner", "refused"]
