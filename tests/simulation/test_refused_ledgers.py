"""An operator whose ledger cannot be written reports that, does nothing that is not in the ledger, and goes on when it can."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from baton.controller.group_loop import LEDGER_WITHIN, QUEUES_WITHIN, QUEUES_WITHIN_WITHOUT_LEDGER
from baton.controller.problems import PASSING
from baton.controller.relists import LEDGERS_EVERY
from baton.controller.retrying import LONGEST_PAUSE
from baton.kube.api import REQUEST_TIMEOUT, core_path
from baton.kube.objects import groups_path, queues_path
from baton.model.ids import QueueName
from baton.model.names import ledger_name
from tests.simulation.api_server import Fault, Hang, LoseAnswer, Refuse
from tests.simulation.one_replica import OneReplica, in_virtual_time

CONFIG_MAPS = core_path("shop", "configmaps")
LEDGER = core_path("shop", "configmaps", ledger_name("orders"))
LABELS = {"namespace": "shop", "group": "orders"}
RESYNC = 20.0

AT_ONCE = [
    Refuse(403, "Forbidden", 'configmaps "orders-assignments" is forbidden: exceeded quota: small, requested: configmaps=1'),
    Refuse(403, "Forbidden", 'User "baton" cannot update resource "configmaps" in API group "" in the namespace "shop"'),
    Refuse(400, "BadRequest", 'admission webhook "gate.example.com" denied the request: not on Sundays'),
    Refuse(422, "Invalid", 'ConfigMap "orders-assignments" is invalid: data: Invalid value'),
    Refuse(401, "Unauthorized", "Unauthorized"),
]
TOO_LARGE = [
    Refuse(413, "RequestEntityTooLarge", "Request entity too large: limit is 65536"),
    Refuse(500, "", "etcdserver: request is too large"),
    Refuse(500, "", "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3 vs. 2)"),
    Refuse(422, "Invalid", 'ConfigMap "orders-assignments" is invalid: []: Too long: may not be more than 1048576 bytes'),
]
IN_A_WHILE = [
    Refuse(429, "TooManyRequests", "the server has received too many requests"),
    Refuse(500, "InternalError", 'Internal error occurred: failed calling webhook "gate.example.com": connection refused'),
    Refuse(503, "ServiceUnavailable", "etcd is away"),
    Refuse(504, "Timeout", "request did not complete within the allotted timeout"),
    Refuse(409, "Conflict", "the object has been modified"),
    Hang(),
]
CURES = ("ResourceQuota", "RBAC", "webhook or policy", "the API server's log", "fewer partitions", "start what")


def of_ledgers(fault: Fault) -> Callable[[str, str], Fault | None]:
    """Every write of a ledger meets it."""

    def trouble(verb: str, path: str) -> Fault | None:
        return fault if path.startswith(CONFIG_MAPS) and verb in ("create", "update") else None

    return trouble


async def serve(world: OneReplica) -> None:
    """Two pods share four partitions, and so do two of a neighbour."""
    for name in ("orders", "returns"):
        world.queue(name)
        world.group(name)
        world.pod(f"{name}-a", name)
        world.pod(f"{name}-b", name)
    await world.until(world.counts, [2, 2])
    await world.until_told("Ready")
    await world.until_told("Ready", "returns")


def reason(fault: Fault) -> str:
    """Of the condition Ready."""
    return "SizeLimit" if fault in TOO_LARGE else "LedgerRefused"


def bound(fault: Fault) -> float:
    """Seconds within which it is told: at once, or when it has lasted; and a request, a status write, a look."""
    at_once = fault in AT_ONCE + TOO_LARGE
    return 1.0 + (0.0 if at_once else PASSING + LONGEST_PAUSE) + (REQUEST_TIMEOUT if type(fault) is Hang else 0)


@pytest.mark.parametrize("fault", AT_ONCE + TOO_LARGE + IN_A_WHILE, ids=str)
@in_virtual_time
async def test_a_refused_ledger_is_reported_and_nothing_else_is_done(world: OneReplica, fault: Fault) -> None:
    await serve(world)
    before, records = world.ledger(), dict(world.queues["orders"].records)
    failures = world.measured("baton_ledger_failures_total", **LABELS)
    world.trouble = of_ledgers(fault)
    world.delete_pod("orders-b")
    assert await world.until_told(reason(fault)) <= bound(fault)
    _, message = world.ready()
    assert "ConfigMap shop/orders-assignments, the group's ledger, cannot be written" in message
    if type(fault) is Refuse:
        assert fault.message in message
        assert any(cure in message for cure in CURES), message
    world.pod("orders-c")
    await asyncio.sleep(30)
    assert world.ready()[0] == reason(fault)
    assert world.ledger() == before
    assert world.queues["orders"].records == records, "nothing was granted"
    assert world.measured("baton_ledger_failures_total", **LABELS) > failures
    assert world.measured("baton_ledger_failing_seconds", **LABELS) >= 30
    assert world.metric("baton_group_ready", **LABELS, reason=reason(fault)) == 0
    assert world.events().count(reason(fault)) == 1
    assert world.measured("baton_reconcile_age_seconds", **LABELS) <= 30, "rounds come to their end"
    world.trouble = lambda verb, path: None
    assert await world.until_told("Ready") <= LONGEST_PAUSE + REQUEST_TIMEOUT + 1
    await world.until(world.counts, [2, 2])
    assert world.metric("baton_ledger_failing_seconds", **LABELS) == 0

    await world.until(lambda: "Recovered" in world.events())


@pytest.mark.parametrize("fault", [AT_ONCE[0], Hang()], ids=str)
@in_virtual_time
async def test_a_refused_ledger_does_not_affect_other_groups(world: OneReplica, fault: Fault) -> None:
    await serve(world)
    world.trouble = lambda verb, path: fault if path == LEDGER else None
    world.delete_pod("orders-b")
    await world.until_told("LedgerRefused")
    world.delete_pod("returns-b")

    assert await world.until(partial(world.counts, "returns"), [4]) < 4
    assert world.ready("returns")[0] == "Ready"


@pytest.mark.parametrize("fault", AT_ONCE + TOO_LARGE + IN_A_WHILE, ids=str)
@in_virtual_time
async def test_a_ledger_that_cannot_be_claimed_is_reported(world: OneReplica, fault: Fault) -> None:
    world.trouble = of_ledgers(fault)
    world.queue("orders")
    world.group("orders")
    world.pod("orders-a")
    assert await world.until_told(reason(fault)) <= bound(fault) + 3
    assert world.metric("baton_group_ready", **LABELS, reason=reason(fault)) == 0
    assert world.measured("baton_ledger_failures_total", **LABELS) > 0
    assert reason(fault) in world.events()
    assert world.queues == {}, "no queue is claimed"
    world.trouble = lambda verb, path: None
    await world.until_told("Ready", seconds=LONGEST_PAUSE + REQUEST_TIMEOUT + 5)
    await world.until(world.counts, [4])


@pytest.mark.parametrize("fault", [AT_ONCE[0], IN_A_WHILE[0]], ids=str)
@in_virtual_time
async def test_a_group_with_a_refused_ledger_sleeps_between_attempts(world: OneReplica, fault: Fault) -> None:
    await serve(world)
    world.change_group("orders", rebalance={"delaySeconds": 2, "resyncSeconds": 5})
    world.delete_pod("orders-b")
    await asyncio.sleep(1)
    world.trouble = of_ledgers(fault)  # the end of the holddown cannot be written, and is over from then on
    await world.until_told("LedgerRefused")
    world.looks = 0
    await asyncio.sleep(30)
    assert world.looks < 10_000


@in_virtual_time
async def test_a_group_with_an_invalid_spec_and_a_refused_write_sleeps(world: OneReplica) -> None:
    await serve(world)
    world.change_group("orders", rebalance={"delaySeconds": 2, "resyncSeconds": 60})
    world.trouble = of_ledgers(AT_ONCE[0])
    world.delete_pod("orders-b")
    await world.until_told("LedgerRefused")
    world.change_group("orders", queues="none")
    await world.until_told("InvalidSpec")
    world.looks = 0
    await asyncio.sleep(30)
    assert world.looks < 1_000


@in_virtual_time
async def test_a_brief_failure_is_not_reported(world: OneReplica) -> None:
    await serve(world)
    faults = [Refuse(500, "InternalError", "leader changed")] * 2
    world.trouble = lambda verb, path: faults.pop() if faults and (verb, path) == ("update", LEDGER) else None
    world.delete_pod("orders-b")
    await world.until(world.counts, [4])
    assert "LedgerRefused" not in world.events()


@pytest.mark.parametrize("hang", [False, True])
@in_virtual_time
async def test_writes_with_lost_answers_are_not_foreign_edits(world: OneReplica, hang: bool) -> None:
    await serve(world)
    faults: list[Fault] = [LoseAnswer(hang)] * 3
    world.trouble = lambda verb, path: faults.pop() if faults and (verb, path) == ("update", LEDGER) else None
    world.delete_pod("orders-b")
    await world.until(world.counts, [4])
    await world.until_told("Ready")
    assert world.metric("baton_ledger_restored_total", **LABELS) == 0
    assert "LedgerRestored" not in world.events()


@in_virtual_time
async def test_a_refused_ledger_is_retried_at_its_own_pace(world: OneReplica) -> None:
    await serve(world)
    world.trouble = of_ledgers(AT_ONCE[0])
    world.delete_pod("orders-b")
    await world.until_told("LedgerRefused")
    await asyncio.sleep(20)
    world.asked.clear()
    for number in range(100):
        world.pod(f"more-{number}")
        await asyncio.sleep(0.3)
    assert 5 <= sum(asked == ("update", LEDGER) for asked in world.asked) <= 8


@in_virtual_time
async def test_a_deleted_immutable_ledger_is_rewritten_without_loss(world: OneReplica) -> None:
    await serve(world)
    before, epochs = world.ledger(), {number: one.epoch for number, one in world.queues["orders"].records.items()}
    world.change(LEDGER, {"immutable": True})
    world.delete_pod("orders-b")
    await world.until_told("LedgerRefused")
    assert "delete ConfigMap orders-assignments, which was made immutable" in world.ready()[1]
    await asyncio.sleep(30)
    assert world.ledger() == before
    world.delete(LEDGER)
    await world.until_told("Ready")
    await world.until(world.counts, [4])
    owned = world.entries()["orders-a"].owned[QueueName("orders")]
    assert owned == {number: one.epoch for number, one in world.queues["orders"].records.items()}
    assert {number: epoch - epochs[number] for number, epoch in owned.items()} == {0: 0, 1: 1, 2: 0, 3: 1}


@in_virtual_time
async def test_an_operator_that_starts_with_an_immutable_ledger_recreates_it_unchanged(world: OneReplica) -> None:
    """The restarted operator has never written the ledger, and creates it once it is deleted."""
    await serve(world)
    before = world.ledger()
    world.change(LEDGER, {"immutable": True})
    await world.stop()
    world.start()
    await world.until_told("LedgerRefused")
    world.delete(LEDGER)
    await world.until_told("Ready")
    await world.until(world.counts, [2, 2])
    assert world.ledger() == before, "everybody goes on at the epochs that they had"


@in_virtual_time
async def test_an_edit_that_cannot_be_undone_is_reported(world: OneReplica) -> None:
    await serve(world)
    world.trouble = of_ledgers(AT_ONCE[1])
    world.change(LEDGER, {"data": {"orders-a": "mine"}})
    await world.until_told("LedgerRefused")
    world.trouble = lambda verb, path: None
    await world.until_told("Ready")
    assert world.entries()["orders-a"].active


@in_virtual_time
async def test_a_refusal_ends_when_nothing_is_left_to_write(world: OneReplica) -> None:
    await serve(world)
    world.trouble = of_ledgers(AT_ONCE[0])
    world.queue("more")
    world.change_group("orders", queues=[{"name": "orders"}, {"name": "more"}])
    await world.until_told("LedgerRefused")
    world.change_group("orders", queues=[{"name": "orders"}])
    await world.until_told("Ready")


# -- groups that are deleted


@pytest.mark.parametrize("fault", [AT_ONCE[2], IN_A_WHILE[1], Hang()], ids=str)
@in_virtual_time
async def test_a_group_is_deleted_though_its_ledger_cannot_be_written(world: OneReplica, fault: Fault) -> None:
    await serve(world)
    world.trouble = of_ledgers(fault)
    world.delete_group("orders")
    took = await world.until_gone(groups_path("shop", "orders"), LEDGER_WITHIN + 2 * (REQUEST_TIMEOUT + LONGEST_PAUSE))
    assert took >= LEDGER_WITHIN
    queue = world.queues["orders"]
    assert queue.released and {record.uid for record in queue.records.values()} == {None}
    assert world.ready("returns")[0] == "Ready"


@in_virtual_time
async def test_a_deleted_group_first_releases_its_queues(world: OneReplica) -> None:
    await serve(world)
    world.queues["orders"].takes["release"] = 3.0
    world.delete_group("orders")
    await world.until_gone(groups_path("shop", "orders"))
    assert world.queues["orders"].released
    await world.until(lambda: world.condition(queues_path("shop", "orders"))[1], "Unused", 5)
    assert world.metric("baton_reconcile_age_seconds", **LABELS) is None


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("down", [False, True])
@in_virtual_time
async def test_a_namespace_is_deleted_with_its_groups(world: OneReplica, down: bool, restarted: bool) -> None:
    await serve(world)
    world.queues["orders"].down = down
    if restarted:
        await world.stop()
    world.delete("/api/v1/namespaces/shop")
    if restarted:
        await asyncio.sleep(30)
        assert world.find(groups_path("shop", "orders")) is not None
        world.start()
    took = await world.until_gone("/api/v1/namespaces/shop", QUEUES_WITHIN_WITHOUT_LEDGER + RESYNC + 10)
    if not down:
        assert took < LEDGER_WITHIN, "there is nothing to wait for"
    if not restarted:
        assert world.queues["orders"].released is not down
        assert world.queues["returns"].released


@in_virtual_time
async def test_a_deleted_namespace_waits_only_briefly_for_a_dead_queue(world: OneReplica) -> None:
    """Then nothing happens between the ledger's end and that of the wait."""
    await serve(world)
    world.queues["orders"].down = True
    await world.until_told("QueueUnreachable")
    world.delete_pod("orders-a")
    world.delete_pod("orders-b")
    await asyncio.sleep(20)
    world.delete("/api/v1/namespaces/shop")
    await world.until_gone("/api/v1/namespaces/shop", QUEUES_WITHIN_WITHOUT_LEDGER + RESYNC + 10)


