"""Values of pods and Leases are read up to a limit; longer ones count as absent and are reported."""

import json
import tracemalloc
from typing import Any

import pytest

from baton.kube import leases, pods
from baton.kube.leases import LONGEST_EXECUTORS
from baton.kube.pods import LONGEST_LIST, MOST_OWNERS, MOST_WORDS
from baton.model.ids import Epoch, QueueName, Uid
from baton.model.lease import LONGEST_DURATION
from baton.model.session import LONGEST_UID, MOST_NAMED


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
