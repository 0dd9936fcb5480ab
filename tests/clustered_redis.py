"""A Redis Cluster of three masters with a replica each, for tests."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import redis
from redis.crc import key_slot

from tests.redis_command import command
from tests.redis_server import RedisServer
from tests.waiting import until

MASTERS = 3
SLOTS = 16384
_DOWN_AFTER = 1500
"""Milliseconds without an answer after which the others take a node for dead."""


class Clustered:
    """Any of the nodes may be a master at the time."""

    def __init__(self, nodes: list[RedisServer]) -> None:
        self.nodes = nodes

    def url(self, user: str = "") -> str:
        """Of a cluster of which some nodes are named."""
        return f"redis+cluster://{user}{','.join(f'127.0.0.1:{node.port}' for node in self.nodes[1:5])}"

    def master(self, key: str) -> RedisServer:
        """Which has the key, as most of the others see it."""
        slot = key_slot(key.encode())
        for first, last, master in self._ranges():
            if first <= slot <= last:
                return master
        raise AssertionError(f"no node serves the slot of {key}")

    def other(self, key: str) -> RedisServer:
        """A master that has not got the key."""
        ours = self.master(key)
        return next(master for _, _, master in self._ranges() if master is not ours)

    def replica(self, master: RedisServer) -> RedisServer:
        name = self._name(master)
        for line in self._lines(master):
            if line[3] == name and "slave" in line[2] and "fail" not in line[2]:
                return next(node for node in self.nodes if f":{node.port}@" in line[1])
        raise AssertionError(f"{name} has no replica")

    def settled(self) -> None:
        """All nodes agree on who has which slots, and each master has a replica that follows it."""

        def so() -> bool:
            views = set()
            for node in self.nodes:
                info = self._ask(node, "CLUSTER", "INFO").decode()
                if "cluster_state:ok" not in info or f"cluster_known_nodes:{len(self.nodes)}" not in info:
                    return False
                lines = self._lines(node)
                views.add(tuple(sorted((line[0], line[3], *line[8:]) for line in lines)))
                if any("fail" in line[2] or "handshake" in line[2] for line in lines):
                    return False
                with node.client() as raw:
                    found: Mapping[str, Any] = raw.info("replication")
                whole = found["connected_slaves"] == 1 if found["role"] == "master" else found["master_link_status"] == "up"
                if not whole:
                    return False
            return len(views) == 1

        until(so, "the cluster is whole")

    def fail_over(self, key: str) -> RedisServer:
        """The master that has the key dies when its replica has all of it; its replica takes over. Answers who died."""
        master = self.master(key)
        replica = self.replica(master)
        with master.client() as raw, replica.client() as other:
            raw.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
            until(lambda: _offset(other, "slave_repl_offset") >= _offset(raw, "master_repl_offset"), "the replica has all")
        master.kill()
        until(lambda: self._ask(replica, "ROLE")[0] == b"master", "the replica takes over")
        until(lambda: self.master(key) is replica, "the others know")
        return master

    @contextmanager
    def moving(self, key: str, target: RedisServer, first: Callable[[list[bytes]], list[bytes]]) -> Iterator[RedisServer]:
        """The key's slot goes to this master from the one that is given: these of its keys before what is done within, and the
        rest after."""
        source, slot = self.master(key), key_slot(key.encode())
        assert source is not target
        self._ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", self._name(source))
        self._ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", self._name(target))
        with source.client() as raw:
            keys: list[bytes] = raw.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100_000)
            self._carry(raw, target, first(keys))
            yield source
            while rest := raw.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100):
                self._carry(raw, target, rest)
        for node in (target, source):
            self._ask(node, "CLUSTER", "SETSLOT", slot, "NODE", self._name(target))
        until(lambda: self.master(key) is target, "the others know")

    def _carry(self, source: redis.Redis, target: RedisServer, keys: list[bytes]) -> None:
        command(source, "MIGRATE", "127.0.0.1", target.port, "", 0, 60_000, "KEYS", *keys)

    def _ranges(self) -> Iterator[tuple[int, int, RedisServer]]:
        """The first slot, the last, and who has them."""
        for first, last, (_, port, *_), *_ in self._ask(self._alive(), "CLUSTER", "SLOTS"):
            yield first, last, next(node for node in self.nodes if node.port == port)

    def _alive(self) -> RedisServer:
        return next(node for node in self.nodes if node.running)

    def _ask(self, node: RedisServer, *command: Any) -> Any:
        with node.client() as raw:
            raw.response_callbacks.clear()
            return raw.execute_command(*command)

    def _lines(self, node: RedisServer) -> list[list[str]]:
        """Of CLUSTER NODES: name, address, flags, master, ping, pong, epoch, link, slots…"""
        return [line.split() for line in self._ask(node, "CLUSTER", "NODES").decode().splitlines()]

    def _name(self, node: RedisServer) -> str:
        return str(self._ask(node, "CLUSTER", "MYID").decode())

    def build(self) -> None:
        first = self.nodes[0]
        for number, node in enumerate(self.nodes):
            self._ask(node, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number:
                self._ask(node, "CLUSTER", "MEET", "127.0.0.1", first.port, first.cluster_port)
        bounds = [SLOTS * number // MASTERS for number in range(MASTERS + 1)]
        for node, begin, end in zip(self.nodes, bounds, bounds[1:], strict=False):
            self._ask(node, "CLUSTER", "ADDSLOTSRANGE", begin, end - 1)
        for master, replica in zip(self.nodes, self.nodes[MASTERS:], strict=False):
            name = self._name(master)
            until(lambda: any(line[0] == name for line in self._lines(replica)), "the nodes know each other")  # noqa: B023
            self._ask(replica, "CLUSTER", "REPLICATE", name)
        self.settled()


def _offset(raw: redis.Redis, name: str) -> int:
    return int(raw.info("replication")[name])


@contextmanager
def clustered_redis() -> Iterator[Clustered]:
    """When it begins, all is settled."""
    with ExitStack() as stack:
        nodes = [stack.enter_context(RedisServer(append_only=False, cluster=True, down_after=_DOWN_AFTER)) for _ in range(6)]
        made = Clustered(nodes)
        made.build()
        yield made
