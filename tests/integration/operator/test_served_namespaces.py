"""One operator for several namespaces: what happens to one of them is no other's trouble."""

import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from baton.kube.api import core_path
from baton.model.names import ledger_name
from tests.integration.operator.accounts import HOME, Account, account, may, service_account
from tests.integration.operator.conftest import namespace
from tests.integration.operator.world import IMPATIENT, Cluster, Operator, World
from tests.waiting import eventually

_numbers = itertools.count(1)


@dataclass
class Two:
    """Namespaces that one operator serves, under an account that may do in each what its role there says."""

    shop: World
    bank: World
    account: Account
    start: Callable[[], Operator]


@pytest.fixture
async def two(api: Cluster, kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Two]:
    number = next(_numbers)
    shop, bank = await namespace(api, f"shop-{number}"), await namespace(api, f"bank-{number}")
    mine = await account(api, f"operator-{number}", kubeconfig, tmp_path, [shop.namespace, bank.namespace])
    started: list[Operator] = []

    def start() -> Operator:
        options = ("--namespace", bank.namespace)
        started.append(Operator(mine.kubeconfig, shop.namespace, f"one-{len(started)}", tmp_path, *options, program=IMPATIENT))
        return started[-1]

    yield Two(shop, bank, mine, start)
    for operator in started:
        operator.kill()


async def fleet(world: World, *pods: str) -> None:
    source = {"type": "External", "external": {"onDeadline": "Force"}}
    await world.queue("orders", source, 6, rebalance={"delaySeconds": 0, "maxHandoffSeconds": 0})
    await world.group("orders", rebalance={"resyncSeconds": 5})
    for pod in pods:
        await world.pod(pod, "orders")


async def ended(api: Cluster, name: str) -> None:
    """Delete a namespace with all that is in it."""
    await api.delete(core_path(None, "namespaces", name))
    await api.gone(core_path(None, "namespaces", name))


@pytest.mark.long
async def test_a_namespace_deleted_with_its_role_binding_stops_no_other(two: Two, api: Cluster) -> None:
    operator = await two.start().leads()
    await fleet(two.shop, "a", "b")
    await two.shop.spread("orders", 3, 3)
    await two.account.unbind(two.bank.namespace)
    await ended(api, two.bank.namespace)

    async def said() -> bool:
        return bool(operator.metric("baton_list_failures_total", namespace=two.bank.namespace, resource="pods", status="403"))

    await eventually(said, "the operator says that it cannot list pods there")
    await two.shop.delete_pod("b")
    await two.shop.spread("orders", 6)
    await two.shop.told("orders", "Ready")
    operator.kill()
    await two.shop.pod("c", "orders")
    await two.start().leads()
    await two.shop.spread("orders", 3, 3)
    # A namespace that comes back is served without a restart.
    again = await namespace(api, two.bank.namespace)
    await two.account.bind(again.namespace)
    await fleet(again, "a")
    await again.spread("orders", 6)
    await again.told("orders", "Ready")


async def test_a_namespace_goes_though_the_operators_rights_in_it_go_first(two: Two, api: Cluster) -> None:
    """With watchNamespaces and rbac.finishDeletions."""
    await two.account.may_finish_deletions()
    await two.start().leads()
    for world in (two.shop, two.bank):
        await fleet(world, "a", "b")
        await world.spread("orders", 3, 3)
    await two.account.unbind(two.bank.namespace)
    await ended(api, two.bank.namespace)
    await two.shop.told("orders", "Ready")


async def test_losing_and_regaining_rights_to_ledgers_stops_no_other_namespace(two: Two) -> None:
    operator = await two.start().leads()
    for world in (two.shop, two.bank):
        await fleet(world, "a", "b")
        await world.spread("orders", 3, 3)
        await world.told("orders", "Ready")
    before = await two.bank.ledger_data("orders")
    await two.account.bind(two.bank.namespace, without="configmaps")
    await eventually(lambda: refused(two), "the right is gone")
    for world in (two.shop, two.bank):
        await world.delete_pod("b")
    message = await two.bank.told("orders", "LedgerRefused")
    assert (
        "cannot update resource" in message and "give the operator the right that it names (the chart's RBAC has it)" in message
    )
    await two.bank.event("LedgerRefused", "orders")
    labels = {"namespace": two.bank.namespace, "group": "orders"}
    await operator.measures("baton_ledger_failing_seconds", lambda value: value > 0, **labels)
    await operator.measures("baton_group_ready", lambda value: value == 0, **labels, reason="LedgerRefused")
    assert await two.bank.ledger_data("orders") == before, "and nothing was done that it does not say"
    await two.shop.spread("orders", 6)
    await two.shop.told("orders", "Ready")
    await two.account.bind(two.bank.namespace)
    await two.bank.spread("orders", 6)
    await two.bank.told("orders", "Ready")
    await operator.measures("baton_ledger_failing_seconds", lambda value: value == 0, **labels)
    await eventually(lambda: two.bank.events("Recovered"), "an event says that it is over")


async def refused(two: Two) -> bool:
    """Whether the API server refuses the account now."""
    attributes = {"namespace": two.bank.namespace, "verb": "update", "resource": "configmaps", "name": ledger_name("orders")}
    return not await may(two.bank.api, service_account(HOME, two.account.name), attributes)
