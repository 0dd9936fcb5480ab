"""Problems of a Redis are reported with the cure, and work goes on when the cause is gone."""

import itertools
from collections.abc import Callable
from contextlib import closing

import pytest
import redis

from baton.model.ids import Epoch, Uid
from baton.queues.fence import StaleOwner
from baton.queues.logged_ranges import RangeToFinish
from baton.queues.protocol import Claimant, QueueConflict, QueueUnreachable
from baton.queues.redis import RedisProducer, RedisQueue, RedisReader
from tests.integration.redis.conftest import GROUP, Queue, make_queue, own_queue, replicated_queue
from tests.integration.redis.logged import Task, ahead, logged, ranges_of
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, eventually, until

ONE, TWO, THREE = Epoch(1), Epoch(2), Epoch(3)
NAME = "shop/orders"


async def test_a_queue_belongs_to_one_group_until_it_is_released(queue: Queue) -> None:
    other = RedisQueue(queue.url, queue.name, Claimant("shop/other", "uid-of-the-other"))
    with pytest.raises(
        QueueConflict, match=r"ConsumerGroup shop/orders-group \(uid uid-of-the-group\).*Delete that group, or give shop/other"
    ):
        await other.ensure(2)
    await other.release()
    with pytest.raises(QueueConflict):
        await other.ensure(2)
    await queue.operator.release()
    await other.ensure(2)
    with pytest.raises(QueueConflict):
        await queue.operator.ensure(2)
    await other.close()


async def test_a_group_of_the_same_name_in_another_cluster_is_another_group(queue: Queue) -> None:
    await queue.granted("a", 4)
    namesake = RedisQueue(queue.url, queue.name, GROUP._replace(uid="uid-elsewhere"))
    with pytest.raises(QueueConflict) as conflict:
        await namesake.ensure(2)
    said = str(conflict.value)
    assert (
        "belongs to another ConsumerGroup shop/orders-group, with the uid uid-of-the-group; this one's is uid-elsewhere" in said
    )
    assert "kubectl annotate consumergroup orders-group -n shop --overwrite baton.dev/take-over=uid-of-the-group" in said
    await namesake.release()
    await queue.operator.ensure(2)
    assert (await queue.operator.check()).owners == {0: ("a", 4, False)}
    await namesake.close()


async def test_a_queue_is_taken_over_from_the_named_group_only(queue: Queue) -> None:
    heir = GROUP._replace(uid="uid-of-the-heir", takes_over=frozenset({"uid-of-a-third"}))
    wrong = RedisQueue(queue.url, queue.name, heir)
    with pytest.raises(QueueConflict):
        await wrong.ensure(2)
    right = RedisQueue(queue.url, queue.name, heir._replace(takes_over=frozenset({"uid-of-a-third", "uid-of-the-group"})))
    await right.ensure(2)
    with pytest.raises(QueueConflict, match="this one's is uid-of-the-group"):
        await queue.operator.ensure(2)
    await queue.operator.release()
    await wrong.ensure(2)
    for one in (wrong, right):
        await one.close()


async def test_an_invalid_recorded_group_name_is_not_printed(queue: Queue, raw: redis.Redis) -> None:
    raw.hset(f"pq:{{{queue.name}}}:queue", mapping={"group": "\x1b[2Jshop", "uid": "a b\n" * 1000})
    with pytest.raises(QueueConflict) as conflict:
        await queue.operator.ensure(2)
    assert "(unreadable)" in str(conflict.value) and "\x1b" not in str(conflict.value) and "a b" not in str(conflict.value)


async def test_an_interrupted_creation_is_completed_by_the_next(server: RedisServer, new_name: Callable[[], str]) -> None:
    queue = await make_queue(server.url, 3, new_name())
    with queue.raw() as raw:
        raw.hdel(f"pq:{{{queue.name}}}:queue", "ready")
        raw.delete(f"pq:{{{queue.name}}}:2:stream:0", f"pq:{{{queue.name}}}:2:slots")
    await queue.operator.ensure(3)
    queue.send("a", partition=2)
    assert (await queue.operator.check()).lag[2] == 1
    await queue.close()


async def test_a_wrong_password_is_reported_without_printing_it() -> None:
    with RedisServer(password="right-pw") as server:
        for url in (f"redis://:wrong-pw@127.0.0.1:{server.port}", f"redis://127.0.0.1:{server.port}"):
            with pytest.raises(
                QueueUnreachable, match=r"refused the user or password for shop/orders\. Put the right one"
            ) as problem:
                await RedisQueue(url, NAME, GROUP).ensure(2)
            assert "wrong-pw" not in str(problem.value)
            with pytest.raises(QueueUnreachable, match="refused the user or password"):
                RedisReader(url, NAME, "a").read(0, ONE)
        await (await make_queue(server.url)).close()


