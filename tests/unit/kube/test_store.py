"""Watch events and lists of the same objects, arriving in any order."""

from typing import Any

from baton.kube.pods import PodView, view
from baton.kube.store import MOST_GONE, Store, key_of


def pod(name: str, version: int, group: str = "orders", uid: str = "u") -> dict[str, Any]:
    labels = {"baton.dev/group": group} if group else {}
    return {"metadata": {"namespace": "shop", "name": name, "uid": uid, "labels": labels, "resourceVersion": str(version)}}


class Listener:
    def __init__(self) -> None:
        self.heard: list[tuple[str | None, str | None]] = []
        self.store: Store[PodView] = Store(view, lambda before, after: self.heard.append((_name(before), _name(after))))

    def listed(self, namespace: str | None, there: list[dict[str, Any]], as_of: int) -> None:
        for manifest in there:
            self.store.event(None, manifest)
        self.store.keep(namespace, {key_of(manifest) for manifest in there}, as_of)

    def names(self, group: str = "orders") -> set[str]:
        return set(self.store.bucket("shop", group))


def _name(pod: PodView | None) -> str | None:
    return None if pod is None else pod.name


def test_events_add_and_remove() -> None:
    one = Listener()
    one.store.event("ADDED", pod("a", 1))
    one.store.event("DELETED", pod("a", 2))
    assert one.names() == set()
    assert one.heard == [(None, "a"), ("a", None)]


def test_an_old_event_changes_nothing() -> None:
    one = Listener()
    one.store.event("DELETED", pod("a", 5))
    one.store.event("MODIFIED", pod("a", 4))
    assert one.names() == set()


def test_only_the_last_removed_objects_are_remembered() -> None:
    one = Listener()
    for number in range(MOST_GONE + 1):
        one.store.event("ADDED", pod(f"p{number}", 10 * number + 1))
        one.store.event("DELETED", pod(f"p{number}", 10 * number + 5))
    one.store.event("MODIFIED", pod("p1", 12))
    assert one.names() == set(), "it is known to be gone"
    one.store.event("MODIFIED", pod("p0", 2))
    assert one.names() == {"p0"}, "nothing is known of it; the next list puts that right"
    one.listed("shop", [], 9_999_999)
    assert one.names() == set()


def test_a_list_removes_objects_whose_deletion_was_missed() -> None:
    one = Listener()
    one.store.event("ADDED", pod("a", 1))
    one.store.event("ADDED", pod("b", 2))
    one.listed("shop", [pod("b", 2)], 9)
    assert one.names() == {"b"}
    assert ("a", None) in one.heard


def test_a_list_of_one_namespace_leaves_others_alone() -> None:
    one = Listener()
    one.store.event("ADDED", pod("a", 1))
    one.listed("elsewhere", [], 9)
    assert one.names() == {"a"}
    one.listed(None, [], 9)
    assert one.names() == set()


def test_a_list_of_known_objects_is_no_news() -> None:
    one = Listener()
    one.store.event("ADDED", pod("a", 1))
    one.heard.clear()
    one.listed(None, [pod("a", 1)], 9)
    assert one.heard == []


def test_objects_newer_than_the_list_stay() -> None:
    one = Listener()
    one.store.event("ADDED", pod("new", 12))
    one.store.event("DELETED", pod("gone", 11))
    one.listed("shop", [pod("gone", 3)], 10)
    assert one.names() == {"new"}


def test_a_relabelled_pod_moves_to_the_other_group() -> None:
    one = Listener()
    one.store.event("ADDED", pod("a", 1, "orders"))
    one.store.event("MODIFIED", pod("a", 2, "returns"))
    assert (one.names("orders"), one.names("returns")) == (set(), {"a"})


def test_a_pod_without_the_label_is_removed() -> None:
    one = Listener()
    one.store.event("ADDED", pod("a", 1))
    one.store.event("DELETED", pod("a", 2, ""))
    assert one.names() == set()
