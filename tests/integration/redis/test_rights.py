"""The ACL rules of the guide are enough, none is superfluous, and a missing one is named."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
import redis

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.logged_ranges import RangeToFinish
from baton.queues.protocol import Claimant, Heard, QueueUnreachable
from baton.queues.redis import RedisAnnouncements, RedisDeadLetters, RedisProducer, RedisQueue, RedisReader
from baton.queues.redis.explanations import explained
from baton.queues.redis.keys import announcements_key, partition_keys
from baton.queues.redis.onlooker import RedisOnlooker
from baton.queues.redis.ranges import RedisRanges
from baton.queues.redis.routing import RoutingTable
from baton.queues.redis.url import read
from tests.integration.redis.logged import RefusedError, Task, ahead, logged
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "redis-users-and-tls.md"
QUEUE = "shop/orders"
GROUP = Claimant("shop/orders", "uid-of-the-group")
USERS = dict(re.findall(r"^user orders-(\w+) on >\S+ \S+ (.*)$", GUIDE.read_text().replace("\\\n    ", ""), re.MULTILINE))
RIGHTS = {user: [rule[1:] for rule in rules.split() if rule.startswith("+")] for user, rules in USERS.items()}
MOVES = next(key for key in map(str, range(100)) if RoutingTable.even(1, 1).resized(2).partition_of(key.encode()) == 1)
NOT_MISSED = {"config|get", "wait", "incr", "client|unblock", "expire", "del"}
"""Without these less is known, counted or done at once, and nothing fails; and the last is for Redis 7.2 and later."""


class Roles:
    """Operator, producer, consumer and Spark fleet of one queue, each with its own user."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        for user in USERS:
            self.permit(user)
        url = {user: f"redis://{user}:word@{server.bind}:{server.port}/0" for user in USERS}
        self.operator = RedisQueue(url["operator"], QUEUE, GROUP, max_redeliveries=1)
        self.producer = RedisProducer(url["producer"], QUEUE, patience=1)
        self.consumer = RedisReader(url["consumer"], QUEUE, "a")
        self.announcements = RedisAnnouncements(url["consumer"], GROUP.group, Uid("a"))
        self.ranges = RedisRanges(url["spark"], QUEUE)
        self.spark = redis.Redis.from_url(url["spark"])
        self.spark_url = read(url["spark"])
        self.epoch = 0

    def permit(self, user: str, *without: str) -> None:
        with self.server.client() as raw:
            rules = [*USERS[user].split(), *(f"-{right}" for right in without)]
            raw.execute_command("ACL", "SETUSER", user, "reset", "on", ">word", *rules)

    async def everything(self) -> None:
        """Make every request of each user, including those after a loss."""
        keys = partition_keys(QUEUE, 0)
        with self.server.client() as raw:
            await self.operator.check()
            await self.operator.ensure(1)
            await self.owned()
            self.hear()
            with raw.pipeline() as pipe:
                for number in range(1023):
                    pipe.hset(keys.sequences, f"0:gone-{number}", "1 1000")
                pipe.execute()
            self.send(6)
            entries = [*self.consumer.read(0, self._epoch, 3), *self.consumer.read(0, self._epoch, 3)]
            self.consumer.ack(0, self._epoch, [entries[0].offset, entries[0].offset])
            while self.consumer.retry(0, self._epoch, entries[1].offset, "failed"):
                pass
            self.consumer.verify(0, self._epoch)
            with suppress(Exception):
                self.consumer.verify(0, Epoch(99))
            await self.operator.pause(0, self._epoch)
            await self.operator.outstanding(0)
            end = (await self.operator.offsets())[0].end
            await self.operator.reach(0, end, 0)
            await self.operator.set_offset(0, self._epoch, end)
            await self.owned()
            raw.xadd(keys.stream, {"foreign": "1"}, id="9001000000000000-*")
            self.drain()
            with raw.pipeline() as pipe:
                for _ in range(1001):
                    pipe.xadd(keys.stream, {"foreign": "1"}, id="9002000000000000-*")
                pipe.execute()
            self.consumer.read(0, self._epoch, 1)
            self.send(1)
            raw.xadd(keys.stream, {"foreign": "1"}, id="9003000000000000-*")
            raw.xgroup_destroy(keys.stream, "baton")
            self.send(1)
            self.consumer.interrupt()
            assert self.consumer.wait([], PATIENCE) == set()
            self.drain()
            while self.consumer.wait([0], 0.01):
                self.drain()
            await self.operator.check()
            asks: tuple[Callable[[], object], ...] = (lambda: self.send(1), lambda: self.consumer.read(0, self._epoch))
            for ask in asks:
                raw.xgroup_destroy(keys.stream, "baton")
                raw.delete(keys.stream)
                ask()
                raw.delete(keys.progress)
                ask()
            for by_the_consumer in (True, False):
                self.send(1)
                raw.xgroup_destroy(keys.stream, "baton")
                self.consumer.read(0, self._epoch) if by_the_consumer else await self.operator.outstanding(0)
            raw.delete(keys.stream)
            await self.operator.outstanding(0)
            await self.read_by_spark(raw)
            await self.resized(raw)
            await self.operator.release()
            raw.flushdb()

    def hear(self) -> None:
        """Read the announcements since the last call, which end with the current owner record."""
        owner = Partition(QueueName("orders"), 0)
        self.announcements.interrupt()
        assert self.announcements.wait(PATIENCE) == {}
        assert self.announcements.wait(PATIENCE) == {owner: Heard(Uid("a"), self._epoch)}

    async def read_by_spark(self, raw: redis.Redis) -> None:
        """Read ranges by two queries, also across skipped numbers and after losses."""
        keys = partition_keys(QUEUE, 0)
        self.send(3)
        await self.owned()
        self.consumer.read(0, self._epoch, 1)
        query, start = self.ranges.begin(), self.ranges.positions()[0].committed
        raw.hset(keys.progress, "history", "another one")
        for attempt in (2, 1):
            raw.xadd(keys.stream, {"foreign": "1"}, id="*" if not raw.exists(keys.stream) else f"{self._last(raw)}-*")
            self.send(3)
            end = ahead(self.ranges, query, ("a", self._epoch), start, most_bytes=10**7).end
            logged(self.ranges, query, start, end)
            for task in (Task(query, start, end, attempt=attempt), Task(query, start, end, attempt=0)):
                with suppress(RefusedError), explained(self.spark_url, QUEUE):
                    task.rows(self.spark, QUEUE)
            self.ranges.finish(query, [RangeToFinish(0, end)])
            start = end
        ahead(self.ranges, query, ("a", self._epoch), start)
        while self.ranges.wait([0], 0.01):
            ahead(self.ranges, query, ("a", self._epoch), start)
        for lost in (keys.stream, keys.marks, keys.progress):
            self.send(1)
            raw.delete(lost)
            start = self.ranges.positions()[0].committed
            self.send(2)
            ahead(self.ranges, query, ("a", self._epoch), start)
        raw.xgroup_destroy(keys.stream, "baton")
        ahead(self.ranges, query, ("a", self._epoch), start)
        self.ranges.finish(query, [RangeToFinish(0, self.ranges.positions()[0].last)])

    def _last(self, raw: redis.Redis) -> int:
        return int(raw.hget(partition_keys(QUEUE, 0).progress, "last") or 0)

    async def resized(self, raw: redis.Redis) -> None:
        """Change the count and back, with entries and foreign entries on the stage."""
        self.send(1)
        assert await self.operator.ensure(2) is not None
        self.producer.send(MOVES, "meanwhile")
        keys, epoch = partition_keys(QUEUE, 1), Epoch(1)
        raw.xadd(keys.stream.replace("stream:0", "stage:2.0"), {"foreign": "1"})
        await self.operator.grant(1, Uid("a"), epoch)
        with raw.pipeline() as pipe:
            for _ in range(1001):
                pipe.xadd(keys.stream, {"foreign": "1"}, id="9002000000000000-*")
            pipe.execute()
        self.consumer.read(1, epoch, 1)
        self.finish(0, self._epoch)
        assert await self.operator.ensure(2) is None
        await self.operator.ensure(1)
        self.finish(1, epoch)
        assert await self.operator.ensure(1) is None

    def finish(self, partition: int, epoch: Epoch) -> None:
        self.consumer.release({partition: epoch}, 0)
        while entries := self.consumer.read(partition, epoch):
            self.consumer.ack(partition, epoch, [entry.offset for entry in entries])

    def send(self, count: int) -> None:
        self.producer.send_many(("k", str(number)) for number in range(count))

    def drain(self) -> None:
        self.consumer.read(0, self._epoch)
        while self.consumer.ready(0, self._epoch):
            self.consumer.read(0, self._epoch)

    async def owned(self) -> None:
        self.epoch += 1
        await self.operator.grant(0, Uid("a"), self._epoch)

    @property
    def _epoch(self) -> Epoch:
        return Epoch(self.epoch)


