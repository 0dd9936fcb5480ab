"""Announced grants and pauses reach a pod while its mounted ledger is stale; the test plays the operator."""

import asyncio
from collections.abc import Callable, Sized
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import redis

from baton.consumer.callbacks import Callbacks
from baton.model.ids import Epoch, Uid
from baton.queues.redis.keys import announcements_key, partition_keys
from tests.integration.redis.conftest import GROUP, Queue, own_queue
from tests.integration.redis.pods import Gate, Operator, Pod, acknowledged, operating
from tests.waiting import HOUR, until


async def granted(queue: Queue, pod: Pod, partition: int, epoch: int) -> None:
    """Grant the partition at the queue only."""
    assert (await queue.operator.grant(partition, pod.uid, Epoch(epoch))).uid == pod.uid


def announce(queue: Queue, pod: Pod, partitions: str, name: str | None = None) -> None:
    """Announce partitions by hand."""
    with queue.raw() as raw:
        fields = {"queue": name or queue.name.removeprefix("shop/"), "partitions": partitions}
        raw.xadd(announcements_key(GROUP.group, pod.uid), fields)


async def test_a_pod_works_on_a_grant_before_the_ledger_names_it(operator: Operator, queue: Queue) -> None:
    pod = operator.hearing()
    queue.send("a", "b")
    await granted(queue, pod, 0, 1)
    until(lambda: pod.values() == [b"a", b"b"])
    pod.ledger({0: 1})
    queue.send("c")
    until(lambda: pod.values() == [b"a", b"b", b"c"])
    assert not any(redelivered for _, _, redelivered in pod.log)


async def test_a_pod_that_starts_after_a_grant_works_on_it(operator: Operator, queue: Queue) -> None:
    uid = Uid(str(uuid4()))
    queue.send("a")
    await queue.operator.grant(0, uid, Epoch(1))
    pod = operator.hearing(uid)
    until(lambda: pod.values() == [b"a"])


async def test_a_hand_off_completes_while_both_ledgers_are_stale(operator: Operator, queue: Queue) -> None:
    giver, receiver = operator.hearing(), operator.hearing()
    await operator.grant(giver, (0, 1), (1, 1))
    receiver.ledger({})
    queue.send("a")
    until(lambda: giver.values() == [b"a"])
    await queue.operator.pause(0, Epoch(1))
    until(lambda: giver.released() == {(0, 1)}, "the operator is told of the release by the Lease, too")
    queue.send("b")
    queue.send("x", partition=1)
    await granted(queue, receiver, 0, 2)
    until(lambda: receiver.values() == [b"b"])
    until(lambda: giver.values(1) == [b"x"])
    until(lambda: giver.released() == set(), "it is not its own any more")
    assert giver.values() == [b"a"]


async def test_on_revoked_gets_the_time_left_while_the_ledger_is_stale(operator: Operator, queue: Queue) -> None:
    """The pod learns of the pause by an announcement or while it reads."""
    left: list[float | None] = []

    def so(count: int, what: Callable[[], Sized]) -> bool:
        return len(what()) == count

    pod = operator.hearing(callbacks=Callbacks(on_revoked=lambda _, time_left: left.append(time_left)))
    for epoch in range(1, 6):
        await granted(queue, pod, 0, epoch)
        queue.send("a")
        until(partial(so, epoch, pod.values))
        await queue.operator.pause(0, Epoch(epoch), HOUR)
        until(partial(so, epoch, lambda: left))
    assert all(seconds is not None and 0 < seconds <= HOUR for seconds in left), left


async def test_a_partition_granted_again_is_worked_on_despite_a_stale_ledger(operator: Operator, queue: Queue) -> None:
    pod = operator.hearing()
    await operator.grant(pod, (0, 1))
    queue.send("a")
    until(lambda: pod.values() == [b"a"])
    await queue.operator.pause(0, Epoch(1))
    until(lambda: pod.released() == {(0, 1)})
    await granted(queue, pod, 0, 2)
    queue.send("b")
    until(lambda: pod.values() == [b"a", b"b"])
    pod.ledger({}, revoking={0: 1})
    queue.send("c")
    until(lambda: pod.values() == [b"a", b"b", b"c"])


async def test_a_partition_called_back_is_released_between_two_entries(operator: Operator, queue: Queue) -> None:
    pod, other = operator.hearing(), operator.hearing()
    pod.before = gate = Gate(lambda entry: entry.value == b"0")
    queue.send(*(str(number) for number in range(5)))
    await operator.grant(pod, (0, 1))
    gate.reached()
    await queue.operator.pause(0, Epoch(1))
    await granted(queue, other, 0, 2)  # at the deadline
    until(lambda: len(other.log) == 5)
    gate.open()
    queue.send("x")
    until(lambda: other.values()[-1] == b"x")
    assert pod.values() == [b"0"]
    assert other.log[0] == (0, b"0", True)


async def test_a_terminating_pod_ends_when_its_partitions_were_taken(operator: Operator, queue: Queue) -> None:
    pod, other = operator.hearing(), operator.hearing()
    await operator.grant(pod, (0, 1), (1, 1))
    queue.send("a")
    until(lambda: pod.values() == [b"a"])
    pod.stop()
    queue.send("x", partition=1)
    until(lambda: pod.values(1) == [b"x"])
    await acknowledged(queue)
    for partition in (0, 1):
        await queue.operator.pause(partition, Epoch(1))
        await granted(queue, other, partition, 2)
    until(pod.gone)
    queue.send("b")
    until(lambda: other.values() == [b"b"])


