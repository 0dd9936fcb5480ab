"""A pod as the operator sees it: what of its manifest and status matters for membership, and nothing else.

Two views of a pod that are equal make no difference to any group, so a kubelet's heartbeat wakes nobody.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from re import ASCII, fullmatch
from typing import Any

from baton.assignors import BUILT_IN, OWN_NAME
from baton.kube.times import to_seconds
from baton.model.ids import MemberId, QueueName, Uid
from baton.model.names import (
    ASSIGNORS_ANNOTATION,
    CAPACITY_ANNOTATION,
    GROUP_LABEL,
    LEDGER_GROUP_KEY,
    LEDGER_KEY_ANNOTATION,
    SPARK_APP_LABEL,
    SPARK_EXECUTOR_ID_LABEL,
    SPARK_ROLE_LABEL,
    SUBSCRIBED_ANNOTATION,
)

ZONE_LABEL = "topology.kubernetes.io/zone"
"""Kubernetes puts it on pods itself since 1.35."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""A ReplicaSet that shrinks deletes the pods of lowest cost first."""


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod with the group's label."""

    namespace: str
    name: MemberId
    uid: Uid
    group: str
    """The label's value."""
    ready_since: float | None = None
    """Unix seconds of its last transition to Ready; None: not Ready. Kubernetes records whole seconds."""
    terminating: bool = False
    running: bool = False
    """Its containers run, so that a terminating pod can still let go of what it has."""
    labels: tuple[tuple[str, str], ...] = ()
    subscribed: frozenset[QueueName] | None = None
    assignors: tuple[str, ...] | None = None
    capacity: Fraction = Fraction(1)
    problems: tuple[str, ...] = ()
    """What of its annotations cannot be meant so, each with the cure."""
    owners: frozenset[Uid] = frozenset()
    """UIDs of its ownerReferences."""
    spark_role: str | None = None
    spark_app: str | None = None
    executor_id: str | None = None
    told: str | None = None
    """The value of the annotation by which the operator last made the kubelet refresh the mounted ledger."""

    deletion_cost: str | None = None
    """What its loss costs, as its ReplicaSet understands it."""

    @property
    def ready(self) -> bool:
        return self.ready_since is not None

    def label(self, name: str) -> str | None:
        return dict(self.labels).get(name)

    @property
    def nameable(self) -> bool:
        """The ledger has a key of its own under `group`, so a pod of that name cannot have one."""
        return self.name != LEDGER_GROUP_KEY


def view(pod: Mapping[str, Any]) -> PodView | None:
    """A pod's manifest as a PodView; None without the group's label."""
    metadata = pod["metadata"]
    labels: dict[str, str] = metadata.get("labels") or {}
    annotations: dict[str, str] = metadata.get("annotations") or {}
    group = labels.get(GROUP_LABEL)
    if not group:
        return None
    status = pod.get("status") or {}
    assignors = _words(annotations.get(ASSIGNORS_ANNOTATION))
    capacity = annotations.get(CAPACITY_ANNOTATION)
    return PodView(
        namespace=metadata["namespace"],
        name=MemberId(metadata["name"]),
        uid=Uid(metadata["uid"]),
        group=group,
        ready_since=_ready_since(status),
        terminating="deletionTimestamp" in metadata,
        running=status.get("phase") == "Running",
        labels=tuple(sorted(labels.items())),
        subscribed=_subscribed(annotations.get(SUBSCRIBED_ANNOTATION)),
        assignors=assignors,
        capacity=_amount(capacity) or Fraction(1),
        problems=(*_unknown_assignors(assignors or ()), *_no_capacity(capacity)),
        owners=frozenset(Uid(owner["uid"]) for owner in metadata.get("ownerReferences") or ()),
        spark_role=labels.get(SPARK_ROLE_LABEL),
        spark_app=labels.get(SPARK_APP_LABEL),
        executor_id=labels.get(SPARK_EXECUTOR_ID_LABEL),
        told=annotations.get(LEDGER_KEY_ANNOTATION),
        deletion_cost=annotations.get(DELETION_COST),
    )


def _ready_since(status: Mapping[str, Any]) -> float | None:
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            since = condition.get("lastTransitionTime")
            return to_seconds(since) if since else 0.0
    return None


def _words(text: str | None) -> tuple[str, ...] | None:
    words = tuple(word.strip() for word in (text or "").split(",") if word.strip())
    return words or None


def _subscribed(text: str | None) -> frozenset[QueueName] | None:
    words = _words(text)
    return None if words is None else frozenset(map(QueueName, words))


def _unknown_assignors(names: Iterable[str]) -> Iterator[str]:
    """Slips. Of what has a domain nobody knows whether it is one."""
    for name in names:
        if name not in BUILT_IN and fullmatch(OWN_NAME, name) is None:
            yield (
                f"annotation {ASSIGNORS_ANNOTATION} names {name!r}, and there is no such assignor: choose of "
                f"{', '.join(BUILT_IN)}, or <domain>/<name> for one of your own"
            )


def _no_capacity(text: str | None) -> Iterator[str]:
    if text is not None and _amount(text) is None:
        yield (
            f"annotation {CAPACITY_ANNOTATION} is {text!r}, and counts as 1: give a number above 0, such as 2 or 0.5, up to "
            "1000000"
        )


def _amount(text: str | None) -> Fraction | None:
    """A decimal number above 0."""
    if text is None or fullmatch(r"\d{1,7}(\.\d{1,6})?", text.strip(), ASCII) is None:
        return None
    amount = Fraction(text.strip())
    return amount if 0 < amount <= 1_000_000 else None
