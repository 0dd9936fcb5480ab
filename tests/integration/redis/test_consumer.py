"""A plain pod's consumer against a real Redis and a ledger in a directory; the test plays the operator."""

import logging
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from baton.model.ids import Epoch
from baton.queues.consumer_side import SURE_FOR
from baton.queues.entry import Entry
from tests.integration.redis.conftest import Queue, own_queue
from tests.integration.redis.pods import SHORT, Gate, Operator, acknowledged, lag, operating
from tests.waiting import HOUR, PATIENCE, eventually, until


async def test_entries_are_handled_in_order_and_acknowledged(operator: Operator, queue: Queue) -> None:
    pod = await operator.owner(0, 1, grace=SHORT)
    queue.send(*(str(number) for number in range(300)), partition=0)
    queue.send(*(str(number) for number in range(300)), partition=1)
    until(lambda: len(pod.log) == 600)
    for partition in (0, 1):
        assert pod.values(partition) == [b"%d" % number for number in range(300)]
    assert not any(redelivered for _, _, redelivered in pod.log)
    pod.stop()
    until(pod.gone)
    assert await lag(queue) == 0


async def test_a_partition_called_back_is_released_while_others_go_on(operator: Operator, queue: Queue) -> None:
    pod = await operator.owner(0, 1, before=(gate := Gate(lambda entry: entry.partition == 0)))
    queue.send("a", "b", "c")
    gate.reached()
    pod.ledger({1: 1}, revoking={0: 1})
    assert await queue.operator.pause(0, Epoch(1)) == 1
    assert pod.released() == set()
    gate.open()
    until(lambda: pod.released() == {(0, 1)})
    assert pod.values() == [b"a"], "nothing new was begun"
    assert await queue.operator.outstanding(0) == 0
    queue.send("x", partition=1)
    until(lambda: pod.values(1) == [b"x"])
    pod.ledger({1: 1})
    until(lambda: pod.released() == set())


async def test_a_pause_at_the_queue_suffices_to_call_a_partition_back(operator: Operator, queue: Queue) -> None:
    """A pod that terminates gets no new ledger."""
    pod = await operator.owner(0)
    queue.send("a")
    until(lambda: len(pod.log) == 1)
    await queue.operator.pause(0, Epoch(1))
    queue.send("b")
    until(lambda: pod.released() == {(0, 1)})
    assert pod.values() == [b"a"]


async def test_a_consumer_that_wakes_up_late_begins_no_entry_it_lost(operator: Operator, queue: Queue) -> None:
    stopped, wake_up = threading.Event(), threading.Event()

    def stop(entry: Entry) -> None:
        if entry.value == b"1":
            stopped.set()
            wake_up.wait(PATIENCE)
            time.sleep(SURE_FOR + 0.1)

    queue.send(*(str(number) for number in range(5)))
    late, punctual = await operator.owner(0, uid="late", before=stop), operator.pod("punctual")
    assert stopped.wait(PATIENCE)
    await acknowledged(queue, but=4)
    await operator.grant(punctual, (0, 2))
    until(lambda: len(punctual.log) == 4)
    assert punctual.log[0] == (0, b"1", True)
    wake_up.set()
    until(lambda: len(late.log) == 2)

    async def refused() -> bool:
        return (await queue.stale_refused())[0] >= 1

    await eventually(refused, "the queue has refused it")
    assert late.values() == [b"0", b"1"]
    late.ledger({})
    late.stop()
    until(late.gone)
    assert late.values() == [b"0", b"1"]
    await acknowledged(queue)


async def test_a_failing_entry_is_retried_and_holds_up_only_its_partition(operator: Operator, queue: Queue) -> None:
    tries: list[bytes] = []

    def fail_twice(entry: Entry) -> None:
        if entry.value == b"bad":
            tries.append(entry.value)
            if len(tries) < 3:
                raise RuntimeError("no")

    queue.send("a", "bad", "c")
    queue.send("x", "y", partition=1)
    pod = await operator.owner(0, 1, before=fail_twice)
    until(lambda: len(pod.log) == 5)
    assert pod.values() == [b"a", b"bad", b"c"]
    assert len(tries) == 3
    assert pod.values(1) == [b"x", b"y"]
    assert pod.log.index((0, b"bad", True)) > pod.log.index((1, b"y", False))