@pytest.fixture(params=[False, True], ids=["redis", "valkey"])
async def roles(request: pytest.FixtureRequest) -> AsyncIterator[Roles]:
    with RedisServer(append_only=False, valkey=request.param) as server:
        made = Roles(server)
        yield made
        made.producer.close()
        made.consumer.close()
        made.announcements.close()
        made.ranges.close()
        made.spark.close()
        await made.operator.close()


async def test_the_guides_acl_rules_suffice(roles: Roles) -> None:
    assert set(USERS) == {"operator", "producer", "consumer", "spark"}
    await roles.everything()


@pytest.mark.parametrize("user", RIGHTS)
async def test_each_missing_right_is_named(roles: Roles, user: str) -> None:
    not_missed = set()
    for right in RIGHTS[user]:
        roles.permit(user, right)
        with roles.server.client() as raw:
            raw.execute_command("SCRIPT", "FLUSH")
            if right == "client|id":  # needed when a connection begins
                raw.execute_command("CLIENT", "KILL", "USER", user)
        try:
            await roles.everything()
            not_missed.add(right)
        except QueueUnreachable as problem:
            assert right.replace("|", " ") in str(problem).lower(), right
            assert "q:{shop/orders" in str(problem).replace("pg:", "pq:") and "ACL SETUSER" in str(problem)
        roles.permit(user)
        with roles.server.client() as raw:
            raw.flushdb()
    assert not_missed <= NOT_MISSED


