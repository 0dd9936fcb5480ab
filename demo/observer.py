"""Watches the cluster as any user could: pods, ledger, group and the driver's Lease, each by its own watch."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kubernetes import client, config, watch

from baton.model.names import API_GROUP, API_VERSION, GROUP_LABEL, driver_lease_name, ledger_name
from demo.picture import Json, Picture, compose
from demo.story import Story
from demo.telling import changes
from demo.timings import Timings

DRIVER = "driver"
"""The name of the driver's pod."""


class TookTooLong(Exception):  # noqa: N818 - reads as what happened
    """What was waited for did not come in time. The message says what, how long, and what was there instead."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Who owned what, for the chart at the end."""

    at: float
    """Seconds since the run began."""
    owners: Mapping[int, str]
    """Partition -> pod name."""
    state: str


class Observer:
    """The live picture of one group. `wait` sleeps until the picture is as wished, or its bound is over."""

    def __init__(self, kubeconfig: Path, namespace: str, group: str, queue: str, story: Story) -> None:
        self._api = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self._namespace, self._group, self._queue = namespace, group, queue
        self._story = story
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._pods: dict[str, Json] = {}
        self._objects: dict[str, Json] = {}
        self.picture = Picture()
        self.timings = Timings()
        self.moments: list[Moment] = []
        self._threads = [
            threading.Thread(target=self._follow, args=(name, listing, selectors), name=f"watch-{name}", daemon=True)
            for name, listing, selectors in self._watches()
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._api.close()

    def wait(self, what: str, wish: Callable[[Picture], bool], seconds: float) -> Picture:
        """Returns the first picture that is as wished. Raises TookTooLong."""
        self._story.wait_for(what)
        end = time.monotonic() + seconds
        with self._changed:
            while not wish(self.picture):
                if self._objects.get("driver", {}).get("status", {}).get("phase") in ("Failed", "Succeeded"):
                    raise TookTooLong(f"{what}: the Spark driver has ended")
                left = end - time.monotonic()
                if left <= 0:
                    raise TookTooLong(f"{what}: not within {seconds:.0f} s; {describe(self.picture)}")
                self._changed.wait(min(left, 0.1))  # a wish may be about the clock, or about what the gauges show
            self._story.wait_for("")
            return self.picture

    def _watches(self) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
        core, leases, custom = (
            client.CoreV1Api(self._api),
            client.CoordinationV1Api(self._api),
            client.CustomObjectsApi(self._api),
        )
        here = {"namespace": self._namespace}
        resource = {**here, "group": API_GROUP, "version": API_VERSION, "plural": "consumergroups"}
        yield "pods", core.list_namespaced_pod, {**here, "label_selector": f"{GROUP_LABEL}={self._group}"}
        yield "driver", core.list_namespaced_pod, {**here, "field_selector": _named(DRIVER)}
        yield "ledger", core.list_namespaced_config_map, {**here, "field_selector": _named(ledger_name(self._group))}
        yield "lease", leases.list_namespaced_lease, {**here, "field_selector": _named(driver_lease_name(self._group))}
        yield "group", custom.list_namespaced_custom_object, {**resource, "field_selector": _named(self._group)}

    def _follow(self, name: str, listing: Callable[..., Any], selectors: dict[str, Any]) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(Exception):  # the API server comes and goes; a watch that ends is begun again
                found = self._api.sanitize_for_serialization(listing(**selectors))
                self._begin(name, found["items"])
                since = found["metadata"]["resourceVersion"]
                stream = watch.Watch().stream(listing, resource_version=since, timeout_seconds=300, **selectors)  # type: ignore[no-untyped-call]
                for event in stream:
                    self._take(name, event["type"], event["raw_object"])
            self._closed.wait(0.3)

    def _begin(self, name: str, found: list[Json]) -> None:
        with self._changed:
            if name == "pods":
                self._pods = {each["metadata"]["uid"]: each for each in found}
            elif found:
                self._objects[name] = found[0]
            else:
                self._objects.pop(name, None)
            self._compose()
            self._changed.notify_all()

    def _take(self, name: str, kind: str, found: Json) -> None:
        if kind not in ("ADDED", "MODIFIED", "DELETED"):
            return
        with self._changed:
            if name == "pods":
                uid = found["metadata"]["uid"]
                if kind == "DELETED":
                    self._pods.pop(uid, None)
                else:
                    self._pods[uid] = found
            elif kind == "DELETED":
                self._objects.pop(name, None)
            else:
                self._objects[name] = found
            self._compose()
            self._changed.notify_all()

    def _compose(self) -> None:
        ledger = self._objects.get("ledger", {}).get("data") or {}
        group, lease = self._objects.get("group", {}), self._objects.get("lease", {})
        before, self.picture = self.picture, compose(self._pods, ledger, group, lease, self._queue)
        self.timings.see(self.picture, time.time())
        owners = {number: member.name for number, member in self.picture.owners.items()}
        self.moments.append(Moment(self._story.elapsed, owners, self.picture.state))
        for line in changes(before, self.picture):
            self._story.cluster(line)


def describe(picture: Picture) -> str:
    """One line for an error: what was there instead."""
    members = ", ".join(
        f"{member.name} {member.phase}{'' if member.registered else ' unregistered'} {len(member.owned)}+{len(member.revoking)}"
        for member in picture.members
    )
    trouble = f", {picture.trouble}" if picture.trouble else ""
    return f"the group is {picture.state or 'without a state'}{trouble}, moving {picture.moving}; members: {members or 'none'}"


def _named(name: str) -> str:
    return f"metadata.name={name}"
