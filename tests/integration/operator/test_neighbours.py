"""What one tenant writes into its objects is its own trouble: the groups of others go on, and a fresh operator serves them."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.engine.ledger import MOST_PARTITIONS
from baton.kube.api import core_path
from baton.kube.leases import leases_path
from baton.model.ids import MemberId
from baton.model.names import GROUP_LABEL, session_lease_name
from tests.integration.operator.conftest import namespace
from tests.integration.operator.world import KEEPS, SHOP, Cluster, Operator, World
from tests.waiting import eventually

Start = Callable[..., Operator]

MEBIBYTES = 48
"""That the operator may need more for all of this: several copies of an object of 256 KiB, on its way through the watch."""

MEBIBYTES_OF_A_PAGE = 220
"""And where a whole namespace is full of objects as large as the API server takes them: a page of them, as text and as JSON."""

RANGE = '"0-1000000@1"'
RELEASES = {
    "deep": "[" * 1000,
    "deeper": "[" * 200_000,
    "one-range": '{"UID":{"jobs":"0-1000000@1"}}',
    "ranges-of-many-queues": '{"UID":{' + ",".join(f'"q{n}":{RANGE}' for n in range(9_000)) + "}}",
    "ranges-of-many-epochs": '{"UID":{"jobs":"' + ",".join(f"0-1000000@{n}" for n in range(14_000)) + '"}}',
    "many-pods": "{" + ",".join(f'"{n}":{{"jobs":{RANGE}}}' for n in range(5_500)) + "}",
    "digits": '{"UID":{"jobs":"' + "9" * 200_000 + '"}}',
}
POD_ANNOTATIONS = {
    "baton.dev/subscribed": ",".join(str(n) for n in range(30_000)),
    "baton.dev/assignors": "a" * 60_000,
}


@pytest.fixture
async def bank(api: Cluster) -> AsyncIterator[World]:
    yield await namespace(api, "bank")


async def a_group(world: World, name: str, *pods: str, **spec: Any) -> None:
    await world.external(name, partitions=4)
    await world.group(name, rebalance={"delaySeconds": 0, "resyncSeconds": 1}, **spec)
    await world.together(name, *(world.pod(pod, name, session=True) for pod in pods))
    await world.spread(name, *[4 // len(pods)] * len(pods))


async def test_no_object_of_one_tenant_stops_another_tenants_group(bank: World, empty: World, start: Start) -> None:
    operator = await start(bank, "one", "--namespace", empty.namespace).leads()
    await a_group(bank, "calm", "calm-a")
    await a_group(empty, "jobs", "jobs-a")
    before = operator.peak_memory
    uid = (await empty.api.get(core_path(empty.namespace, "pods", "jobs-a")))["metadata"]["uid"]
    for text in RELEASES.values():
        await empty.session("jobs-a", uid, "jobs", text.replace("UID", uid))
        await empty.session("jobs-a", uid, "jobs", text.replace("UID", uid), name="jobs-driver")
        await follows(bank)
    for name, text in POD_ANNOTATIONS.items():
        await empty.pod(f"jobs-{name[10:13]}", "jobs", annotations={name: text})
        await follows(bank)
    labels = {f"label-{n}": "x" * 60 for n in range(5000)}
    await empty.pod("jobs-labels", "jobs", labels=labels)
    await follows(bank)
    assert operator.peak_memory < before + MEBIBYTES
    operator.stop()
    fresh = await start(bank, "two", "--namespace", empty.namespace).leads()
    await follows(bank)
    assert fresh.peak_memory < before + MEBIBYTES


@pytest.mark.parametrize("pods", [100, pytest.param(500, marks=pytest.mark.long)])
async def test_the_largest_objects_do_not_fill_the_operators_memory(bank: World, empty: World, start: Start, pods: int) -> None:
    operator = await start(bank, "one", "--namespace", empty.namespace).leads()
    await a_group(bank, "roomy", "roomy-a")
    before = operator.peak_memory
    operator.stop()
    spec = {"containers": [{"name": "c", "image": "none", "env": [{"name": "LARGE", "value": "x" * 1_450_000}]}]}
    for n in range(pods):
        body = {"metadata": {"name": f"large-{n}", "labels": {GROUP_LABEL: "jobs"}}, "spec": spec}
        await empty.api.create(core_path(empty.namespace, "pods"), body)
    fresh = await start(bank, "two", "--namespace", empty.namespace).leads()
    await bank.pod("roomy-b", "roomy", session=True)
    await bank.revoking("roomy", "roomy-a", 2)
    assert fresh.peak_memory < before + MEBIBYTES_OF_A_PAGE


async def follows(world: World) -> None:
    """A pod comes and goes, and the ledger follows."""
    await world.pod("calm-b", "calm", session=True)
    await world.session("calm-a", await uid_of(world, "calm-a"), "calm", await world.revoking("calm", "calm-a", 2))
    await world.spread("calm", 2, 2)
    await world.delete_pod("calm-b")
    await world.spread("calm", 4)
    await world.told("calm", "Ready")


async def uid_of(world: World, pod: str) -> Any:
    return (await world.api.get(core_path(world.namespace, "pods", pod)))["metadata"]["uid"]


UNREADABLE = ("deep", "deeper", "digits")


@pytest.mark.parametrize("kind", UNREADABLE)
async def test_an_unreadable_session_is_reported_on_its_own_group(shop: World, kind: str) -> None:
    name = f"said-{kind}"
    await a_group(shop, name, f"{name}-a")
    uid = await uid_of(shop, f"{name}-a")
    await shop.session(f"{name}-a", uid, name, RELEASES[kind].replace("UID", uid).replace("jobs", name))
    if kind == "digits":  # what a grant is, is looked at when there is one to release
        await shop.pod(f"{name}-b", name, session=True)
    message = await shop.told(name, "Problem")
    assert message.startswith(f"Lease {SHOP}/baton-{name}-a: annotation baton.dev/releases: ") and len(message) < 500
    await shop.session(f"{name}-a", uid, name)
    await shop.told(name, "Ready")


@pytest.mark.parametrize("kind", ["one-range", "ranges-of-many-epochs"])
async def test_a_range_releases_all_that_it_names(shop: World, kind: str) -> None:
    name = f"said-{kind}"
    await a_group(shop, name, f"{name}-a")
    uid = await uid_of(shop, f"{name}-a")
    await shop.pod(f"{name}-b", name, session=True)
    await shop.revoking(name, f"{name}-a", 2)  # what it says before is no word on a hand-off: it is granted that again
    await shop.session(f"{name}-a", uid, name, RELEASES[kind].replace("UID", uid).replace("jobs", name))
    await shop.spread(name, 2, 2)


async def test_an_unreadable_session_without_a_pod_is_not_reported(shop: World) -> None:
    await a_group(shop, "quiet", "quiet-a")
    await shop.session("quiet-z", await uid_of(shop, "quiet-a"), "quiet", "[")
    await shop.session("quiet-a", await uid_of(shop, "quiet-a"), "quiet", "[", name="quiet-driver")
    await shop.pod("quiet-b", "quiet", annotations={"baton.dev/capacity": "many"})
    await shop.told("quiet", "BadAnnotation", says="quiet-b")
    await shop.delete_pod("quiet-b")
    await shop.told("quiet", "Ready")


async def test_an_empty_identity_counts_as_absent(shop: World) -> None:
    await shop.external("unset", partitions=6)
    membership = {"identityLabel": "app/index", "sessionTimeoutSeconds": 60}
    await shop.group("unset", membership=membership)
    labels = {"app/index": ""}
    await shop.together("unset", *(shop.pod(f"unset-{one}", "unset", labels=labels) for one in "abc"))
    await shop.spread("unset", 2, 2, 2)
    message = await shop.told("unset", "NoIdentity", says="unset-a, unset-b, unset-c")
    assert message.startswith("unset-a, unset-b, unset-c: no label app/index") and "or an empty one" in message
    await shop.delete_pod("unset-c")
    await shop.spread("unset", 3, 3)


async def test_a_pod_without_a_session_gets_nothing_and_is_named(shop: World, redis_server: Any) -> None:
    await shop.redis("members", redis_server.url, partitions=4)
    await shop.group("members", membership={"session": None})
    await shop.pod("nginx", "members")
    await shop.told("members", "NoMembers", says="nginx: no session: it keeps no Lease")
    await shop.pod("members-a", "members", session=True)
    await shop.spread("members", 4)
    await shop.shows("members", members=1)
    message = await shop.told("members", "NoSession")
    assert message.startswith("nginx: Ready, and without a session: there is no Lease such as baton-nginx ")
    await shop.change("consumergroups", "members", {"spec": {"membership": {"session": "Optional"}}})
    await shop.spread("members", 2, 2)
    await shop.told("members", "Ready")


async def test_a_deleted_session_that_is_not_renewed_lapses(shop: World) -> None:
    await a_group(shop, "gave", "gave-a", "gave-b", membership={"session": "Required"})
    await shop.api.delete(leases_path(SHOP, session_lease_name(MemberId("gave-b"))))
    await shop.spread("gave", 4)


# -- A group as large as one can be, and the memory that the chart gives the operator.


CHART = Path(__file__).parents[3] / "charts/baton/values.yaml"
SHARE = 0.8
"""Of the chart's limit. The rest is for other groups. It takes half of it, and more where the machine has little time for it:
what the API server tells waits in memory then."""
PODS = 50
SECONDS = 900


@pytest.mark.timeout(2400)
@pytest.mark.long
async def test_the_largest_possible_group_fits_the_charts_memory(empty: World, start: Start) -> None:
    operator = await start(empty, "one", *KEEPS).leads()
    before = operator.peak_memory
    await empty.queue(
        "large",
        {"type": "External", "external": {"onDeadline": "Force"}},
        MOST_PARTITIONS,
        rebalance={"delaySeconds": 0, "maxHandoffSeconds": 1},
    )
    await empty.group("large", assignors=["contiguous"])
    for number in range(PODS):
        await empty.pod(f"large-{number}", "large")
    await settles(empty, operator, moves=0)
    for number in range(PODS, 2 * PODS):
        await empty.pod(f"large-{number}", "large")
    await settles(empty, operator, moves=MOST_PARTITIONS // 2)
    after = operator.peak_memory
    limit = yaml.safe_load(CHART.read_text())["resources"]["limits"]["memory"]
    assert after < SHARE * int(limit.removesuffix("Mi")), f"{before} MiB without it, {after} MiB with it; the limit is {limit}"


async def settles(world: World, operator: Operator, moves: int) -> None:
    labels = {"namespace": world.namespace, "group": "large"}

    async def so() -> bool:
        done = operator.metric("baton_moves_total", **labels) or 0
        return done >= moves and operator.metric("baton_partitions", **labels, queue="large", state="Ready") == MOST_PARTITIONS

    await eventually(so, "everything is granted, and nothing moves", SECONDS)
