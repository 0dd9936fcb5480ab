"""An idle consumer checks its partitions when something is due, and not before."""

import time
from collections.abc import Sequence
from typing import Any, cast

import pytest

from baton.consumer import Consumer, Retry, turns
from baton.consumer.entry import HeldEntry
from baton.consumer.handler_options import CheckedOptions, HandlerOptions
from baton.model.ids import Epoch
from baton.queues.entry import Entry
from baton.testing import InMemoryReader, TestQueue
from tests.unit.consumer.readers import queue_of
from tests.waiting import HOUR, until

DELAY = 0.2


class SlowReader(InMemoryReader):
    """Partition 1 says twice that it has something, has nothing, and takes until the retry in partition 0 is due to say so."""

    consumer: Consumer
    wrong = 0

    def ready(self, partition: int, epoch: Epoch) -> bool:
        return self.wrong > 0 if partition == 1 else super().ready(partition, epoch)

    def read(self, partition: int, *asked: Any, **how: Any) -> Sequence[Entry]:
        if partition == 1 and self.wrong:
            self.wrong -= 1
            if self.wrong:
                self.consumer.interrupt()
            else:
                begun = time.monotonic()
                until(lambda: time.monotonic() > begun + DELAY)
        return super().read(partition, *asked, **how)


def test_what_falls_due_while_others_are_served_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_IDLE", HOUR)
    queue, reader = queue_of(SlowReader, 2)
    reader.consumer = queue.consumer()
    tries: list[str] = []

    def handle(entry: HeldEntry) -> None:
        tries.append(entry.offset)
        if len(tries) == 1:
            reader.wrong = 2
            raise Retry("later", delay=DELAY)

    with queue:
        queue.send("k", "v", partition=0)
        queue.start(handle, consumer=reader.consumer)
        until(lambda: len(tries) == 2)


class ComesMeanwhile(InMemoryReader):
    """Partition 0 gets an entry that its wait does not report, while the consumer collects the partitions at rest."""

    consumer: Consumer
    late = False

    def ready(self, partition: int, epoch: Epoch) -> bool:
        turns = self.consumer._loop._turns
        if self.late and turns.dispatcher.wants and any(holding.waiting for holding in turns.holdings):
            self.late, self._waits_for = False, frozenset()
            self.append(0, b"other", b"v", {})
        return super().ready(partition, epoch)


def test_what_comes_for_another_key_while_one_waits_for_its_retry_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_IDLE", HOUR)
    queue, reader = queue_of(ComesMeanwhile)
    reader.consumer = queue.consumer()

    def handle(entry: HeldEntry) -> None:
        if entry.key == b"failing" and not entry.attempt:
            reader.late = True
            raise Retry("later", delay=HOUR)

    with queue:
        queue.send("failing", "v")
        queue.start(handle, consumer=reader.consumer, order="key")
        until(lambda: [entry.key for entry in queue.acked] == [b"other"])
        queue.settled()


@pytest.mark.parametrize("size", [{"max_entries": 0}, {"max_bytes": 0}, {"max_wait": -1}, {"max_wait": float("nan")}])
def test_a_batch_that_could_have_nothing_is_refused(size: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=rf"^{next(iter(size))} is .*: set it to"):
        TestQueue().consumer().batches(**size)
    with pytest.raises(ValueError, match=rf"^{next(iter(size))} is .*: set it to"):
        CheckedOptions(**cast(HandlerOptions, {"max_entries": 1, **size}))


def test_a_switch_that_is_none_is_refused() -> None:
    """Any text would switch it on, and nothing would be acknowledged."""
    with pytest.raises(TypeError, match=r"manual_ack is 'no': set it to True or False"):
        CheckedOptions(**cast(HandlerOptions, {"manual_ack": "no"}))


@pytest.mark.parametrize("errors", [[ValueError], ValueError(), ("ValueError",)])
def test_what_is_no_tuple_of_exceptions_is_refused(errors: tuple[type[Exception], ...]) -> None:
    with pytest.raises(TypeError, match=r"dead_letter_on is .*: set it to a tuple of exceptions"):
        CheckedOptions(dead_letter_on=errors)
