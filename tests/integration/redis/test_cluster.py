"""A Redis Cluster of three masters: a queue lives on one of them, and goes on when that one dies or gives it to another."""

import asyncio
import itertools
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from baton.cli.main import main
from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.fence import StaleOwner
from baton.queues.kind import ANSWERS_WITHIN
from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import RedisAnnouncements, RedisDeadLetters, RedisProducer, RedisQueue, RedisReader
from baton.queues.redis.keys import announcements_key, partition_keys, queue_key
from tests.clustered_redis import Clustered, clustered_redis
from tests.integration.redis.conftest import GROUP, make_queue
from tests.integration.redis.counted import Load, Seen, handled, in_time, processed
from tests.integration.redis.pods import Pod, acknowledged, operating
from tests.integration.redis.test_rights import USERS
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until

PARTITIONS = 4
_numbers = itertools.count()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Clustered]:
    with clustered_redis() as made:
        yield made


def apart(cluster: Clustered) -> str:
    """Return the name of a new queue that is on another node than the announcements of its group."""
    theirs = cluster.master(announcements_key(GROUP.group, ""))
    return next(name for number in _numbers if cluster.master(queue_key(name := f"shop/apart-{number}")) is not theirs)


def half(keys: list[bytes]) -> list[bytes]:
    assert len(keys) > PARTITIONS
    return keys[::2]


async def test_nothing_is_lost_under_load_while_a_cluster_changes(cluster: Clustered, tmp_path: Path) -> None:
    """No confirmed entry is missing, keys stay in order, redeliveries are marked, and former owners are refused. Grants reach
    pods by announcements, from another node than the queue's."""
    queue = await make_queue(cluster.url(), PARTITIONS, apart(cluster))
    key = queue_key(queue.name)
    seen: Seen = []
    async with operating(queue, tmp_path) as operator:
        pods = [operator.hearing() for _ in range(2)]
        for pod in pods:
            pod.before = lambda entry: seen.append((entry.key, int(entry.value), entry.redelivered))
        epochs: dict[int, int] = {}
        owners: dict[int, Pod] = {}

        async def give(partition: int, pod: Pod) -> None:
            epochs[partition] = epochs.get(partition, 0) + 1
            granted = await in_time(lambda: queue.operator.grant(partition, pod.uid, Epoch(epochs[partition])))
            assert granted == (pod.uid, epochs[partition], False)
            owners[partition] = pod

        async def hand_off(partition: int) -> None:
            await in_time(lambda: queue.operator.pause(partition, Epoch(epochs[partition])))
            await give(partition, pods[owners[partition] is pods[0]])

        async def again(incarnation: str | None, former: Uid) -> None:
            """Grant all partitions again, as the operator does for a new incarnation."""
            assert (await in_time(queue.operator.check)).incarnation != incarnation
            for partition in sorted(owners):
                await give(partition, owners[partition])
            with RedisReader(queue.url, queue.name, former) as zombie, pytest.raises(StaleOwner):
                zombie.ack(0, Epoch(epochs[0] - 2), ["1-0"])

        for partition in range(PARTITIONS):
            await give(partition, pods[partition % 2])
        load = Load(queue)
        try:
            await processed(seen, 200)
            await hand_off(0)

            await queue.operator.ensure(PARTITIONS + 2)
            queue.partitions = PARTITIONS + 2
            for partition in range(PARTITIONS, PARTITIONS + 2):
                await give(partition, pods[partition % 2])
            incarnation, former = (await queue.operator.check()).incarnation, owners[0]
            await in_time(lambda: queue.operator.pause(0, Epoch(epochs[0])))
            dead = await asyncio.to_thread(cluster.fail_over, key)
            await give(0, pods[former is pods[0]])
            await again(incarnation, former.uid)
            await processed(seen, 200)
            dead.start()  # on this thread, as the server dies with the thread that starts it
            while await in_time(lambda: queue.operator.ensure(PARTITIONS + 2)) is not None:
                await processed(seen, 10)

            await asyncio.to_thread(cluster.settled)
            incarnation, former = (await queue.operator.check()).incarnation, owners[0]
            with (
                cluster.moving(key, cluster.other(key), half),
                pytest.raises(QueueUnreachable, match=r"is moving shop/apart-\d+ to another node"),
            ):
                await queue.operator.grant(0, Uid("nobody"), Epoch(1))
            await hand_off(0)
            await again(incarnation, former.uid)
            await processed(seen, 200)
            await hand_off(1)
        finally:
            load.end()
        await acknowledged(queue)
    assert handled(seen) == load.sent
    assert not any((await queue.dead_letters()).values())
    await queue.close()