async def test_work_goes_on_without_rights_to_announcements(roles: Roles, caplog: pytest.LogCaptureFixture) -> None:
    with roles.server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "operator", "resetkeys", "~pq:{shop/orders}:*")
        raw.execute_command("ACL", "SETUSER", "consumer", "resetkeys", "~pq:{shop/orders}:*")
        await roles.operator.ensure(1)
        for _ in range(3):
            await roles.owned()
        (warning,) = [record.getMessage() for record in caplog.records]
        assert "let the operator's user write the keys pg:{shop/orders}:*" in warning.lower()
        assert not raw.exists(announcements_key(GROUP.group, "a"))
    roles.send(1)
    assert len(roles.consumer.read(0, Epoch(3))) == 1
    with pytest.raises(QueueUnreachable, match=r"the key\. .* on the keys %R~pg:\{shop/orders\}:\*"):
        roles.announcements.wait(PATIENCE)


async def test_a_consumer_cannot_announce(roles: Roles) -> None:
    with roles.server.client() as raw:
        raw.execute_command("AUTH", "consumer", "word")
        with pytest.raises(redis.exceptions.NoPermissionError):
            raw.xadd(announcements_key(GROUP.group, "b"), {"queue": "orders", "partitions": "0"})


async def test_a_producers_rights_suffice_for_dead_letters(roles: Roles) -> None:
    await roles.operator.ensure(1)
    await roles.owned()
    roles.send(3)
    for entry in roles.consumer.read(0, Epoch(1)):
        roles.consumer.set_aside(0, Epoch(1), entry.offset, "no")
    with RedisDeadLetters(f"redis://producer:word@{roles.server.bind}:{roles.server.port}/0", QUEUE) as letters:
        first, *others = next(letters.every(0, letters.until_now()))
        found = letters.find(first.letter)
        assert found is not None and found.value == b"0"
        assert letters.redrive([one.letter for one in others]).sent == 2
        assert letters.drop([first.letter]) == 1
        assert letters.counts() == {0: 0}


@pytest.mark.parametrize("user", ["operator", "producer", "consumer"])
async def test_each_users_rights_suffice_to_look_at_entries(roles: Roles, user: str) -> None:
    await roles.operator.ensure(1)
    roles.send(3)
    with closing(RedisOnlooker(f"redis://{user}:word@{roles.server.bind}:{roles.server.port}/0", QUEUE)) as onlooker:
        assert [entry.value for entry in onlooker.peek(0)] == [b"0", b"1", b"2"]
        coming = onlooker.tail()
        assert next(coming) is None
        roles.send(1)
        assert next(entry for entry in coming if entry is not None).value == b"0"


async def test_missing_key_permissions_are_named(roles: Roles) -> None:
    await roles.operator.ensure(1)
    await roles.owned()
    with roles.server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "consumer", "resetkeys", "~pq:{shop/others*")
    with pytest.raises(QueueUnreachable, match=r"keys pq:\{shop/orders"):
        roles.consumer.read(0, Epoch(1))
