"""A consumer runs once, and says so; one that does not run keeps nobody waiting."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.consumer.test_waiter import EmptyQueue

from baton.consumer import AssignmentSource, Consumer
from baton.model.ids import MemberId, Uid


def consumer(directory: Path) -> Consumer:
    return Consumer(lambda name: EmptyQueue(), AssignmentSource(directory, MemberId("pod"), Uid("u")), Uid("u"))


def test_batches_of_a_consumer_that_does_not_run_are_refused(tmp_path: Path) -> None:
    one = consumer(tmp_path)
    with pytest.raises(RuntimeError, match="use it in `with consumer:`"):
        next(one.batches())

    async def wait() -> None:
        await anext(one.batches())

    with pytest.raises(RuntimeError, match="use it in `with consumer:`"):
        asyncio.run(wait())
    with pytest.raises(RuntimeError, match="use it in `with consumer:`"):
        asyncio.run(one.serve(print))


def test_a_consumer_runs_once(tmp_path: Path) -> None:
    one = consumer(tmp_path)
    with one:
        pass
    assert list(one.batches()) == []
    with pytest.raises(RuntimeError, match="runs once"):
        one.run(print)


def test_a_consumer_without_partitions_stops_at_once(tmp_path: Path) -> None:
    one = consumer(tmp_path)
    with one:
        one.stop()
        assert list(one.batches()) == []


def test_what_fails_in_the_loop_is_raised_where_entries_are_waited_for(tmp_path: Path) -> None:
    class Broken(AssignmentSource):
        def current(self) -> None:
            raise ZeroDivisionError("a bug")

    one = Consumer(lambda name: EmptyQueue(), Broken(tmp_path, MemberId("pod"), Uid("u")), Uid("u"))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        one.run(print)