async def test_work_resumes_when_an_unreachable_server_is_back() -> None:
    async with own_queue(fsync="always") as (server, queue):
        owner = await queue.granted("a", ONE)
        owner.read(0, ONE)
        server.kill()
        with pytest.raises(QueueUnreachable, match=rf"Redis at 127.0.0.1:{server.port} does not answer"):
            await queue.operator.grant(0, Uid("b"), TWO)
        with pytest.raises(QueueUnreachable, match="resumes when it is back"):
            owner.read(0, ONE)
        with pytest.raises(QueueUnreachable):
            owner.wait([0], PATIENCE)
        server.start()
        assert await queue.operator.grant(0, Uid("b"), TWO) == ("b", TWO, False)
        with pytest.raises(StaleOwner):
            owner.read(0, ONE)


async def test_a_server_at_maxclients_is_explained_and_retried() -> None:
    with RedisServer(append_only=False) as server, server.client() as raw, raw.client() as only:
        queue = await make_queue(server.url)
        only.config_set("maxclients", 1)
        only.execute_command("CLIENT", "KILL", "TYPE", "NORMAL")

        async def said() -> bool:
            """The connection may be lost before its answer is read."""
            with pytest.raises(QueueUnreachable) as refused:
                await queue.operator.grant(0, Uid("a"), ONE)
            return "has reached its limit of connections (maxclients)" in str(refused.value)

        await eventually(said, "the reason is named")
        only.config_set("maxclients", 1000)
        assert await queue.operator.grant(0, Uid("a"), ONE) == ("a", ONE, False)
        await queue.close()


async def test_foreign_data_under_the_queues_keys_is_named(queue: Queue, raw: redis.Redis) -> None:
    raw.delete(f"pq:{{{queue.name}}}:0:owner")
    raw.set(f"pq:{{{queue.name}}}:0:owner", "something else")
    with pytest.raises(QueueUnreachable, match="has other data under the keys pq:"):
        await queue.operator.grant(0, Uid("a"), ONE)


async def test_a_crash_during_a_hand_off_keeps_pause_grants_and_leftovers() -> None:
    async with own_queue(fsync="always") as (server, queue):
        queue.send("a", "b", "c")
        former = await queue.granted("a", ONE)
        entries = former.read(0, ONE, 2)
        run = (await queue.operator.check()).incarnation
        assert await queue.operator.pause(0, ONE) == 2
        server.kill()
        server.start()
        assert (await queue.operator.check()).incarnation != run
        assert (await queue.operator.check()).owners == {0: ("a", ONE, True)}
        former.ack(0, ONE, [entries[0].offset])
        owner = await queue.granted("b", TWO)
        server.kill()
        server.start()
        assert [(entry.value, entry.redelivered) for entry in owner.read(0, TWO)] == [(b"b", True), (b"c", True)]


async def test_owners_lost_in_a_restart_are_granted_at_higher_epochs() -> None:
    """Without persistence everything is gone: the operator sees another incarnation, and grants above what its ledger says."""
    async with own_queue(append_only=False) as (server, queue):
        owner = await queue.granted("a", TWO)
        run = (await queue.operator.check()).incarnation
        server.kill()
        server.start()
        assert (await queue.operator.check()).incarnation is None
        await queue.operator.ensure(2)
        assert (await queue.operator.check()).incarnation not in (None, run)
        with pytest.raises(StaleOwner) as refusal:
            owner.read(0, TWO)
        assert refusal.value.record == (None, 0, False)
        assert owner.wait([0], 0.02) == set()
        assert await queue.operator.grant(0, Uid("a"), THREE) == ("a", THREE, False)
        queue.send("a")
        assert len(owner.read(0, THREE)) == 1


async def test_a_flushed_database_has_another_incarnation() -> None:
    async with own_queue() as (_, queue):
        run = (await queue.operator.check()).incarnation
        await queue.operator.ensure(2)
        assert (await queue.operator.check()).incarnation == run
        with queue.raw() as raw:
            raw.flushall()
        await queue.operator.ensure(2)
        assert (await queue.operator.check()).incarnation not in (None, run)


