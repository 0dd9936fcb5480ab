"""Operators that are killed, stopped and doubled; ledgers damaged without an operator; groups that are deleted."""

import signal
from collections.abc import Callable

from baton.kube.leases import leases_path
from baton.kube.objects import groups_path
from baton.model.times import to_seconds
from tests.integration.operator.test_trouble import assert_the_queue_agrees
from tests.integration.operator.world import KEEPS, LAPSES_SOON, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually

Start = Callable[..., Operator]


async def test_a_follower_takes_over_from_a_killed_leader_after_its_lease(empty: World, start: Start) -> None:
    first = await start(empty, "one").leads()
    second = await start(empty, "two").running()
    assert (second.metric("baton_leader"), second.get("/healthz")[0]) == (0.0, 200)
    await empty.fleet("orders", "a", partitions=4)
    first.kill()
    path = leases_path(empty.namespace, "operator")
    last = to_seconds((await empty.api.get(path))["spec"]["renewTime"])
    await empty.pod("b", "orders")  # while there is no leader
    await second.leads()
    taken = (await empty.api.get(path))["spec"]
    assert (taken["holderIdentity"], taken["leaseTransitions"]) == ("two", 1)
    assert to_seconds(taken["acquireTime"]) >= last + 7, "both tell the API server's time"
    await empty.revoking("orders", "a", 2)
    assert await empty.counts("orders") == {"a": 2, "b": 0}


async def test_a_leader_that_was_suspended_does_not_change_its_successors_ledger(empty: World, start: Start) -> None:
    first = await start(empty, "one", *LAPSES_SOON).leads()
    second = await start(empty, "two", *KEEPS).running()
    await empty.fleet("orders", "a")
    first.process.send_signal(signal.SIGSTOP)
    await second.leads()

    async def claimed() -> bool:
        ledger = await empty.api.get(empty.ledger_path("orders"))
        return str(ledger["metadata"]["annotations"]["baton.dev/writer"]) == "1"

    await eventually(claimed, "the second has claimed the ledger")
    await empty.delete_pod("a")
    await empty.pod("b", "orders")

    async def taken_over() -> bool:
        return await empty.counts("orders") == {"b": 6} and (await empty.status("orders"))["state"] == "Ready"

    await eventually(taken_over, "b has it all, and nothing more is to come", shown=lambda: empty.ledger_data("orders"))
    data = await empty.ledger_data("orders")
    first.process.send_signal(signal.SIGCONT)
    await first.follows()
    assert await empty.ledger_data("orders") == data
    lease = await empty.api.get(leases_path(empty.namespace, "operator"))
    assert lease["spec"]["holderIdentity"] == "two"


async def test_a_ledger_damaged_meanwhile_is_rebuilt_above_the_queues_epochs(
    empty: World, start: Start, redis_server: RedisServer
) -> None:
    operator = await start(empty, "one").leads()
    await empty.fleet("orders", "a", "b", url=redis_server.url, partitions=4)
    before = await empty.owned("orders")
    operator.kill()
    await empty.api.merge(empty.ledger_path("orders"), {"data": {"group": "{", "a": None}})
    await start(empty, "one").leads()
    await empty.spread("orders", 2, 2)
    after = await empty.owned("orders")
    assert {name: set(grants) for name, grants in after.items()} == {name: set(grants) for name, grants in before.items()}
    assert all(after[name][number] > epoch for name, grants in before.items() for number, epoch in grants.items())
    await eventually(lambda: empty.events("LedgerRebuilt"), "an event says so")
    await empty.told("orders", "Ready")
    await assert_the_queue_agrees(empty, "orders", redis_server)


async def test_the_ledger_of_an_earlier_group_of_that_name_is_replaced(empty: World, start: Start) -> None:
    operator = await start(empty, "one").leads()
    await empty.fleet("orders", "a")
    earlier = await empty.get_group("orders") or {}
    operator.kill()
    path = empty.ledger_path("orders")
    await empty.api.merge(path, {"data": {"zombie": "mine"}})
    await empty.delete("consumergroups", "orders")
    await empty.change("consumergroups", "orders", {"metadata": {"finalizers": None}})
    made = await empty.group("orders")
    assert made["metadata"]["uid"] != earlier["metadata"]["uid"]
    await start(empty, "one").leads()

    async def replaced() -> bool:
        found = await empty.api.find(path) or {"metadata": {}}
        owners = [owner["uid"] for owner in found["metadata"].get("ownerReferences", ())]
        return owners == [made["metadata"]["uid"]] and set(found.get("data") or {}) == {"group", "a"}

    await eventually(replaced, "nothing of it is left", shown=lambda: empty.ledger_data("orders"))
    await empty.spread("orders", 6)


async def test_deleting_a_group_in_the_foreground_deletes_its_ledger(shop: World) -> None:
    await shop.fleet("foreground", queue={"rebalance": {"maxHandoffSeconds": 0}})
    await shop.api.delete(groups_path(shop.namespace, "foreground"), propagationPolicy="Foreground")
    await shop.gone("foreground")

    async def no_ledger() -> bool:
        return await shop.ledger_data("foreground") is None

    await eventually(no_ledger, "the garbage collector has deleted the ledger's last version, too")


async def test_a_queue_removed_from_a_group_is_taken_back_and_released(shop: World, redis_server: RedisServer) -> None:
    await shop.redis("taken-out", redis_server.url, partitions=4)
    await shop.external("not-taken-out", partitions=2)
    await shop.group("taken-out", ["taken-out", "not-taken-out"])
    await shop.pod("taken-out-a", "taken-out")
    await shop.spread("taken-out", 4)
    await shop.change("consumergroups", "taken-out", {"spec": {"queues": [{"name": "not-taken-out"}]}})
    await shop.told("taken-out", "Unused", "partitionedqueues")
    assert all(owner.uid is None for owner in (await shop.inherited(redis_server.url, "taken-out", 4)).values())
    assert await shop.counts("taken-out", "not-taken-out") == {"taken-out-a": 2}


async def test_a_deletion_interrupted_by_a_dead_redis_and_a_killed_operator_finishes(empty: World, start: Start) -> None:
    operator = await start(empty, "one").leads()
    with RedisServer(fsync="always") as server:
        await empty.fleet("orders", "a", url=server.url, partitions=4)
        server.kill()
        await empty.delete("consumergroups", "orders")
        await empty.told("orders", "Deleting", says="It waits at most a minute, because Redis at")
        operator.kill()
        await start(empty, "one").leads()
        server.start()
        await empty.gone("orders")
        assert all(owner.uid is None for owner in (await empty.inherited(server.url, "orders", 4)).values())
