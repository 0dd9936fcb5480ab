"""Which of the group's pods are asked to stop: by `kubectl delete pod`, a drain, or a spot instance that is taken back.

The ledger does not say it in time, because a pod that leaves keeps its partitions until a plan has taken them from it. So the
driver looks itself. What it does not see costs nothing but the grace: the pod ends when its own time is over.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from baton.consumer.api_server import ApiConnection, ListWatch, segments
from baton.model.ids import MemberId
from baton.model.names import GROUP_LABEL, SPARK_ROLE_LABEL

log = logging.getLogger("baton.spark")


class LeavingPods(Protocol):
    """Where the driver learns which executors leave."""

    def until(self) -> Mapping[MemberId, float]:
        """The pods that leave, each with when it is killed (seconds of the monotonic clock)."""

    def close(self) -> None:
        """Look no more."""


class NobodyLeaves:
    """Without Kubernetes nobody is asked to stop."""

    def until(self) -> Mapping[MemberId, float]:
        return {}

    def close(self) -> None:
        pass


class WatchedPods:
    """The executors' pods of a group at the API server."""

    def __init__(self, api: ApiConnection, namespace: str, group: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{segments(namespace)}/pods"
        self._only = f"{GROUP_LABEL}={group},{SPARK_ROLE_LABEL}=executor"
        self._until: Mapping[MemberId, float] = {}
        """From when this process has seen it first: clocks differ."""
        self._closed = threading.Event()
        self._watch: ListWatch | None = None
        threading.Thread(target=self._run, name="baton-pods", daemon=True).start()

    def until(self) -> Mapping[MemberId, float]:
        return self._until

    def close(self) -> None:
        self._closed.set()
        if self._watch is not None:
            self._watch.end()

    def _run(self) -> None:
        problem = False
        while not self._closed.is_set():
            try:
                self._follow()
                problem = False
            except Exception as error:  # whatever the API server or the network does, the fleet goes on
                if not problem and not self._closed.is_set():
                    log.warning("which executors are asked to stop is not seen for the moment: %s", error)
                problem = True
                self._closed.wait(1.0)

    def _follow(self) -> None:
        """List, and watch until the API server ends it."""
        listed = self._api.request("GET", self._path, labelSelector=self._only)
        self._see(graces(listed.get("items") or ()))
        version = listed["metadata"]["resourceVersion"]
        with self._api.watch(self._path, labelSelector=self._only, resourceVersion=version) as watch:
            self._watch = watch
            for event in watch:
                if self._closed.is_set():
                    return
                pod = event["object"]
                rest = {name: 0.0 for name in self._until if name != pod["metadata"]["name"]}
                self._see(rest if event["type"] == "DELETED" else {**rest, **graces([pod])})

    def _see(self, leaving: Mapping[MemberId, float]) -> None:
        now = time.monotonic()
        self._until = {name: self._until.get(name, now + grace) for name, grace in leaving.items()}


def graces(pods: Iterable[Mapping[str, Any]]) -> dict[MemberId, float]:
    """Those that are asked to stop, with the seconds that each was given."""
    asked = [pod["metadata"] for pod in pods if "deletionTimestamp" in pod["metadata"]]
    return {MemberId(one["name"]): float(one.get("deletionGracePeriodSeconds") or 0) for one in asked}
