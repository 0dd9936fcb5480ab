"""A pod as the operator sees it: what of its manifest and status matters for membership, and nothing else.

Two views of a pod that are equal make no difference to any group, so a kubelet's heartbeat wakes no group. What stands in labels
and annotations was written by others: it is bounded before it is read, nothing of it can fail `view`, and an empty text is none.

Its status also says for people why it is not Ready, and the last words of a container that failed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from baton.assignors import BUILT_IN, INSTALLED_NAME
from baton.model.ids import MemberId, QueueName, Uid
from baton.model.names import (
    ASSIGNORS_ANNOTATION,
    CAPACITY_ANNOTATION,
    DRAIN_ANNOTATION,
    GROUP_LABEL,
    LEDGER_GROUP_KEY,
    LEDGER_KEY_ANNOTATION,
    SPARK_APP_LABEL,
    SPARK_EXECUTOR_ID_LABEL,
    SPARK_ROLE_LABEL,
    SUBSCRIBED_ANNOTATION,
)
from baton.model.times import read_seconds
from baton.model.wording import one_line, quoted

ZONE_LABEL = "topology.kubernetes.io/zone"
"""Kubernetes puts it on pods itself since 1.35."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""A ReplicaSet that shrinks deletes the pods of lowest cost first."""

LONGEST_LIST = 16 * 1024
"""Characters of a list in an annotation: 64 queues with the longest names."""

MOST_SHOWN = 64
"""Of a list in an annotation."""

LONGEST_ASSIGNOR = 128
"""Characters of an assignor's name, as in spec.assignors."""

MOST_LABELS = 256
"""Of a pod; the operator looks at three of them, of which the group names one."""

MOST_OWNERS = 16
LONGEST_MARK = 64
"""Characters of an annotation that is only compared with what the operator itself would write."""

_SHOWN = 3
"""Mistakes of one kind that are told of one pod."""


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
    ends: float | None = None
    """When its grace period is over, in Unix seconds of the API server; None: it is not being deleted."""
    running: bool = False
    """Its containers run, so that a terminating pod can still let go of what it has."""
    ended: bool = False
    """It has come to its end, well or not, and is not started again."""
    labels: tuple[tuple[str, str], ...] = ()
    subscribed: frozenset[QueueName] | None = None
    assignors: tuple[str, ...] | None = None
    capacity: Fraction = Fraction(1)
    draining: bool = False
    """It was asked to give its partitions away."""
    problems: tuple[str, ...] = ()
    """What of its annotations cannot be meant so, each with the cure."""
    owners: frozenset[Uid] = frozenset()
    """UIDs of its ownerReferences."""
    spark_role: str | None = None
    spark_app: str | None = None
    executor_id: str | None = None
    told: str | None = field(default=None, compare=False)
    """The value of the annotation by which the operator last made the kubelet refresh the mounted ledger. A change is no news of
    the pod; what was undone is seen at the next resync."""

    failure: str | None = None
    """The last words of a container of it that failed, on one line; of drivers of Spark only, which speak for a whole group."""

    hindrance: str | None = None
    """What keeps it from being Ready, on one line; None: it is Ready, stops, has ended, or Kubernetes names nothing, as of
    one that starts."""

    deletion_cost: str | None = None
    """What its loss costs, as its ReplicaSet understands it."""

    @property
    def ready(self) -> bool:
        return self.ready_since is not None

    @property
    def unready(self) -> str:
        """Why it is not Ready, in words."""
        return self.hindrance or ("it runs: its probes, or its node" if self.running else "it has not started yet")

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
    problems: list[str] = []
    since = _ready_since(status)
    return PodView(
        namespace=metadata["namespace"],
        name=MemberId(metadata["name"]),
        uid=Uid(metadata["uid"]),
        group=group,
        ready_since=since,
        terminating="deletionTimestamp" in metadata,
        ends=read_seconds(metadata.get("deletionTimestamp"), None),
        running=status.get("phase") == "Running",
        ended=status.get("phase") in ENDED,
        labels=_labels(labels, problems),
        subscribed=_subscribed(annotations.get(SUBSCRIBED_ANNOTATION), problems),
        assignors=_assignors(annotations.get(ASSIGNORS_ANNOTATION), problems),
        capacity=_capacity(annotations.get(CAPACITY_ANNOTATION), problems),
        draining=_draining(annotations.get(DRAIN_ANNOTATION), problems),
        problems=tuple(problems),
        owners=frozenset(Uid(owner["uid"]) for owner in (metadata.get("ownerReferences") or ())[:MOST_OWNERS]),
        spark_role=labels.get(SPARK_ROLE_LABEL) or None,
        spark_app=labels.get(SPARK_APP_LABEL) or None,
        executor_id=labels.get(SPARK_EXECUTOR_ID_LABEL) or None,
        failure=failure(status) if labels.get(SPARK_ROLE_LABEL) == "driver" else None,
        hindrance=hindrance(status) if since is None and "deletionTimestamp" not in metadata else None,
        told=(annotations.get(LEDGER_KEY_ANNOTATION) or "")[:LONGEST_MARK] or None,
        deletion_cost=(annotations.get(DELETION_COST) or "")[:LONGEST_MARK] or None,
    )


def _ready_since(status: Mapping[str, Any]) -> float | None:
    if status.get("phase") in ENDED:
        return None
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            return read_seconds(condition.get("lastTransitionTime"), 0.0)  # of no time, or no year: an old pod
    return None


def _labels(labels: Mapping[str, str], problems: list[str]) -> tuple[tuple[str, str], ...]:
    """Those that say something, by name."""
    told = sorted((name, value) for name, value in labels.items() if value)
    if len(told) > MOST_LABELS:
        problems.append(f"it has {len(told):,} labels, and {MOST_LABELS} are read, in the order of their names: take some away")
    return tuple(told[:MOST_LABELS])


