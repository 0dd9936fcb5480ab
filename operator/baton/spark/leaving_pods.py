"""Which of the group's pods are asked to stop: by `kubectl delete pod`, a drain, or a spot instance that is taken back.

The ledger does not say it in time, because a pod that leaves keeps its partitions until a plan has taken them from it. So the
driver looks itself. What it does not see costs nothing but the grace: the pod ends when its own time is over.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, Protocol

from baton.consumer.api_server import ApiConnection, segments
from baton.model.ids import MemberId
from baton.model.names import GROUP_LABEL, SPARK_ROLE_LABEL
from baton.spark.followed_objects import FollowedObjects


class LeavingPods(Protocol):
    """Where the driver learns which executors leave."""

    def until(self) -> Mapping[MemberId, float]:
        """The pods that leave, each with when it is killed (seconds of the monotonic clock)."""

    def close(self) -> None:
        """Look no more."""


class NoLeavingPods:
    """Without Kubernetes no pod is asked to stop."""

    def until(self) -> Mapping[MemberId, float]:
        return {}

    def close(self) -> None:
        pass


class WatchedPods:
    """The executors' pods of a group at the API server."""

    def __init__(self, api: ApiConnection, namespace: str, group: str) -> None:
        self._until: Mapping[MemberId, float] = {}
        """From when this process has seen it first: clocks differ."""
        path, only = f"/api/v1/namespaces/{segments(namespace)}/pods", f"{GROUP_LABEL}={group},{SPARK_ROLE_LABEL}=executor"
        self._followed = FollowedObjects(api, path, f"the executors' pods of {group}", self._see, labelSelector=only)
        self._followed.start()

    def until(self) -> Mapping[MemberId, float]:
        return self._until

    def close(self) -> None:
        self._followed.close()

    def _see(self, pods: Sequence[Mapping[str, Any]]) -> None:
        self._until = ends(self._until, pods, time.monotonic())


def ends(before: Mapping[MemberId, float], pods: Iterable[Mapping[str, Any]], now: float) -> dict[MemberId, float]:
    """When each that is asked to stop is killed. `before`: as far as that is known. A grace may be shortened meanwhile, as by a
    node that shuts down, and becomes no longer."""
    return {name: min(before.get(name, inf), now + grace) for name, grace in graces(pods).items()}


def graces(pods: Iterable[Mapping[str, Any]]) -> dict[MemberId, float]:
    """Those that are asked to stop, with the seconds that each was given."""
    asked = [pod["metadata"] for pod in pods if "deletionTimestamp" in pod["metadata"]]
    return {MemberId(one["name"]): float(one.get("deletionGracePeriodSeconds") or 0) for one in asked}
