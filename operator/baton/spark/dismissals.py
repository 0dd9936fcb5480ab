"""Executors whose pods are asked to stop: they finish what runs, hand off, and end before their grace period does.

Their pod template has a preStop hook that waits, so that they work on meanwhile. The operator takes their partitions from them;
then the driver ends them. It does so between two jobs, because an executor that has no task may still have shuffle files and
cached blocks that the running job needs; in its last seconds without that regard, for then Spark makes the lost part again.
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

# -- which of the group's pods are asked to stop


Leaving = Callable[[], Mapping[MemberId, float]]
"""The pods that are asked to stop, each with when it is killed (seconds of the monotonic clock)."""


class WatchedPods:
    """The executors' pods of a group at the API server, and which of them are asked to stop: by `kubectl delete pod`, a drain,
    or a spot instance that is taken back. The ledger does not say it in time, because a pod that leaves keeps its partitions
    until a plan has taken them from it. What the driver does not see costs nothing but the grace: the pod ends when its own
    time is over.
    """

    def __init__(self, api: ApiConnection, namespace: str, group: str) -> None:
        self._until: Mapping[MemberId, float] = {}
        """From when this process has seen it first: clocks differ."""
        path, only = f"/api/v1/namespaces/{segments(namespace)}/pods", f"{GROUP_LABEL}={group},{SPARK_ROLE_LABEL}=executor"
        self._followed = FollowedObjects(api, path, f"the executors' pods of {group}", self._see, labelSelector=only)
        self._followed.start()

    def until(self) -> Mapping[MemberId, float]:
        """See `Leaving`."""
        return self._until

    def close(self) -> None:
        """Look no more."""
        self._followed.close()

    def _see(self, pods: Sequence[Mapping[str, Any]]) -> None:
        self._until = ends(self._until, pods, time.monotonic())


def ends(before: Mapping[MemberId, float], pods: Iterable[Mapping[str, Any]], now: float) -> dict[MemberId, float]:
    """When each that is asked to stop is killed. `before`: as far as that is known. A grace may be shortened meanwhile, as by a
    node that shuts down, and becomes no longer."""
    asked = [pod["metadata"] for pod in pods if "deletionTimestamp" in pod["metadata"]]
    grace = {MemberId(one["name"]): float(one.get("deletionGracePeriodSeconds") or 0) for one in asked}
    return {name: min(before.get(name, inf), now + seconds) for name, seconds in grace.items()}


# -- what becomes of their executors

LAST = 20.0
"""Seconds before a pod is killed in which its executor gets nothing new."""

FORGOTTEN = 300.0
"""Seconds after which a pod that this driver ended, and that is not ending, is forgotten."""


class Dismissals:
    """Of one fleet. Used by its loop alone."""

    def __init__(self, leaving: Leaving, executors: Executors, clock: Callable[[], float] = time.monotonic) -> None:
        self._leaving, self._executors, self._clock = leaving, executors, clock
        self._told: Mapping[MemberId, float] = {}
        """Since when each is known to leave."""
        self._killed: dict[MemberId, float] = {}
        """When this driver ended each: their pods end, but were not asked to stop by others."""

    def left(self) -> Mapping[MemberId, float]:
        """The pods that others ask to stop, with the seconds that each has left."""
        now, leaving = self._clock(), self._leaving()
        self._killed = {name: at for name, at in self._killed.items() if name in leaving or now < at + FORGOTTEN}
        until = {name: at for name, at in leaving.items() if name not in self._killed}
        for name in until.keys() - self._told.keys():
            log.info("%s is asked to stop, and has %.0f s to hand off", name, until[name] - now)
        self._told = {name: self._told.get(name, now) for name in until}
        return {name: at - now for name, at in until.items()}

    def staying(self, executors: Iterable[Executor]) -> tuple[Executor, ...]:
        """Those that may be given something new."""
        left = self.left()
        return tuple(one for one in executors if left.get(one.pod, LAST + 1) > LAST)

    def kill(self, ids: Collection[str], fleet: Iterable[Executor]) -> None:
        """End these now."""
        ended = frozenset(self._executors.end(ids))
        self._killed |= {one.pod: self._clock() for one in fleet if one.id in ended}

    def end(self, dismissed: Iterable[str], fleet: Iterable[Executor]) -> bool:
        """End those of them that are idle, by their ids. False: some are still to be ended."""
        left, by_id = self.left(), {one.id: one.pod for one in fleet}
        due = [one for one in dismissed if one in by_id]
        if due and self._executors.jobs():
            due = [one for one in due if left.get(by_id[one], 0.0) <= LAST]
        ended = frozenset(self._executors.end(due, idle=True)) if due else frozenset()
        for one in ended:
            took = self._clock() - self._told.get(by_id[one], self._clock())
            log.info("%s has handed off and ends, %.1f s after it was asked to stop", by_id[one], took)
        return ended >= frozenset(dismissed)
