"""Ends executors whose pods are terminating: they finish their tasks, hand off, and end within their grace period.

The preStop hook of their pod template waits, so that they keep working meanwhile. The operator hands off their partitions, and
then the driver ends them. It does so between two jobs, because an idle executor may have shuffle files and cached blocks that
the running job needs. In the pod's last seconds it does so even during a job, and Spark computes the lost blocks again.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Any

from baton.consumer.api_server import ApiConnection, segments
from baton.model.ids import MemberId
from baton.model.names import GROUP_LABEL, SPARK_ROLE_LABEL
from baton.spark.executors import Executor, Executors
from baton.spark.followed_objects import FollowedObjects

log = logging.getLogger("baton.spark")

# -- which of the group's pods are terminating


Leaving = Callable[[], Mapping[MemberId, float]]
"""Returns the terminating pods, each with the time at which it is killed (monotonic seconds)."""


class WatchedPods:
    """Finds a group's terminating executor pods at the API server: after `kubectl delete pod`, a drain, or the loss of a spot
    instance. The ledger shows it too late, because a pod keeps its partitions until a plan has moved them. If the driver misses
    a terminating pod, the pod ends at the end of its grace period.
    """

    def __init__(self, api: ApiConnection, namespace: str, group: str) -> None:
        self._until: Mapping[MemberId, float] = {}
        """The grace period counts from when this process first sees the deletion, because clocks differ."""
        path, only = f"/api/v1/namespaces/{segments(namespace)}/pods", f"{GROUP_LABEL}={group},{SPARK_ROLE_LABEL}=executor"
        self._followed = FollowedObjects(api, path, f"the executors' pods of {group}", self._see, labelSelector=only)

    def until(self) -> Mapping[MemberId, float]:
        return self._until

    def close(self) -> None:
        self._followed.close()

    def _see(self, pods: Sequence[Mapping[str, Any]]) -> None:
        self._until = ends(self._until, pods, time.monotonic())


def ends(before: Mapping[MemberId, float], pods: Iterable[Mapping[str, Any]], now: float) -> dict[MemberId, float]:
    """When each terminating pod is killed. `before`: the times known before. A grace period may become shorter, such as when the
    node shuts down, but not longer."""
    terminating = [pod["metadata"] for pod in pods if "deletionTimestamp" in pod["metadata"]]
    grace = {MemberId(one["name"]): float(one.get("deletionGracePeriodSeconds") or 0) for one in terminating}
    return {name: min(before.get(name, inf), now + seconds) for name, seconds in grace.items()}


# -- when their executors are ended

LAST = 20.0
"""Seconds before a pod is killed in which its executor gets no new tasks."""

FORGOTTEN = 300.0
"""Seconds after which a killed executor is forgotten if its pod never terminated."""


class Dismissals:
    """Ends a fleet's executors whose pods are terminating. Used by the fleet's loop only."""

    def __init__(self, leaving: Leaving, executors: Executors, clock: Callable[[], float] = time.monotonic) -> None:
        self._leaving, self._executors, self._clock = leaving, executors, clock
        self._since: Mapping[MemberId, float] = {}
        """When each terminating pod was first seen."""
        self._killed: dict[MemberId, float] = {}
        """When this driver killed each executor. Their pods terminate for that reason only."""

    def left(self) -> Mapping[MemberId, float]:
        """Return the pods that terminate for other reasons, with the seconds that each has left."""
        now, leaving = self._clock(), self._leaving()
        self._killed = {name: at for name, at in self._killed.items() if name in leaving or now < at + FORGOTTEN}
        until = {name: at for name, at in leaving.items() if name not in self._killed}
        for name in until.keys() - self._since.keys():
            log.info("%s is terminating, and has %.0f s to hand off", name, until[name] - now)
        self._since = {name: self._since.get(name, now) for name in until}
        return {name: at - now for name, at in until.items()}

    def staying(self, executors: Iterable[Executor]) -> tuple[Executor, ...]:
        """Return the executors that may get new tasks."""
        left = self.left()
        return tuple(one for one in executors if left.get(one.pod, LAST + 1) > LAST)

    def kill(self, ids: Collection[str], fleet: Iterable[Executor]) -> None:
        ended = frozenset(self._executors.end(ids))
        self._killed |= {one.pod: self._clock() for one in fleet if one.id in ended}

    def end(self, dismissed: Iterable[str], fleet: Iterable[Executor]) -> bool:
        """End the idle executors of these ids. Returns whether all are ended."""
        left, by_id = self.left(), {one.id: one.pod for one in fleet}
        due = [one for one in dismissed if one in by_id]
        if due and self._executors.jobs():
            due = [one for one in due if left.get(by_id[one], 0.0) <= LAST]
        ended = frozenset(self._executors.end(due, idle=True)) if due else frozenset()
        for one in ended:
            took = self._clock() - self._since.get(by_id[one], self._clock())
            log.info("%s has handed off and ends, %.1f s after it began to terminate", by_id[one], took)
        return ended >= frozenset(dismissed)
