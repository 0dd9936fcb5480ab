"""Outcomes of exceptions and deserializers, and checks of handler options."""

import asyncio
import json
import pickle
from copy import copy
from dataclasses import asdict, fields
from functools import partial
from typing import Any

import pytest

from baton.consumer import Backoff, Reject, Retry
from baton.consumer.entry import Acknowledgement
from baton.consumer.handler import is_coroutine_function
from baton.consumer.handler_options import CheckedOptions, Deserializers
from baton.consumer.outcome import DeadLetter, Nack, Outcome, outcome_of
from baton.queues.entry import Entry
from tests.unit.consumer.test_entry_sequence import sequence


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
def test_what_an_exception_says(error: Exception, outcome: Outcome) -> None:
    assert outcome_of(error, (LookupError,)) == outcome


def test_what_cannot_be_deserialized_is_hopeless_and_the_rest_is_in_order() -> None:
    entries = sequence("[1]", "[", "[2]").hand_out(3)
    readable, hopeless = Deserializers(bytes.decode, json.loads).apply(entries)
    assert [(entry.key, entry.value) for entry in readable] == [("[", [1]), ("[", [2])]
    (((entry,), outcome),) = hopeless
    assert entry is entries[1]
    assert isinstance(outcome, DeadLetter) and outcome.why.startswith("it could not be deserialized: JSONDecodeError")
    assert Deserializers().apply(entries) == (entries, [])


def test_what_a_deserializer_waited_for_in_an_event_loop_of_its_own_may_be_cancelled() -> None:
    async def look_up(value: bytes) -> None:
        raise asyncio.CancelledError

    readable, ((_, outcome),) = Deserializers(None, lambda value: asyncio.run(look_up(value))).apply(sequence("1").hand_out(1))
    assert (
        not readable
        and isinstance(outcome, DeadLetter)
        and outcome.why.startswith("it could not be deserialized: CancelledError")
    )


def test_a_coroutine_function_is_known_through_what_wraps_it() -> None:
    async def handle(more: int, entry: object) -> None: ...

    class Handler:
        async def __call__(self, entry: object) -> None: ...

    assert is_coroutine_function(partial(handle, 1))
    assert is_coroutine_function(Handler())
    assert not is_coroutine_function(lambda entry: handle(1, entry))


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
        ({"dead_letter_on": int}, "dead_letter_on is <class 'int'>: set it to a tuple of exceptions"),
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
def test_what_cannot_be_asked_for_is_named(options: Any, said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        CheckedOptions(**options)


def test_an_acknowledgement_is_complete_when_all_its_partitions_are() -> None:
    receipt = Acknowledgement()
    receipt.expect(2)
    receipt.part(taken=True)
    with pytest.raises(TimeoutError):
        receipt.wait(0)
    receipt.part(taken=True)
    assert receipt.wait(0)


def test_an_acknowledgement_of_which_a_part_was_lost_says_so() -> None:
    receipt = Acknowledgement()
    receipt.expect(2)
    receipt.part(taken=True)
    receipt.part(taken=False)

    async def wait() -> bool:
        return await receipt

    assert not receipt.wait(0)
    assert asyncio.run(wait()) is False


def test_an_acknowledgement_of_nothing_is_complete() -> None:
    receipt = Acknowledgement()
    receipt.expect(0)
    assert receipt.wait(0)


def test_a_deserialized_entry_has_the_size_that_the_queue_has_of_it_and_can_be_kept_in_a_set() -> None:
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


def test_an_entry_in_hand_is_a_dataclass_of_what_the_queue_says_of_it() -> None:
    (entry,) = sequence("value").waiting
    entry.headers = {"kind": b"\xff"}
    assert asdict(entry) == asdict(pickle.loads(pickle.dumps(entry)))
    assert asdict(entry) == {one.name: getattr(entry, one.name) for one in fields(Entry)}
