"""What `make bench-scale` counts, and its checker."""

from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from tests.bench.scale.checker import Epochs, settled, wrong
from tests.bench.scale.client import LEASES, PODS, counted, kind, within

ORDERS = QueueName("orders")


def entry(name: str, owned: dict[int, int], revoking: dict[int, int] | None = None, uid: str | None = None) -> MemberEntry:
    def grants(numbers: dict[int, int]) -> dict[QueueName, dict[int, Epoch]]:
        return {ORDERS: {number: Epoch(epoch) for number, epoch in numbers.items()}}

    return MemberEntry("shop/orders", MemberId(name), Uid(uid or f"uid-{name}"), 1, True, grants(owned), grants(revoking or {}))


def found(*entries: MemberEntry, pods: tuple[str, ...] = ("a", "b"), partitions: int = 4) -> list[str]:
    ledger = {"group": "{}"} | {str(one.member): one.to_json() for one in entries}
    return list(wrong(ledger, {name: f"uid-{name}" for name in pods}, {ORDERS: partitions}))


def test_every_partition_with_one_live_pod_is_right() -> None:
    assert found(entry("a", {0: 1, 1: 1}), entry("b", {2: 1, 3: 1})) == []


def test_a_group_without_pods_needs_no_owner() -> None:
    assert found(pods=()) == []


def test_each_mistake_of_a_ledger_is_found() -> None:
    b = entry("b", {2: 1, 3: 1})
    assert found(entry("a", {0: 1}), b) == ["partition 1 of orders has no owner"]
    assert found(entry("a", {0: 1, 1: 1}), entry("b", {1: 2, 2: 1, 3: 1})) == ["partition 1 of orders has 2 owners"]
    assert found(entry("a", {0: 1, 1: 1, 4: 1}), b) == ["partition 4 of orders does not exist"]
    assert found(entry("a", {0: 1, 1: 1}, uid="other"), b) == ["a is in the ledger, and no pod of this UID lives"]
    assert found(entry("a", {0: 1, 1: 1}), b, pods=("a", "b", "c")) == ["c is Ready, and not in the ledger"]
    assert found(entry("a", {0: 1, 1: 1, 2: 1}), entry("b", {3: 1})) == ["its members have from 1 to 3 partitions"]
    assert found(entry("a", {0: 1, 1: 1}, {7: 1}), b) == ["a is still to release [7]"]


def test_an_epoch_that_goes_back_or_has_two_owners_is_found() -> None:
    epochs = Epochs()
    epochs.see("g", [entry("a", {0: 5})])
    epochs.see("g", [entry("b", {0: 6})])
    assert epochs.broken == []
    epochs.see("g", [entry("c", {0: 6})])
    epochs.see("g", [entry("a", {0: 4})])
    assert len(epochs.broken) == 2


def test_a_group_is_settled_for_the_spec_that_it_has() -> None:
    group = {
        "metadata": {"generation": 2},
        "status": {"observedGeneration": 2, "conditions": [{"type": "Settled", "status": "True"}]},
    }
    assert settled(group)
    assert not settled({**group, "metadata": {"generation": 3}})
    assert not settled({"metadata": {"generation": 1}})


def test_requests_are_of_one_kind_for_the_client_and_the_server() -> None:
    assert kind("PATCH", within(PODS, "shop", "a", "status")) == ("PATCH", "pods", "status")
    assert kind("LIST", f"{LEASES}?limit=250") == ("LIST", "leases", "")
    line = (
        'apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",'
        'subresource="status",verb="PATCH",version="v1"} 7'
    )
    assert counted(f"{line}\n{line.replace('200', '409')}\n# HELP", ("pods",)) == {("PATCH", "pods", "status"): 14}
