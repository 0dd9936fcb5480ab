"""The server wakes readers, which do not poll; a wait can be interrupted, also at a hanging server."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import redis

from baton.model.ids import Epoch, Uid
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.redis import RedisReader, wakeup
from baton.queues.redis.keys import queue_key
from tests.clustered_redis import clustered_redis
from tests.integration.redis.conftest import Queue, make_queue
from tests.redis_server import RedisServer
from tests.waiting import HOUR, PATIENCE, until
from tests.watched_redis import watched_redis

ONE, TWO = Epoch(1), Epoch(2)


@pytest.fixture(autouse=True)
def _no_block_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeup, "_LONGEST_BLOCK", HOUR)


class Waiting:
    """A wait in its own thread."""

    def __init__(self, reader: RedisReader, *partitions: int) -> None:
        self.found: set[int] | None = None
        self._thread = threading.Thread(target=self._wait, args=(reader, partitions), daemon=True)
        self._thread.start()

    def _wait(self, reader: RedisReader, partitions: tuple[int, ...]) -> None:
        self.found = reader.wait(partitions, HOUR)

    def until_blocked(self, queue: Queue) -> None:
        with queue.raw() as raw:
            until(lambda: int(raw.info("clients")["blocked_clients"]), "the wait blocks")

    def result(self) -> set[int]:
        self._thread.join(PATIENCE)
        assert self.found is not None
        return self.found


async def test_a_new_entry_wakes_the_owner(queue: Queue) -> None:
    for partition in (0, 1):
        owner = await queue.granted("a", ONE, partition)
    assert (owner.read(0, ONE), owner.read(1, ONE)) == ([], [])
    waiting = Waiting(owner, 0, 1)
    waiting.until_blocked(queue)
    queue.send("a", partition=1)
    assert waiting.result() == {1}
    assert [entry.value for entry in owner.read(1, ONE)] == [b"a"]


async def test_a_grant_wakes_a_reader_that_was_refused(queue: Queue) -> None:
    await queue.granted("b", ONE)
    newcomer = queue.reader("a")
    with pytest.raises(StaleOwner):
        newcomer.read(0, TWO)
    waiting = Waiting(newcomer, 0)
    waiting.until_blocked(queue)
    await queue.operator.grant(0, Uid("a"), TWO)
    assert waiting.result() == {0}


async def test_a_grant_before_the_wait_is_not_missed(queue: Queue) -> None:
    await queue.granted("b", ONE)
    newcomer = queue.reader("a")
    with pytest.raises(StaleOwner):
        newcomer.read(0, TWO)
    await queue.operator.grant(0, Uid("a"), TWO)
    assert newcomer.wait([0], PATIENCE) == {0}


async def test_a_paused_owner_is_not_woken_by_entries(queue: Queue) -> None:
    owner = await queue.granted("a", ONE)
    owner.read(0, ONE)
    await queue.operator.pause(0, ONE)
    with pytest.raises(PartitionPaused):
        owner.read(0, ONE)
    queue.send("a")
    assert owner.wait([0], 0.05) == set()
    await queue.operator.grant(0, Uid("a"), TWO)
    assert owner.wait([0], PATIENCE) == {0}
    assert len(owner.read(0, TWO)) == 1


async def test_a_wait_ends_at_once_if_there_is_something_to_read(queue: Queue) -> None:
    queue.send("a", "b", "c")
    owner = await queue.granted("a", ONE)
    assert owner.wait([0], PATIENCE) == {0}, "it was not read yet"
    owner.read(0, ONE, 2)
    assert owner.wait([0], PATIENCE) == {0}, "it was not read to its end"
    owner.read(0, ONE, 2)
    assert owner.wait([0], 0.05) == set()


async def test_another_thread_may_end_a_wait(queue: Queue) -> None:
    owner = await queue.granted("a", ONE)
    owner.read(0, ONE)
    for partitions in ((0,), ()):
        waiting = Waiting(owner, *partitions)
        if partitions:
            waiting.until_blocked(queue)
        owner.interrupt()
        assert waiting.result() == set()


async def test_a_waiting_reader_sends_no_requests(queue: Queue, raw: redis.Redis) -> None:
    owner = await queue.granted("a", ONE)
    owner.read(0, ONE)
    waiting = Waiting(owner, 0)
    waiting.until_blocked(queue)

    def silent() -> bool:
        clients: Any = raw.client_list()
        return any("b" in client["flags"] and int(client["idle"]) >= 1 for client in clients)

    until(silent, "who waits has asked nothing for a second")
    owner.interrupt()
    assert waiting.result() == set()


async def test_a_repeated_wait_costs_a_single_request(queue: Queue, raw: redis.Redis) -> None:
    owner = await queue.granted("a", ONE)
    owner.read(0, ONE)

    def calls_after_an_entry() -> dict[str, int]:
        """Return the clients' calls so far of each command, after an entry has ended a wait."""
        waiting = Waiting(owner, 0)
        waiting.until_blocked(queue)
        queue.send("an entry")
        assert waiting.result() == {0}
        assert len(owner.read(0, ONE)) == 1
        stats: Any = raw.info("commandstats")
        return {name: stats[f"cmdstat_{name}"]["calls"] for name in ("client|id", "eval", "xread")}

    first, second = calls_after_an_entry(), calls_after_an_entry()
    assert {name: second[name] - first[name] for name in first} == {"client|id": 0, "eval": 0, "xread": 1}


