"""Outcomes of an entry that a handler chooses (retry, reject, ack), and what it can ask about its entry."""

import json
import time
from functools import partial
from pathlib import Path

from baton.consumer import Backoff, Entry, Reject, Retry
from baton.consumer.handler_options import Deserializers
from baton.model.ids import Epoch, Uid
from tests.integration.redis.conftest import Queue, own_queue
from tests.integration.redis.pods import Gate, Operator, lag, operating
from tests.waiting import PATIENCE, until


def dead(queue: Queue) -> list[tuple[bytes, bytes]]:
    return [(letter[b"value"], letter[b"why"]) for letter in queue.letters()]


async def test_a_retry_waits_for_the_handlers_delay(operator: Operator, queue: Queue) -> None:
    begun: list[tuple[bytes, bool, float]] = []

    def handle(entry: Entry) -> None:
        begun.append((entry.value, entry.redelivered, time.monotonic()))
        if entry.value == b"a" and not entry.redelivered:
            raise Retry("the shop is closed", delay=0.5)

    queue.send("a", "b")
    await operator.owner(0, handler=handle)
    until(lambda: len(begun) == 3)
    assert [(value, again) for value, again, _ in begun] == [(b"a", False), (b"a", True), (b"b", False)]
    assert begun[1][2] - begun[0][2] >= 0.5


async def test_the_next_owner_continues_counting_attempts(operator: Operator, queue: Queue) -> None:
    seen: list[tuple[str, int]] = []

    def fails(name: str, entry: Entry) -> None:
        seen.append((name, entry.attempt))
        raise ValueError("no")

    queue.send("a")
    giver = operator.pod("a", handler=partial(fails, "a"), retry=Backoff(first=300, attempts=4))
    await operator.grant(giver, (0, 1))
    until(lambda: seen == [("a", 0)])
    giver.gives_back((0, 1))
    receiver = operator.pod("b", handler=partial(fails, "b"), retry=Backoff(first=0, attempts=4))
    await operator.grant(receiver, (0, 2))
    until(lambda: dead(queue) == [(b"a", b"after 4 attempts: ValueError: no")])
    assert seen == [("a", 0), ("a", 1), ("b", 2), ("b", 3)], "at the hand-off the wait is cut short"


async def test_a_rejected_entry_becomes_a_dead_letter_at_once(operator: Operator, queue: Queue) -> None:
    """Even without a limit of redeliveries."""
    seen: list[bytes] = []

    def handle(entry: Entry) -> None:
        seen.append(entry.value)
        if entry.value == b"b":
            raise Reject("no such customer")
        if entry.value == b"c":
            raise KeyError("customer")

    queue.send("a", "b", "c", "d")
    pod = await operator.owner(0, handler=handle, dead_letter_on=(LookupError,))
    until(lambda: len(seen) == 4)
    until(lambda: len(dead(queue)) == 2)
    assert dead(queue) == [(b"b", b"no such customer"), (b"c", b"KeyError: 'customer'")]
    assert seen == [b"a", b"b", b"c", b"d"]
    pod.gives_back((0, 1))
    assert await lag(queue) == 0


async def test_a_retried_entry_is_deserialized_from_its_original_bytes(operator: Operator, queue: Queue) -> None:
    seen: list[object] = []

    def handle(entry: Entry) -> None:
        seen.append(entry.value)
        if not entry.redelivered:
            raise Retry(delay=0)

    queue.send('{"n": 1}')
    await operator.owner(0, handler=handle, deserializers=Deserializers(value=json.loads))
    until(lambda: len(seen) == 2)
    assert seen == [{"n": 1}, {"n": 1}]


async def test_with_manual_ack_entries_are_acknowledged_in_any_order(operator: Operator, queue: Queue) -> None:
    kept: list[Entry] = []
    queue.send(*map(str, range(5)))
    await operator.owner(0, handler=kept.append, manual_ack=True)
    until(lambda: len(kept) == 5)
    assert await queue.operator.outstanding(0) == 5
    for number in (3, 0, 4):
        assert kept[number].ack().wait(PATIENCE)
    assert await queue.operator.outstanding(0) == 2
    kept[1].nack(delay=0)
    until(lambda: len(kept) == 6)
    assert (kept[5].value, kept[5].redelivered) == (b"1", True)
    kept[2].dead_letter("no")
    until(lambda: dead(queue) == [(b"2", b"no")])
    assert kept[5].ack().wait(PATIENCE)
    assert await lag(queue) == 0


async def test_unacknowledged_entries_go_to_the_next_owner_without_delay(operator: Operator, queue: Queue) -> None:
    kept: list[Entry] = []
    queue.send("a", "b")
    pod, other = operator.pod("a", handler=kept.append, manual_ack=True), operator.pod("b")
    await operator.grant(pod, (0, 1))
    until(lambda: len(kept) == 2)
    kept[0].ack()
    pod.gives_back((0, 1))
    await operator.grant(other, (0, 2))
    until(lambda: other.log == [(0, b"b", True)])
    assert not kept[1].ack().wait(PATIENCE)


async def test_still_mine_tells_a_long_handler_whether_it_owns_its_entry(operator: Operator, queue: Queue) -> None:
    gate, answers = Gate(), list[bool]()

    def handle(entry: Entry) -> None:
        answers.append(entry.still_mine())
        gate(entry)
        until(lambda: not entry.still_mine())
        answers.append(entry.still_mine())

    queue.send("a")
    await operator.owner(0, handler=handle)
    gate.reached()
    await queue.operator.grant(0, Uid("b"), Epoch(2))
    gate.open()
    until(lambda: answers == [True, False])


async def test_still_mine_is_false_while_the_queue_does_not_answer(tmp_path: Path) -> None:
    async with own_queue() as (server, queue), operating(queue, tmp_path) as operator:
        kept: list[Entry] = []
        queue.send("a")
        await operator.owner(0, handler=kept.append, manual_ack=True)
        until(lambda: kept)
        server.freeze()
        try:
            until(lambda: not kept[0].still_mine(), "the queue's last word is too old")
        finally:
            server.thaw()
        until(lambda: kept[0].still_mine())


async def test_time_left_is_set_when_the_partition_is_called_back(operator: Operator, queue: Queue) -> None:
    gate, left = Gate(), list[float | None]()

    def handle(entry: Entry) -> None:
        gate(entry)
        left.append(entry.time_left())

    queue.send("a")
    pod = await operator.owner(0, handler=handle)
    gate.reached()
    pod.moving({0: 2}, length=120)
    pod.ledger({}, revoking={0: 1})
    until(lambda: pod.consumer.interrupted)
    gate.open()
    until(lambda: left)
    assert left[0] is not None and 0 < left[0] <= 120


async def test_time_left_is_set_when_the_process_ends(operator: Operator, queue: Queue) -> None:
    gate, left = Gate(), list[float | None]()

    def handle(entry: Entry) -> None:
        left.append(entry.time_left())
        gate(entry)
        left.append(entry.time_left())

    queue.send("a")
    pod = await operator.owner(0, grace=PATIENCE, handler=handle)
    gate.reached()
    pod.stop()
    until(lambda: pod.consumer.interrupted)
    gate.open()
    until(lambda: len(left) == 2)
    assert left[0] is None
    assert left[1] is not None and 0 < left[1] <= PATIENCE
