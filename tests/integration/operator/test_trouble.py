"""What goes wrong while it runs: a condition that names the cure, and work that goes on as soon as the cause is gone."""

import contextlib

import pytest

from baton.kube.api import core_path
from baton.model.ids import QueueName
from baton.queues.fence import StaleOwner
from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import RedisProducer, RedisQueue, RedisReader
from baton.queues.redis.keys import partition_keys
from tests.integration.operator.world import SHOP, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually


async def test_a_group_without_pods_reports_it(shop: World) -> None:
    await shop.external("lonely")
    await shop.group("lonely")
    message = await shop.told("lonely", "NoMembers")
    assert "baton.dev/group: lonely" in message and "pods' template" in message
    await shop.pod("lonely-a", "lonely", ready=False)
    await shop.told("lonely", "NoMembers", says="not Ready")
    await shop.set_ready("lonely-a", True)
    await shop.told("lonely", "Ready")
    await shop.spread("lonely", 6)


async def test_an_assignor_that_a_pod_does_not_support_is_named_until_it_changes(shop: World) -> None:
    await shop.external("picky")
    await shop.group("picky", assignors=["solace"])
    await shop.pod("picky-a", "picky", annotations={"baton.dev/assignors": "range"})
    message = await shop.told("picky", "UnknownAssignor")
    assert "solace" in message and "picky-a" in message
    await shop.change("consumergroups", "picky", {"spec": {"assignors": ["example.com/absent"]}})
    absent = "there is no assignor 'example.com/absent'; install the package that has it"
    await shop.told("picky", "UnknownAssignor", says=absent)
    await shop.change("consumergroups", "picky", {"spec": {"assignors": ["solace", "range"]}})
    await shop.told("picky", "Ready")
    await shop.spread("picky", 6)


async def test_a_pod_that_reads_none_of_the_groups_queues_is_named(shop: World) -> None:
    await shop.fleet("misread")
    await shop.pod("misread-b", "misread", annotations={"baton.dev/subscribed": "misraed"})
    message = await shop.told("misread", "BadAnnotation")
    assert message.startswith("misread-b: annotation baton.dev/subscribed names 'misraed', which spec.queues does not")
    await shop.delete_pod("misread-b")
    await shop.told("misread", "Ready")


async def test_a_pod_without_the_required_identity_is_named(shop: World) -> None:
    await shop.external("nameless")
    await shop.group("nameless", membership={"identityLabel": "app/index", "sessionTimeoutSeconds": 30})
    await shop.pod("nameless-a", "nameless", labels={"app/idx": "0"})
    message = await shop.told("nameless", "NoIdentity")
    assert message.startswith("nameless-a: no label app/index, which spec.membership.identityLabel names")
    await shop.api.merge(core_path(SHOP, "pods", "nameless-a"), {"metadata": {"labels": {"app/index": "0"}}})
    await shop.told("nameless", "Ready")


async def test_a_redis_that_is_down_is_reported_and_the_groups_other_queue_works(shop: World) -> None:
    server = RedisServer()
    await shop.redis("down", server.url, partitions=4)
    await shop.external("down-other", partitions=2)
    await shop.group("down", ["down", "down-other"])
    await shop.pod("down-a", "down")
    message = await shop.told("down", "QueueUnreachable")
    assert str(server.port) in message
    await shop.shows("down", state="NotReady")
    assert (await shop.condition("down", "Settled"))["status"] == "False"
    await shop.told("down", "QueueUnreachable", "partitionedqueues")
    await shop.spread("down", 2, queue="down-other")
    with server:
        await shop.spread("down", 4)
        await shop.told("down", "Ready")


async def test_a_refused_password_is_reported_and_read_again_from_the_secret(shop: World) -> None:
    with RedisServer(password="right") as server:
        source = {"type": "Redis", "redis": {"urlSecretRef": {"name": "redis-url"}}}
        await shop.queue("locked", source, 4)
        await shop.group("locked")
        await shop.pod("locked-a", "locked")
        message = await shop.told("locked", "QueueUnreachable")
        assert f"Secret {SHOP}/redis-url" in message and "create it" in message
        await shop.secret("redis-url", server.url.replace("right", "wrong"))
        await shop.told("locked", "QueueUnreachable", says="password")
        await shop.secret("redis-url", server.url)
        await shop.spread("locked", 4)
        await shop.told("locked", "Ready")


async def test_a_redis_that_vanishes_during_a_hand_off_loses_nothing(shop: World) -> None:
    with RedisServer(fsync="always") as server:
        await shop.fleet("gone", url=server.url, partitions=4, queue={"rebalance": {"maxHandoffSeconds": 30}})
        server.kill()
        await shop.pod("gone-b", "gone")
        await shop.revoking("gone", "gone-a", 2)
        await shop.told("gone", "QueueUnreachable")
        before = (await shop.entries("gone"))["gone-a"]
        server.start()
        await shop.spread("gone", 2, 2)
        await shop.told("gone", "Ready")
        granted = dict(before.owned[QueueName("gone")]) | dict(before.revoking[QueueName("gone")])

        async def asserted_again() -> bool:
            owned = await shop.owned("gone")
            return all(epoch > granted[number] for grants in owned.values() for number, epoch in grants.items())

        why = "everything was granted again, for the restart may have lost records"
        await eventually(asserted_again, why, shown=lambda: shop.owned("gone"))
        await assert_the_queue_agrees(shop, "gone", server)