async def test_a_forged_announcement_does_no_harm(operator: Operator, queue: Queue, raw: redis.Redis) -> None:
    pod, owner = operator.hearing(), operator.hearing()
    await operator.grant(pod, (0, 1))
    await operator.grant(owner, (1, 1))
    for partitions in ("1", "0-1", "0,0,1", "-", "0-99999999", "1@7", "a", "", "9" * 20_000):
        announce(queue, pod, partitions)
    for name in ("nowhere", "../orders", "a}:0}", "x" * 300):
        announce(queue, pod, "0", name)
    raw.set("pq:{shop/odd}:0:owner", "no hash")
    raw.hset("pq:{shop/odd}:1:owner", mapping={"uid": pod.uid, "epoch": "many"})
    raw.xadd(announcements_key(GROUP.group, pod.uid), {"other": "fields"})
    announce(queue, pod, "0-1", "odd")
    queue.send("a")
    queue.send("x", partition=1)
    until(lambda: pod.values() == [b"a"])
    until(lambda: owner.values(1) == [b"x"])
    await acknowledged(queue)
    await granted(queue, pod, 1, 2)
    queue.send("y", partition=1)
    until(lambda: pod.values(1) == [b"y"], "it still listens")
    assert (await queue.stale_refused())[0] == 0


async def test_an_old_announcement_that_comes_again_does_no_harm(operator: Operator, queue: Queue, raw: Any) -> None:
    pod, other = operator.hearing(), operator.hearing()
    await granted(queue, pod, 0, 1)
    queue.send("a")
    until(lambda: pod.values() == [b"a"])
    await acknowledged(queue)
    await granted(queue, other, 0, 2)
    key = announcements_key(GROUP.group, pod.uid)
    for _, fields in raw.xrange(key):
        raw.xadd(key, fields)
    queue.send("b")
    until(lambda: other.values() == [b"b"])
    await granted(queue, pod, 1, 1)
    queue.send("x", partition=1)
    until(lambda: pod.values(1) == [b"x"])
    assert pod.values() == [b"a"]


async def test_old_grants_are_learned_from_the_ledger(operator: Operator, queue: Queue, raw: redis.Redis) -> None:
    uid = Uid(str(uuid4()))
    await queue.operator.grant(0, uid, Epoch(1))
    for epoch in range(1, 101):
        await queue.operator.grant(1, uid, Epoch(epoch))
    key = announcements_key(GROUP.group, uid)
    assert raw.xlen(key) == 64
    assert 0 < raw.ttl(key) <= 3600
    pod = operator.hearing(uid)
    queue.send("a")
    queue.send("x", partition=1)
    until(lambda: pod.values(1) == [b"x"])
    assert pod.values() == []
    pod.ledger({0: 1, 1: 100})
    until(lambda: pod.values() == [b"a"])


async def test_announcements_made_during_an_outage_are_heard_afterwards(tmp_path: Path) -> None:
    async with own_queue(fsync="always") as (server, queue), operating(queue, tmp_path) as operator:
        pod = operator.hearing()
        await granted(queue, pod, 0, 1)
        queue.send("a")
        until(lambda: pod.values() == [b"a"])
        server.kill()
        server.start()
        await granted(queue, pod, 1, 1)
        queue.send("x", partition=1)
        until(lambda: pod.values(1) == [b"x"])
        with queue.raw() as raw:
            raw.delete(announcements_key(GROUP.group, pod.uid))  # the next announcement creates a new stream
            raw.client_kill_filter(_type="normal", skipme=True)
        await granted(queue, pod, 0, 2)
        queue.send("b")
        until(lambda: pod.values()[-1] == b"b")


async def test_partitions_are_granted_and_emptied_while_redis_is_full(tmp_path: Path) -> None:
    async with own_queue() as (_, queue), operating(queue, tmp_path) as operator:
        pod = operator.hearing()
        queue.send("a", "b")
        with queue.raw() as raw:
            raw.config_set("maxmemory", 1)
        await granted(queue, pod, 0, 1)
        until(lambda: pod.values() == [b"a", b"b"])
        await acknowledged(queue)


async def test_each_round_trip_announces_once_per_pod(queue: Queue, raw: Any) -> None:
    one, other = Uid(str(uuid4())), Uid(str(uuid4()))
    await queue.operator.check()
    keys = [partition_keys(queue.name, number) for number in (0, 1)]
    await asyncio.gather(queue.operator.grant(0, one, Epoch(1)), queue.operator.grant(1, one, Epoch(1)))
    await asyncio.gather(queue.operator.grant(0, other, Epoch(2)), queue.operator.pause(1, Epoch(1)))
    heard = {
        uid: [fields[b"partitions"] for _, fields in raw.xrange(announcements_key(GROUP.group, uid))] for uid in (one, other)
    }
    assert raw.hget(keys[0].owner, "uid") == other.encode()
    assert heard == {one: [b"0-1", b"0-1"], other: [b"0"]}
