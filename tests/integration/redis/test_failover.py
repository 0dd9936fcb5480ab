"""Primary and replica change places behind one address. Connections to the former primary stay open, as behind a Service."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import AsyncRedisProducer, RedisProducer
from tests.integration.redis.conftest import make_queue, own_queue
from tests.integration.redis.pods import operating
from tests.integration.redis.test_resizing import ONE
from tests.listener import Listener
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until


class Address:
    """Forwards new connections to `target`; existing ones stay where they are."""

    def __init__(self, target: RedisServer) -> None:
        self.target = target
        self._listener = Listener(self._connect)
        self.url = self._listener.url
        self.close = self._listener.close

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection((self.target.bind, self.target.port))
        except OSError:
            client.close()
            return
        for source, sink in ((client, server), (server, client)):
            threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        end.close()


class Pair:
    """Two servers and the address of the one that is the primary."""

    def __init__(self, first: RedisServer, second: RedisServer) -> None:
        self.primary, self.replica = first, second
        self.address = Address(first)

    def settle(self) -> None:
        """Wait until the replica has all data."""
        with self.primary.client() as raw:
            until(lambda: raw.execute_command("WAIT", 1, 1000))

    def change_places(self) -> None:
        self.settle()
        self.primary, self.replica = self.replica, self.primary
        with self.primary.client() as raw:
            raw.replicaof("NO", "ONE")
        with self.replica.client() as raw:
            raw.replicaof(self.primary.bind, str(self.primary.port))
        self.address.target = self.primary


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    with RedisServer() as first, RedisServer(replica_of=first) as second:
        made = Pair(first, second)
        yield made
        made.address.close()


async def test_all_sides_leave_a_primary_that_became_a_replica(pair: Pair, tmp_path: Path) -> None:
    queue = await make_queue(pair.address.url)
    async with operating(queue, tmp_path) as operator:
        pod = await operator.owner(0, 1)
        for number in range(3):
            before = (await queue.operator.check()).incarnation
            queue.send(f"{number}", partition=0)
            until(lambda number=number: len(pod.values(0)) == number + 1)  # type: ignore[misc]
            pair.change_places()
            queue.send(f"{number}", partition=1)
            until(lambda number=number: len(pod.values(1)) == number + 1)  # type: ignore[misc]
            assert (await queue.operator.check()).incarnation != before, "so that all is granted again"
        assert pod.values(0) == pod.values(1) == [b"0", b"1", b"2"]
        assert (await queue.operator.grant(0, Uid("b"), Epoch(2))).uid == "b"
    await queue.close()


async def test_clients_of_the_former_primary_retry_within_their_patience(pair: Pair, tmp_path: Path) -> None:
    """While the address still leads there, producers wait and idle consumers keep trying."""
    queue = await make_queue(pair.address.url)
    async with operating(queue, tmp_path) as operator:
        pod = await operator.owner(0)
        queue.send("0")
        until(lambda: len(pod.log) == 1)
        pair.change_places()
        pair.address.target = pair.replica
        with RedisProducer(pair.address.url, queue.name, patience=PATIENCE) as producer:
            sending = threading.Thread(target=producer.send, args=(queue.key(0), "1"))
            sending.start()
            until(lambda: _errors(pair.replica, "READONLY") >= 10, "it was refused by both, again and again")
            assert sending.is_alive()
            pair.address.target = pair.primary
            sending.join(PATIENCE)
        with pair.replica.client() as raw:
            raw.replicaof("127.0.0.1", "1")  # so that it gets no new data
        until(lambda: len(pod.log) == 2)
        queue.send("2")
        until(lambda: pod.values() == [b"0", b"1", b"2"])
    await queue.close()


async def test_lingering_sends_continue_at_the_new_primary(pair: Pair) -> None:
    """None is lost, duplicated or reordered."""
    queue = await make_queue(pair.address.url)
    values: list[bytes] = []
    async with AsyncRedisProducer(pair.address.url, queue.name, patience=PATIENCE, max_entries=20) as tasks:
        with RedisProducer(pair.address.url, queue.name, patience=PATIENCE, max_entries=20) as threads:
            for part in range(3):
                for number in range(part * 100, part * 100 + 100):
                    await tasks.produce(queue.key(0), str(number))
                    threads.produce(queue.key(1), str(number))
                    values.append(b"%d" % number)
                await tasks.flush()
                await asyncio.to_thread(threads.flush)
                pair.change_places()
            assert not (await tasks.send(queue.key(0), "last")).duplicate
            assert not (await asyncio.to_thread(threads.send, queue.key(1), "last")).duplicate
    await queue.operator.check()
    for partition in (0, 1):
        owner = await queue.granted("a", 1, partition)
        assert [entry.value for entry in owner.read(partition, ONE, 1000)] == [*values, b"last"]
    await queue.close()


def _errors(server: RedisServer, word: str) -> int:
    """Return how many answers began with this word."""
    with server.client() as raw:
        errors: dict[str, dict[str, int]] = raw.info("errorstats")
    return errors.get(f"errorstat_{word}", {}).get("count", 0)


async def test_a_wait_at_a_replica_is_refused(pair: Pair) -> None:
    """A replica would accept the blocking read, and nothing would ever arrive."""
    queue = await make_queue(pair.address.url)
    owner = await queue.granted("a", 1)
    owner.read(0, Epoch(1))
    assert owner.wait([0], 0.02) == set()
    pair.change_places()
    pair.address.target = pair.replica
    with pytest.raises(QueueUnreachable, match="read-only replica"):
        owner.wait([0], PATIENCE)
    pair.address.target = pair.primary
    assert owner.ready(0, Epoch(1)), "it looks again: the new primary may not know that somebody waits"
    await queue.close()


async def test_a_producer_waits_for_min_replicas_to_write() -> None:
    """After a failover there is no replica until the former primary is back."""
    async with own_queue() as (server, queue):
        with server.client() as raw:
            raw.config_set("min-replicas-to-write", 1)
            with (
                RedisProducer(server.url, queue.name, patience=0.1) as producer,
                pytest.raises(QueueUnreachable, match="fewer replicas than its min-replicas-to-write"),
            ):
                producer.send(queue.key(0), "0")
            sending = threading.Thread(target=queue.send, args=("1",))
            sending.start()
            until(lambda: _errors(server, "NOREPLICAS") >= 4)
            assert sending.is_alive()
            raw.config_set("min-replicas-to-write", 0)
            sending.join(PATIENCE)
        owner = await queue.granted("a", 1)
        assert [entry.value for entry in owner.read(0, Epoch(1))] == [b"1"]


async def test_a_grant_right_after_a_failover_loads_its_script_again(pair: Pair) -> None:
    """The former primary does not know the script either: it loads it and refuses to run it."""
    queue = await make_queue(pair.address.url)
    pair.change_places()
    assert (await queue.operator.grant(0, Uid("a"), ONE)).uid == "a"
    await queue.close()