def _words(text: str | None) -> tuple[str, ...]:
    """Raises ValueError for a text of unreasonable length."""
    if text is None or not text.strip():
        return ()
    if len(text) > LONGEST_LIST:
        raise ValueError(f"has {len(text):,} characters, and {LONGEST_LIST:,} are read")
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if len(words) > MOST_SHOWN:
        raise ValueError(f"has {len(words):,} names, and {MOST_SHOWN} are read")
    return words


def _subscribed(text: str | None, problems: list[str]) -> frozenset[QueueName] | None:
    try:
        words = _words(text)
    except ValueError as error:
        problems.append(f"annotation {SUBSCRIBED_ANNOTATION} {error}, so that it gets nothing: name the queues that it reads")
        return frozenset()
    return frozenset(map(QueueName, words)) or None


def _assignors(text: str | None, problems: list[str]) -> tuple[str, ...] | None:
    try:
        words = _words(text)
    except ValueError as error:
        problems.append(f"annotation {ASSIGNORS_ANNOTATION} {error}, so that it counts as absent: name those that it supports")
        return None
    slips = [name for name in words if not _may_be_an_assignor(name)]
    left = tuple(name for name in words if name not in slips)
    counts = "" if left else ", so that the pod counts as supporting all"
    problems += [
        f"annotation {ASSIGNORS_ANNOTATION} names {quoted(name)}, and there is no such assignor{counts}: choose of "
        f"{', '.join(BUILT_IN)}, or <domain>/<name> for one of your own"
        for name in slips[:_SHOWN]
    ]
    return left or None


def _may_be_an_assignor(name: str) -> bool:
    """A name with a domain may be one that is installed elsewhere."""
    return name in BUILT_IN or (len(name) <= LONGEST_ASSIGNOR and re.fullmatch(INSTALLED_NAME, name) is not None)


def _draining(text: str | None, problems: list[str]) -> bool:
    told = (text or "").strip()
    if told not in ("", "true", "false"):
        problems.append(f"annotation {DRAIN_ANNOTATION} is {quoted(told)}, and counts as absent: give true, or take it away")
    return told == "true"


def _capacity(text: str | None, problems: list[str]) -> Fraction:
    """A decimal number above 0."""
    told = (text or "").strip()
    if not told:
        return Fraction(1)
    amount = Fraction(told) if re.fullmatch(r"\d{1,7}(\.\d{1,6})?", told, re.ASCII) is not None else Fraction(0)
    if 0 < amount <= 1_000_000:
        return amount
    problems.append(
        f"annotation {CAPACITY_ANNOTATION} is {quoted(told)}, and counts as 1: give a number above 0, such as 2 or 0.5, up to "
        "1000000"
    )
    return Fraction(1)


ENDED = ("Succeeded", "Failed")
"""Phases that a pod does not leave."""

LONGEST_FAILURE = 600
"""Characters of what a container said last that are shown."""

LONGEST_REASON = 300
"""Characters of why a pod is not Ready that are shown."""

SEE_LOG = "see its log"
"""What is told of a container that ended."""

_STARTS = ("ContainerCreating", "PodInitializing")
"""What a container waits for that starts as it should."""

_CRASHES = "CrashLoopBackOff"

_BY_SIGNAL = 128
"""Exit codes above this are a signal's."""

_LOGGED = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]+ |\s+at |\s*\.\.\. \d+ more")
"""How a line of Spark's own log, or of a Java trace, begins: they follow the line that has the cause."""

_MOST_MESSAGE = 4096
"""Characters of a container's last words that are looked at: as many as Kubernetes keeps."""

Status = Mapping[str, Any]


def hindrance(status: Status) -> str | None:
    """What keeps a pod that is not Ready from it, on one line; None: Kubernetes names nothing, as of one that starts."""
    if status.get("phase") in ENDED:
        return None
    words = next(_hindrances(status), None)
    return one_line(words, LONGEST_REASON) if words else None


def _hindrances(status: Status) -> Iterator[str]:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield _said(condition)
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state, name = container.get("state") or {}, container.get("name")
        waiting, last = state.get("waiting") or {}, (container.get("lastState") or {}).get("terminated") or {}
        if waiting.get("reason") == _CRASHES:
            # Its message has the name of the pod, and seconds that grow: all pods of a fleet would differ.
            yield f"container {name}: {_CRASHES}{f': {_exit(last)}' if last else ''}"
        elif waiting.get("reason") and waiting["reason"] not in _STARTS:
            yield f"container {name}: {_said(waiting)}"
        elif (ended := state.get("terminated") or {}) and ended.get("exitCode"):
            yield f"container {name}: {_exit(ended)}"


def _said(those: Mapping[str, Any]) -> str:
    return ": ".join(str(those[key]) for key in ("reason", "message") if those.get(key))


def _exit(ended: Mapping[str, Any]) -> str:
    return f"exit code {ended.get('exitCode')} ({ended.get('reason')}), {SEE_LOG}"


def failure(status: Status) -> str | None:
    """Of a container that failed Kubernetes keeps the end of the log, where its terminationMessagePolicy says so."""
    for container in status.get("containerStatuses") or ():
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            ended = state.get("terminated") or {}
            if code := ended.get("exitCode"):
                # What a signal ended was not saying why.
                said = str(ended.get("message") or "")[-_MOST_MESSAGE:] if code <= _BY_SIGNAL else ""
                lines = [line for line in said.splitlines() if line.strip() and not _LOGGED.match(line)]
                return one_line(lines[-1] if lines else _exit(ended), LONGEST_FAILURE)
    return None
