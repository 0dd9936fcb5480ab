"""Consumers are interrupted between two entries, and report handlers that do not return."""

import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from baton.consumer import Entry
from baton.model.ids import QueueName
from baton.queues.redis.connection import CONNECTION_OPTIONS
from tests.integration.redis.conftest import Queue, make_queue, own_queue
from tests.integration.redis.pods import SHORT, Gate, Operator, operating
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until

PARTITIONS = 60


@pytest.fixture
async def wide(server: RedisServer, tmp_path: Path) -> AsyncIterator[Operator]:
    """The operator of a queue with many partitions."""
    queue = await make_queue(server.url, PARTITIONS)
    async with operating(queue, tmp_path) as operator:
        yield operator
    await queue.close()


async def test_a_new_grant_is_taken_up_between_two_entries(wide: Operator) -> None:
    """Even with many entries of other partitions in hand."""
    queue, gate = wide.queue, Gate()
    grants = [(number, 1) for number in range(PARTITIONS - 1)]
    for number in range(PARTITIONS):
        queue.send(*map(str, range(5)), partition=number)

    def work(entry: Entry) -> None:
        gate(entry)
        time.sleep(0.01)

    pod = await wide.owner(*range(PARTITIONS - 1), before=work)
    gate.reached()
    before = len(pod.log)
    await wide.grant(pod, *grants, (PARTITIONS - 1, 1))
    until(lambda: pod.consumer.interrupted)
    gate.open()
    until(lambda: pod.values(PARTITIONS - 1), "an entry of the new partition is handled")
    earlier = [number for number, _, _ in pod.log].index(PARTITIONS - 1) - before
    assert earlier <= 5, "a few entries of others at most"


async def test_every_partition_gets_its_turn_despite_interruptions(wide: Operator) -> None:
    pod, queue = wide.pod("a"), wide.queue
    for number in range(PARTITIONS):
        queue.send("x", partition=number)

    def interrupt(entry: Entry) -> None:
        pod.consumer.interrupt()

    pod.before = interrupt
    await wide.grant(pod, *((number, 1) for number in range(PARTITIONS)))
    until(lambda: len(pod.log) == PARTITIONS)


async def test_an_idle_partition_gets_its_turn_beside_a_busy_one(operator: Operator, queue: Queue) -> None:
    pod = await operator.owner(0, 1)
    queue.send("before", partition=1)
    until(lambda: pod.values(1) == [b"before"])
    over = threading.Event()

    def more_and_more(entry: Entry) -> None:
        if entry.partition == 0 and not over.is_set():
            queue.send("more", partition=0)

    pod.before = more_and_more
    queue.send(*map(str, range(200)))
    try:
        until(lambda: len(pod.values(0)) > 20)
        queue.send("beside", partition=1)
        until(lambda: pod.values(1) == [b"before", b"beside"], "beside a partition that is never at rest")
    finally:
        over.set()


async def test_the_grace_period_is_kept_while_redis_hangs(tmp_path: Path) -> None:
    """Waiting for the client's timeout in each partition would take longer than this test waits."""
    assert PARTITIONS * CONNECTION_OPTIONS["socket_timeout"] > PATIENCE
    async with own_queue(PARTITIONS) as (server, queue), operating(queue, tmp_path) as operator:
        pod = operator.pod("a", grace=10.0)
        for number in range(PARTITIONS):
            queue.send("x", partition=number)
        await operator.grant(pod, *((number, 1) for number in range(PARTITIONS)))
        until(lambda: len(pod.log) == PARTITIONS)
        server.freeze()
        try:
            pod.stop()
            until(pod.gone)
        finally:
            server.thaw()


async def test_a_handler_that_hangs_is_logged_repeatedly(
    operator: Operator, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    gate, offsets = Gate(), list[str]()
    queue.send("a")

    def handle(entry: Entry) -> None:
        offsets.append(entry.offset)
        gate(entry)

    pod = await operator.owner(0, grace=SHORT, handler=handle, handler_warn_seconds=0.1)

    def told(begin: str) -> list[str]:
        return [record.getMessage() for record in caplog.records if record.getMessage().startswith(begin)]

    until(lambda: len(told("the handler has not returned from")) >= 2)
    pod.stop()
    (end,) = until(lambda: told("time is up"))
    gate.open()
    until(pod.gone)
    entry = f"{queue.name.removeprefix('shop/')}/0 entry {offsets[0]} (key {queue.key(0)!r}, attempt 1) after "
    assert all(entry in line for line in (*told("the handler has not returned from"), end))


async def test_a_pod_at_its_unacked_limit_logs_why(operator: Operator, queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    kept: list[Entry] = []
    await queue.limited(most=3)
    queue.send("a", "b", "c", "d")
    await operator.owner(0, handler=kept.append, manual_ack=True)
    until(lambda: "hands out no more to this pod" in caplog.text)
    (line,) = [line for line in caplog.messages if "hands out no more to this pod" in line]
    name = queue.name.removeprefix("shop/")
    assert f"queue {name} hands" in line
    assert f"3 entries are not acknowledged, the oldest {name}/0 entry {kept[0].offset}, which its program has had for" in line
    kept[0].ack()
    until(lambda: len(kept) == 4)


async def test_without_queue_and_api_server_shutdown_takes_80_percent_of_grace(tmp_path: Path) -> None:
    async with own_queue(append_only=False) as (server, queue), operating(queue, tmp_path) as operator:
        pod = await operator.owner(0, grace=8.0)
        queue.send("a")
        until(lambda: pod.values() == [b"a"])
        pod.lease.away = True
        server.kill()
        loop = pod.consumer._loop
        until(
            lambda: (
                loop._session is not None
                and loop._session.failing
                and loop._turns.requests.away(QueueName(queue.name.removeprefix("shop/")))
            )
        )
        stopped_at = time.monotonic()
        pod.stop()
        until(pod.gone)
        assert time.monotonic() - stopped_at < 0.8 * 8.0