async def test_no_request_is_half_done_while_a_slot_is_moving(cluster: Clustered) -> None:
    """Also where all keys are there that a script names, and a stage that it comes upon is gone."""
    queue = await make_queue(cluster.url(), 2, apart(cluster))
    keys, stage = partition_keys(queue.name, 0), partition_keys(queue.name, 0).stream.replace("stream:0", "stage:2.1")
    owner = await queue.granted("a", 1)
    await queue.operator.grant(1, Uid("a"), Epoch(1))
    queue.send("poison")
    queue.send("held up", partition=1)
    (poison,) = owner.read(0, Epoch(1))
    owner.set_aside(0, Epoch(1), poison.offset, "to make its key")
    with pytest.raises(StaleOwner):
        queue.reader("b").read(0, Epoch(1))
    assert await queue.operator.ensure(1) is not None
    ours, theirs = queue.key(0), queue.key(1)
    queue.producer.send(theirs, "1")
    with (
        ThreadPoolExecutor() as pool,
        cluster.moving(keys.owner, cluster.other(keys.owner), lambda _: [stage.encode()]) as source,
        source.client() as raw,
    ):
        assert raw.exists(*keys[:-1]) == len(keys) - 1
        refused = raw.info("stats")["total_error_replies"]
        sent = pool.submit(queue.producer.send_many, [(ours, "a"), (theirs, "2"), (ours, "b"), (theirs, "3")])
        until(lambda: raw.info("stats")["total_error_replies"] > refused, "it is refused")
    sent.result(PATIENCE)
    (held_up,) = owner.read(1, Epoch(1))
    assert held_up.redelivered, "its history is in doubt on another node"
    owner.ack(1, Epoch(1), [held_up.offset])
    while await queue.operator.ensure(1) is not None:
        pass
    assert [entry.value for entry in owner.read(0, Epoch(1))] == [b"a", b"b", b"1", b"2", b"3"]
    await queue.close()


async def test_a_pod_hears_of_queues_on_all_reachable_nodes(cluster: Clustered) -> None:
    here = await make_queue(cluster.url(), 1, apart(cluster))
    node = cluster.master(queue_key(here.name))
    there = await make_queue(
        cluster.url(), 1, next(name for name in iter(lambda: apart(cluster), "") if cluster.master(queue_key(name)) is not node)
    )
    uid = Uid(f"pod-of-{here.name}")
    with closing(RedisAnnouncements(cluster.url(), GROUP.group, uid)) as announcements:
        for queue in (here, there):
            await queue.operator.grant(0, uid, Epoch(1))
        heard: set[str] = set()
        while len(heard) < 2:
            heard |= {partition.queue for partition in await asyncio.to_thread(announcements.wait, PATIENCE)}
        partitions = [Partition(QueueName(queue.name.removeprefix("shop/")), 0) for queue in (here, there)]
        assert {owner.uid for owner in announcements.look(partitions).values()} == {uid}
        key = queue_key(here.name)
        with cluster.moving(key, cluster.other(key), lambda keys: keys):
            with pytest.raises(QueueUnreachable, match=f"is moving {here.name} to another node"):
                announcements.look(partitions)
            await there.operator.pause(0, Epoch(1))
            with cluster.master(announcements_key(GROUP.group, "")).client() as raw:
                raw.xadd(announcements_key(GROUP.group, uid), {"queue": partitions[0].queue, "partitions": "0"})
            heard_now = await in_time(lambda: asyncio.to_thread(announcements.wait, PATIENCE))
            assert [partition.queue for partition in heard_now] == [partitions[1].queue]
        assert len(announcements.look(partitions)) == 2
    for queue in (here, there):
        await queue.close()


