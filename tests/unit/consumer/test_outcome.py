"""Outcomes of exceptions, deserializers and acknowledgements, and checks of handler options."""

import asyncio
import json
import pickle
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import asdict, fields
from typing import Any

import pytest

from baton.consumer import Backoff, Reject, Retry
from baton.consumer.entry import Acknowledgement
from baton.consumer.handler_options import CheckedOptions, Deserializers
from baton.consumer.outcome import DeadLetter, Nack, Outcome, outcome_of
from baton.model.ids import Epoch
from baton.queues.entry import Entry
from baton.testing import InMemoryReader, TestQueue
from tests.unit.consumer.readers import queue_of
from tests.unit.consumer.test_entry_sequence import sequence
from tests.waiting import PATIENCE


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (RuntimeError("no"), Nack("RuntimeError: no")),
        (Retry("closed", delay=60), Nack("closed", 60)),
        (Retry(), Nack("the handler requested a retry")),
        (Reject("no such customer"), DeadLetter("no such customer")),
        (KeyError("a"), DeadLetter("KeyError: 'a'")),
        (RuntimeError("x" * 1000), Nack("RuntimeError: " + "x" * 486)),
    ],
)
def test_each_exception_has_its_outcome(error: Exception, outcome: Outcome) -> None:
    assert outcome_of(error, (LookupError,)) == outcome


def test_an_undeserializable_entry_is_a_dead_letter_and_the_rest_in_order() -> None:
    entries = sequence("[1]", "[", "[2]").hand_out(3)
    readable, hopeless = Deserializers(bytes.decode, json.loads).apply(entries)
    assert [(entry.key, entry.value) for entry in readable] == [("[", [1]), ("[", [2])]
    (((entry,), outcome),) = hopeless
    assert entry is entries[1]
    assert isinstance(outcome, DeadLetter) and outcome.why.startswith("it could not be deserialized: JSONDecodeError")
    assert Deserializers().apply(entries) == (entries, [])


