"""When an idle consumer looks around: when something is due, and not before."""

import threading
import time
from typing import cast

import pytest

from baton.consumer import Consumer, Retry, turns
from baton.consumer.entry import HeldEntry
from baton.consumer.handler_options import CheckedOptions, Deserializers, HandlerOptions
from baton.model.ids import Epoch
from baton.queues.entry import Entry
from tests.in_memory_queue import InMemoryLedger, InMemoryQueue, consumer_of
from tests.waiting import HOUR, PATIENCE, until

DELAY = 0.2


class SlowQueue(InMemoryQueue):
    """Partition 1 says twice that it has something, has nothing, and takes until the retry in partition 0 is due to say so."""

    consumer: Consumer
    wrong = 0

    def ready(self, partition: int, epoch: Epoch) -> bool:
        return self.wrong > 0 if partition == 1 else super().ready(partition, epoch)

    def read(self, partition: int, epoch: Epoch, count: int = 100, *, most_bytes: int = 0, new: bool = True) -> list[Entry]:
        if partition == 1 and self.wrong:
            self.wrong -= 1
            if self.wrong:
                self.consumer.interrupt()
            else:
                begun = time.monotonic()
                until(lambda: time.monotonic() > begun + DELAY)
        return super().read(partition, epoch, count, new=new)


def test_what_falls_due_while_others_are_served_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_IDLE", HOUR)
    queue, ledger = SlowQueue(1), InMemoryLedger({0: 1, 1: 1})
    queue.consumer = consumer_of(queue, ledger)
    tries: list[str] = []

    def handle(entry: HeldEntry) -> None:
        tries.append(entry.offset)
        if len(tries) == 1:
            queue.wrong = 2
            raise Retry("later", delay=DELAY)

    running = threading.Thread(target=queue.consumer.run, args=(handle,), daemon=True)
    running.start()
    until(lambda: len(tries) == 2)
    ledger.says({})
    queue.consumer.stop()
    running.join(PATIENCE)


@pytest.mark.parametrize("size", [{"max_entries": 0}, {"max_bytes": 0}, {"max_wait": -1}, {"max_wait": float("nan")}])
def test_a_batch_that_could_have_nothing_is_refused(size: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=rf"^{next(iter(size))} is .*: set it to"):
        consumer_of(InMemoryQueue()).batches(**size)
    with pytest.raises(ValueError, match=rf"^{next(iter(size))} is .*: set it to"):
        CheckedOptions.of(cast(HandlerOptions, {"max_entries": 1, **size}), Deserializers())


def test_a_switch_that_is_none_is_refused() -> None:
    """Any text would switch it on, and nothing would be acknowledged."""
    with pytest.raises(TypeError, match=r"manual_ack is 'no': set it to True or False"):
        CheckedOptions.of(cast(HandlerOptions, {"manual_ack": "no"}), Deserializers())


@pytest.mark.parametrize("errors", [[ValueError], ValueError(), ("ValueError",)])
def test_what_is_no_tuple_of_exceptions_is_refused(errors: tuple[type[Exception], ...]) -> None:
    with pytest.raises(TypeError, match=r"dead_letter_on is .*: set it to a tuple of exceptions"):
        CheckedOptions.of(HandlerOptions(dead_letter_on=errors), Deserializers())