async def test_a_partition_granted_again_is_ready_at_the_new_epoch(queue: Queue) -> None:
    reader = await queue.granted("a", 1)
    assert reader.read(0, Epoch(1)) == []
    await queue.operator.grant(0, Uid("a"), Epoch(2))
    queue.send("one")
    with pytest.raises(StaleOwner):
        reader.read(0, Epoch(1))
    assert reader.ready(0, Epoch(2)), "its ledger tells it of the grant a moment later"
    assert reader.wait([0], PATIENCE) == {0}
    assert [entry.value for entry in reader.read(0, Epoch(2))] == [b"one"]


async def test_a_partition_of_another_owner_is_not_read_again(queue: Queue) -> None:
    reader = await queue.granted("a", 1)
    await queue.operator.grant(0, Uid("b"), Epoch(2))
    with pytest.raises(StaleOwner):
        reader.read(0, Epoch(1))
    assert not reader.ready(0, Epoch(1)) and not reader.ready(0, Epoch(2))
    assert reader.ready(0, Epoch(3))


async def test_after_a_lost_connection_all_partitions_are_read(queue: Queue, raw: redis.Redis) -> None:
    for partition in (0, 1):
        owner = await queue.granted("a", ONE, partition)
    assert (owner.read(0, ONE), owner.read(1, ONE)) == ([], [])
    for _ in range(2):
        waiting = Waiting(owner, 0, 1)
        waiting.until_blocked(queue)
        owner.interrupt()
        assert waiting.result() == set()
    raw.client_kill_filter(_type="normal", skipme=True)
    assert owner.wait([0, 1], PATIENCE) == {0, 1}


async def assert_interruptible(queue: Queue, server: RedisServer, hangs: Callable[[], object] = lambda: None) -> None:
    """`hangs` returns when the others have noticed that the server hangs."""
    owner = await queue.granted("a", ONE)
    assert owner.read(0, ONE) == []
    waiting = Waiting(owner, 0)
    with server.client() as raw:
        until(lambda: raw.info("clients")["blocked_clients"], "the wait blocks")
    server.freeze()
    try:
        hangs()
        owner.interrupt()
        assert waiting.result() == set()
    finally:
        server.thaw()
        await queue.close()


async def test_a_wait_at_a_hanging_primary_can_be_interrupted() -> None:
    with watched_redis() as watched:
        primary, queue = watched.primary(), await make_queue(watched.url())
        another = partial(until, lambda: watched.primary() is not primary, "the Sentinels have another primary")
        await assert_interruptible(queue, primary, another)


async def test_a_wait_at_a_hanging_cluster_master_can_be_interrupted() -> None:
    with clustered_redis() as cluster:
        queue = await make_queue(cluster.url())
        master = cluster.master(queue_key(queue.name))
        with cluster.replica(master).client() as raw:
            takes_over = partial(until, lambda: raw.execute_command("ROLE")[0] == b"master", "the replica takes over")
            await assert_interruptible(queue, master, takes_over)


async def test_a_wait_at_a_hanging_server_can_be_interrupted() -> None:
    with RedisServer() as server:
        await assert_interruptible(await make_queue(server.url), server)
