"""No entry ends the consumer, and a consumer that ends for a fault of its own does not keep its Lease."""

import threading
from datetime import timedelta
from typing import Any

import pytest

from baton.consumer import Retry
from baton.consumer.batch import Batch
from baton.consumer.held_entry import HeldEntry
from baton.consumer.outcome import DeadLetter, Nack, outcome_of
from baton.consumer.session import Session
from baton.model.ids import Epoch
from tests.in_memory_lease import InMemoryLease
from tests.in_memory_queue import InMemoryQueue, consumer_of
from tests.waiting import until


class SilentError(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize("error", [ValueError("no such file caf\udce9"), SilentError(), Retry("caf\udce9")])
def test_why_an_entry_failed_is_text_that_every_queue_takes(error: Exception) -> None:
    outcome = outcome_of(error)
    assert isinstance(outcome, Nack)
    outcome.why.encode()


def test_words_of_a_program_are_text_that_every_queue_takes() -> None:
    queue = InMemoryQueue(2)
    with consumer_of(queue) as consumer:
        first, second = next(consumer.batches(max_entries=2))
        first.dead_letter("caf\udce9")
        second.dead_letter("caf\udce9").wait()
    for why in queue.dead.values():
        why.encode()


@pytest.mark.parametrize("delay", [timedelta(seconds=60), "soon", float("nan"), float("inf"), -1])
def test_a_delay_that_is_no_number_of_seconds_is_refused_where_it_is_given(delay: float) -> None:
    queue = InMemoryQueue(1)
    with pytest.raises((TypeError, ValueError)):
        Retry("why", delay=delay)
    with consumer_of(queue) as consumer:
        batch: Batch = next(consumer.batches())
        entry: HeldEntry = batch[0]
        for word in (batch, entry):
            with pytest.raises((TypeError, ValueError)):
                word.nack(delay)
        assert batch.ack().wait()


def test_a_reason_that_is_no_text_is_refused_where_it_is_given() -> None:
    error: Any = ValueError("no such customer")
    with consumer_of(InMemoryQueue(1)) as consumer:
        batch: Batch = next(consumer.batches())
        for word in (batch, batch[0]):
            with pytest.raises(TypeError, match=r"why is ValueError.*: set it to a text, such as str"):
                word.dead_letter(error)
            with pytest.raises(TypeError, match=r"why is ValueError.*: set it to a text, such as str"):
                word.nack(why=error)
        assert batch.ack().wait()


class Broken(InMemoryQueue):
    """A client library with a bug."""

    def ack(self, partition: int, epoch: Epoch, offsets: object, *, soon: bool = False) -> None:
        raise ZeroDivisionError("a bug")


def test_a_consumer_that_ends_for_a_fault_of_its_own_renews_its_lease_no_more() -> None:
    def sessions() -> int:
        return sum(thread.name == "baton-session" for thread in threading.enumerate())

    before = sessions()
    session = Session(InMemoryLease(), holder="u", group="orders", every=0.01)
    consumer = consumer_of(Broken(1), session=session)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        consumer.run(lambda entry: None)
    until(lambda: sessions() == before)


async def test_nor_in_an_event_loop() -> None:
    def sessions() -> int:
        return sum(thread.name == "baton-session" for thread in threading.enumerate())

    before = sessions()
    consumer = consumer_of(Broken(1), session=Session(InMemoryLease(), holder="u", group="orders", every=0.01))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        async with consumer:
            await consumer.serve(lambda entry: None)
    until(lambda: sessions() == before)


def test_a_dead_letter_of_what_cannot_be_said() -> None:
    assert outcome_of(SilentError(), (SilentError,)) == DeadLetter("SilentError: (it cannot be said)")