async def test_a_flushed_queue_is_created_and_granted_again_at_higher_epochs(shop: World) -> None:
    """A deleted stream is created again, too. Producers and the consumer go on without a restart."""
    with RedisServer(fsync="always") as server:
        (uid,) = await shop.fleet("flushed", url=server.url, partitions=2)
        former = (await shop.owned("flushed"))["flushed-a"]
        name = f"{shop.namespace}/flushed"
        with RedisProducer(server.url, name) as producer, RedisReader(server.url, name, uid) as reader, server.client() as raw:
            producer.send("key", "lost")
            raw.flushdb()
            producer.send("key", "kept")

            async def read() -> list[bytes]:
                grants = (await shop.owned("flushed"))["flushed-a"]
                assert all(grants[number] >= former[number] for number in former)
                with contextlib.suppress(StaleOwner, QueueUnreachable):
                    return [entry.value for number, epoch in grants.items() for entry in reader.read(number, epoch)]
                return []

            assert await eventually(read, "it is granted again, above", shown=lambda: shop.owned("flushed")) == [b"kept"]
            await assert_the_queue_agrees(shop, "flushed", server)
            assert (await shop.event("OwnersRestored", "flushed")).startswith("the queue flushed came back empty")
            with pytest.raises(StaleOwner):
                reader.read(0, former[0])
            raw.delete(*(partition_keys(name, number).stream for number in former))
            producer.send("key", "after")
            assert await eventually(read, "the stream is made again") == [b"after"]
        await shop.told("flushed", "Ready")


async def test_an_edited_ledger_is_restored(shop: World) -> None:
    await shop.fleet("edited")
    await shop.told("edited", "Ready")
    path, before = shop.ledger_path("edited"), await shop.ledger_data("edited")
    owners = (await shop.api.get(path))["metadata"]["ownerReferences"]
    taken = {"labels": None, "ownerReferences": None}
    for edit in ({"data": {"edited-a": "mine", "group": None}}, {"metadata": taken, "data": {"edited-a": "mine"}}):
        await shop.api.merge(path, edit)
        await shop.ledger_is("edited", before)
    assert (await shop.api.get(path))["metadata"]["ownerReferences"] == owners
    await eventually(lambda: shop.events("LedgerRestored"), "an event says so")


async def test_a_deleted_ledger_is_recreated(shop: World, shared_operator: Operator) -> None:
    await shop.fleet("deleted")
    await shop.told("deleted", "Ready")
    before = await shop.ledger_data("deleted")
    await shop.api.delete(shop.ledger_path("deleted"))
    await shop.ledger_is("deleted", before)
    await shared_operator.measures("baton_ledger_restored_total", lambda value: value == 1, namespace=SHOP, group="deleted")


async def test_pods_whose_label_names_no_group_are_warned(shop: World, shared_operator: Operator) -> None:
    await shop.pod("stray-a", "strayed")

    async def told() -> bool:
        return any(event["regarding"]["name"] == "stray-a" for event in await shop.events("NoSuchGroup"))

    await eventually(told, "the pod has an event")
    note = next(event["note"] for event in await shop.events("NoSuchGroup") if event["regarding"]["name"] == "stray-a")
    assert "baton.dev/group: strayed" in note and "correct the label" in note
    labels = {"namespace": SHOP, "group": "strayed"}
    await shared_operator.measures("baton_pods_without_group", lambda value: value == 1, **labels)
    await shop.external("strayed")
    await shop.group("strayed")
    await shop.spread("strayed", 6)


async def test_a_redis_queue_follows_the_partition_count_of_its_spec(shop: World, redis_server: RedisServer) -> None:
    await shop.fleet("sized", "sized-a", "sized-b", url=redis_server.url, partitions=4)
    for count, owned in ((6, (3, 3)), (2, (1, 1)), (4, (2, 2))):
        await shop.change("partitionedqueues", "sized", {"spec": {"partitions": count}})
        await shop.spread("sized", *owned)
        await assert_the_queue_agrees(shop, "sized", redis_server)
    await shop.told("sized", "Ready")


async def test_a_redis_queue_belongs_to_one_group_until_it_is_deleted(shop: World, redis_server: RedisServer) -> None:
    await shop.redis("wanted", redis_server.url, partitions=4)
    await shop.group("wanted-first", ["wanted"])
    await shop.pod("wanted-a", "wanted-first")
    await shop.spread("wanted-first", 4, queue="wanted")
    await shop.group("wanted-second", ["wanted"])
    await shop.pod("wanted-b", "wanted-second")
    message = await shop.told("wanted-second", "Conflict")
    assert f"{SHOP}/wanted-first" in message
    assert await shop.counts("wanted-first", "wanted") == {"wanted-a": 4}
    await shop.told("wanted", "Reachable", "partitionedqueues")
    await shop.delete("consumergroups", "wanted-first")
    await shop.spread("wanted-second", 4, queue="wanted")
    await shop.told("wanted-second", "Ready")


async def assert_the_queue_agrees(world: World, name: str, server: RedisServer) -> None:
    """What the ledger says is what the queue enforces."""
    queue = RedisQueue(server.url, queue=f"{world.namespace}/{name}", claimant=Claimant(f"{world.namespace}/{name}", "a test"))
    try:
        owners = (await queue.check()).owners
    finally:
        await queue.close()
    for entry in (await world.entries(name)).values():
        for number, epoch in entry.owned.get(QueueName(name), {}).items():
            assert (owners[number].uid, owners[number].epoch) == (entry.uid, epoch)
