"""The lag reported by the operator's leader, and why it is unknown."""

from collections.abc import Mapping

import pytest

from baton.cli.group import Leader
from baton.cli.lag import ASK_FOR_RIGHTS, MOST_OPERATORS, lag_of, lags
from baton.kube.api import PAGE, Api, Json
from baton.kube.elector import ADDRESS_ANNOTATION
from baton.kube.errors import ApiError, NotFoundError, PageTooLargeError
from baton.kube.ledger_configmap import MANAGED_BY, MANAGED_BY_LABEL
from baton.kube.releases import RELEASE_ANNOTATION
from baton.model.names import GROUP_LABEL

Key = tuple[str, str]


class Cluster(Api):
    """Groups and the operators that their ledgers name. Each operator reports one lag for all groups."""

    def __init__(self, releases: Mapping[Key, str], lag_of: Mapping[str, int], *, may_list: bool = True) -> None:
        super().__init__(None)
        self.releases, self.lag_of, self.may_list = releases, lag_of, may_list
        self.asked: list[str] = []
        self.largest_page = PAGE

    async def page(
        self, path: str, query: Mapping[str, str], token: str = "", metadata: bool = False, limit: int = PAGE
    ) -> tuple[Json, str]:
        if not self.may_list:
            raise ApiError(403, "Forbidden", "you may not list configmaps")
        if limit > self.largest_page:
            raise PageTooLargeError(path)
        begun = int(token or 0)
        keys = list(self.releases)
        items = [self.ledger(*key) for key in keys[begun : begun + limit]]
        return {"items": items, "metadata": {"resourceVersion": "1"}}, str(begun + limit) if begun + limit < len(keys) else ""

    async def get(self, path: str, **query: str) -> Json:
        *_, namespace, kind, name = path.split("/")
        if kind == "leases":
            address = {ADDRESS_ANNOTATION: "10.0.0.1:08080"}
            return {"metadata": {"annotations": address}, "spec": {"holderIdentity": namespace}}
        group = name.removesuffix("-assignments")
        if (namespace, group) not in self.releases:
            raise NotFoundError(404, "NotFound", name)
        return self.ledger(namespace, group)

    async def relayed(self, path: str, most: int) -> Json:
        namespace = path.split("/")[4]
        self.asked.append(namespace)
        lag: Json = {"lag": self.lag_of[namespace], "lagSeconds": None, "queues": {}}
        return {"groups": [{"namespace": of, "group": group, **lag} for of, group in self.releases]}

    def ledger(self, namespace: str, group: str) -> Json:
        return {
            "metadata": {
                "name": f"{group}-assignments",
                "uid": "u",
                "resourceVersion": "1",
                "namespace": namespace,
                "annotations": {RELEASE_ANNOTATION: f"{self.releases[namespace, group]}/baton"},
                "labels": {GROUP_LABEL: group, MANAGED_BY_LABEL: MANAGED_BY},
                "ownerReferences": [
                    {"apiVersion": "baton.dev/v1alpha1", "kind": "ConsumerGroup", "name": group, "uid": "u", "controller": True}
                ],
            }
        }


@pytest.mark.parametrize("may_list", [True, False])
async def test_an_operator_named_by_a_tenant_answers_only_for_its_groups(*, may_list: bool) -> None:
    cluster = Cluster({("a-tenant", "a"): "a-tenant", ("shop", "orders"): "ops"}, {"a-tenant": 1, "ops": 7}, may_list=may_list)
    found = await lags(cluster, [*cluster.releases, ("shop", "new")], None)
    assert [(one.group, one.lag) for one in found] == [("a", 1), ("orders", 7), ("new", None)]
    assert found[-1].problem == "no operator has written the group's ledger yet"


async def test_the_operator_of_most_groups_is_always_asked() -> None:
    many = {("a-tenant", f"a{number}"): f"fake-{number}" for number in range(2 * MOST_OPERATORS)}
    cluster = Cluster(
        {**many, ("shop", "orders"): "ops", ("shop", "parcels"): "ops"}, {**dict.fromkeys(many.values(), 1), "ops": 7}
    )
    found = await lags(cluster, list(cluster.releases), None)
    assert [one.lag for one in found[-2:]] == [7, 7]
    assert len(cluster.asked) == MOST_OPERATORS
    assert (found[-3].lag, found[-3].problem) == (None, "the groups have more than 8 operators: ask for this group alone")


async def test_large_ledgers_are_listed_in_smaller_pages() -> None:
    cluster = Cluster({("shop", f"orders-{number}"): "ops" for number in range(5)}, {"ops": 7})
    cluster.largest_page = 2
    assert [one.lag for one in await lags(cluster, list(cluster.releases), None)] == [7] * 5


async def test_a_missing_right_is_reported_for_each_group() -> None:
    class Refusing(Cluster):
        async def get(self, path: str, **query: str) -> Json:
            raise ApiError(403, "Forbidden", "you may not get configmaps")

    (one,) = await lags(Refusing({("shop", "orders"): "ops"}, {}, may_list=False), [("shop", "orders")], None)
    assert "you may not get configmaps" in (one.problem or "")


@pytest.mark.parametrize(
    ("leader", "said"),
    [
        (None, "no operator has written the group's ledger yet"),
        (Leader("ops/baton", readable=False), "you may not read the Lease ops/baton: forward its port 8080"),
        (Leader("ops/baton"), "the Lease ops/baton has none: see `baton doctor`"),
        (Leader("ops/baton", holder="laptop"), "laptop runs outside the cluster without a known address: use --operator http://"),
    ],
)
async def test_an_unknown_lag_is_explained_with_the_cure(leader: Leader | None, said: str) -> None:
    assert said in ((await lag_of(Api(None), "shop", "orders", leader, None)).problem or "")


async def test_a_viewer_of_the_console_is_told_to_ask_for_rights() -> None:
    leader = Leader("ops/baton", readable=False)
    told = await lag_of(Api(None), "shop", "orders", leader, None, cure=ASK_FOR_RIGHTS)
    assert "you may not read the Lease ops/baton: ask for the right to get leases and pods/proxy" in (told.problem or "")
