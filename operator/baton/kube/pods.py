"""Views of pods: the parts of manifest and status that matter for membership.

Equal views of a pod make no difference to any group, so a kubelet's heartbeat wakes no group. Labels and annotations are
untrusted: they are bounded before they are parsed, never make `view` fail, and count as absent if empty.

The view also tells users why a pod is not Ready, and the end of the log of a failed container.
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
"""Kubernetes sets this label on pods since 1.35."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""A ReplicaSet that shrinks deletes the pods of lowest cost first."""

LONGEST_LIST = 16 * 1024
"""Most characters of a list in an annotation: 64 queues with the longest names."""

MOST_WORDS = 64
"""Most names of a list in an annotation."""

LONGEST_ASSIGNOR = 128
"""Most characters of an assignor's name, as in spec.assignors."""

MOST_LABELS = 256
"""Most labels of a pod to keep. The operator uses three of them, one of which the group names."""

MOST_OWNERS = 16
LONGEST_MARK = 64
"""Most characters of an annotation that is only compared with the value that the operator would write."""

_SHOWN = 3
"""Most problems of one kind to report for a pod."""


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod with the group's label."""

    namespace: str
    name: MemberId
    uid: Uid
    group: str
    """Value of the group label."""
    ready_since: float | None = None
    """Unix seconds of the last transition to Ready, which Kubernetes records in whole seconds; None: not Ready."""
    terminating: bool = False
    ends: float | None = None
    """End of the grace period, in Unix seconds of the API server; None: the pod is not being deleted."""
    running: bool = False
    """The containers run, so that a terminating pod can still release partitions."""
    ended: bool = False
    """The pod has succeeded or failed, and is not restarted."""
    labels: tuple[tuple[str, str], ...] = ()
    subscribed: frozenset[QueueName] | None = None
    assignors: tuple[str, ...] | None = None
    capacity: Fraction = Fraction(1)
    draining: bool = False
    """The pod was asked to give its partitions away."""
    problems: tuple[str, ...] = ()
    """Problems of its annotations, each with a fix."""
    owners: frozenset[Uid] = frozenset()
    """UIDs of its ownerReferences."""
    spark_role: str | None = None
    spark_app: str | None = None
    executor_id: str | None = None
    told: str | None = field(default=None, compare=False)
    """Value of the annotation by which the operator last made the kubelet refresh the mounted ledger. A change of it wakes no
    group; the next resync notices a value that others changed."""

    failure: str | None = None
    """End of the log of a failed container, on one line. Only for Spark drivers."""

    hindrance: str | None = None
    """Why the pod is not Ready, on one line. None: it is Ready, terminating or ended, or Kubernetes gives no reason, as for a
    starting pod."""

    deletion_cost: str | None = None
    """Value of the annotation DELETION_COST."""

    @property
    def ready(self) -> bool:
        return self.ready_since is not None

    @property
    def unready(self) -> str:
        """Why the pod is not Ready, for messages."""
        return self.hindrance or ("it runs: its probes, or its node" if self.running else "it has not started yet")

    def label(self, name: str) -> str | None:
        return dict(self.labels).get(name)

    @property
    def nameable(self) -> bool:
        """False: the pod has the name of the ledger's group key, so it cannot have an entry there."""
        return self.name != LEDGER_GROUP_KEY


def view(pod: Mapping[str, Any]) -> PodView | None:
    """Read a pod's manifest; None if it lacks the group's label."""
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
            return read_seconds(condition.get("lastTransitionTime"), 0.0)  # unreadable: counts as an old pod
    return None


def _labels(labels: Mapping[str, str], problems: list[str]) -> tuple[tuple[str, str], ...]:
    """Labels that are not empty, sorted by name."""
    told = sorted((name, value) for name, value in labels.items() if value)
    if len(told) > MOST_LABELS:
        problems.append(f"it has {len(told):,} labels, and only the first {MOST_LABELS} by name are read: remove some")
    return tuple(told[:MOST_LABELS])


def _names(text: str | None) -> tuple[str, ...]:
    """Names of a comma-separated list. Raises ValueError if it is too long."""
    if text is None or not text.strip():
        return ()
    if len(text) > LONGEST_LIST:
        raise ValueError(f"has {len(text):,} characters, more than {LONGEST_LIST:,}")
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if len(words) > MOST_WORDS:
        raise ValueError(f"has {len(words):,} names, more than {MOST_WORDS}")
    return words


def _subscribed(text: str | None, problems: list[str]) -> frozenset[QueueName] | None:
    try:
        words = _names(text)
    except ValueError as error:
        problems.append(f"annotation {SUBSCRIBED_ANNOTATION} {error}, so the pod gets no partitions: name its queues")
        return frozenset()
    return frozenset(map(QueueName, words)) or None


def _assignors(text: str | None, problems: list[str]) -> tuple[str, ...] | None:
    try:
        words = _names(text)
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
    """Whether this can be the name of an assignor. A name with a domain may be installed in another environment."""
    return name in BUILT_IN or (len(name) <= LONGEST_ASSIGNOR and re.fullmatch(INSTALLED_NAME, name) is not None)


def _draining(text: str | None, problems: list[str]) -> bool:
    told = (text or "").strip()
    if told not in ("", "true", "false"):
        problems.append(f"annotation {DRAIN_ANNOTATION} is {quoted(told)}, and counts as absent: give true, or take it away")
    return told == "true"


def _capacity(text: str | None, problems: list[str]) -> Fraction:
    """Read a decimal number above 0; 1 if absent or invalid."""
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
"""Final phases of a pod."""

LONGEST_FAILURE = 600
"""Characters shown of the end of a container's log."""

LONGEST_REASON = 300
"""Characters shown of the reason why a pod is not Ready."""

SEE_LOG = "see its log"
"""Advice for a container that ended."""

_STARTS = ("ContainerCreating", "PodInitializing")
"""Waiting reasons of a container that starts normally."""

_CRASHES = "CrashLoopBackOff"

_BY_SIGNAL = 128
"""Exit codes above this mean that a signal ended the process."""

_LOGGED = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]+ |\s+at |\s*\.\.\. \d+ more")
"""Start of a line of Spark's log or of a Java stack trace. Such lines follow the line with the cause."""

_MOST_MESSAGE = 4096
"""Characters of a container's termination message to look at: as many as Kubernetes keeps."""

Status = Mapping[str, Any]


def hindrance(status: Status) -> str | None:
    """Why a pod is not Ready, on one line; None: Kubernetes gives no reason, as for a starting pod."""
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
            # Its message has the pod's name and growing seconds, so that all pods of a fleet would differ.
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
    """The cause from the end of the log of a failed container, on one line; None: none failed. Kubernetes keeps the log if the
    container's terminationMessagePolicy is FallbackToLogsOnError."""
    for container in status.get("containerStatuses") or ():
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            ended = state.get("terminated") or {}
            if code := ended.get("exitCode"):
                # A process ended by a signal did not log the cause.
                said = str(ended.get("message") or "")[-_MOST_MESSAGE:] if code <= _BY_SIGNAL else ""
                lines = [line for line in said.splitlines() if line.strip() and not _LOGGED.match(line)]
                return one_line(lines[-1] if lines else _exit(ended), LONGEST_FAILURE)
    return None
