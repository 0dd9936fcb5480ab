"""A pod writes only its own Lease: which account may write which Lease, with real tokens of real pods."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from baton.consumer import Session
from baton.consumer.api_server import KubernetesLease
from baton.kube.api import core_path
from baton.kube.leases import leases_path
from baton.model.names import GROUP_LABEL
from tests.integration.operator.accounts import grant, service_account
from tests.integration.operator.admission.actors import LEASE_WRITER, Actor, account, blocking, joins, refused, token_of
from tests.integration.operator.conftest import namespace
from tests.integration.operator.world import Cluster, World
from tests.waiting import PATIENCE, eventually, until

ActAs = Callable[..., Awaitable[Actor]]
RELEASES = {"baton.dev/releases": '{"u":{"orders":"0-3@1"}}'}


@pytest.fixture
async def consumers(guarded: World) -> World:
    """With an account that may do with Leases what it likes, as far as RBAC goes."""
    await account(guarded, "consumer", LEASE_WRITER)
    await account(guarded, "driver", LEASE_WRITER, joins("orders"))
    return guarded


async def uid(world: World, pod: str) -> str:
    return str((await world.api.get(core_path(world.namespace, "pods", pod)))["metadata"]["uid"])


async def test_a_pod_writes_its_own_lease_and_no_other(consumers: World, act: ActAs) -> None:
    here = consumers.namespace
    a, b = await act(pod="a", account="consumer"), await act(pod="b", account="consumer")
    of_a, of_b = await uid(consumers, "a"), await uid(consumers, "b")
    await a.write_lease(here, "baton-a", "orders", of_a)
    message = await refused(b.write_lease(here, "baton-a", "orders", of_a, **RELEASES))
    assert "Lease baton-a is the session of the pod a, and only that pod writes it: this is the token of the pod b" in message
    assert "whose Lease is baton-b" in message
    assert "the session of the pod c" in await refused(b.write_lease(here, "baton-c", "orders", "u-c"))
    message = await refused(b.write_lease(here, "baton-b", "orders", of_a))
    assert (
        f"spec.holderIdentity of Lease baton-b is the UID of the pod that writes it, or empty to give it up: set it to {of_b}"
        in message
    )
    await b.write_lease(here, "baton-b", "orders", of_b, **RELEASES)
    await b.write_lease(here, "baton-b", "orders", of_b)
    await b.write_lease(here, "baton-b", "orders", "")


async def test_a_pod_neither_relabels_nor_deletes_anothers_lease(consumers: World, act: ActAs) -> None:
    here = consumers.namespace
    a, b = await act(pod="a", account="consumer"), await act(pod="b", account="consumer")
    await a.write_lease(here, "baton-a", "orders", await uid(consumers, "a"))
    path = leases_path(here, "baton-a")
    lease = await b.get(path)
    assert "session of the pod a" in await refused(b.replace(path, lease | {"metadata": lease["metadata"] | {"labels": {}}}))
    other = lease["metadata"] | {"labels": {GROUP_LABEL: "returns"}}
    assert "session of the pod a" in await refused(b.replace(path, lease | {"metadata": other}))
    assert "session of the pod a" in await refused(b._request("DELETE", path))
    await a._request("DELETE", path)


async def test_a_token_without_a_pod_writes_no_lease(consumers: World, act: ActAs) -> None:
    loose = await act(account="consumer")
    message = await refused(loose.write_lease(consumers.namespace, "baton-a", "orders", "u-a"))
    assert (
        "use the token that is mounted into the pod; any other account needs the verb join on consumergroups.baton.dev orders"
        in message
    )


async def test_an_account_that_may_join_a_group_writes_that_groups_leases_only(consumers: World, act: ActAs) -> None:
    """As docs/concepts/trust.md says: an account with the role edit may run pods under any account of the namespace anyway."""
    here = consumers.namespace
    a, person = await act(pod="a", account="consumer"), await act(account="driver")
    await a.write_lease(here, "baton-a", "orders", await uid(consumers, "a"))
    await person.write_lease(here, "baton-a", "orders", "another", **RELEASES)
    path = leases_path(here, "baton-a")
    lease = await person.get(path)
    elsewhere = lease["metadata"] | {"labels": {GROUP_LABEL: "returns"}}
    assert "verb join" in await refused(person.replace(path, lease | {"metadata": elsewhere}))
    await person.replace(path, lease | {"metadata": lease["metadata"] | {"labels": {}}})
    await a.write_lease(here, "baton-a", "orders", await uid(consumers, "a"))
    await person._request("DELETE", path)


async def test_a_pod_of_that_name_in_another_namespace_is_refused(consumers: World, act: ActAs, api: Cluster) -> None:
    await act(pod="a", account="consumer")
    elsewhere = await namespace(api, f"{consumers.namespace}-beside")
    await account(elsewhere, "consumer")
    await grant(api, consumers.namespace, "from-beside", [LEASE_WRITER], service_account(elsewhere.namespace, "consumer"))
    stranger = await act(pod="a", account="consumer", world=elsewhere)
    message = await refused(stranger.write_lease(consumers.namespace, "baton-a", "orders", await uid(consumers, "a")))
    assert "session of the pod a" in message


async def test_the_drivers_lease_is_written_by_accounts_that_may_join(consumers: World, act: ActAs) -> None:
    here = consumers.namespace
    driver, consumer = await act(pod="d", account="driver", group=None), await act(pod="a", account="consumer")
    of_driver, of_consumer = await uid(consumers, "d"), await uid(consumers, "a")
    message = await refused(consumer.write_lease(here, "orders-driver", "orders", of_consumer))
    assert (
        "Lease orders-driver is the session of the driver of ConsumerGroup orders: allow its service account the verb join"
        in message
    )
    assert "is the UID of the pod that writes it" in await refused(
        driver.write_lease(here, "orders-driver", "orders", of_consumer)
    )
    await driver.write_lease(here, "orders-driver", "orders", of_driver)
    assert "session of the driver" in await refused(consumer.write_lease(here, "orders-driver", "orders", of_consumer))
    assert "session of the driver" in await refused(driver.write_lease(here, "returns-driver", "returns", of_driver))
    assert "session of the driver" in await refused(driver.write_lease(here, "orders-driver", "returns", of_driver))
    assert "session of the pod a" in await refused(driver.write_lease(here, "baton-a", "orders", of_driver))
    await driver.write_lease(here, "orders-driver", "orders", "")


async def test_a_pod_named_like_a_driver_cannot_write_a_drivers_lease(consumers: World, act: ActAs) -> None:
    here = consumers.namespace
    sly = await act(pod="foo-driver", account="consumer")
    mine = await uid(consumers, "foo-driver")
    message = await refused(sly.write_lease(here, "baton-foo-driver", "baton-foo", mine))
    assert "session of the driver of ConsumerGroup baton-foo" in message
    await consumers.session("-", mine, "baton-foo", name="baton-foo-driver")  # type: ignore[arg-type]
    assert "session of the driver" in await refused(sly.write_lease(here, "baton-foo-driver", "orders", mine))


async def test_sessions_of_consumers_and_drivers_work_with_their_pods_tokens(
    consumers: World, act: ActAs, kubeconfig: Path
) -> None:
    here = consumers.namespace
    for pod, by in (("a", "consumer"), ("d", "driver"), ("e", "driver")):
        await act(pod=pod, account=by)
    own = KubernetesLease(blocking(kubeconfig, await token_of(consumers, "consumer", "a")), here, "baton-a")
    session = Session(
        own, holder=await uid(consumers, "a"), group="orders", owner={"name": "a", "uid": await uid(consumers, "a")}
    )
    session.start()
    until(own.read, "the Lease is there")
    session.close()
    drivers = [
        Session(
            KubernetesLease(blocking(kubeconfig, await token_of(consumers, "driver", pod)), here, "orders-driver"),
            holder=await uid(consumers, pod),
            group="orders",
            exclusive=True,
        )
        for pod in ("d", "e")
    ]
    assert drivers[0].acquire(PATIENCE) is None
    assert drivers[1].acquire(0) == await uid(consumers, "d")
    drivers[0].close(give_up=True)
    assert drivers[1].acquire(PATIENCE) is None
    drivers[1].close(give_up=True)


async def test_a_refused_session_is_one_line_with_the_cure(
    consumers: World, act: ActAs, kubeconfig: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await act(pod="a", account="consumer")
    another = KubernetesLease(blocking(kubeconfig, await token_of(consumers, "consumer", "a")), consumers.namespace, "baton-b")
    session = Session(another, holder=await uid(consumers, "a"), group="orders")
    session.start()
    until(lambda: caplog.messages, "it is logged")
    session.close()
    (said,) = [message for message in caplog.messages if "cannot be renewed" in message]
    assert "cannot be renewed: 403 leases.coordination.k8s.io" in said and "\n" not in said
    assert "Lease baton-b is the session of the pod b, and only that pod writes it" in said


async def test_a_lease_without_the_label_is_not_restricted(consumers: World, act: ActAs) -> None:
    loose = await act(account="consumer")
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "baton-a"}, "spec": {}}
    await loose.create(leases_path(consumers.namespace), body)
    await loose._request("DELETE", leases_path(consumers.namespace, "baton-a"))


async def test_a_namespace_with_sessions_can_be_deleted(consumers: World, act: ActAs, api: Cluster) -> None:
    a = await act(pod="a", account="consumer")
    await a.write_lease(consumers.namespace, "baton-a", "orders", await uid(consumers, "a"))
    await consumers.delete_pod("a")
    namespace_path = core_path(None, "namespaces", consumers.namespace)
    await api.delete(namespace_path)
    await api.gone(namespace_path)


async def test_without_the_policy_a_condition_says_what_is_not_enforced(shop: World) -> None:
    await shop.external("unbound")
    await shop.group("unbound")
    message = await shop.told("unbound", "NotEnforced", kind="SessionsBound")
    assert "admissionPolicy.enabled" in message and "write Leases" in message and "edit ConfigMaps" in message


async def test_the_api_server_has_no_warnings_about_the_policies(guarded: World) -> None:
    root = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    found = (await guarded.api.get(root))["items"]
    assert {policy["metadata"]["name"] for policy in found} >= {"baton-sessions", "baton-ledgers", "baton-members"}

    async def warnings() -> list[Any] | None:
        """None: not all were checked yet."""
        policies = (await guarded.api.get(root))["items"]
        statuses = [policy.get("status", {}) for policy in policies]
        if not all("typeChecking" in status for status in statuses):
            return None
        return [status["typeChecking"] for status in statuses if status["typeChecking"]]

    async def checked() -> bool:
        return await warnings() is not None

    await eventually(checked, "the expressions were checked")
    assert await warnings() == []