@in_virtual_time
async def test_a_deleted_group_releases_its_other_queue_and_gives_up_on_a_dead_one(world: OneReplica) -> None:
    await serve(world)
    world.queue("more")
    world.change_group("orders", queues=[{"name": "orders"}, {"name": "more"}])
    await asyncio.sleep(10)
    world.queues["more"].down = True
    world.delete_group("orders")
    await world.until_told("Deleting")
    await asyncio.sleep(20)
    assert "queue is down" in world.ready()[1]
    orders = world.queues["orders"]
    assert orders.released
    claims = orders.calls.count("ensure")
    await world.until_gone(groups_path("shop", "orders"), QUEUES_WITHIN + 10)

    def told() -> bool:
        return "NotReleased" in world.events()

    await world.until(told, True)
    assert orders.calls.count("ensure") == claims, "what was released is not claimed again"
    assert not world.queues["more"].released


# -- other people's ConfigMaps


@in_virtual_time
async def test_a_forged_term_ends_no_lead(world: OneReplica) -> None:
    await serve(world)
    for forged in ("999999", "٣", "9" * 5000, "²", "-1", ""):
        world.change(LEDGER, {"metadata": {"annotations": {"baton.dev/writer": forged}}, "data": {"x": "y"}})
        assert await world.until(lambda: "x" not in world.ledger(), seconds=LEDGERS_EVERY + 5) < LEDGERS_EVERY + 5
    world.delete_pod("orders-b")
    assert await world.until(world.counts, [4]) < 4


@in_virtual_time
async def test_a_refused_group_is_ready_only_after_its_ledger_is_written(world: OneReplica) -> None:
    await serve(world)
    await world.stop()
    world.delete_pod("orders-b")
    expired = Refuse(410, "Expired", "the resource version is too old")
    world.trouble = lambda verb, path: expired if path == LEDGER else None
    world.start()
    await world.until_told("LedgerRefused")
    late = Refuse(504, "Timeout", "request did not complete within the allotted timeout")
    claimed: list[str] = []

    def after_the_claim(verb: str, path: str) -> Fault | None:
        if path != LEDGER or verb != "update":
            return None
        claimed.append(verb)
        return late if len(claimed) > 1 else None

    world.trouble = after_the_claim
    until = world.now() + PASSING + 2 * LONGEST_PAUSE
    while world.now() < until:
        assert world.ready()[0] == "LedgerRefused"
        await asyncio.sleep(0.05)
    assert len(claimed) > 2 and "orders-b" in world.ledger()
    world.trouble = lambda verb, path: None
    await world.until_told("Ready")
    assert "orders-b" not in {name for name, entry in world.entries().items() if entry.owned.get(QueueName("orders"))}
    await world.until(world.counts, [4])