async def test_the_guides_acl_rules_suffice_in_a_cluster(cluster: Clustered) -> None:
    for node in cluster.nodes:
        with node.client() as raw:
            for user, rules in USERS.items():
                raw.execute_command("ACL", "SETUSER", user, "reset", "on", ">word", *rules.split())
    group = Claimant("shop/orders", "uid-of-the-group")
    url = {user: cluster.url(f"{user}:word@") for user in USERS}
    operator = RedisQueue(url["operator"], "shop/orders", group)
    await operator.ensure(1)
    assert (await operator.check()).incarnation
    assert (await operator.check()).warnings == ()
    announcements = RedisAnnouncements(url["consumer"], "shop/orders", Uid("a"))
    with (
        RedisProducer(url["producer"], "shop/orders", patience=PATIENCE) as producer,
        RedisReader(url["consumer"], "shop/orders", "a") as reader,
    ):
        await operator.grant(0, Uid("a"), Epoch(1))
        told = await asyncio.to_thread(announcements.wait, PATIENCE)
        assert [owner.uid for owner in told.values()] == ["a"]
        producer.send("key", "value")
        assert reader.wait([0], PATIENCE) == {0}
        (entry,) = reader.read(0, Epoch(1))
        reader.set_aside(0, Epoch(1), entry.offset, "no")
    with RedisDeadLetters(url["producer"], "shop/orders") as letters:
        assert letters.counts() == {0: 1}
    listed = await asyncio.to_thread(
        CliRunner().invoke, main, ["dead-letters", "list", "-o", "json", "--redis-url", url["producer"], "shop/orders"]
    )
    assert [letter["why"] for letter in json.loads(listed.stdout)["letters"]] == ["no"]
    announcements.close()
    await operator.close()


async def test_silent_nodes_named_first_do_not_block_the_others(cluster: Clustered) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(6)]
        hosts = ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in silent)
        url = cluster.url().replace("://", f"://{hosts},")

        async def made() -> bool:
            """Try like the operator: with its time limit, and then again."""
            queue = RedisQueue(url, f"shop/among-{next(_numbers)}", GROUP)
            try:
                async with asyncio.timeout(ANSWERS_WITHIN):
                    return await queue.ensure(PARTITIONS) is None
            except TimeoutError:
                return False
            finally:
                await queue.close()

        async with asyncio.timeout(PATIENCE):
            while not await made():
                pass


async def test_a_url_that_reaches_no_cluster_is_explained(cluster: Clustered, server: RedisServer) -> None:
    plain = server.url.replace("redis://", "redis+cluster://")
    for url, said in {
        plain: r"is not a Redis Cluster\. Begin the URL of shop/orders with redis://",
        cluster.url("nobody:wrong@"): "refused the user or password",
        "redis+cluster://127.0.0.1:1,no.invalid": "None of the nodes at 127.0.0.1:1, no.invalid:6379 says where shop/orders is",
    }.items():
        queue = RedisQueue(url, "shop/orders", GROUP)
        with pytest.raises(QueueUnreachable, match=said):
            await queue.ensure(2)
        await queue.close()
        if url != plain:
            with RedisProducer(url, "shop/orders", patience=0.1) as producer, pytest.raises(QueueUnreachable, match=said):
                producer.send("key", "value")
    with server.client() as raw:
        assert not raw.exists(queue_key("shop/orders"))