async def test_a_partition_with_a_failing_entry_can_be_called_back(operator: Operator, queue: Queue) -> None:
    failed = threading.Event()

    def fail(entry: Entry) -> None:
        if entry.value == b"bad":
            failed.set()
            raise RuntimeError("no")

    queue.send("a", "bad", "c")
    pod, other = await operator.owner(0, before=fail), operator.pod("b")
    assert failed.wait(PATIENCE)
    pod.gives_back((0, 1))
    await operator.grant(other, (0, 2))
    until(lambda: len(other.log) == 2)
    assert other.log[0] == (0, b"bad", True)


async def test_a_container_restarted_while_called_back_finishes_what_it_had(operator: Operator, queue: Queue) -> None:
    queue.send("a", "b", "c")
    owner = await queue.granted("a", 1)
    assert len(owner.read(0, Epoch(1), 2)) == 2
    await queue.operator.pause(0, Epoch(1))
    pod = operator.pod("a")
    pod.gives_back((0, 1))
    assert pod.values() == [b"a", b"b"]
    assert await queue.operator.outstanding(0) == 0


async def test_a_stopping_consumer_works_until_its_partitions_were_taken(operator: Operator, queue: Queue) -> None:
    pod, other = operator.pod("a", grace=HOUR), operator.pod("b")
    await operator.grant(pod, (0, 1), (1, 1))
    queue.send("a")
    until(lambda: len(pod.log) == 1)
    pod.stop()
    queue.send("b")
    queue.send("x", partition=1)
    until(lambda: len(pod.log) == 3)
    await acknowledged(queue)
    await operator.grant(other, (0, 2))
    queue.send("y", partition=1)
    until(lambda: pod.values(1) == [b"x", b"y"])
    assert not pod.gone()
    await operator.grant(other, (0, 2), (1, 2))
    until(pod.gone)
    queue.send("c")
    until(lambda: other.values() == [b"c"])


async def test_a_stopping_consumer_releases_shortly_before_its_grace_period_ends(operator: Operator, queue: Queue) -> None:
    pod = await operator.owner(0, 1, grace=7)
    queue.send("a")
    until(lambda: len(pod.log) == 1)
    begun = time.monotonic()
    pod.stop()
    until(pod.gone)
    assert time.monotonic() - begun >= 2, "the last five seconds are kept for what is in hand"
    assert pod.released() == {(0, 1), (1, 1)}
    assert await lag(queue) == 0


async def test_entries_in_hand_at_the_end_of_grace_are_finished_unmarked(operator: Operator, queue: Queue) -> None:
    pod, other = operator.pod("a", grace=5), operator.pod("b")
    await operator.grant(pod, (0, 1), (1, 1))
    quick = [str(number) for number in range(400)]
    queue.send(*quick)
    queue.send(*quick, partition=1)
    until(lambda: len(pod.log) == 800)
    await acknowledged(queue)
    pod.consumer._loop._turns.requests.per_entry = 0.001  # so fast that it has many entries in hand, even on a slow machine

    pod.before = gate = Gate()
    for partition in (0, 1):
        queue.producer.send_many((queue.key(partition), f"{number}") for number in range(50))
    gate.reached()
    outstanding = await queue.operator.outstanding(0) + await queue.operator.outstanding(1)
    assert outstanding > 2, "there is more in hand than is worked on"
    pod.stop()
    until(lambda: pod.consumer.interrupted)
    pod.before = lambda entry: None
    gate.open()
    until(pod.gone)
    assert len(pod.log) == 800 + outstanding, "that was finished, and nothing else was read"
    assert pod.released() == {(0, 1), (1, 1)}
    await operator.grant(other, (0, 2), (1, 2))
    until(lambda: len(pod.log) + len(other.log) == 900)
    assert not any(redelivered for _, _, redelivered in other.log)


async def test_a_partition_released_at_an_epoch_is_not_taken_up_at_it(operator: Operator, queue: Queue) -> None:
    pod = await operator.owner(0)
    queue.send("a")
    until(lambda: len(pod.log) == 1)
    pod.gives_back((0, 1))
    pod.ledger({0: 1})
    queue.send("b")
    await operator.grant(pod, (0, 2))
    until(lambda: len(pod.log) == 2)
    until(lambda: pod.released() == set())
    assert (await queue.operator.check()).owners[0].epoch == 2


async def test_work_goes_on_without_the_api_server(operator: Operator, queue: Queue) -> None:
    pod = operator.pod("a")
    pod.lease.away = True
    await operator.grant(pod, (0, 1))
    queue.send("a", "b")
    until(lambda: len(pod.log) == 2)