def test_a_cancelled_wait_in_a_deserializer_is_a_dead_letter() -> None:
    async def look_up(value: bytes) -> None:
        raise asyncio.CancelledError

    readable, ((_, outcome),) = Deserializers(None, lambda value: asyncio.run(look_up(value))).apply(sequence("1").hand_out(1))
    assert (
        not readable
        and isinstance(outcome, DeadLetter)
        and outcome.why.startswith("it could not be deserialized: CancelledError")
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": 0}, "concurrency is 0: set it to 1 or more"),
        ({"concurrency": "8"}, "concurrency is '8': set it to a whole number, 1 to 10,000"),
        ({"concurrency": 2.5}, "concurrency is 2.5: set it to a whole number, 1 to 10,000"),
        ({"concurrency": True}, "concurrency is True: set it to a whole number, 1 to 10,000"),
        ({"concurrency": 10**9}, "concurrency is 1000000000: set it to a whole number, 1 to 10,000"),
        ({"max_entries": True}, "max_entries is True: set it to a whole number, 1 or more"),
        ({"max_entries": 1, "max_wait": True}, "max_wait is True: set it to a number, 0 or more"),
        ({"dead_letter_on": KeyboardInterrupt}, "dead_letter_on has KeyboardInterrupt, which ends the program"),
        ({"dead_letter_on": (ValueError, BaseException)}, "dead_letter_on has BaseException, which ends the program"),
        *(
            ({"dead_letter_on": wrong}, "dead_letter_on is .*: set it to a tuple of exceptions")
            for wrong in (int, [ValueError], "no")
        ),
        ({"manual_ack": "no"}, "manual_ack is 'no': set it to True or False"),
        ({"max_entries": 2.5}, "max_entries is 2.5: set it to a whole number, 1 or more"),
        ({"max_entries": 5, "max_bytes": "1 MB"}, "max_bytes is '1 MB': set it to a number, 1 or more"),
        ({"max_entries": 5, "max_wait": None}, "max_wait is None: set it to a number, 0 or more"),
        ({"order": "queue"}, "order is 'queue': set it to 'partition' or 'key'"),
        ({"handler_timeout": 0}, "handler_timeout is 0: set it to 0.001 or more"),
        ({"retry": 5}, "retry is 5: set it to a Backoff, or to a dict of exceptions and their Backoffs"),
        ({"retry": {KeyboardInterrupt: Backoff()}}, "set it to a Backoff, or to a dict of exceptions and their Backoffs"),
        ({"max_bytes": 5}, "set max_entries too"),
    ],
)
def test_an_invalid_handler_option_is_rejected_by_its_name(options: Any, said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        CheckedOptions(**options)


@pytest.mark.parametrize("size", [{"max_entries": 0}, {"max_bytes": 0}, {"max_wait": -1}, {"max_wait": float("nan")}])
def test_a_batch_size_that_allows_no_entry_is_rejected(size: Any) -> None:
    said = rf"^{next(iter(size))} is .*: set it to"
    with pytest.raises(ValueError, match=said):
        TestQueue().consumer().batches(**size)
    with pytest.raises(ValueError, match=said):
        CheckedOptions(**{"max_entries": 1, **size})


@pytest.mark.parametrize("parts", [[], [True, True], [True, False]])
async def test_an_acknowledgement_tells_whether_the_queue_has_all_its_parts(parts: list[bool]) -> None:
    receipt = Acknowledgement()
    receipt.expect(len(parts))
    for taken in parts:
        with pytest.raises(TimeoutError):
            receipt.wait(0)
        receipt.part(taken=taken)
    assert receipt.wait(0) is await receipt is all(parts)


def test_a_deserialized_entry_keeps_its_size_and_is_hashable() -> None:
    (raw,) = sequence("value").waiting
    others = [{"n": 1}, ["n", 1], 5, "ä", None, b""]
    for other in others:

        def becomes(_: bytes, made: object = other) -> object:
            return made

        (entry,), _ = Deserializers(key=becomes, value=becomes).apply([raw])
        assert (entry.key, entry.value, entry.size) == (other, other, raw.size)
        assert hash(pickle.loads(pickle.dumps(entry))) == hash(pickle.loads(pickle.dumps(raw)))
        again = copy(entry)
        assert {entry} == {raw} and again == entry and again is not entry
        again.value = []
        assert again == entry
        again.redelivered = not again.redelivered
        assert entry not in {again}


def test_a_held_entry_is_a_dataclass_with_the_queues_fields() -> None:
    (entry,) = sequence("value").waiting
    entry.headers = {"kind": b"\xff"}
    assert asdict(entry) == asdict(pickle.loads(pickle.dumps(entry)))
    assert asdict(entry) == {one.name: getattr(entry, one.name) for one in fields(Entry)}


# -- Waiting for an acknowledgement.


async def test_a_cancelled_wait_for_an_acknowledgement_changes_no_other() -> None:
    receipt = Acknowledgement()

    async def wait() -> bool:
        return await receipt

    other, cancelled = asyncio.create_task(wait()), asyncio.create_task(wait())
    await asyncio.sleep(0)
    cancelled.cancel()
    with suppress(asyncio.CancelledError):
        await cancelled
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(receipt, 0.01)
    receipt.expect(0)
    assert await asyncio.wait_for(other, PATIENCE) is True
    assert await receipt is True
    assert receipt.wait(0) is True


class Failing(InMemoryReader):
    """Fails with an unexpected error."""

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        raise RuntimeError("an odd reply")


def test_waits_for_an_acknowledgement_end_when_the_consumer_fails() -> None:
    queue, _ = queue_of(Failing)
    queue.send("k", "v")
    queue.send("k", "v")
    consumer = queue.consumer()

    answers: list[bool] = []

    def program() -> None:
        with consumer:
            for batch in consumer.batches(max_entries=1):
                answers.append(batch.ack().wait(PATIENCE))
                answers.append(batch.ack().wait(PATIENCE))  # a word after its end
                answers.append(batch[0].still_mine())

    with pytest.raises(RuntimeError, match="an odd reply"):
        program()
    assert answers == [False] * 3
