"""A primary and a replica that three Sentinels watch, for tests."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import redis

from tests.redis_server import RedisSentinel, RedisServer
from tests.waiting import until

SERVICE = "orders"
PASSWORD = "of-the-servers"


class Watched:
    """Two servers that three Sentinels watch."""

    def __init__(self, servers: list[RedisServer], sentinels: list[RedisSentinel]) -> None:
        self.servers, self.sentinels = servers, sentinels

    def url(self, user: str = f":{PASSWORD}@", options: str = "") -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{user}{hosts}/{SERVICE}/0{options}"

    def primary(self) -> RedisServer:
        """As the last Sentinel has it."""
        with self.sentinels[-1].client() as raw:
            _, port = raw.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(server for server in self.servers if server.port == int(port))

    def settled(self) -> None:
        """All Sentinels know each other and a replica that follows the primary."""

        def so() -> bool:
            primary = self.primary()
            for sentinel in self.sentinels:
                with sentinel.client() as raw:
                    (state,) = raw.execute_command("SENTINEL", "MASTERS")
                    replicas = raw.execute_command("SENTINEL", "REPLICAS", SERVICE)
                found = state if isinstance(state, dict) else dict(zip(state[::2], state[1::2], strict=True))
                followers = [
                    each if isinstance(each, dict) else dict(zip(each[::2], each[1::2], strict=True)) for each in replicas
                ]
                if int(_of(found, "port")) != primary.port or int(_of(found, "num-other-sentinels")) != len(self.sentinels) - 1:
                    return False
                if [_of(each, "master-link-status") for each in followers] != [b"ok"]:
                    return False
            with primary.client() as raw:
                return bool(raw.info("replication")["connected_slaves"] == 1)

        until(so, "the Sentinels agree on the primary, and it has a replica")

    def fail_over(self, *, crash: bool) -> None:
        """The replica becomes the primary when it has all acknowledged data: its own loss is another thing."""
        before = self.primary()
        with before.client() as raw:
            raw.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
            (replica,) = (server for server in self.servers if server is not before)
            with replica.client() as other:
                until(lambda: _offset(other, "slave_repl_offset") >= _offset(raw, "master_repl_offset"), "the replica has all")
        if crash:
            before.kill()
        else:
            with self.sentinels[-1].client() as sentinel:
                sentinel.execute_command("SENTINEL", "FAILOVER", SERVICE)
        until(lambda: self.primary() is replica, "the Sentinels have another primary")


def _of(fields: dict[object, object], name: str) -> bytes:
    found = fields.get(name, fields.get(name.encode()))
    return found if isinstance(found, bytes) else str(found).encode()


def _offset(raw: redis.Redis, name: str) -> int:
    return int(raw.info("replication")[name])


@contextmanager
def watched_redis() -> Iterator[Watched]:
    """When it begins, they all know each other."""
    with ExitStack() as stack:
        first = stack.enter_context(RedisServer(password=PASSWORD, fsync="always"))
        second = stack.enter_context(RedisServer(password=PASSWORD, fsync="always", replica_of=first))
        sentinels = [stack.enter_context(RedisSentinel(SERVICE, first)) for _ in range(3)]
        made = Watched([first, second], sentinels)
        made.settled()
        yield made