async def test_reading_resumes_when_redis_is_back(tmp_path: Path) -> None:
    async with own_queue(fsync="always") as (server, queue):
        operator = Operator(queue, tmp_path)
        pod = await operator.owner(0)
        queue.send("a")
        until(lambda: len(pod.log) == 1)
        server.kill()
        server.start()
        queue.send("b", "c")
        until(lambda: pod.values()[-1] == b"c")
        assert sorted(set(pod.values())) == [b"a", b"b", b"c"]
        pod.ledger({})
        pod.stop()
        until(pod.gone)


async def test_an_entry_that_always_fails_becomes_a_dead_letter(operator: Operator, queue: Queue) -> None:
    await queue.limited(redeliveries=2)
    tries: list[bool] = []

    def fail(entry: Entry) -> None:
        if entry.value == b"bad":
            tries.append(entry.redelivered)
            raise ValueError("no such customer")

    queue.send("a", "bad", "b", "c")
    pod = await operator.owner(0, grace=SHORT, before=fail)
    until(lambda: pod.values() == [b"a", b"b", b"c"])
    assert tries == [False, True, True]
    assert [letter[b"why"] for letter in queue.letters()] == [b"ValueError: no such customer"]
    pod.stop()
    until(pod.gone)
    assert await lag(queue) == 0


async def test_entries_of_a_lost_partition_leave_room_for_the_others(operator: Operator, queue: Queue) -> None:
    await queue.limited(most=1)
    gate = Gate()

    def fail(entry: Entry) -> None:
        if entry.partition == 1:
            gate(entry)
            raise RuntimeError("no")

    queue.send("x", partition=1)
    pod, other = await operator.owner(0, 1, before=fail), operator.pod("b")
    gate.reached()
    # The deadline passes while the handler is at it; then the handler fails, and its entry is in hand when the ledger comes.
    await operator.grant(other, (1, 2))
    pod.ledger({0: 1})
    queue.send("a", "b", "c")
    gate.open()
    until(lambda: pod.values() == [b"a", b"b", b"c"])
    until(lambda: other.log == [(1, b"x", True)])


async def test_a_partition_taken_with_an_entry_in_hand_is_logged_as_lost(
    operator: Operator, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """An idle partition is logged as handed off."""
    caplog.set_level(logging.INFO, "baton.consumer")
    gate = Gate(lambda entry: entry.value == b"x")
    pod, other = await operator.owner(0, 1, before=gate), operator.pod("b")
    queue.send("a")
    until(lambda: pod.values() == [b"a"])
    await acknowledged(queue)
    await operator.grant(other, (0, 2))
    until(lambda: "is handed off" in caplog.text)
    queue.send("x", partition=1)
    gate.reached()
    await operator.grant(other, (1, 2))
    gate.open()
    until(lambda: "is lost" in caplog.text)
    levels = {record.getMessage().split(":")[0].partition("/")[2]: record.levelno for record in caplog.records}
    assert levels["0 is handed off"] == logging.INFO
    assert levels["1 is lost"] == logging.WARNING


async def test_entries_in_hand_come_again_when_the_ledger_names_their_partition_again(operator: Operator, queue: Queue) -> None:
    """A deleted ledger is written again with the same epochs."""
    gate, fails = Gate(), [True]

    def fail_once(entry: Entry) -> None:
        if entry.partition == 1 and fails:
            gate(entry)
            fails.clear()
            raise RuntimeError("no")

    queue.send("x", "y", partition=1)
    pod = await operator.owner(0, 1, before=fail_once)
    gate.reached()
    pod.ledger({0: 1})
    gate.open()
    queue.send("a")
    until(lambda: pod.values() == [b"a"])
    pod.ledger({0: 1, 1: 1})
    until(lambda: pod.values(1) == [b"x", b"y"])


async def test_a_wrong_database_is_logged_and_on_the_lease(
    queue: Queue, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The number of partitions makes no difference."""
    elsewhere = replace(queue, url=queue.url.removesuffix("/0") + "/7")
    async with operating(elsewhere, tmp_path) as operator:
        pod = operator.pod("a")
        for _ in range(3):
            await operator.grant(pod, (0, 1), (1, 1))
        until(lambda: "has no partition" in caplog.text)
        until(lambda: "database 7, has no partition" in pod.trouble(), "the Lease says so")
        pod.ledger({})
        until(lambda: pod.trouble() == "", "it keeps the pod from nothing any more")
        pod.stop()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "baton.consumer.queue_requests"]
    assert "correct the URL here" in line