async def test_a_full_redis_can_be_emptied_and_handed_over() -> None:
    async with own_queue(append_only=False) as (server, queue):
        queue.send(*("x" * 1000 for _ in range(1000)))
        owner = await queue.granted("a", ONE)
        with queue.raw() as raw, RedisProducer(server.url, queue.name, patience=0.1) as producer:
            raw.config_set("maxmemory", 1)
            with pytest.raises(QueueUnreachable, match=r"is full.*Raise maxmemory, or let the consumers catch up"):
                producer.send(queue.key(0), "y")
            entries = owner.read(0, ONE, 500)
            owner.ack(0, ONE, [entry.offset for entry in entries])
            assert await queue.operator.pause(0, ONE) == 0
            await queue.granted("b", TWO)
            with pytest.raises(StaleOwner):
                owner.read(0, ONE)
            assert (await queue.stale_refused())[0] == 1
            handled = 0
            with closing(ranges_of(queue)) as ranges:
                query, start = ranges.begin(), ranges.positions()[0].committed
                while (end := ahead(ranges, query, ("b", TWO), start, most=200).end) > start:
                    logged(ranges, query, start, end)
                    handled += len(Task(query, start, end, "b", TWO).rows(raw, queue.name))
                    ranges.finish(query, [RangeToFinish(0, end)])
                    start = end
            assert handled == 500
            assert (await queue.operator.check()).lag[0] == 0
            raw.config_set("maxmemory", 0)
            producer.send(queue.key(0), "z")


async def test_the_operator_can_change_limits_on_a_full_redis() -> None:
    async with own_queue(append_only=False) as (_, queue):
        await queue.granted("a", ONE)
        with queue.raw() as raw:
            raw.config_set("maxmemory", 1)
            await queue.operator.ensure(2)
            await queue.limited(most=5)
            assert raw.hget(f"pq:{{{queue.name}}}:1:owner", "maxDeliveredUnacked") == b"5"
            assert await queue.operator.grant(0, Uid("b"), TWO) == ("b", TWO, False)


async def test_a_server_that_may_lose_entries_is_reported() -> None:
    with RedisServer(append_only=False) as server, RedisServer(fsync="always") as good:
        careless, careful = RedisQueue(server.url, NAME, GROUP), RedisQueue(good.url, NAME, GROUP)
        with redis.Redis.from_url(server.url) as raw:
            raw.config_set("maxmemory-policy", "allkeys-lru")
        first, second = (await careless.check()).warnings
        assert "Set appendonly yes" in first
        assert "Set maxmemory-policy noeviction" in second
        assert (await careful.check()).warnings == ()
        with redis.Redis.from_url(good.url) as raw:
            for setting, lost in (("everysec", "the last seconds"), ("no", "the last half minute")):
                raw.config_set("appendfsync", setting)
                await careful.check()
                (warning,) = (await careful.check()).warnings
                assert f"appendfsync {setting}" in warning and lost in warning and "Set appendfsync always" in warning
            raw.execute_command("ACL", "SETUSER", "default", "-config")
            await careful.check()
            assert (await careful.check()).warnings == (), "it does not say"
        await careless.close()
        await careful.close()


async def test_a_grant_waits_for_the_replica_or_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with replicated_queue() as (_, replica, queue):
        epochs = itertools.count(1)

        async def durable() -> int:
            """Grant, and return the epoch if the replica had it in time (0: not, on a busy machine)."""
            caplog.clear()
            await queue.granted("a", epoch := next(epochs))
            return 0 if caplog.messages else epoch

        epoch = await eventually(durable, "a grant is durable")
        with replica.client() as raw:
            assert raw.hget(f"pq:{{{queue.name}}}:0:owner", "uid") == b"a"
        replica.freeze()
        assert await queue.operator.grant(0, Uid("b"), Epoch(epoch + 1)) == ("b", epoch + 1, False)
        assert "no replica has received a change of owner" in caplog.text
        replica.thaw()


@pytest.mark.parametrize("slots", [0, 16_384])
async def test_a_cluster_node_with_a_plain_url_is_refused_before_any_write(slots: int) -> None:
    """Even if the node has all slots, and would accept everything until one moves."""
    with RedisServer(cluster=True) as server, server.client() as raw:
        if slots:
            raw.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, slots - 1)
            until(lambda: b"cluster_state:ok" in raw.execute_command("CLUSTER", "INFO"), "the cluster has all slots")
        operator = RedisQueue(server.url, NAME, GROUP)
        for ask in (operator.check, lambda: operator.ensure(2)):
            with pytest.raises(QueueUnreachable, match=r"is a node of a Redis Cluster\. Begin the URL of shop/orders"):
                await ask()
        await operator.close()
        said = "has no queue shop/orders" if slots else r"is a node of a Redis Cluster\. Begin the URL of shop/orders"
        with RedisProducer(server.url, NAME, patience=0.1) as producer, pytest.raises(QueueUnreachable, match=said):
            producer.send("key", "value")
        assert raw.dbsize() == 0
