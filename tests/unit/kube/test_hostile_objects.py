"""Any content that a tenant writes into an object is read or skipped, without effect on objects of others."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.kube import leases, objects, pods
from baton.kube.leases import LONGEST_EXECUTORS, LeaseView
from baton.kube.members import GroupMembers, membership
from baton.kube.pods import LONGEST_LIST, MOST_OWNERS, MOST_WORDS, PodView
from baton.kube.store import Store
from baton.model.ids import Epoch, QueueName, Uid
from baton.model.lease import LONGEST_DURATION
from baton.model.session import LONGEST_UID, MOST_NAMED, Release

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
POD_NAMES = ("baton.dev/subscribed", "baton.dev/assignors", "baton.dev/capacity", "baton.dev/ledger", DELETION_COST)
LEASE_NAMES = ("baton.dev/releases", "baton.dev/executors", "baton.dev/spark-app", "baton.dev/statistics")
GROUP_NAMES = ("baton.dev/rebalance", "baton.dev/approve")
LABELS = ("spark-role", "spark-exec-id", "spark-app-selector", "topology.kubernetes.io/zone", "app/index")

long = st.builds(lambda text, times: text * times, st.text(max_size=8), st.sampled_from([1, 50, 30_000]))
pieces = st.sampled_from(
    ["[", "{", '{"u":{"a":"0-1000000@1"}}', "0-1000000@1,", '"\\ud800"', "1e999999999", "٣", "\x1b[31m", ",", "-", "a."]
)
texts = st.one_of(
    long, st.lists(pieces, max_size=6).map("".join), st.builds(lambda one, n: one * n, pieces, st.integers(0, 20_000))
)
times = st.sampled_from(["", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-11-21T10:00:00Z"])
conditions = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["Ready", "Other"]), "status": st.sampled_from(["True", "False", "Maybe"])},
        optional={"lastTransitionTime": st.none() | times},
    ),
    max_size=3,
)


def metadata(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "namespace": st.just("shop"),
            "name": st.sampled_from(["a", "baton-a", "orders-driver", "group"]),
            "uid": st.just("u"),
            "resourceVersion": st.just("7"),
            "labels": st.dictionaries(st.sampled_from(LABELS), st.text(max_size=63)).map(
                lambda those: {**those, "baton.dev/group": "orders"}
            ),
        },
        optional={
            "annotations": st.none() | st.dictionaries(st.sampled_from(names), texts),
            "ownerReferences": st.none() | st.lists(st.fixed_dictionaries({"uid": texts}), max_size=3),
            "deletionTimestamp": times,
            "generation": st.none() | st.integers(0, 2**63 - 1),
            "finalizers": st.none() | st.lists(st.text(max_size=63), max_size=3),
        },
    )


some_pods = st.fixed_dictionaries(
    {"metadata": metadata(POD_NAMES)},
    optional={
        "status": st.none()
        | st.fixed_dictionaries(
            {}, optional={"phase": st.sampled_from(["Running", "Failed", ""]), "conditions": st.none() | conditions}
        )
    },
)
some_leases = st.fixed_dictionaries(
    {"metadata": metadata(LEASE_NAMES)},
    optional={
        "spec": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "holderIdentity": st.none() | texts,
                "leaseDurationSeconds": st.none() | st.integers(1, 2**31 - 1),
                "renewTime": st.none() | times,
            },
        )
    },
)


@given(some_pods)
def test_any_pod_is_read_and_its_values_are_bounded(manifest: dict[str, Any]) -> None:
    seen = pods.view(manifest)
    assert seen is not None
    assert all(len(problem) < 1000 and problem.isprintable() for problem in seen.problems)
    assert len(seen.problems) < 10 and len(seen.labels) <= pods.MOST_LABELS
    assert len(seen.subscribed or ()) <= 64 and len(seen.assignors or ()) <= 64
    assert all(value for _, value in seen.labels)


@given(some_leases)
def test_any_lease_is_read_and_its_values_are_bounded(manifest: dict[str, Any]) -> None:
    seen = leases.view(manifest)
    assert seen is not None
    assert 0 < seen.duration <= 3600
    assert seen.problem is None or (len(seen.problem) < 2000 and seen.problem.isprintable())
    group = membership_of(seen)
    if Release(Uid("u"), QueueName("a"), 5, Epoch(1)) in group.releases:
        assert not list(group.refused())
    assert all(len(why) < 400 and why.isprintable() for _, why in group.refused())


def membership_of(lease: LeaseView) -> GroupMembers:
    pod = PodView("shop", "a", Uid("u"), "orders", ready_since=1.0)  # type: ignore[arg-type]
    return membership("orders", [pod], [lease], lambda one: False)


@given(
    st.fixed_dictionaries({"metadata": metadata(GROUP_NAMES)}, optional={"spec": st.none() | st.dictionaries(st.text(), texts)})
)
def test_any_group_and_queue_is_read_and_its_problem_is_bounded(manifest: dict[str, Any]) -> None:
    for seen in (objects.group_view(manifest), objects.queue_view(manifest)):
        assert seen.spec is None and seen.problem is not None
        assert len(seen.problem) < 2000 and seen.problem.isprintable()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from(["pods", "leases"]),
    st.dictionaries(st.sampled_from(["labels", "annotations", "ownerReferences"]), json_values),
    st.dictionaries(st.sampled_from(["spec", "status"]), json_values),
)
def test_objects_that_no_api_server_accepts_stop_no_list(kind: str, inside: dict[str, Any], beside: dict[str, Any]) -> None:
    store: Store[Any] = Store(pods.view if kind == "pods" else leases.view, lambda before, after: None)
    labels = {"baton.dev/group": "orders"}
    good = {"metadata": {"namespace": "shop", "name": "good", "uid": "g", "resourceVersion": "5", "labels": labels}}
    bad = {
        "metadata": {"labels": labels, **inside, "namespace": "shop", "name": "bad", "uid": "b", "resourceVersion": "6"},
        **beside,
    }
    for one in (bad, good):
        store.event(None, one)
    store.event("MODIFIED", bad)
    assert "good" in store.bucket("shop", "orders")


def test_the_last_readable_version_of_an_object_stands() -> None:
    store: Store[PodView] = Store(pods.view, lambda before, after: None)

    def pod(version: int, **status: Any) -> dict[str, Any]:
        labels = {"baton.dev/group": "orders"}
        of = {"namespace": "shop", "name": "a", "uid": "u", "resourceVersion": str(version), "labels": labels}
        return {"metadata": of, "status": status}

    store.event("ADDED", pod(1, phase="Running"))
    store.event("MODIFIED", pod(2, conditions=5))
    assert store.bucket("shop", "orders")["a"].running
    store.event("MODIFIED", pod(3))
    assert not store.bucket("shop", "orders")["a"].running
    store.event("MODIFIED", pod(4, conditions=5))
    store.event("DELETED", pod(5, conditions=5))
    assert not store.bucket("shop", "orders")


RANGE = '"0-1000000@1"'
HOSTILE = (
    "[" * 1000,
    "[" * 250_000,
    '{"u":{"a":' + RANGE + "}}",
    '{"u":{"a":"' + ",".join(f"0-1000000@{n}" for n in range(15_000)) + '"}}',
    '{"u":{' + ",".join(f'"q{n}":{RANGE}' for n in range(9_000)) + "}}",
    "{" + ",".join(f'"{n}":{{"a":{RANGE}}}' for n in range(4_000)) + "}",
    "{" + ",".join(f'"{n}":{{}}' for n in range(30_000)) + "}",
    '{"u":{"a":"' + "9" * 200_000 + '"}}',
    "-" * 250_000,
    "," * 250_000,
)


@pytest.mark.parametrize("text", HOSTILE, ids=[f"{text[:18]}… of {len(text)}" for text in HOSTILE])
@pytest.mark.parametrize("name", ["baton-a", "orders-driver"])
def test_reading_releases_costs_as_much_as_their_text(text: str, name: str) -> None:
    names = {"baton.dev/group": "orders"}
    of = {"namespace": "shop", "name": name, "labels": names, "annotations": {"baton.dev/releases": text}}
    tracemalloc.start()
    try:
        seen = leases.view({"metadata": of, "spec": {"holderIdentity": "u"}})
        assert seen is not None
        releases = membership_of(seen).releases
        asked = [Release(Uid("u"), QueueName("a"), number, Epoch(1)) for number in range(1000)]
        assert sum(one in releases for one in asked) in (0, 1000)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * 2**20 and kept < 8 * 2**20


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [*POD_NAMES, *LEASE_NAMES])
@pytest.mark.parametrize("piece", ["a", "a.", "1", "[", ",", "a,", "-", "0-1000000@1,", "\x00", "é"])
def test_reading_an_annotation_takes_linear_time(name: str, piece: str) -> None:
    """A backtracking regular expression would take minutes for this; the limit above is the test."""
    for kind, holder in ((pods, "a"), (leases, "orders-driver")):
        of = {"namespace": "shop", "name": holder, "uid": "u", "labels": {"baton.dev/group": "orders"}}
        kind.view({"metadata": {**of, "annotations": {name: piece * (250_000 // len(piece))}}})


def test_a_long_or_odd_annotation_of_a_group_is_replaced_by_its_hash() -> None:
    def group(**annotations: str) -> objects.GroupView:
        named = {f"baton.dev/{name}": text for name, text in annotations.items()}
        of = {"namespace": "shop", "name": "a", "uid": "u", "resourceVersion": "1", "annotations": named}
        return objects.group_view({"metadata": of, "spec": {"queues": [{"name": "a"}]}})

    assert (group(rebalance="monday").request, group(rebalance="").request, group(approve="").approved) == ("monday", None, None)
    ids = {group(rebalance=text).request for text in ("x" * 200_000, "x" * 200_001, "\x1b[31m")}
    assert len(ids) == 3 and all(one is not None and len(one) < 30 and one.isprintable() for one in ids)


# -- Values are read up to a limit; longer ones count as absent and are reported.


def lease(spec: dict[str, Any] | None = None, called: str = "orders-driver", **annotations: str) -> leases.LeaseView:
    told = {f"baton.dev/{name.replace('_', '-')}": text for name, text in annotations.items()}
    metadata = {"namespace": "shop", "name": called, "labels": {"baton.dev/group": "orders"}, "annotations": told}
    made = leases.view({"metadata": metadata, "spec": {"holderIdentity": "u", "leaseDurationSeconds": 20, **(spec or {})}})
    assert made is not None
    return made


def pod(**annotations: str) -> pods.PodView:
    told = {f"baton.dev/{name}": text for name, text in annotations.items()}
    owners = [{"uid": f"owner-{number}"} for number in range(100)]
    made = pods.view(
        {
            "metadata": {
                "namespace": "shop",
                "name": "a",
                "uid": "u",
                "labels": {"baton.dev/group": "orders"},
                "annotations": told,
                "ownerReferences": owners,
            }
        }
    )
    assert made is not None
    return made


def test_executors_are_read_up_to_a_limit() -> None:
    one = lease(executors="1," * (LONGEST_EXECUTORS // 2))
    assert (one.executors, one.problem) == (frozenset({"1"}), None)
    beyond = lease(executors="1," * (LONGEST_EXECUTORS // 2) + "2")
    assert beyond.executors == frozenset()
    assert "baton.dev/executors" in (beyond.problem or "")


def test_a_list_of_executors_takes_hardly_more_memory_than_its_text() -> None:
    told = ",".join(str(100_000 + number) for number in range(LONGEST_EXECUTORS // 7))
    tracemalloc.start()
    try:
        kept = [lease(executors=told + str(number)) for number in range(20)]
        assert tracemalloc.get_traced_memory()[0] < 1.2 * len(kept) * len(told)
    finally:
        tracemalloc.stop()
    assert all(len(one.executors) == LONGEST_EXECUTORS // 7 for one in kept)


@pytest.mark.parametrize(
    ("name", "told", "of"),
    [
        ("orders-driver", {str(number): {"q": "1@1"} for number in range(MOST_NAMED // 2)}, MOST_NAMED // 2),
        ("baton-a", {"u": {str(number): "1@1" for number in range(MOST_NAMED - 1)}}, 1),
    ],
)
def test_releases_take_hardly_more_memory_than_their_text(name: str, told: object, of: int) -> None:
    text = json.dumps(told, separators=(",", ":"))
    tracemalloc.start()
    try:
        kept = [lease(called=name, releases=text.replace("1@1", f"1@{number + 10}", 1)) for number in range(16)]
        before = tracemalloc.get_traced_memory()[0]  # with what is remembered of the last few
        kept += [lease(called=name, releases=text.replace("1@1", f"1@{number + 10}", 1)) for number in range(16, 22)]
        assert tracemalloc.get_traced_memory()[0] - before < 1.5 * 6 * len(text)
    finally:
        tracemalloc.stop()
    assert all(len(one.releases) == of for one in kept)
    assert kept[7].releases[Uid("0" if of > 1 else "u")].names(QueueName("q" if of > 1 else "0"), 1, Epoch(17))


def test_a_holder_is_a_uid() -> None:
    assert lease({"holderIdentity": "u" * LONGEST_UID}).holder == "u" * LONGEST_UID
    beyond = lease({"holderIdentity": "u" * (LONGEST_UID + 1)}, releases='{"u":{"orders":"5@12"}}')
    assert (beyond.holder, beyond.releases) == (None, {})
    assert "spec.holderIdentity" in (beyond.problem or "")


def test_a_term_is_at_most_an_hour() -> None:
    beyond = lease({"leaseDurationSeconds": 10**9})
    assert beyond.duration == LONGEST_DURATION
    assert "spec.leaseDurationSeconds" in (beyond.problem or "")


@pytest.mark.parametrize("text", ["q" * (LONGEST_LIST + 1), "q," * (MOST_WORDS + 1)], ids=["long", "many"])
def test_lists_in_annotations_are_read_up_to_a_limit(text: str) -> None:
    one = pod(subscribed=text, assignors=text)
    assert one.subscribed == frozenset(), "a pod with too long a list gets nothing"
    assert one.assignors is None
    assert len(one.problems) == 2


def test_owners_are_read_up_to_a_limit() -> None:
    assert len(pod().owners) == MOST_OWNERS
